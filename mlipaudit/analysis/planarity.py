# SPDX-License-Identifier: Apache-2.0
"""How far atoms are from lying in a plane."""

from __future__ import annotations

import numpy as np


def deviation_from_plane(positions: np.ndarray) -> np.ndarray:
    """Root-mean-square distance of atoms from their best plane, over the last but one axis.

    Args:
        positions: [..., atoms, 3].

    Returns:
        [...], in the unit of the input; 0 for three atoms or fewer, which always have a plane.
    """
    x = np.asarray(positions, np.float64)
    num_atoms = x.shape[-2]
    if num_atoms <= 3:
        return np.zeros(x.shape[:-2])
    # The best plane is normal to the least singular vector; the singular value is the root of the squared distances.
    spread = np.linalg.svd(x - x.mean(axis=-2, keepdims=True), compute_uv=False)
    return spread[..., -1] / np.sqrt(num_atoms)
