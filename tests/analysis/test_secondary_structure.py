# SPDX-License-Identifier: Apache-2.0
"""Secondary structure of ideal helices and a hairpin, and what it does with incomplete backbones."""

import numpy as np
import pytest
from peptides import peptide

from mlipaudit.analysis.secondary_structure import backbone, hydrogen_bonds, secondary_structures

HELIX = (-57.0, -47.0)
STRAND = (-120.0, 120.0)
HAIRPIN = [STRAND] * 5 + [(60.0, -120.0), (-80.0, 0.0)] + [STRAND] * 5
"""Two strands with a turn of type II' between them."""


def letters(structure):
    (found,) = secondary_structures(structure.residues, structure.positions[None])
    return found


@pytest.mark.parametrize(
    "angles, letter", [(HELIX, "H"), ((-49.0, -26.0), "G"), ((-57.0, -70.0), "I")], ids=["alpha", "3-10", "pi"]
)
def test_ideal_helices(angles, letter):
    assert letters(peptide([angles] * 14)) == f" {letter * 12} "


def test_the_hydrogen_bonds_of_an_alpha_helix_are_four_residues_long():
    built = peptide([HELIX] * 12)
    frame = backbone(built.residues, built.positions[None])[0]
    bonds = hydrogen_bonds(frame, np.ones(12, bool), np.zeros(12, int))
    assert np.argwhere(bonds).tolist() == [[i, i - 4] for i in range(4, 12)]


def test_a_single_strand_has_no_partner():
    assert letters(peptide([STRAND] * 10)).strip() == ""


def test_an_antiparallel_hairpin():
    assert letters(peptide(HAIRPIN)) == " EEEETTEEEE "


def test_proline_gives_no_hydrogen():
    names = ["ALA"] * 12
    names[6] = "PRO"
    built = peptide([HELIX] * 12, names=names)
    frame = backbone(built.residues, built.positions[None])[0]
    donors = np.array([name != "PRO" for name in names])
    assert not hydrogen_bonds(frame, donors, np.zeros(12, int))[6].any()
    assert letters(built) == " HHHHHHHHHH "  # held by the bonds around it


def test_a_helix_cut_into_two_chains():
    built = peptide([HELIX] * 14)
    cut = [r._replace(chain=int(i >= 7)) for i, r in enumerate(built.residues)]
    found = secondary_structures(cut, built.positions[None])[0]
    assert found == " HHHHH  HHHHH "


def test_a_residue_without_a_backbone_breaks_nothing():
    built = peptide([HELIX] * 14)
    built.residues[7].atoms.pop("O")
    assert letters(built) == " HHHHHHHHHHHH "  # held by the bonds around it
    assert [letters(peptide([HELIX] * n)) for n in (1, 2, 3, 4)] == [" " * n for n in (1, 2, 3, 4)]
    assert secondary_structures((), np.zeros((2, 0, 3))) == ["", ""]


def test_the_oxygen_of_the_last_residue_goes_by_several_names():
    built = peptide([HELIX] * 6)
    built.residues[-1].atoms["OC1"] = built.residues[-1].atoms.pop("O")
    assert np.isfinite(backbone(built.residues, built.positions[None])).all()


def test_frames_are_judged_one_by_one():
    helix, strand = (peptide([angles] * 12) for angles in (HELIX, STRAND))
    found = secondary_structures(helix.residues, np.stack([helix.positions, strand.positions, helix.positions]))
    assert found[0] == found[2] == " HHHHHHHHHH "
    assert found[1].strip() == ""
