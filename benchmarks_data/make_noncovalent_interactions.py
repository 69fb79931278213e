# SPDX-License-Identifier: Apache-2.0
# /// script
# requires-python = ">=3.11"
# dependencies = ["ase", "numpy", "tblite"]
# ///
"""Make the embedded set of noncovalent interactions: S66x8, CCSD(T)/CBS.

    apt-get download psi4-data && dpkg -x psi4-data*.deb psi4-data
    python benchmarks_data/make_noncovalent_interactions.py \
        --databases psi4-data/usr/share/psi4/databases all

The Debian package `psi4-data` is unpacked, not installed, and its Python modules are
parsed, never run. Only numbers and names are taken: interaction energies, coordinates,
and which dimer belongs to which class. The stages can be run alone: `check`, `write`, and
`table` (the error of GFN2, about two minutes).
"""

import argparse
import ast
import hashlib
import json
import sys
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
from ase import Atoms

HERE = Path(__file__).resolve().parent
DATA_FILE = "NCI_Atlas.json"
EV_TO_KCAL = 23.060547830619

SCALES = ("0.9", "0.95", "1.0", "1.05", "1.1", "1.25", "1.5", "2.0")
"""Distances of S66x8, in units of the equilibrium distance."""
CLASSES = (("hydrogen bonds", 1, 23), ("dispersion", 24, 46), ("mixed", 47, 66))
"""The three classes of S66 by first and last number."""
DECIMALS = 5

# From the tables of the S66 paper, typed in here as a check that does not rest on psi4-data.
PUBLISHED = {
    "1": -4.92, "2": -5.59, "3": -6.91, "5": -5.76, "9": -3.06, "12": -7.27, "17": -17.18,
    "20": -19.09, "21": -16.26, "24": -2.82, "26": -9.83, "47": -2.88,
}  # fmt: skip


@dataclass(frozen=True)
class Dimer:
    """One of the 66 dimers with all its distances."""

    number: int
    name: str
    symbols: list[str]
    first_size: int
    """Number of atoms of the first molecule; they come first."""
    coordinates: list[list[list[float]]]
    energies: list[float]

    @property
    def group(self) -> str:
        """The dimer's class."""
        return next(name for name, first, last in CLASSES if first <= self.number <= last)

    def entry(self) -> dict:
        """The dimer in the archive's schema."""
        atoms = len(self.symbols)
        return {
            "system_id": self.key,
            "system_name": self.name,
            "dataset_name": "S66x8",
            "group": self.group,
            "total_charge": 0.0,
            "charge_a": 0.0,
            "charge_b": 0.0,
            "selection_indices_a": list(range(self.first_size)),
            "selection_indices_b": list(range(self.first_size, atoms)),
            "atom_symbols": self.symbols,
            "distance_profile": [round(10 * float(scale), 6) for scale in SCALES],
            "interaction_energy_profile": self.energies,
            "coords": self.coordinates,
        }

    @property
    def key(self) -> str:
        """The id in the file."""
        return f"S66x8-{self.number:02}"

    @property
    def well(self) -> float:
        """What the benchmark scores: the lowest energy minus that at the largest distance."""
        return min(self.energies) - self.energies[-1]


# --- psi4-data as data ----------------------------------------------------------------


def assignments(module: Path, *, table: str) -> dict[str, ast.expr]:
    """What a database module assigns to `table`, by the reaction named in the key."""
    found = {}
    for node in ast.parse(module.read_text()).body:
        match node:
            case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name), slice=key)]) if name == table:
                words = [part.value for part in ast.walk(key) if isinstance(part, ast.Constant)]
                # The key is a format string and what goes into it: "%s-%s-dimer" and "1-0.9", say.
                found["-".join(words[1:]).strip() + words[0].rpartition("%s")[2]] = node.value
    return found


def fragments(text: str) -> list[list[tuple[str, list[float]]]]:
    """The two molecules of a geometry in psi4's notation: symbol and coordinates of each atom."""
    molecules = [[]]
    for words in map(str.split, text.splitlines()):
        if words == ["--"]:
            molecules.append([])
        elif len(words) == 4:
            molecules[-1].append((words[0].capitalize(), [float(word) for word in words[1:]]))
        elif [word.lower() for word in words] not in ([], ["0", "1"], ["units", "angstrom"]):
            sys.exit(f"a line of a geometry that was not expected: {' '.join(words)}")
    return molecules


def geometry(value: ast.expr) -> list[list[tuple[str, list[float]]]]:
    """The molecules of one `qcdb.Molecule(...)` expression."""
    return fragments(value.args[0].value)


def read_dimers(databases: Path) -> list[Dimer]:
    """All 66 dimers."""
    module = databases / "S66by8.py"
    energies, names = assignments(module, table="BIND"), assignments(module, table="TAGL")
    geometries = assignments(module, table="GEOS")
    dimers = []
    for number in range(1, 67):
        keys = [f"{number}-{scale}" for scale in SCALES]
        points = [geometry(geometries[f"{key}-dimer"]) for key in keys]
        atoms = [[atom for molecule in point for atom in molecule] for point in points]
        layouts = {tuple(symbol for symbol, _ in point) for point in atoms}
        sizes = {tuple(map(len, point)) for point in points}
        if len(layouts) != 1 or len(sizes) != 1 or len(next(iter(sizes))) != 2:
            sys.exit(f"dimer {number}: its distances do not list the same atoms")
        dimers.append(
            Dimer(
                number=number,
                name="...".join(names[keys[0]].value.replace("...", " ").split(maxsplit=1)).strip(),
                symbols=list(next(iter(layouts))),
                first_size=next(iter(sizes))[0],
                coordinates=[np.round([xyz for _, xyz in point], DECIMALS).tolist() for point in atoms],
                energies=[ast.literal_eval(energies[key]) for key in keys],
            )
        )
    return dimers


# --- Checks ---------------------------------------------------------------------------


def closest(dimer: Dimer, *, point: int) -> float:
    """The shortest distance between the two molecules."""
    xyz = np.array(dimer.coordinates[point])
    first, second = xyz[: dimer.first_size], xyz[dimer.first_size :]
    return float(np.linalg.norm(first[:, None] - second[None], axis=-1).min())


def rigidity(dimer: Dimer) -> float:
    """By how much distances within the molecules change along the profile, at most."""
    sets = []
    for points in dimer.coordinates:
        xyz = np.array(points)
        parts = xyz[: dimer.first_size], xyz[dimer.first_size :]
        sets.append(np.concatenate([np.linalg.norm(p[:, None] - p[None], axis=-1).ravel() for p in parts]))
    return float(np.ptp(sets, axis=0).max())


def problems(dimer: Dimer, *, s66: float) -> list[str]:
    """What is wrong with one dimer, given its energy in S66's own table."""
    found, energies = [], np.array(dimer.energies)
    at_equilibrium = dimer.energies[SCALES.index("1.0")]
    for source, value in (("S66", s66), ("the paper", PUBLISHED.get(str(dimer.number)))):
        if value is not None and abs(value - at_equilibrium) > 0.1:
            found.append(f"{at_equilibrium} at equilibrium, {value} in {source}")
    if not energies[0] > energies.min() or energies.argmin() not in (1, 2, 3):
        found.append("the minimum is not near the equilibrium distance")
    # Two points may be equal at 0.01 kcal/mol, and benzene...ethene ends at +0.01.
    if (np.diff(energies[energies.argmin() :]) < 0).any() or energies[-1] > 0.05:
        found.append("does not rise towards zero")
    distances = [closest(dimer, point=point) for point in range(len(SCALES))]
    if (np.diff(distances) <= 0).any() or distances[0] < 1.4:
        found.append(f"distances between the molecules: {np.round(distances, 2)}")
    if rigidity(dimer) > 5 * 10**-DECIMALS:
        found.append(f"the molecules change by {rigidity(dimer):.5f} Å")
    return found


def check(dimers: list[Dimer], *, databases: Path) -> None:
    """Stop if a dimer is wrong or there twice."""
    s66 = assignments(databases / "S66.py", table="BIND")
    found = {d.key: problems(d, s66=ast.literal_eval(s66[str(d.number)])) for d in dimers}
    for one, other in combinations(dimers, 2):
        same = one.symbols == other.symbols and np.allclose(one.coordinates, other.coordinates, atol=1e-2)
        if same or one.name == other.name:
            found[other.key].append(f"the same as {one.key}")
    bad = [f"{key}: {'; '.join(texts)}" for key, texts in found.items() if texts]
    if bad:
        sys.exit("\n".join(bad))
    print(f"{len(dimers)} dimers checked")


# --- The written set ------------------------------------------------------------------


def data_text(dimers: list[Dimer]) -> str:
    """The data file, one dimer per line so that a change can be read in a diff."""
    entries = [json.dumps(d.entry(), allow_nan=False, separators=(",", ":")) for d in dimers]
    lines = [f'"{d.key}":{entry}' for d, entry in zip(dimers, entries, strict=True)]
    return "{\n" + ",\n".join(lines) + "\n}\n"


MANIFEST = """\
# SPDX-License-Identifier: CC0-1.0
name = "noncovalent_interactions"
version = "1"
title = "S66x8: interaction energies of 66 dimers at 8 distances"
description = \"\"\"
{count} neutral closed-shell dimers of {smallest} to {largest} atoms at {scales} distances each, 0.9 to 2 times the equilibrium
distance: {groups}. The interaction energies are CCSD(T)
at the complete basis set limit; the wells, which are scored, are {shallow:.1f} to {deep:.1f} kcal/mol deep. `distance_profile`
is ten times the factor on the equilibrium distance, ascending; the molecules are rigid along it.
Checks by the script: energies at the equilibrium distance against S66's own table and some of the paper's
within 0.1 kcal/mol, one smooth well per dimer, rigid molecules, no dimer twice.
Limits: at the largest distance an interaction of up to {rest:.1f} kcal/mol is left, and the score takes it for
the zero; energies are given to 0.01 kcal/mol and later work moved some by 0.1 to 0.2 kcal/mol; two molecules of
mostly organic kind, no ions and no elements but H C N O. This is not the NCI Atlas of the hub's archive,
whose file name and schema it shares: scores are not comparable.
\"\"\"
license = "CC0-1.0"
source = "Numbers of S66x8 (Řezáč, Riley and Hobza 2011), facts taken from the copy in Debian's psi4-data 1:1.3.2+dfsg-5 (module S66by8); none of its text or code."
doi = [
    "10.1021/ct2002946", # S66 and S66x8
]
level_of_theory = "CCSD(T)/CBS interaction energies on the published geometries"
made_by = "benchmarks_data/make_noncovalent_interactions.py"
elements = {elements}

[units]
interaction_energy_profile = "kcal/mol"
distance_profile = "10 x the factor on the equilibrium distance"
coords = "angstrom"

[files."{file}"]
sha256 = "{sha256}"
bytes = {size}
"""


def manifest_text(dimers: list[Dimer], *, data: bytes) -> str:
    """The manifest that belongs to `data`."""
    sizes = [len(d.symbols) for d in dimers]
    groups = [f"{last - first + 1} {name}" for name, first, last in CLASSES]
    return MANIFEST.format(
        count=len(dimers),
        smallest=min(sizes),
        largest=max(sizes),
        scales=len(SCALES),
        groups=", ".join(groups),
        shallow=min(-d.well for d in dimers),
        deep=max(-d.well for d in dimers),
        rest=max(-d.energies[-1] for d in dimers),
        elements=json.dumps(sorted({symbol for d in dimers for symbol in d.symbols})),
        file=DATA_FILE,
        sha256=hashlib.sha256(data).hexdigest(),
        size=len(data),
    )


def write(dimers: list[Dimer], *, target: Path) -> None:
    """Write the data file and its manifest."""
    data = data_text(dimers).encode()
    target.mkdir(parents=True, exist_ok=True)
    (target / DATA_FILE).write_bytes(data)
    (target / "manifest.toml").write_text(manifest_text(dimers, data=data), encoding="utf-8")


def print_table(dimers: list[Dimer]) -> None:
    """Well depths of the references and of GFN2, and GFN2's mean absolute errors."""
    from tblite.ase import TBLite

    errors = {}
    for dimer in dimers:
        profile = []
        for xyz in dimer.coordinates:
            atoms = Atoms(dimer.symbols, xyz, calculator=TBLite(method="GFN2-xTB", verbosity=0))
            profile.append(atoms.get_potential_energy() * EV_TO_KCAL)
        rough = min(profile) - profile[-1]
        errors.setdefault(dimer.group, []).append(abs(rough - dimer.well))
        print(f"{dimer.key} {dimer.name:36}{len(dimer.symbols):4}{dimer.well:8.2f}{rough:8.2f}", flush=True)
    errors["all"] = [error for group in list(errors.values()) for error in group]
    for group, values in errors.items():
        print(f"{group}: mean absolute error of GFN2 {np.mean(values):.2f} kcal/mol, largest {max(values):.2f}")


def main() -> None:
    """Run one stage, or all but the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("stage", choices=["check", "write", "table", "all"])
    parser.add_argument("--databases", type=Path, required=True, help="unpacked usr/share/psi4/databases")
    parser.add_argument("--target", type=Path, default=HERE / "noncovalent_interactions", help="folder to write")
    options = parser.parse_args()
    dimers = read_dimers(options.databases)
    check(dimers, databases=options.databases)
    if options.stage in ("write", "all"):
        write(dimers, target=options.target)
    if options.stage == "table":
        print_table(dimers)


if __name__ == "__main__":
    main()
