# SPDX-License-Identifier: Apache-2.0
"""Peptides built atom by atom from their dihedral angles, with standard bond lengths and angles."""

import numpy as np

from mlipaudit.analysis.topology import Residue, Structure


def place(a, b, c, length, angle, dihedral):
    """The atom that is bonded to c: its distance, the angle b-c-new and the dihedral a-b-c-new in degrees."""
    angle, dihedral = np.radians(angle), np.radians(dihedral)
    along = (c - b) / np.linalg.norm(c - b)
    normal = np.cross(b - a, along)
    normal /= np.linalg.norm(normal)
    local = [-np.cos(angle), np.sin(angle) * np.cos(dihedral), np.sin(angle) * np.sin(dihedral)]
    return c + length * np.array(local) @ np.array([along, np.cross(normal, along), normal])


def peptide(angles, *, names=None, chi=()):
    """A chain with phi and psi of each residue in degrees; side chains up to the atoms that `chi` (degrees) places.

    The first residue has no phi and the last no psi: what is given for them only places atoms.
    """
    residues, positions = [], []

    def add(name, position):
        residues[-1].atoms[name] = len(positions)
        positions.append(position)
        return position

    n, ca = np.zeros(3), np.array([1.458, 0.0, 0.0])
    before = np.array([-0.7, 1.1, 0.0])  # as if a carbon were there
    for i, (phi, psi) in enumerate(angles):
        residues.append(Residue(names[i] if names else "ALA", str(i + 1), 0, {}))
        add("N", n), add("CA", ca)
        c = add("C", place(before, n, ca, 1.525, 111.0, phi))
        add("O", place(n, ca, c, 1.231, 120.1, psi + 180.0))
        beta = add("CB", place(c, n, ca, 1.53, 110.5, 120.0))
        last = [n, ca, beta]
        for k, angle in enumerate(chi):
            last.append(add(f"X{k}", place(*last[-3:], 1.5, 112.0, angle)))
        before, n = c, place(n, ca, c, 1.329, 117.2, psi)
        ca = place(ca, c, n, 1.458, 121.7, 180.0)
    return Structure(tuple(residues), np.array(positions))
