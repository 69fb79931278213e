# SPDX-License-Identifier: Apache-2.0
# /// script
# requires-python = ">=3.11"
# dependencies = ["ase", "numpy", "pyscf", "pyscf-dispersion", "rdkit", "tblite"]
# ///
"""Make the embedded torsion scans: GFN2 geometries with wB97X-D3(BJ)/def2-TZVP labels.

    python benchmarks_data/make_dihedral_scan.py --workdir /tmp/dihedral_scan all

`labels.py` says how an interrupted run goes on. The stages can be run alone:
`geometries`, `labels`, `write`, and `table`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import labels
import numpy as np
from ase import Atoms
from ase.constraints import FixInternals
from ase.optimize import BFGS
from rdkit import Chem
from rdkit.Chem import rdMolTransforms

NAME = "dihedral_scan"
DATA_FILE = "TorsionNet500.json"

STEP = 30
ANGLES = tuple(range(0, 181, STEP))
"""What is computed; the other half of the circle is the mirror image."""
STARTS = 8
LARGEST_JUMP = 8.0
"""In kcal/mol between neighbours: more than any real rotor here, a bond broke or the SCF jumped."""


class Fragment(NamedTuple):
    """A molecule, as SMILES in which the atoms of the torsion are numbered 1 to 4."""

    name: str
    smiles: str


# All are achiral, so that the lowest relaxed profile is the same on both sides of zero.
# Elements stay within H, C, N, O and S. The file keeps this order.
FRAGMENTS = (
    Fragment("ethanol", "[CH3:1][CH2:2][O:3][H:4]"),
    Fragment("hydrogen_peroxide", "[H:1][O:2][O:3][H:4]"),
    Fragment("formic_acid", "[H:1][O:2][CH:3]=[O:4]"),
    Fragment("glyoxal", "[O:1]=[CH:2][CH:3]=[O:4]"),
    Fragment("methyl_formate", "[CH3:1][O:2][CH:3]=[O:4]"),
    Fragment("acrolein", "[CH2:1]=[CH:2][CH:3]=[O:4]"),
    Fragment("vinyl_alcohol", "[CH2:1]=[CH:2][O:3][H:4]"),
    Fragment("n_methylformamide", "[CH3:1][NH:2][CH:3]=[O:4]"),
    Fragment("ethanethiol", "[CH3:1][CH2:2][S:3][H:4]"),
    Fragment("butadiene", "[CH2:1]=[CH:2][CH:3]=[CH2:4]"),
    Fragment("methyl_nitrite", "[CH3:1][O:2][N:3]=[O:4]"),
    Fragment("dimethyl_disulfide", "[CH3:1][S:2][S:3][CH3:4]"),
    Fragment("propanal", "[CH3:1][CH2:2][CH:3]=[O:4]"),
    Fragment("methoxymethanol", "[CH3:1][O:2][CH2:3][OH:4]"),
    Fragment("glycolaldehyde", "[O:1]=[CH:2][CH2:3][OH:4]"),
    Fragment("acetic_acid", "[H:1][O:2][C:3](C)=[O:4]"),
    Fragment("ethylene_glycol", "[OH:1][CH2:2][CH2:3][OH:4]"),
    Fragment("butane", "[CH3:1][CH2:2][CH2:3][CH3:4]"),
    Fragment("methanesulfenic_acid", "[CH3:1][S:2][O:3][H:4]"),
    Fragment("ethylamine", "[CH3:1][CH2:2][NH:3][H:4]"),
)


def torsion(mol: Chem.Mol) -> list[int]:
    """The four atoms, in order."""
    numbers = {atom.GetAtomMapNum(): atom.GetIdx() for atom in mol.GetAtoms()}
    return [numbers[n] for n in (1, 2, 3, 4)]


def plain_smiles(fragment: Fragment) -> str:
    """The SMILES without the numbers."""
    mol = labels.molecule(fragment.smiles)
    for atom in mol.GetAtoms():
        atom.SetAtomMapNum(0)
    return Chem.MolToSmiles(Chem.RemoveHs(mol))


# --- Geometries: constrained GFN2 minima ----------------------------------------------


def relax_at(atoms: Atoms, *, indices: list[int], angle: float) -> bool:
    """Minimise with GFN2 at a fixed torsion, in place; whether it converged."""
    labels.gfn2(atoms)
    fixed = FixInternals(dihedrals_deg=[[angle, indices]], epsilon=1e-9)
    atoms.set_constraint(fixed)
    try:
        return BFGS(atoms, logfile=None, maxstep=0.1).run(fmax=labels.FMAX_EV_PER_ANGSTROM, steps=500)
    except (RuntimeError, ValueError):  # the constraint could not be met from this start
        return False
    finally:
        atoms.set_constraint()


def turned(start: Atoms, *, mol: Chem.Mol, angle: float) -> Atoms:
    """A copy with the torsion turned to `angle`, everything on its far side with it."""
    conformer = Chem.Mol(mol).GetConformer()
    for index, position in enumerate(start.get_positions()):
        conformer.SetAtomPosition(index, position)
    rdMolTransforms.SetDihedralDeg(conformer, *torsion(mol), float(angle))
    return Atoms(start.get_chemical_symbols(), conformer.GetPositions())


def best_at(angle: float, *, mol: Chem.Mol, starts: list[Atoms]) -> Atoms | None:
    """The lowest constrained minimum from several starts that still is this molecule."""
    found = []
    for start in starts:
        atoms = turned(start, mol=mol, angle=angle)
        if relax_at(atoms, indices=torsion(mol), angle=angle):
            same = labels.found_bonds(atoms) == labels.declared_bonds(mol)
            found += [atoms] if same else []
    return min(found, key=lambda atoms: atoms.get_potential_energy(), default=None)


def distinct(conformers: list[Atoms]) -> list[Atoms]:
    """Relaxed conformers without those whose energy was seen, lowest first."""
    kept: list[Atoms] = []
    for atoms in sorted((a for a in conformers if labels.relax(a)), key=lambda a: a.get_potential_energy()):
        if not kept or atoms.get_potential_energy() - kept[-1].get_potential_energy() > 1e-3:
            kept.append(atoms)
    return kept


def scan(fragment: Fragment) -> Iterator[tuple[int, Atoms | None]]:
    """(angle, lowest constrained minimum) from 0° to 180°."""
    mol = labels.molecule(fragment.smiles)
    starts = distinct(labels.embed(mol, count=STARTS))[:4]
    # A mirror image turned to the same angle is another start: other rotors come to lie differently.
    starts += [Atoms(a.get_chemical_symbols(), a.get_positions() * [-1, 1, 1]) for a in starts]
    best = {angle: best_at(angle, mol=mol, starts=starts) for angle in ANGLES}
    # Once more from the neighbours' minima, which finds the valleys that the starts missed.
    for angle in (*ANGLES[1:], *ANGLES[-2::-1]):
        near = [best.get(angle - STEP), best.get(angle), best.get(angle + STEP)]
        best[angle] = best_at(angle, mol=mol, starts=[atoms for atoms in near if atoms]) or best[angle]
    yield from best.items()


def make_geometries(workdir: Path) -> None:
    """Find every geometry that the work folder does not have yet."""
    path = labels.geometries_file(workdir)
    done = labels.read_lines(path)
    for fragment in FRAGMENTS:
        if all(f"{fragment.name}/{angle}" in done for angle in ANGLES):
            continue
        indices = torsion(labels.molecule(fragment.smiles))
        for angle, atoms in scan(fragment):
            key = f"{fragment.name}/{angle}"
            if atoms is None:
                point = {"key": key, "symbols": [], "coordinates": [], "problem": "no constrained minimum"}
            else:
                final = labels.rounded(atoms)
                off = (final.get_dihedral(*indices) - angle + 180) % 360 - 180
                problem = "the torsion moved" if abs(off) > 0.01 else ""
                point = labels.geometry_line(key, atoms=final, problem=problem)
            labels.append_line(path, point=point)
        points = labels.read_lines(path)
        energies = np.array([points[f"{fragment.name}/{a}"].get("gfn2_kcal", np.nan) for a in ANGLES])
        print(fragment.name, np.round(energies - energies.min(), 2), flush=True)


# --- The written set ------------------------------------------------------------------


@dataclass(frozen=True)
class Scan:
    """One fragment's points from 0° to 180°, with labels."""

    fragment: Fragment
    geometries: list[dict]
    labels: list[dict]

    def half(self, level: str) -> np.ndarray:
        """Energies from 0° to 180° above the lowest, in kcal/mol, at `level`: "dft" or "gfn2"."""
        points = self.labels if level == "dft" else self.geometries
        energies = np.array([point[f"{level}_kcal"] for point in points])
        return energies - energies.min()

    def around(self) -> Iterator[tuple[int, float, np.ndarray]]:
        """(angle, energy, coordinates) from -180° to 180°; negative angles are mirror images."""
        for angle in range(-180, 181, STEP):
            index = ANGLES.index(abs(angle))
            xyz = np.array(self.geometries[index]["coordinates"]) * ([-1, 1, 1] if angle < 0 else [1, 1, 1])
            yield angle, float(self.half("dft")[index]), xyz + 0.0

    def entry(self) -> dict:
        """The scan in the archive's schema."""
        points = list(self.around())
        return {
            "torsion_atom_indices": torsion(labels.molecule(self.fragment.smiles)),
            "dft_energy_profile": [[float(angle), round(energy, labels.DECIMALS)] for angle, energy, _ in points],
            "atom_symbols": self.geometries[0]["symbols"],
            "conformer_coordinates": [xyz.tolist() for _, _, xyz in points],
            "smiles": plain_smiles(self.fragment),
            "charge": 0,
        }

    def problem(self) -> str:
        """Why the scan cannot be used; empty if it can."""
        problems = [point["problem"] for point in (*self.geometries, *self.labels) if point["problem"]]
        if problems:
            return problems[0]
        if np.abs(np.diff(self.half("dft"))).max() > LARGEST_JUMP:
            return "the profile jumps"
        if self.half("dft").max() < 0.5:
            return "a barrier below 0.5 kcal/mol"
        for angle, _, xyz in self.around():
            off = (
                Atoms(self.geometries[0]["symbols"], xyz).get_dihedral(*self.entry()["torsion_atom_indices"])
                - angle
            )
            if abs((off + 180) % 360 - 180) > 0.01:
                return "a written angle is not that of the written coordinates"
        return ""


def sort_out(workdir: Path) -> tuple[list[Scan], dict[str, str]]:
    """The finished scans, and the reasons for which others are missing."""
    geometries, found = labels.read_lines(labels.geometries_file(workdir)), labels.read_labels(workdir)
    finished, dropped = [], {}
    for fragment in FRAGMENTS:
        keys = [f"{fragment.name}/{angle}" for angle in ANGLES]
        problems = [geometries[key]["problem"] for key in keys if key in geometries and geometries[key]["problem"]]
        if problems:
            dropped[fragment.name] = problems[0]
        elif not all(key in geometries and key in found for key in keys):
            dropped[fragment.name] = "not computed"
        else:
            done = Scan(fragment, [geometries[key] for key in keys], [found[key] for key in keys])
            if done.problem():
                dropped[fragment.name] = done.problem()
            else:
                finished.append(done)
    return finished, dropped


def make_labels(workdir: Path) -> None:
    """Label every fragment whose geometries can be used, fragments with fewer atoms first."""
    geometries = labels.read_lines(labels.geometries_file(workdir))
    for fragment in sorted(FRAGMENTS, key=lambda f: labels.molecule(f.smiles).GetNumAtoms()):
        keys = [f"{fragment.name}/{angle}" for angle in ANGLES]
        if not any(geometries[key]["problem"] for key in keys):
            labels.make_labels(workdir, keys=keys)


DESCRIPTION = """\
{count} fragments of {smallest} to {largest} atoms, H C N O S only, neutral and closed-shell, each at 13 angles from -180 to 180
degrees; barriers (highest minus lowest energy) from {least:.1f} to {most:.1f} kcal/mol. At each angle the lowest of several
GFN2-xTB minimisations with the torsion fixed (largest remaining force 0.01 eV/Å, bonds checked against the
SMILES), with one density-fitted DFT single point on exactly the written coordinates; the profile's zero is its lowest point.
The fragments are achiral: the points at negative angles are the mirror images of those at positive ones, so 7 of
the 13 labels of a profile are independent.
Limits: small molecules with simple rotors, no drug-like fragments; geometries are GFN2's, not the DFT's, and a
valley that no start led to is missing; other rotors may jump between neighbouring angles; gas phase; 30 degrees may
miss the top of a barrier; against coupled cluster the DFT can be expected to err by a few tenths of a kcal/mol. This is not
TorsionNet-500, whose file name and schema the hub's archive shares: scores are not comparable.{dropped}"""


def write(workdir: Path, target: Path) -> None:
    """Write the data file and its manifest."""
    finished, dropped = sort_out(workdir)
    sizes = [len(s.geometries[0]["symbols"]) for s in finished]
    barriers = [s.half("dft").max() for s in finished]
    lines = [f'"{s.fragment.name}":{labels.compact(s.entry())}' for s in finished]
    labels.write_set(
        target,
        name=NAME,
        file=DATA_FILE,
        text="{\n" + ",\n".join(lines) + "\n}\n",
        title="Torsion profiles of small molecules",
        description=DESCRIPTION.format(
            count=len(finished),
            smallest=min(sizes),
            largest=max(sizes),
            least=min(barriers),
            most=max(barriers),
            dropped=labels.dropped_text(dropped),
        ),
        elements={symbol for s in finished for symbol in s.geometries[0]["symbols"]},
        labels=[found for s in finished for found in s.labels],
        unit={"dft_energy_profile": "degrees, kcal/mol", "conformer_coordinates": "angstrom"},
    )


def print_table(workdir: Path) -> None:
    """Barriers at both levels, and GFN2's errors."""
    finished, dropped = sort_out(workdir)
    barriers, points, seconds = [], [], []
    print(f"{'barrier, kcal/mol':24}{'atoms':>6}{'DFT':>8}{'GFN2':>8}   DFT profile 0..180")
    for s in finished:
        exact, rough = s.half("dft"), s.half("gfn2")
        barriers.append(abs(rough.max() - exact.max()))
        points += list(np.abs(rough - exact))
        seconds += [found["seconds"] for found in s.labels]
        size = len(s.geometries[0]["symbols"])
        print(f"{s.fragment.name:24}{size:6}{exact.max():8.2f}{rough.max():8.2f}   {np.round(exact, 2)}")
    print(f"{len(finished)} scans; GFN2's mean absolute error: barriers {np.mean(barriers or [0]):.2f},", end=" ")
    print(f"profiles {np.mean(points or [0]):.2f} kcal/mol; {np.mean(seconds or [0]):.1f} CPU s per label")
    for name, why in dropped.items():
        print(f"left out: {name}: {why}")


if __name__ == "__main__":
    labels.run_stages(
        __doc__.splitlines()[0],
        name=NAME,
        geometries=make_geometries,
        labels=make_labels,
        write=write,
        table=print_table,
    )
