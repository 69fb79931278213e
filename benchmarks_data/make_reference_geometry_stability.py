# SPDX-License-Identifier: Apache-2.0
# /// script
# requires-python = ">=3.11"
# dependencies = ["ase", "numpy", "pyscf", "rdkit", "tblite"]
# ///
"""Make the embedded reference geometries: minima of QM9, and ions minimised at QM9's level of theory.

    pip download --no-deps qm9pack==1.0.3
    python benchmarks_data/make_reference_geometry_stability.py --workdir /tmp/geometries --wheel qm9pack-1.0.3-py3-none-any.whl all

`labels.py` says how an interrupted run goes on. The stages can be run alone: `neutral` picks the molecules,
`charged` minimises the ions, `check` minimises some of QM9's molecules again to see how far the two
programs are apart, `write` writes the folder.
"""

import argparse
import random
import time
from importlib.metadata import version
from itertools import chain
from pathlib import Path

import labels
import manifests
import numpy as np
import qm9
from ase import Atoms, units
from ase.build import minimize_rotation_and_translation
from ase.calculators.calculator import Calculator, all_changes
from ase.optimize import BFGS
from pyscf import dft, gto
from rdkit import Chem

NAME = "reference_geometry_stability"

SIZES = range(10, 26)
"""Numbers of atoms of the neutral molecules."""
SOFTEST = 2.0
"""In eV/Å^2: softer directions of the first guess of the Hessian are made as stiff as this."""

# One molecule is drawn for each, and none twice.
GROUPS = {
    "alkane": "[CX4;!R][CX4;!R][CX4;!R][CX4;!R]",
    "cycloalkene": "[CX3;R]=[CX3;R]",
    "alkyne": "C#C",
    "arene": "c1ccccc1",
    "furan": "c1ccoc1",
    "pyrrole": "c1cc[nH]c1",
    "imidazole": "c1cnc[nH]1",
    "pyrazole": "c1cc[nH]n1",
    "oxazole": "c1cocn1",
    "isoxazole": "c1conc1",
    "pyridine": "c1ccncc1",
    "pyrimidine": "c1cncnc1",
    "alcohol": "[CX4][OX2H]",
    "diol": "[OX2H][CX4][CX4][OX2H]",
    "ether": "[CX4;!R][OX2;!R][CX4;!R]",
    "epoxide": "C1OC1",
    "oxetane": "C1COC1",
    "acetal": "[OX2;!$(OC=O)][CX4][OX2;!$(OC=O)]",
    "aldehyde": "[CX3H1](=O)[#6]",
    "ketone": "[CX4][CX3](=O)[CX4]",
    "ester": "[CX4][OX2][CX3](=O)[#6]",
    "lactone": "[OX2;R][CX3;R](=O)[#6;R]",
    "amide": "[CX4][CX3](=O)[NX3;!R]",
    "lactam": "[NX3;R][CX3;R](=O)[#6;R]",
    "amine": "[CX4][NX3;!R;!$(N~[!#6;!#1])]([CX4])[#6,#1]",
    "aziridine": "C1NC1",
    "nitrile": "[CX4]C#N",
    "imine": "[CX3]([#6])=[NX2][#6,#1]",
    "oxime": "[CX3]=[NX2][OX2H]",
    "amidine": "[NX3][CX3]([#6])=[NX2]",
}

# Closed-shell ions of H, C, N and O, the small ones first.
IONS = {
    "acetate": "CC(=O)[O-]",
    "methylammonium": "C[NH3+]",
    "imidazolide": "c1c[n-]cn1",
    "cyanoacetate": "N#CCC(=O)[O-]",
    "guanidinium": "NC(N)=[NH2+]",
    "imidazolium": "c1c[nH]c[nH+]1",
    "acetamidinium": "CC(N)=[NH2+]",
    "dimethylammonium": "C[NH2+]C",
    "glycine, protonated": "OC(=O)C[NH3+]",
    "lactate": "CC(O)C(=O)[O-]",
}

CHECKED = {11: "acetaldehyde", 19: "acetamide"}
"""Molecules of QM9 that are minimised again."""


def numbers(path: Path) -> Path:
    """Where the finished minima of the ions are."""
    return path / "charged.jsonl"


# --- The level of theory --------------------------------------------------------------


class Dft(Calculator):
    """B3LYP as in Gaussian (VWN3), density-fitted, 6-31G(2df,p) with pure d and f functions; each point starts from the last one."""

    implemented_properties = ["energy", "forces"]

    def __init__(self, *, charge: int) -> None:
        super().__init__()
        self.charge, self.density = charge, None

    def calculate(self, atoms: Atoms, properties=("energy",), system_changes=all_changes) -> None:
        """Energy and forces in eV and Å."""
        super().calculate(atoms, properties, system_changes)
        listed = list(zip(atoms.get_chemical_symbols(), atoms.get_positions(), strict=True))
        mol = gto.M(atom=listed, unit="Angstrom", basis="6-31g(2df,p)", charge=self.charge, verbose=0)
        mf = dft.RKS(mol, xc="b3lypg").density_fit(auxbasis="def2-universal-jkfit")
        mf.grids.level = 3
        mf.conv_tol = 1e-8
        energy = mf.kernel(self.density)
        if not mf.converged:
            raise RuntimeError("the DFT did not converge")
        self.density = mf.make_rdm1()
        gradient = mf.nuc_grad_method().kernel()
        self.results = {"energy": energy * units.Hartree, "forces": -gradient * units.Hartree / units.Bohr}


def stiffened(atoms: Atoms) -> np.ndarray:
    """GFN2's Hessian with its free motions and soft directions made stiff: a first guess for the minimiser."""
    constants, vectors = np.linalg.eigh(labels.hessian(labels.gfn2(atoms.copy())))
    return vectors @ np.diag(np.maximum(constants, SOFTEST)) @ vectors.T


def minimise(start: Atoms, *, charge: int) -> tuple[Atoms, int, float]:
    """The DFT's minimum near a geometry, the number of steps, and the largest force that is left in eV/Å."""
    atoms = start.copy()
    atoms.set_initial_charges([charge] + [0] * (len(atoms) - 1))
    hessian = stiffened(atoms)
    atoms.calc = Dft(charge=charge)
    minimiser = BFGS(atoms, logfile=None, maxstep=0.1)
    minimiser.H0 = hessian
    minimiser.run(fmax=labels.FMAX_EV_PER_ANGSTROM, steps=60)
    return atoms, minimiser.nsteps, float(np.linalg.norm(atoms.get_forces(), axis=1).max())


# --- Ions -----------------------------------------------------------------------------


def start(smiles: str) -> Atoms:
    """The lowest of some GFN2 minima of an ion, with no imaginary mode."""
    mol = labels.molecule(smiles)
    charge = Chem.GetFormalCharge(mol)
    found = []
    for atoms in labels.embed(mol, count=4):
        atoms.set_initial_charges([charge] + [0] * (len(atoms) - 1))  # where tblite reads the total charge
        if labels.relax(atoms) and labels.leave_saddle(atoms) > labels.LOWEST_WAVENUMBER:
            found.append(atoms)
    return min(found, key=lambda atoms: atoms.get_potential_energy())


def ion_line(name: str, *, smiles: str) -> dict:
    """The finished line of one ion."""
    started = time.process_time()
    mol, first = labels.molecule(smiles), start(smiles)
    charge = Chem.GetFormalCharge(mol)
    atoms, steps, force = minimise(first, charge=charge)
    same = labels.found_bonds(atoms) == labels.declared_bonds(mol)
    positions = atoms.get_positions() - atoms.get_center_of_mass()
    return {
        "key": name,
        "symbols": atoms.get_chemical_symbols(),
        "coordinates": positions.round(labels.DECIMALS).tolist(),
        "smiles": Chem.MolToSmiles(mol),
        "charge": charge,
        "steps": steps,
        "force": round(force, 5),
        "gfn2_rmsd": round(heavy_rmsd(first, atoms), 5),
        "problem": "" if same and force < labels.FMAX_EV_PER_ANGSTROM else "not the minimum of the declared ion",
        "programs": {name: version(name) for name in ("rdkit", "ase", "tblite", "pyscf")},
        "seconds": round(time.process_time() - started, 1),
    }


def heavy_rmsd(one: Atoms, other: Atoms) -> float:
    """RMSD in Å of the atoms but hydrogen, after superposition."""
    kept = [i for i, symbol in enumerate(one.symbols) if symbol != "H"]
    one, other = (Atoms(a.symbols[kept], a.positions[kept]) for a in (one, other))
    minimize_rotation_and_translation(one, other)
    return float(np.sqrt(((one.positions - other.positions) ** 2).sum(axis=1).mean()))


def make_charged(workdir: Path) -> None:
    """Minimise every ion that the work folder does not have yet."""
    for name, smiles in IONS.items():
        if name not in labels.read_lines(numbers(workdir)):
            line = ion_line(name, smiles=smiles)
            labels.append_line(numbers(workdir), point=line)
            print(
                name,
                len(line["symbols"]),
                line["steps"],
                line["force"],
                line["gfn2_rmsd"],
                line["problem"],
                f"{line['seconds']} s",
                flush=True,
            )


def check(workdir: Path, wheel: Path) -> None:
    """Minimise some of QM9's molecules again: what the other program, basis and fit change."""
    path = workdir / "check.jsonl"
    for index, molecule in qm9.pick(wheel, indices=set(CHECKED)).items():
        name = CHECKED[index]
        if name not in labels.read_lines(path):
            before = Atoms(molecule.symbols, molecule.coordinates)
            atoms, steps, force = minimise(before, charge=0)
            line = {
                "key": name,
                "rmsd": round(heavy_rmsd(before, atoms), 5),
                "steps": steps,
                "force": round(force, 5),
            }
            labels.append_line(path, point=line)
            print(line, flush=True)


# --- Neutral molecules ----------------------------------------------------------------


def usable(molecule: qm9.Molecule) -> bool:
    """Whether a molecule is of the right size and elements, without formal charges or isotopes."""
    return (
        len(molecule.symbols) in SIZES
        and set(molecule.symbols) <= set("HCNO")
        and not set("+-.") & set(molecule.smiles)
    )


def drawn(wheel: Path) -> dict[str, qm9.Molecule]:
    """One molecule for each functional group, in the order of a shuffle with a fixed seed."""
    pool = [molecule for molecule in qm9.molecules(wheel) if usable(molecule)]
    random.Random(labels.SEED).shuffle(pool)
    chosen: dict[str, qm9.Molecule] = {}
    for group, smarts in GROUPS.items():
        pattern = Chem.MolFromSmarts(smarts)
        fitting = (
            m for m in pool if m not in chosen.values() and Chem.MolFromSmiles(m.smiles).HasSubstructMatch(pattern)
        )
        chosen[group] = next(m for m in fitting if qm9.is_itself(m))
    return chosen


def make_neutral(workdir: Path, wheel: Path) -> None:
    """Draw the molecules, unless the work folder has them."""
    path = workdir / "neutral.jsonl"
    if set(labels.read_lines(path)) != set(GROUPS):
        for group, molecule in drawn(wheel).items():
            labels.append_line(path, point={"key": group, "index": molecule.index, "entry": molecule.entry()})
            print(group, molecule.index, len(molecule.symbols), molecule.smiles, flush=True)


# --- The written set ------------------------------------------------------------------

DESCRIPTION = """\
`openff_n200_neutral.json`: {neutral} neutral molecules of QM9 of {smallest} to {largest} atoms, one drawn at random (fixed seed) for each of {neutral}
functional groups from those whose coordinates show the molecule of their SMILES; QM9's coordinates, rounded to 1e-5 Å.
QM9 numbers: {indices}.
`openff_n20_charged.json`: {charged} closed-shell ions ({names}), computed for this project: GFN2-xTB minima
without imaginary modes, minimised on with density-fitted DFT at the same level until the largest force was below 0.01 eV/Å,
and still the declared ion. No Hessian at the DFT. Differences from QM9's calculations: PySCF instead of Gaussian 09, density fitting
(def2-universal-jkfit), pure d functions where Gaussian takes Cartesian ones. Minimised again in this way, {checked} of QM9 move
by at most {shift:.4f} Å (heavy-atom RMSD), against a threshold of 0.075 Å.
Limits: the ions are in vacuum, and the basis has no diffuse functions: the anions are what this level says, not the best that can be said; with
two or three heavy atoms the RMSD tells little more than bond lengths; the conformers need not be the lowest; many of QM9's molecules
are strained rings that nobody has made. These are not the OpenFF molecules of the hub's archive, whose
file names and schema they share, and there are {neutral} and {charged} instead of 200 and 20: scores are not comparable."""


def neutral_entries(workdir: Path) -> tuple[dict[str, dict], list[int]]:
    """The neutral molecules in the archive's schema, and their numbers in QM9."""
    found = labels.read_lines(workdir / "neutral.jsonl")
    entries = {f"mol_{n}": found[group]["entry"] for n, group in enumerate(GROUPS)}
    return entries, [found[group]["index"] for group in GROUPS]


def charged_entries(workdir: Path) -> dict[str, dict]:
    """The finished ions in the archive's schema, by their own names."""
    found = labels.read_lines(numbers(workdir))
    return {
        name: {
            "atom_symbols": found[name]["symbols"],
            "coordinates": found[name]["coordinates"],
            "smiles": found[name]["smiles"],
            "charge": found[name]["charge"],
        }
        for name in IONS
        if name in found and not found[name]["problem"]
    }


def write(workdir: Path, target: Path) -> None:
    """Write the data files and their manifest."""
    neutral, indices = neutral_entries(workdir)
    ions = charged_entries(workdir)
    charged = {f"mol_{n}": entry for n, entry in enumerate(ions.values())}
    again = labels.read_lines(workdir / "check.jsonl")
    sizes = [len(entry["atom_symbols"]) for entry in neutral.values()]
    used = {item for name in ions for item in labels.read_lines(numbers(workdir))[name]["programs"].items()}
    programs = ", ".join(f"{name} {number}" for name, number in sorted(used))
    manifests.write_folder(
        target,
        name=NAME,
        files={
            "openff_n200_neutral.json": manifests.entries_text(neutral).encode(),
            "openff_n20_charged.json": manifests.entries_text(charged).encode(),
        },
        title=f"Minima of {len(neutral)} small molecules and {len(charged)} small ions",
        description=DESCRIPTION.format(
            neutral=len(neutral),
            charged=len(charged),
            smallest=min(sizes),
            largest=max(sizes),
            indices=", ".join(map(str, indices)),
            names="; ".join(ions),
            checked=" and ".join(again),
            shift=max(line["rmsd"] for line in again.values()),
        ),
        licence="CC0-1.0",
        source=f"{qm9.SOURCE} The ions: own minima, computed for this project with {programs}.",
        doi=qm9.DOI
        | {
            "10.1063/1.464913": "B3LYP",
            "10.1021/acs.jctc.8b01176": "GFN2-xTB",
            "10.1021/acs.jcim.0c00025": "ETKDGv3",
            "10.1063/5.0006074": "PySCF",
        },
        level="B3LYP/6-31G(2df,p) minima",
        elements=chain.from_iterable(entry["atom_symbols"] for entry in chain(neutral.values(), charged.values())),
        units={"coordinates": "angstrom"},
    )


def main() -> None:
    """Run one stage, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("stage", choices=["neutral", "charged", "check", "write", "all"])
    parser.add_argument("--workdir", type=Path, required=True, help="folder of the finished points")
    parser.add_argument("--wheel", type=Path, required=True, help="the wheel of qm9pack 1.0.3")
    parser.add_argument("--target", type=Path, default=manifests.HERE / NAME, help="folder to write")
    options = parser.parse_args()
    options.workdir.mkdir(parents=True, exist_ok=True)
    stages = {
        "neutral": lambda: make_neutral(options.workdir, options.wheel),
        "charged": lambda: make_charged(options.workdir),
        "check": lambda: check(options.workdir, options.wheel),
        "write": lambda: write(options.workdir, options.target),
    }
    for stage, run in stages.items():
        if options.stage in (stage, "all"):
            run()


if __name__ == "__main__":
    main()
