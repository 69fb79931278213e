# SPDX-License-Identifier: Apache-2.0
"""Whether dynamics without a thermostat keep their total energy: are the forces the gradient of the energy?

The drift ratio is the drift of the total energy that a straight line through the whole run shows, over the standard
deviation of the kinetic energy. It says nothing about chemistry: any smooth potential conserves energy. A late
blow-up or a drift that turns round hardly shows in a line; `largest_deviation_ratio` beside it is the largest distance
from the starting energy, and a run where it passes 20 has exploded. In the reference `fast` is as long as `standard`;
here it is 1 ps, of systems of up to 1600 atoms.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from mlipaudit.benchmark import BenchmarkResult
from mlipaudit.benchmarks.nve_energy_conservation.judgement import Energies, numbers_of, why_broken
from mlipaudit.benchmarks.nve_energy_conservation.schemas import (
    NVEEnergyConservationModelOutput,
    NVEEnergyConservationResult,
    NVEStructureResult,
)
from mlipaudit.benchmarks.stability import BOX_SIZES
from mlipaudit.failures import Failure, FailureKind
from mlipaudit.families.trajectories import (
    TrajectoryBenchmark,
    failures_of,
    first_systems,
    read_structure,
    system,
    unanswered,
)
from mlipaudit.protocol import Ensemble, MolecularDynamics, Trajectories
from mlipaudit.run_mode import RunMode
from mlipaudit.scoring import score_systems, system_scores
from mlipaudit.views import Axis, Bars, Curves

if TYPE_CHECKING:
    from ase import Atoms

    from mlipaudit.backends.contract import Trajectory

__all__ = [
    "NVEEnergyConservationBenchmark",
    "NVEEnergyConservationModelOutput",
    "NVEEnergyConservationResult",
    "NVEStructureResult",
]


class NVESystem(NamedTuple):
    """A system of the set."""

    file: str
    system_class: str
    description: str
    box: tuple[float, float, float] | None = None


SYSTEMS = {
    "Small_molecule_HCNO": NVESystem("small_molecule_HCNO.xyz", "vacuum", "Small molecule (H, C, N, O) in vacuum"),
    "Water_box_n500": NVESystem("water_box_n500_eq.pdb", "bulk_water", "500 water molecules", (24.772,) * 3),
    "Peptide_solvated": NVESystem(
        "peptide_solv.xyz", "solvated", "Oxytocin in water (PDB: 7OFG)", BOX_SIZES["Peptide_solvated"]
    ),
    "Peptide_solvated_ions": NVESystem(
        "peptide_solv_ion.xyz",
        "solvated",
        "Neurotensin in water with ions (PDB: 2LNF)",
        BOX_SIZES["Peptide_solvated_ions"],
    ),
}
"""Those of mlipaudit 0.1.8. An edition may have a part of them."""


def _nve(num_steps: int, snapshot_interval: int, log_interval: int) -> MolecularDynamics:
    return MolecularDynamics(num_steps, snapshot_interval, log_interval, ensemble=Ensemble.NVE)


class NVEEnergyConservationBenchmark(TrajectoryBenchmark):
    """Is energy conserved without a thermostat?"""

    name = "nve_energy_conservation"
    category = "General"
    result_class = NVEEnergyConservationResult
    model_output_class = NVEEnergyConservationModelOutput
    required_elements = {"H", "C", "N", "O", "S", "Cl"}
    skip_if_elements_missing = False
    keep_positions = False
    views = (
        Bars(
            "Drift of each system",
            value=Axis("drift_mev_per_atom_per_ps", "drift of the total energy", "meV/atom/ps"),
            of_result=False,
            caption="Slope of a line through the whole run; 0 is right, its sign means nothing.",
        ),
        Curves(
            "Total energy over time",
            x=Axis("times_ps", "time", "ps"),
            y=Axis("energy_drift_ev", "change of the total energy", "meV/atom", scale=1000.0, per="num_atoms"),
            caption="Less that of the first frame. It should go up and down about 0 without a trend.",
        ),
    )
    protocols = {
        RunMode.DEV: Trajectories(_nve(100, 10, 10), max_systems=1),
        # Shorter than the published one, where `fast` is as long as `standard`.
        RunMode.FAST: Trajectories(_nve(1_000, 10, 100), max_atoms=1600),
        RunMode.STANDARD: Trajectories(_nve(50_000, 50, 1000)),
    }

    @classmethod
    def load(cls, data_dir: Path, protocol: Trajectories) -> dict[str, Atoms]:
        """The systems whose files are there, as many and as large as the protocol asks for."""
        there = {name: s for name, s in SYSTEMS.items() if (data_dir / s.file).is_file()}
        chosen = first_systems(there, protocol)
        systems = {name: system(read_structure(data_dir / s.file), 0, s.box) for name, s in chosen.items()}
        return {name: a for name, a in systems.items() if len(a) <= (protocol.max_atoms or len(a))}

    @classmethod
    def systems(cls, reference: dict[str, Atoms]) -> dict[str, Atoms]:
        """The systems themselves."""
        return reference

    def collect(
        self, outcomes: Mapping[str, Trajectory | Failure], systems: Mapping[str, Atoms]
    ) -> NVEEnergyConservationModelOutput:
        """Energies by system, the starting frame included; those with missing elements apart."""
        failures = failures_of(outcomes)
        skipped = sorted(name for name, f in failures.items() if f.kind is FailureKind.MISSING_ELEMENTS)
        runs = [None if isinstance(outcome, Failure) else outcome for outcome in outcomes.values()]
        ps_per_step = self.protocol.md.timestep_fs / 1000
        return NVEEnergyConservationModelOutput(
            structure_names=list(outcomes),
            num_atoms=[len(atoms) for atoms in systems.values()],
            times_ps=[[step * ps_per_step for step in run.steps] if run else None for run in runs],
            potential_energies_ev=[run.potential_energy if run else None for run in runs],
            kinetic_energies_ev=[run.kinetic_energy if run else None for run in runs],
            skipped_structures=skipped,
            n_skipped_unallowed_elements=len(skipped),
            failures=failures,
        )

    @classmethod
    def judge(
        cls, output: NVEEnergyConservationModelOutput, reference: Any, protocol: Trajectories
    ) -> NVEEnergyConservationResult:
        """Drift of every system that was asked, and the score over them."""
        names = output.structure_names
        entries = [_judge_system(name, i, output, protocol.md) for i, name in enumerate(names)]
        asked = [entry for entry in entries if not entry.skipped]
        for entry, score in zip(asked, system_scores(asked), strict=True):
            entry.score = float(score)
        return NVEEnergyConservationResult(
            structure_results=entries,
            n_skipped_unallowed_elements=len(entries) - len(asked),
            failures={entry.structure_name: entry.failure for entry in entries if entry.failure},
            **(BenchmarkResult.fields_of(score_systems(asked)) | _coverage(entries, asked)),
        )


def _coverage(entries: list[NVEStructureResult], asked: list[NVEStructureResult]) -> dict[str, Any]:
    """How many of all systems the score rests on."""
    num_skipped = len(entries) - len(asked)
    fields: dict[str, Any] = {"num_systems": len(entries), "num_skipped": num_skipped}
    if num_skipped and asked:
        fields["warnings"] = [f"{num_skipped} of {len(entries)} systems have missing elements and do not count"]
    if num_skipped and not asked:
        message = "the model covers the elements of none of the systems"
        fields["failure"] = Failure(kind=FailureKind.MISSING_ELEMENTS, message=message)
    return fields


def _judge_system(
    name: str, index: int, output: NVEEnergyConservationModelOutput, md: MolecularDynamics
) -> NVEStructureResult:
    num_atoms = output.num_atoms[index] or 0
    entry = NVEStructureResult(
        structure_name=name,
        description=SYSTEMS[name].description,
        system_class=SYSTEMS[name].system_class,
        num_atoms=num_atoms,
    )
    recorded = output.failures.get(name)
    if name in output.skipped_structures:
        return entry.model_copy(update={"skipped": True, "failure": recorded})
    columns = output.times_ps[index], output.potential_energies_ev[index], output.kinetic_energies_ev[index]
    if columns[0] is None or columns[1] is None or columns[2] is None:
        return entry.model_copy(update={"failed": True, "failure": unanswered(name, output.failures)})
    energies = Energies.of(columns[0], columns[1], columns[2])
    failure = recorded or why_broken(energies, num_atoms, md)
    numbers = numbers_of(energies, num_atoms)
    return entry.model_copy(update={**numbers, "failed": failure is not None, "failure": failure})
