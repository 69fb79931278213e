# SPDX-License-Identifier: Apache-2.0
"""Named lists of benchmarks with one overall score."""

CORE = (
    "conformer_selection",
    "dihedral_scan",
    "noncovalent_interactions",
    "tautomers",
    "reactivity",
    "reference_geometry_stability",
    "nudged_elastic_band",
    "bond_length_distribution",
    "ring_planarity",
    "stability",
    "nve_energy_conservation",
    "water_radial_distribution",
    "water_density",
    "solvent_radial_distribution",
    "solvent_density",
    "folding_stability",
    "sampling",
    "inference_speed",
)
"""The 18 of mlipaudit 0.1.8. A run takes those that are installed and says which are not."""
