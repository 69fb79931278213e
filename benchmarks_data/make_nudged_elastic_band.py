# SPDX-License-Identifier: Apache-2.0
# /// script
# requires-python = ">=3.11"
# dependencies = ["ase", "numpy"]
# ///
"""Make the embedded reaction paths: those of the embedded `reactivity` that make one connected path.

    python benchmarks_data/make_nudged_elastic_band.py

Nothing is computed: the entries are copied from `reactivity/grambow_dataset.json`.
"""

import json
import sys
import tomllib

import manifests
import numpy as np
from ase import Atoms
from ase.build import minimize_rotation_and_translation

NAME = "nudged_elastic_band"
DATA_FILE = "grambow_dataset_neb.json"
SOURCE = manifests.HERE / "reactivity"
STATES = ("reactants", "products", "transition_state")

# The two of the `dev` mode come first: an easy one and a harder one.
REACTIONS = (
    "formic_acid_turn",
    "vinyl_alcohol_acetaldehyde",
    "formaldehyde_hydroxycarbene",
    "formamide_formimidic_acid",
    "formic_acid_water_carbon_monoxide",
    "diazene_trans_cis",
    "nitrosomethane_formaldoxime",
    "hydroxylamine_ammonia_oxide",
    "methanimine_aminocarbene",
    "methanediol_water_formaldehyde",
    "carbamic_acid_ammonia_carbon_dioxide",
    "nitromethane_aci",
    "isonitrous_acid",
    "hydroxycarbene_inversion",
    "methyl_formate_turn",
)
ATOMS = range(4, 10)
BARRIERS = (10.0, 90.0)
"""In kcal/mol."""
LARGEST_MOVE = 1.2
"""In Å, of any atom between the transition state and an end, once superposed: the path is short and the atoms keep their places."""
CLOSEST = 0.75
"""In Å: no two atoms come closer on the straight lines through the transition state."""

DESCRIPTION = """\
{count} of the reactions of the embedded `reactivity`, copied without change: {smallest} to {largest} atoms, barriers from {least:.1f} to {most:.1f}
kcal/mol. Chosen are those in which reactants, transition state and products have the same atoms in the same order, no atom moves by
more than {moved} Å from the transition state to either end once superposed, and no two atoms come closer than {closest} Å
on the straight lines between them. The ends were found by going down from the transition state, so the path exists at GFN2-xTB.
Limits: all geometries are GFN2's, so that the transition state is only near that of another model, and a model may have another
path or none; the energies are DFT single points there and are not the DFT's barriers (see `reactivity`); both
the ends and the transition state are written in their own frames, not superposed. This is not the Grambow set of the hub's archive,
whose file name and schema it shares: scores are not comparable."""


def states(entry: dict) -> list[Atoms]:
    """Reactants, products and transition state."""
    return [Atoms(entry[state]["atom_symbols"], entry[state]["coordinates"]) for state in STATES]


def barrier(entry: dict) -> float:
    """Transition state less reactants in kcal/mol."""
    return entry["transition_state"]["energy"] - entry["reactants"]["energy"]


def closest_on_line(one: Atoms, other: Atoms) -> float:
    """The smallest distance between two atoms on the straight line between two geometries, in Å."""
    upper = np.triu_indices(len(one), 1)
    points = (one.positions * (1 - part) + other.positions * part for part in np.linspace(0, 1, 11))
    return min(Atoms(one.symbols, p).get_all_distances()[upper].min() for p in points)


def problem(entry: dict) -> str:
    """Why a reaction is not one short connected path; empty if it is."""
    *ends, saddle = states(entry)
    if any(end.get_chemical_symbols() != saddle.get_chemical_symbols() for end in ends):
        return "the order of the atoms is different"
    if len(saddle) not in ATOMS or not BARRIERS[0] <= barrier(entry) <= BARRIERS[1]:
        return "size or barrier"
    for end in ends:
        minimize_rotation_and_translation(saddle, end)
        if np.linalg.norm(end.positions - saddle.positions, axis=1).max() > LARGEST_MOVE:
            return "an atom moves far"
        if closest_on_line(end, saddle) < CLOSEST:
            return "atoms come close"
    return ""


def main() -> None:
    """Check the chosen reactions and write them with their manifest."""
    all_reactions = json.loads((SOURCE / "grambow_dataset.json").read_text())
    about = tomllib.loads((SOURCE / "manifest.toml").read_text(encoding="utf-8"))
    entries = {name: all_reactions[name] for name in REACTIONS}
    if unfit := [f"{name}: {why}" for name, entry in entries.items() if (why := problem(entry))]:
        sys.exit("\n".join(unfit))
    symbols = [entry["reactants"]["atom_symbols"] for entry in entries.values()]
    manifests.write_folder(
        manifests.HERE / NAME,
        name=NAME,
        files={DATA_FILE: manifests.entries_text(entries).encode()},
        title="Paths of small closed-shell reactions",
        description=DESCRIPTION.format(
            count=len(entries),
            smallest=min(map(len, symbols)),
            largest=max(map(len, symbols)),
            least=min(map(barrier, entries.values())),
            most=max(map(barrier, entries.values())),
            moved=LARGEST_MOVE,
            closest=CLOSEST,
        ),
        licence=about["license"],
        source=f"Entries of the embedded reactivity, version {about['version']}: {about['source']}",
        doi=dict.fromkeys(about["doi"], "as in reactivity"),
        level=about["level_of_theory"],
        elements={symbol for listed in symbols for symbol in listed},
        units=about["units"],
    )


if __name__ == "__main__":
    main()
