# SPDX-License-Identifier: Apache-2.0
"""Dihedral angles of peptides that were built from them."""

import numpy as np
import pytest
from peptides import peptide

from mlipaudit.analysis.dihedrals import (
    SIDE_CHAINS,
    amino_acid,
    backbone_atoms,
    dihedral_angles,
    side_chain_atoms,
)
from mlipaudit.analysis.topology import Residue


def test_four_points_with_a_known_angle():
    def angle(x, y):
        return dihedral_angles(
            np.array([[[1, 0, 0], [0, 0, 0], [0, 0, 1], [x, y, 1]]], float), [(0, 1, 2, 3)]
        ).item()

    assert angle(1, 0) == 0.0
    assert angle(0, 1) == 90.0
    assert angle(0, -1) == -90.0
    assert abs(angle(-1, 0)) == 180.0
    assert angle(1, 1) == pytest.approx(45.0)


@pytest.mark.parametrize("phi, psi", [(-57.0, -47.0), (-139.0, 135.0), (60.0, 30.0), (-179.9, 179.9)])
def test_angles_of_a_built_peptide(phi, psi):
    built = peptide([(phi, psi)] * 6)
    found = backbone_atoms(built.residues)
    assert list(found) == [1, 2, 3, 4]  # the ends have only one of the two
    for atoms in found.values():
        assert list(atoms) == ["phi", "psi"]
        assert dihedral_angles(built.positions[None], list(atoms.values()))[0] == pytest.approx([phi, psi])


def test_angles_do_not_change_with_the_frame_of_reference():
    built = peptide([(-57.0, -47.0)] * 4)
    rotation, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))
    rotation *= np.sign(np.linalg.det(rotation))
    moved = np.stack([built.positions, built.positions @ rotation + 5.0, -built.positions])
    angles = dihedral_angles(moved, list(backbone_atoms(built.residues)[1].values()))
    assert angles == pytest.approx(np.array([[-57, -47], [-57, -47], [57, 47]]))  # the last is a mirror image


def test_no_angles_across_the_end_of_a_chain_or_a_gap():
    residues = list(peptide([(-57.0, -47.0)] * 6).residues)
    residues[3:] = [residue._replace(chain=1) for residue in residues[3:]]
    assert list(backbone_atoms(residues)) == [1, 4]
    residues[1].atoms.pop("CA")
    assert list(backbone_atoms(residues)) == [4]
    assert backbone_atoms(residues[:1]) == backbone_atoms([]) == {}


CHI = (-65.0, 175.0, 62.0, -170.0)


@pytest.mark.parametrize("name", [name for name, atoms in SIDE_CHAINS.items() if atoms])
def test_side_chains_of_a_built_peptide(name):
    names = SIDE_CHAINS[name].split()
    built = peptide([(-57.0, -47.0)], chi=CHI[: len(names)])
    atoms = {
        SIDE_CHAINS[name].split()[int(k[1])] if k[0] == "X" else k: i for k, i in built.residues[0].atoms.items()
    }
    found = side_chain_atoms(Residue(name, "1", 0, atoms))
    assert list(found) == [f"chi{k + 1}" for k in range(len(names))]
    angles = dihedral_angles(built.positions[None], list(found.values()))[0]
    assert angles == pytest.approx(CHI[: len(names)])


def test_names_of_protonation_states_stand_for_their_amino_acid():
    known = {"ASH": "ASP", "GLH": "GLU", "CYX": "CYS", "HID": "HIS", "HIE": "HIS", "HIP": "HIS", "HSD": "HIS"}
    known |= {"LYN": "LYS", "NGLY": "GLY", "CGLY": "GLY", "NHIP": "HIS", "TRP": "TRP"}
    assert {name: amino_acid(name) for name in known} == known
    assert {amino_acid(name) for name in ("ACE", "NME", "NLE", "HOH", "NA", "")} == {None}


def test_a_side_chain_without_an_atom_has_fewer_angles():
    atoms = dict.fromkeys(("N", "CA", "CB", "CG"), 0)
    assert list(side_chain_atoms(Residue("LEU", "1", 0, atoms))) == ["chi1"]
    assert side_chain_atoms(Residue("NLE", "1", 0, atoms)) == {}
    isoleucine = dict.fromkeys(("N", "CA", "CB", "CG1", "CD"), 0)
    assert list(side_chain_atoms(Residue("ILE", "1", 0, isoleucine))) == ["chi1", "chi2"]
