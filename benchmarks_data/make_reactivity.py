# SPDX-License-Identifier: Apache-2.0
# /// script
# requires-python = ">=3.11"
# dependencies = ["ase", "numpy", "pyscf", "pyscf-dispersion", "rdkit", "tblite"]
# ///
"""Make the embedded reactions: GFN2 minima and saddle points with wB97X-D3(BJ)/def2-TZVP labels.

    python benchmarks_data/make_reactivity.py --workdir /tmp/reactivity all

`labels.py` says how an interrupted run goes on. The stages can be run alone:
`geometries`, `labels`, `write`, and `table`.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import labels
import numpy as np
from ase import Atoms
from ase.calculators.calculator import CalculationFailed, Calculator, all_changes
from ase.data import covalent_radii
from ase.optimize import BFGS
from rdkit import Chem
from rdkit.Chem import rdMolTransforms
from tblite.ase import TBLite

NAME = "reactivity"
DATA_FILE = "grambow_dataset.json"

STATES = ("reactants", "products", "transition_state")
STRETCHES = (1.3, 1.5, 1.2, 1.7)
"""First guesses of a breaking or forming bond, in sums of covalent radii, in the order of trying."""
CONFORMERS = 4
SADDLE_FMAX = 0.003
"""In eV/Å: a saddle point must be tighter than a minimum, or its mode is not its own."""
SMALLEST_MODE = -80.0
"""A saddle point's imaginary mode lies below this, in cm^-1."""
SMALLEST_CHANGE = 0.2
"""In Å: two conformers of one molecule differ by more in some distance between atoms."""
SMALLEST_BARRIER = 1.0
"""In kcal/mol at DFT, from either side; a lower one is not a barrier on these geometries."""


class Reaction(NamedTuple):
    """A molecule as SMILES with numbered atoms, and what happens to it.

    `broken` and `formed` are bonds as pairs of numbers. Without either it is a turn of the
    torsion 1-2-3-4; `near` gives distances (Å) of a first guess that stretched bonds do not give.
    """

    name: str
    smiles: str
    broken: str = ""
    formed: str = ""
    near: str = ""


# Elements stay within H, C, N and O. The file keeps this order; the well-known ones come first.
REACTIONS = (
    Reaction("hydrogen_cyanide_isocyanide", "[H:1][C:2]#[N:3]", "1-2", "1-3"),
    Reaction("formaldehyde_hydroxycarbene", "[H:1][CH:2]=[O:3]", "1-2", "1-3"),
    Reaction("vinyl_alcohol_acetaldehyde", "[H:1][O:2][CH:3]=[CH2:4]", "1-2", "1-4"),
    Reaction("formamide_formimidic_acid", "[H:1][NH:2][CH:3]=[O:4]", "1-2", "1-4"),
    Reaction("methyl_isocyanide_acetonitrile", "[CH3:1][N+:2]#[C-:3]", "1-2", "1-3"),
    Reaction("nitrous_acid_turn", "[H:1][O:2][N:3]=[O:4]"),
    Reaction("formic_acid_turn", "[H:1][O:2][CH:3]=[O:4]"),
    Reaction("glyoxal_turn", "[O:1]=[CH:2][CH:3]=[O:4]"),
    Reaction("formic_acid_water_carbon_monoxide", "[H:1][C:2](=[O:3])[OH:4]", "1-2 2-4", "1-4"),
    Reaction("formic_acid_hydrogen_carbon_dioxide", "[H:1][C:2](=[O:3])[O:4][H:5]", "1-2 4-5", "1-5"),
    Reaction("formaldehyde_hydrogen_carbon_monoxide", "[H:1][C:2]([H:3])=[O:4]", "1-2 2-3", "1-3"),
    Reaction("isocyanic_cyanic_acid", "[H:1][N:2]=[C:3]=[O:4]", "1-2", "1-4"),
    Reaction("ketene_ethynol", "[H:1][CH:2]=[C:3]=[O:4]", "1-2", "1-4"),
    Reaction("diazene_trans_cis", "[H:1]/[N:2]=[N:3]/[H:4]", near="1-3=2.25"),
    Reaction("cyanamide_carbodiimide", "[H:1][NH:2][C:3]#[N:4]", "1-2", "1-4"),
    Reaction("acetonitrile_ketenimine", "[H:1][CH2:2][C:3]#[N:4]", "1-2", "1-4"),
    Reaction("propyne_allene", "[H:1][CH2:2][C:3]#[CH:4]", "1-2", "1-4"),
    Reaction("nitrosomethane_formaldoxime", "[H:1][CH2:2][N:3]=[O:4]", "1-2", "1-4"),
    Reaction("hydroxylamine_ammonia_oxide", "[H:1][O:2][NH2:3]", "1-2", "1-3"),
    Reaction("methanimine_aminocarbene", "[H:1][CH:2]=[N:3][H:4]", "1-2", "1-3"),
    Reaction("methanediol_water_formaldehyde", "[CH2:1]([OH:2])[O:3][H:4]", "1-2 3-4", "2-4"),
    Reaction("carbonic_acid_water_carbon_dioxide", "[O:1]=[C:2]([OH:3])[O:4][H:5]", "2-3 4-5", "3-5"),
    Reaction("carbamic_acid_ammonia_carbon_dioxide", "[O:1]=[C:2]([NH2:3])[O:4][H:5]", "2-3 4-5", "3-5"),
    Reaction("acetic_acid_water_ketene", "[H:1][CH2:2][C:3](=[O:4])[OH:5]", "1-2 3-5", "1-5"),
    Reaction("urea_ammonia_isocyanic_acid", "[O:1]=[C:2]([NH2:3])[NH:4][H:5]", "2-3 4-5", "3-5"),
    Reaction("ethanol_water_ethylene", "[H:1][CH2:2][CH2:3][OH:4]", "1-2 3-4", "1-4"),
    Reaction("methanol_hydrogen_formaldehyde", "[H:1][O:2][CH2:3][H:4]", "1-2 3-4", "1-4"),
    Reaction("methylamine_hydrogen_methanimine", "[H:1][NH:2][CH2:3][H:4]", "1-2 3-4", "1-4"),
    Reaction("methanimine_hydrogen_hydrogen_cyanide", "[H:1][CH:2]=[N:3][H:4]", "1-2 3-4", "1-4"),
    Reaction("formamide_ammonia_carbon_monoxide", "[NH2:1][C:2]([H:3])=[O:4]", "1-2 2-3", "1-3"),
    Reaction("acetaldehyde_methane_carbon_monoxide", "[CH3:1][C:2]([H:3])=[O:4]", "1-2 2-3", "1-3"),
    Reaction("glyoxal_formaldehyde_carbon_monoxide", "[O:1]=[CH:2][C:3]([H:4])=[O:5]", "2-3 3-4", "2-4"),
    Reaction("nitromethane_methyl_nitrite", "[CH3:1][N+:2](=[O:3])[O-:4]", "1-2", "1-4"),
    Reaction("nitromethane_aci", "[H:1][CH2:2][N+:3](=[O:4])[O-:5]", "1-2", "1-4"),
    Reaction("isonitrous_acid", "[H:1][O:2][N:3]=[O:4]", "1-2", "1-3"),
    Reaction("vinyl_alcohol_turn", "[CH2:1]=[CH:2][O:3][H:4]"),
    Reaction("methyl_nitrite_turn", "[CH3:1][O:2][N:3]=[O:4]"),
    Reaction("acrolein_turn", "[CH2:1]=[CH:2][CH:3]=[O:4]"),
    Reaction("methyl_formate_turn", "[CH3:1][O:2][CH:3]=[O:4]"),
    Reaction("acetic_acid_turn", "[H:1][O:2][C:3](C)=[O:4]"),
    Reaction("formimidic_acid_turn", "[H:1][O:2][CH:3]=[NH:4]"),
    Reaction("hydroxycarbene_inversion", "[H:1][O:2][C:3][H:4]"),
    Reaction("cyclopropene_propyne", "[CH2:1]1[CH:2]=[C:3]1[H:4]", "1-2 3-4", "1-4"),
    Reaction("oxirane_acetaldehyde", "[CH2:1]1[C:2]([H:4])[O:3]1", "1-3 2-4", "1-4"),
    Reaction("fulminic_acid_acetylene_isoxazole", "[CH:1]1=[N:2][O:3][CH:4]=[CH:5]1", "1-5 3-4"),
    Reaction("hydrazoic_acid_acetylene_triazole", "[NH:1]1[N:2]=[N:3][CH:4]=[CH:5]1", "1-5 3-4"),
)


def numbered(mol: Chem.Mol) -> dict[int, int]:
    """Atom index by its number in the SMILES."""
    return {atom.GetAtomMapNum(): atom.GetIdx() for atom in mol.GetAtoms() if atom.GetAtomMapNum()}


def pairs(text: str, *, mol: Chem.Mol) -> labels.Bonds:
    """Bonds such as "1-2 2-4" as pairs of atom indices."""
    index = numbered(mol)
    return {tuple(sorted(index[int(n)] for n in word.split("-"))) for word in text.split()}


# --- First guesses --------------------------------------------------------------------


class Pulled(Calculator):
    """GFN2 and springs on some distances between atoms."""

    implemented_properties = ["energy", "forces"]

    def __init__(self, distances: dict[tuple[int, int], float], *, strength: float = 40.0) -> None:
        super().__init__()
        self.distances, self.strength = distances, strength
        self.inner = TBLite(method="GFN2-xTB", verbosity=0)

    def calculate(self, atoms: Atoms, properties=("energy",), system_changes=all_changes) -> None:
        """Energy and forces of both, in eV and Å."""
        super().calculate(atoms, properties, system_changes)
        bare = atoms.copy()
        bare.calc = self.inner
        energy, forces = bare.get_potential_energy(), bare.get_forces().copy()
        for (i, j), wanted in self.distances.items():
            vector = atoms.positions[j] - atoms.positions[i]
            length = np.linalg.norm(vector)
            energy += self.strength / 2 * (length - wanted) ** 2
            pull = self.strength * (length - wanted) * vector / length
            forces[i] += pull
            forces[j] -= pull
        self.results = {"energy": energy, "forces": forces}


def wanted_distances(reaction: Reaction, *, mol: Chem.Mol, stretch: float) -> dict[tuple[int, int], float]:
    """The distances of a first guess in Å."""
    radii = covalent_radii[[atom.GetAtomicNum() for atom in mol.GetAtoms()]]
    changing = pairs(f"{reaction.broken} {reaction.formed}", mol=mol)
    wanted = {(i, j): stretch * (radii[i] + radii[j]) for i, j in changing}
    for word in reaction.near.split():
        bond, length = word.split("=")
        wanted[next(iter(pairs(bond, mol=mol)))] = float(length)
    return wanted


def guesses(reaction: Reaction) -> Iterator[Atoms]:
    """First guesses of the saddle point, the likeliest first."""
    mol = labels.molecule(reaction.smiles)
    starts = labels.embed(mol, count=CONFORMERS)
    if not (reaction.broken or reaction.formed or reaction.near):
        four = [numbered(mol)[n] for n in (1, 2, 3, 4)]
        for conformer in mol.GetConformers():
            rdMolTransforms.SetDihedralDeg(conformer, *four, 95.0)
            yield Atoms(starts[0].get_chemical_symbols(), conformer.GetPositions())
        return
    for stretch in STRETCHES:
        for start in starts:
            atoms = start.copy()
            atoms.calc = Pulled(wanted_distances(reaction, mol=mol, stretch=stretch))
            with suppress(CalculationFailed):  # what is reached so far is a guess all the same
                BFGS(atoms, logfile=None, maxstep=0.1).run(fmax=0.2, steps=100)
            yield atoms


# --- Saddle points and what lies on their two sides -----------------------------------


def internal_basis(atoms: Atoms) -> np.ndarray:
    """Orthonormal displacements (columns) that neither move nor turn the molecule."""
    centred = atoms.get_positions() - atoms.get_positions().mean(axis=0)
    moves = [np.tile(axis, (len(atoms), 1)).ravel() for axis in np.eye(3)]
    turns = [np.cross(axis, centred).ravel() for axis in np.eye(3)]
    left, sizes, _ = np.linalg.svd(np.array(moves + turns).T, full_matrices=True)
    return left[:, np.count_nonzero(sizes > 1e-4) :]


def rational_step(gradient: np.ndarray, constants: np.ndarray) -> np.ndarray:
    """Partitioned rational-function step in eigenvectors: up along the first, down along all others."""
    up = (constants[0] + np.hypot(constants[0], 2 * gradient[0])) / 2
    size = len(gradient)
    augmented = np.zeros((size, size))
    augmented[:-1, :-1] = np.diag(constants[1:])
    augmented[-1, :-1] = augmented[:-1, -1] = gradient[1:]
    down = np.linalg.eigvalsh(augmented)[0]
    shifts = np.concatenate([[up], np.full(size - 1, down)])
    return -gradient / np.where(np.abs(constants - shifts) > 1e-6, constants - shifts, 1e-6)


def climb(atoms: Atoms, *, steps: int = 60, trust: float = 0.15) -> bool:
    """Walk to a saddle point of GFN2 in place, with a new Hessian at each step; whether it converged."""
    labels.gfn2(atoms)
    for _ in range(steps):
        forces = atoms.get_forces()
        if np.linalg.norm(forces, axis=1).max() < SADDLE_FMAX:
            return True
        basis = internal_basis(atoms)
        constants, vectors = np.linalg.eigh(basis.T @ labels.hessian(atoms) @ basis)
        vectors = basis @ vectors
        step = vectors @ rational_step(-(vectors.T @ forces.ravel()), constants)
        step *= min(1.0, trust / np.abs(step).max())
        atoms.set_positions(atoms.get_positions() + step.reshape(-1, 3))
    return False


def descend(saddle: Atoms, *, direction: np.ndarray) -> Atoms | None:
    """The minimum that lies down one side of a saddle point."""
    atoms = Atoms(saddle.get_chemical_symbols(), saddle.get_positions() + 0.1 * direction)
    if not labels.relax(atoms, maxstep=0.04):
        return None
    return atoms if labels.leave_saddle(atoms) > labels.LOWEST_WAVENUMBER else None


def change(one: Atoms, other: Atoms) -> float:
    """The largest difference of distances, sorted within pairs of elements; blind to mirror images and swapped atoms."""
    tables = []
    for atoms in (one, other):
        numbers, lengths = atoms.numbers, atoms.get_all_distances()
        found = [(*sorted((numbers[i], numbers[j])), lengths[i, j]) for i, j in combinations(range(len(atoms)), 2)]
        tables.append(np.array(sorted(found))[:, 2])
    return float(np.abs(tables[0] - tables[1]).max())


def examine(saddle: Atoms, *, reaction: Reaction) -> tuple[dict[str, Atoms], float] | str:
    """The three states and the imaginary wavenumber, or why this saddle point is not the reaction's."""
    mol = labels.molecule(reaction.smiles)
    before = labels.declared_bonds(mol)
    after = before - pairs(reaction.broken, mol=mol) | pairs(reaction.formed, mol=mol)
    found = labels.modes(saddle)
    if found.wavenumbers[0] > SMALLEST_MODE or found.wavenumbers[1] < labels.LOWEST_WAVENUMBER:
        return "not exactly one imaginary mode at GFN2"
    sides = [descend(saddle, direction=sign * found.lowest) for sign in (1, -1)]
    if None in sides:
        return "one side does not relax to a minimum"
    bonds = [labels.found_bonds(side) for side in sides]
    if bonds == [after, before]:
        sides.reverse()
    elif bonds != [before, after]:
        return "the sides are not the declared reactant and product"
    if before == after:  # conformers: the lower one is the reactant
        sides.sort(key=lambda atoms: atoms.get_potential_energy())
        if change(*sides) < SMALLEST_CHANGE:
            return "both sides are the same or mirror images"
    # Two-fragment ends are put first where the reaction is written as one molecule falling apart.
    return dict(zip(STATES, [*sides, saddle], strict=True)), float(found.wavenumbers[0])


def find(reaction: Reaction) -> list[dict]:
    """The lines of the three states; one line with a problem if no saddle point is the reaction's."""
    why = "no saddle point found"
    for guess in guesses(reaction):
        try:
            if not climb(guess):
                continue
            result = examine(guess, reaction=reaction)
        except CalculationFailed:
            continue
        if isinstance(result, str):
            why = result
            continue
        states, wavenumber = result
        return [
            labels.geometry_line(
                f"{reaction.name}/{state}", atoms=labels.rounded(states[state]), problem="", wavenumber=wavenumber
            )
            for state in STATES
        ]
    return [{"key": f"{reaction.name}/{STATES[0]}", "symbols": [], "coordinates": [], "problem": why}]


def make_geometries(workdir: Path) -> None:
    """Find every reaction that the work folder does not have yet."""
    path = labels.geometries_file(workdir)
    done = labels.read_lines(path)
    for reaction in REACTIONS:
        first = done.get(f"{reaction.name}/{STATES[0]}")
        if first and (first["problem"] or f"{reaction.name}/{STATES[-1]}" in done):
            continue
        lines = find(reaction)
        for point in lines:
            labels.append_line(path, point=point)
        print(reaction.name, lines[0].get("wavenumber"), lines[0]["problem"], flush=True)


# --- The written set ------------------------------------------------------------------


@dataclass(frozen=True)
class Finished:
    """One reaction with geometries and labels of its three states."""

    name: str
    geometries: dict[str, dict]
    labels: dict[str, dict]

    def energies(self, level: str) -> tuple[float, float]:
        """Barrier and reaction energy in kcal/mol at `level`: "dft" or "gfn2"."""
        points = self.labels if level == "dft" else self.geometries
        reactants, products, saddle = (points[state][f"{level}_kcal"] for state in STATES)
        return saddle - reactants, products - reactants

    def entry(self) -> dict:
        """The reaction in the archive's schema."""
        states = {
            state: {
                "energy": round(self.labels[state]["dft_kcal"], labels.DECIMALS),
                "atom_symbols": self.geometries[state]["symbols"],
                "coordinates": self.geometries[state]["coordinates"],
            }
            for state in STATES
        }
        return {**states, "charge": 0}

    def problem(self) -> str:
        """Why it cannot be used; empty if it can."""
        unfinished = [found["problem"] for found in self.labels.values() if found["problem"]]
        barrier, energy = self.energies("dft")
        if unfinished:
            return unfinished[0]
        if barrier - max(0, energy) < SMALLEST_BARRIER:
            return f"a DFT barrier below {SMALLEST_BARRIER} kcal/mol"
        ends = [Atoms(g["symbols"], g["coordinates"]) for g in map(self.geometries.get, STATES[:2])]
        return "both sides are the same or mirror images" if change(*ends) < 0.1 else ""

    def same_as(self, other: "Finished") -> bool:
        """Whether both are the same reaction, seen from their saddle points."""
        one, two = self.geometries["transition_state"], other.geometries["transition_state"]
        return sorted(one["symbols"]) == sorted(two["symbols"]) and abs(one["gfn2_kcal"] - two["gfn2_kcal"]) < 0.01


def sort_out(workdir: Path) -> tuple[list[Finished], dict[str, str]]:
    """The finished reactions, and the reasons for which others are missing."""
    geometries, found = labels.read_lines(labels.geometries_file(workdir)), labels.read_labels(workdir)
    finished, dropped = [], {}
    for reaction in REACTIONS:
        keys = {state: f"{reaction.name}/{state}" for state in STATES}
        first = geometries.get(keys[STATES[0]])
        if first and first["problem"]:
            dropped[reaction.name] = first["problem"]
        elif not all(key in found for key in keys.values()):
            dropped[reaction.name] = "not computed"
        else:
            done = Finished(
                reaction.name,
                {state: geometries[key] for state, key in keys.items()},
                {state: found[key] for state, key in keys.items()},
            )
            if done.problem():
                dropped[reaction.name] = done.problem()
            else:
                finished.append(done)
    for one, other in combinations(list(finished), 2):
        if one.same_as(other) and other in finished:
            finished.remove(other)
            dropped[other.name] = f"the same as {one.name}"
    return finished, dropped


def make_labels(workdir: Path) -> None:
    """Label every reaction whose geometries can be used, those with fewer atoms first."""
    geometries = labels.read_lines(labels.geometries_file(workdir))
    for reaction in sorted(REACTIONS, key=lambda r: labels.molecule(r.smiles).GetNumAtoms()):
        if not geometries[f"{reaction.name}/{STATES[0]}"]["problem"]:
            labels.make_labels(workdir, keys=[f"{reaction.name}/{state}" for state in STATES])


DESCRIPTION = """\
{count} closed-shell reactions of {smallest} to {largest} atoms, H C N O only, all neutral: hydrogen shifts, eliminations,
isomerisations, cycloreversions, inversions and turns about a bond; barriers from {least:.1f} to {most:.1f} kcal/mol, reaction energies from {lowest:.1f}
to {highest:.1f} kcal/mol. Each transition state is a GFN2-xTB saddle point (largest force 0.003 eV/Å) with exactly one imaginary
mode; from both its sides a minimisation leads to the reactant and the product (largest force 0.01 eV/Å, bonds checked against the
declared ones, no imaginary mode). One density-fitted DFT single point on exactly the written coordinates of each state.
Reactants and products that are two molecules are their complex, not the separated molecules.
Limits: the geometries are GFN2's: its saddle points are not the DFT's, so the barriers are differences between given geometries
and not the DFT's barriers; the closed-shell DFT may err by some kcal/mol where bonds break; the reaction 'enthalpy' of the score is
an electronic energy without zero-point or thermal terms; the conformers need not be the lowest. This is not the Grambow
set of the hub's archive, whose file name and schema it shares: scores are not comparable.{dropped}"""


def write(workdir: Path, target: Path) -> None:
    """Write the data file and its manifest."""
    finished, dropped = sort_out(workdir)
    sizes = [len(r.geometries[STATES[0]]["symbols"]) for r in finished]
    barriers, energies = zip(*(r.energies("dft") for r in finished), strict=True)
    lines = [f'"{r.name}":{labels.compact(r.entry())}' for r in finished]
    labels.write_set(
        target,
        name=NAME,
        file=DATA_FILE,
        text="{\n" + ",\n".join(lines) + "\n}\n",
        title="Barriers and reaction energies of small closed-shell reactions",
        description=DESCRIPTION.format(
            count=len(finished),
            smallest=min(sizes),
            largest=max(sizes),
            least=min(barriers),
            most=max(barriers),
            lowest=min(energies),
            highest=max(energies),
            dropped=labels.dropped_text(dropped),
        ),
        elements={symbol for r in finished for symbol in r.geometries[STATES[0]]["symbols"]},
        labels=[found for r in finished for found in r.labels.values()],
        unit={"energy": "kcal/mol", "coordinates": "angstrom"},
    )


def print_table(workdir: Path) -> None:
    """Barriers and reaction energies at both levels, and GFN2's mean absolute errors."""
    finished, dropped = sort_out(workdir)
    errors, seconds = [], []
    print(f"{'kcal/mol':40}{'atoms':>6}{'cm^-1':>8}{'barrier':>9}{'GFN2':>8}{'reaction':>10}{'GFN2':>8}")
    for r in finished:
        exact, rough = r.energies("dft"), r.energies("gfn2")
        errors.append(np.abs(np.subtract(rough, exact)))
        seconds += [found["seconds"] for found in r.labels.values()]
        saddle = r.geometries["transition_state"]
        numbers = f"{exact[0]:9.2f}{rough[0]:8.2f}{exact[1]:10.2f}{rough[1]:8.2f}"
        print(f"{r.name:40}{len(saddle['symbols']):6}{saddle['wavenumber']:8.0f}{numbers}")
    mean = np.mean(errors or [[0, 0]], axis=0)
    print(
        f"{len(finished)} reactions; GFN2's mean absolute error: barrier {mean[0]:.2f}, reaction {mean[1]:.2f} kcal/mol;",
        end=" ",
    )
    print(f"{np.mean(seconds or [0]):.1f} CPU s per label")
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
