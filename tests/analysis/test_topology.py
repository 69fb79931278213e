# SPDX-License-Identifier: Apache-2.0
"""PDB files read by column, and molecules put together across the sides of a box."""

import numpy as np
import pytest
from ase.build import molecule

from mlipaudit.analysis.molecules import find_bonds
from mlipaudit.analysis.topology import make_whole, read_pdb

PDB = """\
CRYST1   23.980   22.450   20.680  90.00  90.00  90.00 P1          1
ATOM      1  N   GLY A   1       5.990  10.750  14.130  1.00  0.00           N
ATOM      2  CA AGLY A   1       6.990  10.750  14.130  0.50  0.00           C
ATOM      3  CA BGLY A   1       7.990  10.750  14.130  0.50  0.00           C
ATOM      4  N   ASP A   1A      8.990  10.750-114.130  1.00  0.00           N
TER
ATOM      5  N   GLY A   2       5.000  10.000  14.000  1.00  0.00           N
ATOM      6  N   GLY B   2       5.000  10.000  15.000  1.00  0.00           N
HETATM    7  O   HOH B   3       1.000   2.000   3.000  1.00  0.00           O
ATOM      8  H1  WAT B   4       1.000   2.000   4.000  1.00  0.00           H
HETATM    9 CL   CL  B   5       1.000   2.000   5.000  1.00  0.00          CL
ENDMDL
ATOM      1  N   GLY A   1       0.000   0.000   0.000  1.00  0.00           N
"""


def test_residues_are_told_apart_by_name_number_and_chain():
    residues = read_pdb(PDB).residues
    assert [(r.name, r.number, r.chain) for r in residues] == [
        ("GLY", "1", 0), ("ASP", "1A", 0), ("GLY", "2", 1), ("GLY", "2", 2), ("HOH", "3", 2), ("WAT", "4", 2),
        ("CL", "5", 2),
    ]  # fmt: skip
    assert residues[0].atoms == {"N": 0, "CA": 1}


def test_positions_are_those_of_the_first_model_and_the_first_location():
    positions = read_pdb(PDB).positions
    assert positions.shape == (8, 3)
    assert positions[:3].tolist() == [[5.99, 10.75, 14.13], [6.99, 10.75, 14.13], [8.99, 10.75, -114.13]]


def test_water_is_taken_out_and_the_rest_counted_anew():
    structure = read_pdb(PDB)
    dry = structure.without_solvent()
    assert structure.solute.tolist() == [0, 1, 2, 3, 4, 7]
    assert dry.residues[-1].atoms == {"CL": 5}
    assert dry.positions.tolist() == structure.positions[structure.solute].tolist()
    assert dry.keys == structure.keys
    assert structure.keys[1:3] == [(0, "GLY", "CA"), (1, "ASP", "N")]


@pytest.mark.parametrize(
    "text, what",
    [
        ("REMARK nothing\n", "no atoms"),
        (PDB.replace("10.750-114.130", "10.75x-114.130"), "could not convert"),
        (PDB.replace("  CA AGLY", "  N  AGLY"), "two atoms N"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(text, what):
    with pytest.raises(ValueError, match=what):
        read_pdb(text)


def test_wrapped_molecules_are_made_whole():
    box = np.array([7.0, 8.0, 9.0])
    ethanol, water = molecule("CH3CH2OH"), molecule("H2O")
    water.translate([3.0, 3.0, 3.0])
    both = ethanol + water
    bonds = find_bonds(both.numbers, both.positions)
    wet = np.stack([both.positions + shift for shift in ([0, 0, 0], [6.5, 0, 0], [-3.0, 7.9, 4.4])])
    whole = make_whole(wet % box, bonds, box)
    for k, part in enumerate((slice(0, 9), slice(9, 12)), start=0):
        offsets = whole[:, part] - wet[:, part]
        assert np.ptp(offsets, axis=1) == pytest.approx(0, abs=1e-12), k
    assert make_whole(wet, bonds, box).tolist() == wet.tolist()
    assert make_whole(wet, bonds, None) is wet
