# SPDX-License-Identifier: Apache-2.0
"""What the scripts that compute their own reference energies share.

Geometries are GFN2's, labels are density-fitted wB97X-D3(BJ)/def2-TZVP single points on
exactly the written coordinates. Set OMP_NUM_THREADS=1: GFN2 on small molecules is many
times slower with more. Each finished point is one JSON line in a work folder, so an
interrupted run loses at most the point in hand and a second run goes on where the first
stopped. A label carries a hash of its geometry: one for another geometry counts as missing.
"""

import argparse
import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterable
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

HARTREE_TO_KCAL = 627.5094740631
"""CODATA 2018."""
EV_TO_KCAL = 23.060547830619

SEED = 20
FMAX_EV_PER_ANGSTROM = 0.01
DECIMALS = 5
"""Of coordinates (Å) and energies (kcal/mol), rounded before any label is computed."""
BOND_STRETCH = 1.3
"""Two atoms are bonded within this many sums of covalent radii."""
LOWEST_WAVENUMBER = -40.0
"""More negative (imaginary) than this, in cm^-1, is a saddle point and not noise."""

LEVEL = "wB97X-D3(BJ)/def2-TZVP, density fitting (def2-TZVP-JKFIT), on GFN2-xTB geometries"
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

Bonds = set[tuple[int, int]]


# --- One JSON line per finished point -------------------------------------------------


def read_lines(path: Path) -> dict[str, dict]:
    """The finished points by key, the last one of each; a line torn by an interrupt counts as not done."""
    points = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            point = json.loads(line)
        except json.JSONDecodeError:
            continue
        points[point["key"]] = point
    return points


def append_line(path: Path, *, point: dict) -> None:
    """Add one point and wait until it is on the disk."""
    with path.open("a") as file:
        # The newline first, so that a torn last line cannot swallow this one.
        file.write("\n" + json.dumps(point, allow_nan=False))
        file.flush()
        os.fsync(file.fileno())


def fingerprint(point: dict) -> str:
    """A hash of what a label belongs to."""
    return hashlib.sha256(json.dumps([point["symbols"], point["coordinates"]]).encode()).hexdigest()[:16]


# --- Molecules and GFN2 ---------------------------------------------------------------


def molecule(smiles: str) -> Chem.Mol:
    """The molecule with its hydrogens; those that the SMILES writes as atoms stay where they are."""
    parameters = Chem.SmilesParserParams()
    parameters.removeHs = False
    return Chem.AddHs(Chem.MolFromSmiles(smiles, parameters))


def embed(mol: Chem.Mol, *, count: int) -> list[Atoms]:
    """Starting conformers from ETKDG, relaxed with MMFF where it has the parameters."""
    parameters = AllChem.ETKDGv3()
    parameters.randomSeed = SEED
    AllChem.EmbedMultipleConfs(mol, count, parameters)
    if AllChem.MMFFHasAllMoleculeParams(mol):
        AllChem.MMFFOptimizeMoleculeConfs(mol, maxIters=1000)
    symbols = [atom.GetSymbol() for atom in mol.GetAtoms()]
    return [Atoms(symbols, conformer.GetPositions()) for conformer in mol.GetConformers()]


def declared_bonds(mol: Chem.Mol) -> Bonds:
    """The bonds of the SMILES."""
    return {tuple(sorted((b.GetBeginAtomIdx(), b.GetEndAtomIdx()))) for b in mol.GetBonds()}


def found_bonds(atoms: Atoms) -> Bonds:
    """The bonds of the coordinates."""
    radii, distances = covalent_radii[atoms.numbers], atoms.get_all_distances()
    return {
        (i, j)
        for i, j in combinations(range(len(atoms)), 2)
        if distances[i, j] < BOND_STRETCH * (radii[i] + radii[j])
    }


def gfn2(atoms: Atoms) -> Atoms:
    """The same atoms with a GFN2 calculator of their own."""
    atoms.calc = TBLite(method="GFN2-xTB", verbosity=0)
    return atoms


def relax(atoms: Atoms, *, fmax: float = FMAX_EV_PER_ANGSTROM, maxstep: float = 0.2) -> bool:
    """Minimise with GFN2 in place; whether it converged."""
    return BFGS(gfn2(atoms), logfile=None, maxstep=maxstep).run(fmax=fmax, steps=1000)


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


class Modes(NamedTuple):
    """Vibrations, and the six free motions near zero."""

    wavenumbers: np.ndarray
    """In cm^-1, ascending, negative if imaginary."""
    lowest: np.ndarray
    """Cartesian displacements of the first, largest component 1."""


def modes(atoms: Atoms) -> Modes:
    """The eigenvectors of the mass-weighted GFN2 Hessian."""
    weights = np.repeat(atoms.get_masses() ** -0.5, 3)
    constants, vectors = np.linalg.eigh(hessian(atoms) * np.outer(weights, weights))
    # sqrt(eV / (Å^2 u)) is an angular frequency in ASE's inverse time unit.
    energies = units._hbar * np.sqrt(np.abs(constants)) * units.s / units._e
    direction = (vectors[:, 0] * weights).reshape(-1, 3)
    return Modes(np.sign(constants) * energies / units.invcm, direction / np.abs(direction).max())


def leave_saddle(atoms: Atoms) -> float:
    """Step off a saddle point (a planar or eclipsed start), relax again; the lowest wavenumber that is left."""
    found = modes(atoms)
    for _ in range(3):
        if found.wavenumbers[0] > LOWEST_WAVENUMBER:
            break
        atoms.set_positions(atoms.get_positions() + 0.3 * found.lowest)
        # A methyl rotor pushes back with less than the usual limit.
        relax(atoms, fmax=FMAX_EV_PER_ANGSTROM / 10)
        found = modes(atoms)
    return float(found.wavenumbers[0])


def rounded(atoms: Atoms) -> Atoms:
    """A copy with GFN2, centred, with the coordinates as they are written."""
    positions = atoms.get_positions() - atoms.get_center_of_mass()
    return gfn2(Atoms(atoms.get_chemical_symbols(), positions.round(DECIMALS)))


def geometry_line(key: str, *, atoms: Atoms, **more: object) -> dict:
    """The line of one finished geometry, already rounded."""
    return {
        "key": key,
        "symbols": atoms.get_chemical_symbols(),
        "coordinates": atoms.get_positions().round(DECIMALS).tolist(),
        "gfn2_kcal": atoms.get_potential_energy() * EV_TO_KCAL,
        **more,
    }


# --- Labels: density-fitted wB97X-D3(BJ)/def2-TZVP -------------------------------------


def functional(mol: gto.Mole) -> dft.rks.RKS:
    """wB97X-D3(BJ): the functional of wB97X-V, without VV10, with D3(BJ) instead.

    The name matters. "wb97x" with `disp="d3bj"` would join the functional of 2008 to
    damping parameters fitted for another one (10.1021/acs.jctc.8b00842).
    """
    mf = dft.RKS(mol, xc="wb97x-v").density_fit()
    mf.nlc = False
    mf.disp = "d3bj"
    mf.grids.level = 3
    mf.conv_tol = 1e-8
    return mf


def programs() -> dict[str, str]:
    """Names and versions of what computes the numbers."""
    names = ("rdkit", "ase", "tblite", "pyscf", "pyscf-dispersion")
    return {name: version(name) for name in names}


def label(point: dict) -> dict:
    """The single-point energy of one geometry, and what shows that it is what it claims."""
    started = time.process_time()
    atoms = list(zip(point["symbols"], point["coordinates"], strict=True))
    mf = functional(gto.M(atom=atoms, unit="Angstrom", basis="def2-tzvp", verbose=0))
    energy = mf.kernel()
    dispersion = mf.scf_summary.get("dispersion", 0.0)
    if mf.do_nlc() or not dispersion:
        sys.exit("This pyscf does not compute wB97X-D3(BJ) here; is pyscf-dispersion installed?")
    return {
        "key": point["key"],
        "geometry": fingerprint(point),
        "dft_kcal": float(energy) * HARTREE_TO_KCAL,
        "problem": "" if mf.converged else "the DFT did not converge",
        "programs": programs(),
        "seconds": round(time.process_time() - started, 1),
    }


def geometries_file(workdir: Path) -> Path:
    """Where the finished geometries of one set are."""
    return workdir / "geometries.jsonl"


def labels_file(workdir: Path) -> Path:
    """Where the finished labels of one set are."""
    return workdir / "labels.jsonl"


def read_labels(workdir: Path) -> dict[str, dict]:
    """The labels that belong to the geometries as they are now."""
    geometries = read_lines(geometries_file(workdir))
    labels = read_lines(labels_file(workdir))
    return {
        key: found
        for key, found in labels.items()
        if key in geometries and found["geometry"] == fingerprint(geometries[key])
    }


def make_labels(workdir: Path, *, keys: Iterable[str]) -> None:
    """Label those of the geometries that have no label yet, in this order."""
    geometries, done = read_lines(geometries_file(workdir)), read_labels(workdir)
    for key in keys:
        if key not in done:
            result = label(geometries[key])
            append_line(labels_file(workdir), point=result)
            print(key, len(geometries[key]["symbols"]), f"{result['seconds']} s", result["problem"], flush=True)


# --- The written set ------------------------------------------------------------------

MANIFEST = """\
# SPDX-License-Identifier: CC0-1.0
name = "{name}"
version = "1"
title = "{title}"
description = \"\"\"
{description}
\"\"\"
license = "CC0-1.0"
source = {source}
doi = [
{doi}
]
level_of_theory = "{level}"
made_by = "benchmarks_data/make_{name}.py"
elements = {elements}

[units]
{units}

[files."{file}"]
sha256 = "{sha256}"
bytes = {size}
"""


def source_text(labels: Iterable[dict]) -> str:
    """Where the numbers are from, with the programs that the labels recorded."""
    seen = {item for found in labels for item in found["programs"].items()}
    used = ", ".join(f"{name} {number}" for name, number in sorted(seen))
    return f"Own geometries and labels, computed for this project with {used}."


def dropped_text(dropped: dict[str, str]) -> str:
    """A line for the description about what was tried and left out."""
    by_reason: dict[str, list[str]] = {}
    for name, why in dropped.items():
        if why != "not computed":
            by_reason.setdefault(why, []).append(name)
    texts = [f"{', '.join(names)} ({why})" for why, names in by_reason.items()]
    return f"\nTried and left out: {'; '.join(texts)}." if texts else ""


def write_set(
    target: Path,
    *,
    name: str,
    file: str,
    text: str,
    title: str,
    description: str,
    elements: set[str],
    labels: Iterable[dict],
    unit: dict[str, str],
) -> None:
    """Write a data file and the manifest that belongs to it."""
    data = text.encode()
    manifest = MANIFEST.format(
        name=name,
        title=title,
        description=description,
        source=json.dumps(source_text(labels), ensure_ascii=False),
        doi="\n".join(f'    "{doi}", # {what}' for doi, what in DOI.items()),
        level=LEVEL,
        elements=json.dumps(sorted(elements)),
        units="\n".join(f'{key} = "{value}"' for key, value in unit.items()),
        file=file,
        sha256=hashlib.sha256(data).hexdigest(),
        size=len(data),
    )
    target.mkdir(parents=True, exist_ok=True)
    (target / file).write_bytes(data)
    (target / "manifest.toml").write_text(manifest, encoding="utf-8")


def compact(entry: object) -> str:
    """JSON without spaces."""
    return json.dumps(entry, allow_nan=False, separators=(",", ":"))


def run_stages(
    description: str,
    *,
    name: str,
    geometries: Callable[[Path], None],
    labels: Callable[[Path], None],
    write: Callable[[Path, Path], None],
    table: Callable[[Path], None],
) -> None:
    """The command line: run one stage, or all."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("stage", choices=["geometries", "labels", "write", "table", "all"])
    parser.add_argument("--workdir", type=Path, required=True, help="folder of the finished points")
    parser.add_argument("--target", type=Path, default=HERE / name, help="folder to write")
    options = parser.parse_args()
    options.workdir.mkdir(parents=True, exist_ok=True)
    stages = {
        "geometries": lambda: geometries(options.workdir),
        "labels": lambda: labels(options.workdir),
        "write": lambda: write(options.workdir, options.target),
        "table": lambda: table(options.workdir),
    }
    for stage, run in stages.items():
        if options.stage in (stage, "all"):
            run()
