# SPDX-License-Identifier: Apache-2.0
# /// script
# requires-python = ">=3.11"
# dependencies = ["ase"]
# ///
"""Write the embedded edition of `nve_energy_conservation`: the four systems of the public data set, unchanged.

    python benchmarks_data/make_nve_energy_conservation.py SOURCE

SOURCE holds the four files as in the archive `nve_energy_conservation.zip` of the dataset InstaDeepAI/MLIPAudit-data.
"""

import sys
from itertools import chain
from pathlib import Path

import manifests
from ase.io import read

NAME = "nve_energy_conservation"

# Number of atoms of each system, in the order of the benchmark.
FILES = {
    "small_molecule_HCNO.xyz": 46,
    "water_box_n500_eq.pdb": 1503,
    "peptide_solv.xyz": 1349,
    "peptide_solv_ion.xyz": 2642,
}

DESCRIPTION = """\
The four systems of the public dataset, byte for byte: a drug-like molecule of 46 atoms in vacuum; 501 waters in a
cubic box of 24.772 Å, for all that the file name says 500; oxytocin in 405 waters (1349 atoms, box 23.43 x 28.96 x 20.90 Å); and neurotensin
with one chloride in 799 waters (2642 atoms, box 25.62 x 27.89 x 37.36 Å). Each system is neutral as a whole. The boxes of the two peptides are
in the benchmark, not in the files. As the compositions say, oxytocin has an acid at its end (C43H65N11O13S2) where the natural one has an
amide, and neurotensin is the cation C78H124N21O21+ with glutamate in the first place where the natural one has pyroglutamate.
Limits: these are starting structures without any reference value: energy conservation is judged by itself. They are nobody's minima, so that a
model begins with a relaxation that heats the system. The files are the hub's: a score is comparable with the hub's
if the protocol is the same and the same systems ran; systems with elements that a model does not know (Cl, S) are skipped."""


def main(source: Path) -> None:
    """Copy, check and list the structures."""
    files = {name: (source / name).read_bytes() for name in FILES}
    systems = [read(source / name) for name in FILES]
    if [len(atoms) for atoms in systems] != list(FILES.values()):
        sys.exit("these are not the files of the archive: a number of atoms is different")
    manifests.write_folder(
        manifests.HERE / NAME,
        name=NAME,
        files=files,
        title="Four systems in vacuum and in water for constant-energy dynamics",
        description=DESCRIPTION,
        licence="CC0-1.0 for this manifest and coordinates as facts; the public dataset states its own terms",
        source="The public dataset InstaDeepAI/MLIPAudit-data (Hugging Face), nve_energy_conservation.zip; the peptides after PDB 7OFG and 2LNF.",
        doi={"10.2210/pdb7OFG/pdb": "oxytocin", "10.2210/pdb2LNF/pdb": "neurotensin"},
        level="none: structures only",
        elements=chain.from_iterable(atoms.symbols for atoms in systems),
        units={"coordinates": "angstrom"},
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
