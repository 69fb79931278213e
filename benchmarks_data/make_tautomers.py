# SPDX-License-Identifier: Apache-2.0
# /// script
# requires-python = ">=3.11"
# dependencies = ["ase", "numpy", "pyscf", "pyscf-dispersion", "rdkit", "tblite"]
# ///
"""Make the embedded tautomer set: GFN2 minima with wB97X-D3(BJ)/def2-TZVP labels.

    python benchmarks_data/make_tautomers.py --workdir /tmp/tautomers all

Each finished tautomer is one JSON line in the work folder, so an interrupted run
loses at most the point in hand and a second run goes on where the first stopped.
The stages can be run alone: `geometries`, `labels`, `write`, and `table`.
"""

import argparse
import hashlib
import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import version
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np
from ase import Atoms, units
from ase.data import covalent_radii
from ase.optimize import BFGS
from pyscf import dft, gto
from rdkit import Chem
from rdkit.Chem import AllChem
from tblite.ase import TBLite

HERE = Path(__file__).resolve().parent
DATA_FILE = "tautobase_2792.json"

HARTREE_TO_EV = 27.211386245988
"""CODATA 2018. ASE's own constant is CODATA 2014, which moves total energies by 1e-6 eV."""
EV_TO_KCAL = 23.060547830619

CONFORMERS = 8
SEED = 20
FMAX_EV_PER_ANGSTROM = 0.01
BOND_STRETCH = 1.3
"""Two atoms are bonded within this many sums of covalent radii; the short hydrogen
bonds of the enols (1.5 Å) lie outside, the longest bonds here inside."""
LOWEST_WAVENUMBER = -40.0
"""More negative (imaginary) than this, in cm^-1, is a saddle point and not noise."""


class Pair(NamedTuple):
    """Two tautomers of one molecule, as SMILES, in the order of the name."""

    name: str
    first: str
    second: str


# Elements stay within H, C, N, O and S, so that a model without halogens can run all.
# The file keeps this order, and short runs take its first pairs: the usual ones come first.
PAIRS = (
    # Keto and enol, imine and enamine, thione and enethiol
    Pair("acetaldehyde_enol", "CC=O", "C=CO"),
    Pair("acetone_enol", "CC(C)=O", "CC(O)=C"),
    Pair("cyclopropanone_enol", "O=C1CC1", "OC1=CC1"),
    Pair("glycolaldehyde_enediol", "OCC=O", r"O/C=C\O"),
    Pair("malonaldehyde_enol", "O=CCC=O", r"O=C/C=C\O"),
    Pair("ethanimine_enamine", "CC=N", "C=CN"),
    Pair("thioacetaldehyde_enethiol", "CC=S", "C=CS"),
    # Acids and their derivatives
    Pair("formamide_imidic_acid", "NC=O", "N=CO"),
    Pair("acetamide_imidic_acid", "CC(N)=O", "CC(O)=N"),
    Pair("urea_isourea", "NC(N)=O", "NC(O)=N"),
    Pair("thioformamide_thiol", "NC=S", "N=CS"),
    Pair("thioacetamide_thiol", "CC(N)=S", "CC(S)=N"),
    Pair("thioformic_acid_thiol_thione", "O=CS", "S=CO"),
    # Azoles
    Pair("triazole_123_1h_2h", "c1c[nH]nn1", "c1cn[nH]n1"),
    Pair("triazole_124_1h_4h", "c1nc[nH]n1", "c1nnc[nH]1"),
    Pair("tetrazole_1h_2h", "c1nnn[nH]1", "c1nn[nH]n1"),
    Pair("methylimidazole_4_5", "Cc1c[nH]cn1", "Cc1cnc[nH]1"),
    Pair("methylpyrazole_3_5", "Cc1cc[nH]n1", "Cc1ccn[nH]1"),
    # Six-membered heterocycles
    Pair("pyridone_2_hydroxypyridine", "O=c1cccc[nH]1", "Oc1ccccn1"),
    Pair("pyridone_4_hydroxypyridine", "O=c1cc[nH]cc1", "Oc1ccncc1"),
    Pair("pyridinethione_2_thiol", "S=c1cccc[nH]1", "Sc1ccccn1"),
    # Nitrogen oxides, azo and hydrazone
    Pair("nitrosomethane_oxime", "CN=O", "C=NO"),
    Pair("nitromethane_aci", "C[N+](=O)[O-]", "C=[N+](O)[O-]"),
    Pair("hydroxylamine_ammonia_oxide", "NO", "[NH3+][O-]"),
    Pair("azomethane_hydrazone", "C/N=N/C", "CNN=C"),
    # Small unsaturated molecules
    Pair("hydrogen_cyanide_isocyanide", "C#N", "[C-]#[NH+]"),
    Pair("isocyanic_acid_cyanic_acid", "N=C=O", "OC#N"),
    Pair("isothiocyanic_acid_thiocyanic_acid", "N=C=S", "SC#N"),
    Pair("ketene_ethynol", "C=C=O", "OC#C"),
    Pair("cyanamide_carbodiimide", "NC#N", "N=C=N"),
    Pair("acetonitrile_ketenimine", "CC#N", "C=C=N"),
    Pair("propyne_allene", "CC#C", "C=C=C"),
)


@dataclass(frozen=True)
class Geometry:
    """One tautomer's lowest GFN2 conformer; `problem` says why it cannot be used."""

    key: str
    symbols: list[str]
    coordinates: list[list[float]]
    gfn2_ev: float
    lowest_wavenumber: float
    problem: str


@dataclass(frozen=True)
class Label:
    """The DFT energy of one geometry, and what shows that it is what it claims."""

    key: str
    dft_ev: float
    dispersion_ev: float
    problem: str
    programs: dict[str, str]
    seconds: float


# --- One JSON line per finished point -------------------------------------------------


def read_lines(path: Path) -> dict[str, dict]:
    """The finished points by key; a line torn by an interrupt counts as not done."""
    points = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            point = json.loads(line)
        except json.JSONDecodeError:
            continue
        points[point["key"]] = point
    return points


def append_line(path: Path, *, point: Geometry | Label) -> None:
    """Add one point and wait until it is on the disk."""
    with path.open("a") as file:
        # The newline first, so that a torn last line cannot swallow this one.
        file.write("\n" + json.dumps(asdict(point), allow_nan=False))
        file.flush()
        os.fsync(file.fileno())


def tautomers() -> Iterator[tuple[str, str]]:
    """(key, SMILES) of every tautomer, smallest molecules first, pairs together."""
    for pair in sorted(PAIRS, key=lambda pair: molecule(pair.first).GetNumAtoms()):
        yield f"{pair.name}/0", pair.first
        yield f"{pair.name}/1", pair.second


# --- Geometries: ETKDG, MMFF, GFN2 ----------------------------------------------------


def molecule(smiles: str) -> Chem.Mol:
    """The molecule with its hydrogens."""
    return Chem.AddHs(Chem.MolFromSmiles(smiles))


def embed(mol: Chem.Mol) -> list[Atoms]:
    """Starting conformers from ETKDG, relaxed with MMFF where it has the parameters."""
    parameters = AllChem.ETKDGv3()
    parameters.randomSeed = SEED
    AllChem.EmbedMultipleConfs(mol, CONFORMERS, parameters)
    if AllChem.MMFFHasAllMoleculeParams(mol):
        AllChem.MMFFOptimizeMoleculeConfs(mol, maxIters=1000)
    symbols = [atom.GetSymbol() for atom in mol.GetAtoms()]
    return [Atoms(symbols, conformer.GetPositions()) for conformer in mol.GetConformers()]


def relax(atoms: Atoms, *, fmax: float = FMAX_EV_PER_ANGSTROM) -> bool:
    """Minimise with GFN2 in place; whether it converged."""
    atoms.calc = TBLite(method="GFN2-xTB", verbosity=0)
    return BFGS(atoms, logfile=None).run(fmax=fmax, steps=1000)


def declared_bonds(mol: Chem.Mol) -> set[tuple[int, int]]:
    """The bonds of the SMILES."""
    return {tuple(sorted((b.GetBeginAtomIdx(), b.GetEndAtomIdx()))) for b in mol.GetBonds()}


def found_bonds(atoms: Atoms) -> set[tuple[int, int]]:
    """The bonds of the coordinates."""
    radii, distances = covalent_radii[atoms.numbers], atoms.get_all_distances()
    return {
        (i, j)
        for i, j in combinations(range(len(atoms)), 2)
        if distances[i, j] < BOND_STRETCH * (radii[i] + radii[j])
    }


class Mode(NamedTuple):
    """The vibration with the lowest force constant."""

    wavenumber: float
    """In cm^-1, negative if imaginary; near zero for a minimum, from the six free motions."""
    direction: np.ndarray
    """Cartesian displacements, largest component 1."""


def hessian(atoms: Atoms, *, step: float = 0.005) -> np.ndarray:
    """Second derivatives in eV/Å^2, from central differences of the forces."""
    start, rows = atoms.get_positions(), []
    for shift in np.eye(start.size).reshape(-1, *start.shape) * step:
        forces = []
        for sign in (1, -1):
            atoms.set_positions(start + sign * shift)
            forces.append(atoms.get_forces())
        rows.append((forces[1] - forces[0]).ravel() / (2 * step))
    atoms.set_positions(start)
    return (np.array(rows) + np.array(rows).T) / 2


def lowest_mode(atoms: Atoms) -> Mode:
    """The lowest mode of the mass-weighted GFN2 Hessian."""
    weights = np.repeat(atoms.get_masses() ** -0.5, 3)
    constants, modes = np.linalg.eigh(hessian(atoms) * np.outer(weights, weights))
    # sqrt(eV / (Å^2 u)) is an angular frequency in ASE's inverse time unit.
    energy = units._hbar * np.sqrt(abs(constants[0])) * units.s / units._e
    direction = (modes[:, 0] * weights).reshape(-1, 3)
    wavenumber = float(np.sign(constants[0]) * energy / units.invcm)
    return Mode(wavenumber, direction / np.abs(direction).max())


def leave_saddle(atoms: Atoms) -> Mode:
    """Step off a saddle point (a planar or eclipsed start) along its mode and relax again."""
    mode = lowest_mode(atoms)
    for _ in range(3):
        if mode.wavenumber > LOWEST_WAVENUMBER:
            break
        atoms.set_positions(atoms.get_positions() + 0.3 * mode.direction)
        # A methyl rotor pushes back with less than the usual limit.
        relax(atoms, fmax=FMAX_EV_PER_ANGSTROM / 10)
        mode = lowest_mode(atoms)
    return mode


def geometry(key: str, *, smiles: str) -> Geometry:
    """The lowest GFN2 conformer that still is this tautomer, or why there is none."""
    mol = molecule(smiles)
    relaxed = [atoms for atoms in embed(mol) if relax(atoms)]
    kept = [atoms for atoms in relaxed if found_bonds(atoms) == declared_bonds(mol)]
    if not kept:
        reason = "bonds changed in the GFN2 minimisation" if relaxed else "did not converge"
        return Geometry(key, [], [], 0.0, 0.0, reason)
    best = min(kept, key=lambda atoms: atoms.get_potential_energy())
    mode = leave_saddle(best)
    # Rounded before any label is computed: the labels belong to the written numbers.
    best.set_positions(np.round(best.get_positions() - best.get_center_of_mass(), 6))
    return Geometry(
        key=key,
        symbols=best.get_chemical_symbols(),
        coordinates=best.get_positions().round(6).tolist(),
        gfn2_ev=best.get_potential_energy(),
        lowest_wavenumber=mode.wavenumber,
        problem=problem(best, mode=mode, bonds=declared_bonds(mol)),
    )


def problem(atoms: Atoms, *, mode: Mode, bonds: set[tuple[int, int]]) -> str:
    """Why a relaxed geometry cannot be used; empty if it can."""
    if found_bonds(atoms) != bonds:
        return "bonds changed in the GFN2 minimisation"
    if mode.wavenumber < LOWEST_WAVENUMBER:
        return "a saddle point at GFN2"
    return "" if np.abs(atoms.get_forces()).max() < 2 * FMAX_EV_PER_ANGSTROM else "did not converge"


def make_geometries(workdir: Path) -> None:
    """Find every geometry that the work folder does not have yet."""
    path = workdir / "geometries.jsonl"
    done = read_lines(path)
    for key, smiles in tautomers():
        if key not in done:
            point = geometry(key, smiles=smiles)
            append_line(path, point=point)
            print(key, len(point.symbols), f"{point.lowest_wavenumber:.0f}", point.problem, flush=True)


# --- Labels: density-fitted wB97X-D3(BJ)/def2-TZVP -------------------------------------


def functional(mol: gto.Mole) -> dft.rks.RKS:
    """wB97X-D3(BJ): the functional of wB97X-V, without VV10, with D3(BJ) instead.

    The name matters. "wb97x" with `disp="d3bj"` would join the functional of 2008 to
    damping parameters fitted for another one (10.1021/acs.jctc.8b00842).
    """
    mf = dft.RKS(mol, xc="wb97x-v").density_fit()
    mf.nlc = False
    mf.disp = "d3bj"
    mf.grids.level = 3  # 2-pyridone moves by 0.002 kcal/mol to level 4
    mf.conv_tol = 1e-8
    return mf


def programs() -> dict[str, str]:
    """Names and versions of what computes the numbers."""
    names = ("rdkit", "ase", "tblite", "pyscf", "pyscf-dispersion")
    return {name: version(name) for name in names}


def label(point: dict) -> Label:
    """The single-point energy of one geometry."""
    started = time.monotonic()
    atoms = list(zip(point["symbols"], point["coordinates"], strict=True))
    mf = functional(gto.M(atom=atoms, unit="Angstrom", basis="def2-tzvp", verbose=0))
    energy = mf.kernel()
    dispersion = mf.scf_summary.get("dispersion", 0.0)
    if mf.do_nlc() or not dispersion:
        sys.exit("This pyscf does not compute wB97X-D3(BJ) here; is pyscf-dispersion installed?")
    return Label(
        key=point["key"],
        dft_ev=round(energy * HARTREE_TO_EV, 9),
        dispersion_ev=round(float(dispersion) * HARTREE_TO_EV, 9),
        problem="" if mf.converged else "the DFT did not converge",
        programs=programs(),
        seconds=round(time.monotonic() - started, 1),
    )


def make_labels(workdir: Path) -> None:
    """Label every geometry whose pair can still be used and has no label yet."""
    path = workdir / "labels.jsonl"
    geometries, done = read_lines(workdir / "geometries.jsonl"), read_lines(path)
    for key, _ in tautomers():
        pair = [geometries[f"{key[:-1]}{n}"] for n in (0, 1)]
        if key in done or any(point["problem"] for point in pair):
            continue
        result = label(geometries[key])
        append_line(path, point=result)
        print(key, len(pair[0]["symbols"]), f"{result.seconds} s", result.problem, flush=True)


# --- The written set ------------------------------------------------------------------


@dataclass(frozen=True)
class Finished:
    """Both tautomers of one pair, with geometries and labels."""

    name: str
    geometries: tuple[dict, dict]
    labels: tuple[dict, dict]

    def difference(self, level: str) -> float:
        """E(second) - E(first) in kcal/mol at `level`: "dft" or "gfn2"."""
        points = self.labels if level == "dft" else self.geometries
        return (points[1][f"{level}_ev"] - points[0][f"{level}_ev"]) * EV_TO_KCAL

    def entry(self) -> dict:
        """The pair in the archive's schema."""
        return {
            "energies": [label["dft_ev"] for label in self.labels],
            "coordinates": [point["coordinates"] for point in self.geometries],
            "atom_symbols": [point["symbols"] for point in self.geometries],
        }


def sort_out(workdir: Path) -> tuple[list[Finished], dict[str, str]]:
    """The finished pairs, and the reasons for which others are missing."""
    geometries = read_lines(workdir / "geometries.jsonl")
    labels = read_lines(workdir / "labels.jsonl")
    finished, dropped = [], {}
    for pair in PAIRS:
        keys = (f"{pair.name}/0", f"{pair.name}/1")
        points = [table.get(key) for table in (geometries, labels) for key in keys]
        problems = [point["problem"] for point in points if point and point["problem"]]
        if problems:
            dropped[pair.name] = problems[0]
        elif None in points:
            dropped[pair.name] = "not computed"
        else:
            finished.append(Finished(pair.name, tuple(points[:2]), tuple(points[2:])))
    return finished, dropped


def data_text(finished: list[Finished]) -> str:
    """The data file, one pair per line so that a change can be read in a diff."""
    lines = [f"{json.dumps(p.name)}: {json.dumps(p.entry(), allow_nan=False)}" for p in finished]
    return "{\n" + ",\n".join(lines) + "\n}\n"


MANIFEST = """\
# SPDX-License-Identifier: CC0-1.0
name = "tautomers"
version = "1"
title = "Tautomer energy differences of small molecules"
description = \"\"\"
{count} pairs of tautomers of {smallest} to {largest} atoms, H C N O S only, all neutral and closed-shell:
keto/enol, imine/enamine, amide/imidic acid, thione/thiol, nitroso/oxime, azoles,
hydroxypyridines and the like; |energy difference| from {least:.1f} to {most:.1f} kcal/mol.
Each tautomer is the lowest of {conformers} ETKDG conformers after a GFN2-xTB minimisation
(largest force 0.01 eV/Å, bonds checked against the SMILES, no imaginary mode at GFN2),
with one density-fitted DFT single point on exactly the written coordinates.
Limits: the geometries are GFN2's, not the DFT's minima, so the differences are not
relaxed tautomerisation energies; gas phase, electronic energies without zero-point energy;
the lowest conformer at GFN2 need not be the lowest at DFT; against coupled cluster the
DFT can be expected to err by 1 to 2 kcal/mol. This is not the Tautobase selection of
the hub's archive, whose file name and schema it shares: scores are not comparable.
{dropped}\"\"\"
license = "CC0-1.0"
source = {source}
doi = [
{doi}
]
level_of_theory = "wB97X-D3(BJ)/def2-TZVP, density fitting (def2-TZVP-JKFIT), on GFN2-xTB minima"
made_by = "benchmarks_data/make_tautomers.py"
elements = ["C", "H", "N", "O", "S"]

[units]
energies = "eV"
coordinates = "angstrom"

[files."{file}"]
sha256 = "{sha256}"
bytes = {size}
"""

DOI = {
    "10.1021/acs.jctc.8b00842": "wB97X-D3(BJ)",
    "10.1039/C3CP54374A": "wB97X-V, whose functional it is",
    "10.1063/1.3382344": "D3",
    "10.1002/jcc.21759": "D3(BJ)",
    "10.1039/B508541A": "def2-TZVP",
    "10.1002/jcc.20702": "def2-TZVP-JKFIT",
    "10.1021/acs.jctc.8b01176": "GFN2-xTB",
    "10.1021/acs.jcim.0c00025": "ETKDGv3",
    "10.1063/5.0006074": "PySCF",
}


def source_text(finished: list[Finished]) -> str:
    """Where the numbers are from, with the programs that the labels recorded."""
    seen = {item for p in finished for label in p.labels for item in label["programs"].items()}
    used = ", ".join(f"{name} {number}" for name, number in sorted(seen))
    return f"Own geometries and labels, computed for this project with {used}."


def dropped_text(dropped: dict[str, str]) -> str:
    """One line for the description about the pairs that were tried and left out."""
    tried = [f"{name} ({why})" for name, why in dropped.items() if why != "not computed"]
    return f"Tried and left out: {'; '.join(tried)}.\n" if tried else ""


def manifest_text(finished: list[Finished], *, dropped: dict[str, str], data: bytes) -> str:
    """The manifest that belongs to `data`."""
    sizes = [len(p.geometries[0]["symbols"]) for p in finished]
    differences = [abs(p.difference("dft")) for p in finished]
    return MANIFEST.format(
        count=len(finished),
        smallest=min(sizes),
        largest=max(sizes),
        least=min(differences),
        most=max(differences),
        conformers=CONFORMERS,
        dropped=dropped_text(dropped),
        source=json.dumps(source_text(finished), ensure_ascii=False),
        doi="\n".join(f'    "{doi}", # {what}' for doi, what in DOI.items()),
        file=DATA_FILE,
        sha256=hashlib.sha256(data).hexdigest(),
        size=len(data),
    )


def write(workdir: Path, *, target: Path) -> None:
    """Write the data file and its manifest."""
    finished, dropped = sort_out(workdir)
    data = data_text(finished).encode()
    target.mkdir(parents=True, exist_ok=True)
    (target / DATA_FILE).write_bytes(data)
    manifest = manifest_text(finished, dropped=dropped, data=data)
    (target / "manifest.toml").write_text(manifest, encoding="utf-8")


def print_table(workdir: Path) -> None:
    """Energy differences at both levels, and GFN2's mean absolute error."""
    finished, dropped = sort_out(workdir)
    errors = []
    print(f"{'E(second) - E(first), kcal/mol':36}{'atoms':>6}{'DFT':>8}{'GFN2':>8}{'error':>8}")
    for p in finished:
        exact, rough = p.difference("dft"), p.difference("gfn2")
        errors.append(abs(rough - exact))
        size = len(p.geometries[0]["symbols"])
        print(f"{p.name:36}{size:6}{exact:8.2f}{rough:8.2f}{rough - exact:8.2f}")
    print(f"{len(finished)} pairs, mean absolute error of GFN2 {np.mean(errors or [0]):.2f} kcal/mol")
    for name, why in dropped.items():
        print(f"left out: {name}: {why}")


def main() -> None:
    """Run one stage, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("stage", choices=["geometries", "labels", "write", "table", "all"])
    parser.add_argument("--workdir", type=Path, required=True, help="folder of the finished points")
    parser.add_argument("--target", type=Path, default=HERE / "tautomers", help="folder to write")
    options = parser.parse_args()
    options.workdir.mkdir(parents=True, exist_ok=True)
    stages = {
        "geometries": lambda: make_geometries(options.workdir),
        "labels": lambda: make_labels(options.workdir),
        "write": lambda: write(options.workdir, target=options.target),
        "table": lambda: print_table(options.workdir),
    }
    for name, stage in stages.items():
        if options.stage in (name, "all"):
            stage()


if __name__ == "__main__":
    main()
