# SPDX-License-Identifier: Apache-2.0
#
# /// script
# requires-python = ">=3.11"
# dependencies = ["ase>=3.24"]
# ///
"""Write the embedded edition of `inference_speed`: two of the five proteins of the public data set.

usage: make_inference_speed.py SOURCE

SOURCE holds `284_2jof_A.xyz` and `748_1r0r_I.xyz` as in the archive `inference_speed.zip` of the dataset
InstaDeepAI/MLIPAudit-data: chain A of PDB 2JOF and chain I of PDB 1R0R with hydrogens added. The coordinates are carried
over unchanged; timing depends on nothing else.
"""

import hashlib
import sys
from pathlib import Path

from ase.io import read

NAMES = ("284_2jof_A", "748_1r0r_I")
DESTINATION = Path(__file__).parent / "inference_speed"

HEADER = """\
name = "inference_speed"
version = "1"
title = "Proteins of 284 and 748 atoms for timing"
description = "The two smallest of the five proteins that the public data set stratifies by size, with hydrogens, in vacuum."
license = "CC0-1.0 (PDB entries are in the public domain)"
source = "PDB 2JOF chain A and 1R0R chain I, protonated, as in the dataset InstaDeepAI/MLIPAudit-data"
doi = ["10.2210/pdb2JOF/pdb", "10.2210/pdb1R0R/pdb"]
level_of_theory = "none: structures only"
made_by = "benchmarks_data/make_inference_speed.py"
"""


def main(source: Path) -> None:
    """Copy, check and list the structures."""
    DESTINATION.mkdir(exist_ok=True)
    elements: set[str] = set()
    files = []
    for name in NAMES:
        content = (source / f"{name}.xyz").read_bytes()
        target = DESTINATION / f"{name}.xyz"
        target.write_bytes(content)
        atoms = read(target)
        assert len(atoms) == int(name.split("_")[0])
        elements |= set(atoms.symbols)
        digest = hashlib.sha256(content).hexdigest()
        files.append(f'\n[files."{target.name}"]\nsha256 = "{digest}"\nbytes = {len(content)}\n')
    listed = ", ".join(f'"{symbol}"' for symbol in sorted(elements))
    units = f'elements = [{listed}]\n\n[units]\ncoordinates = "angstrom"\n'
    (DESTINATION / "manifest.toml").write_text(HEADER + units + "".join(files), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
