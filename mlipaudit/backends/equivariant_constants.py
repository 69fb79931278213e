# SPDX-License-Identifier: Apache-2.0
"""Constants of equivariant networks, summed up by numpy.

e3j, the library under mlip's networks, merges the coefficients of its tensor products by a hundred small jax programs,
each compiled for itself: seven seconds of the first trace of a MACE. The same sums take numpy milliseconds. Where e3j
has changed, or the coefficients are not numbers yet, its own function does the work.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import sparse

NAME = "sparse_bcoo"


def merge_with_numpy() -> None:
    """Let e3j's modules, as far as they are loaded, merge coefficients in numpy; more than once does no harm."""
    home = sys.modules.get("e3j.utils.sparse")
    original = getattr(home, NAME, None)
    if original is None or hasattr(original, "__wrapped__") or not hasattr(home, "narrow_index_dtype"):
        return
    replacement = _in_numpy(original, home.narrow_index_dtype)  # type: ignore[union-attr]
    for name, module in list(sys.modules.items()):
        if name.startswith("e3j.") and getattr(module, NAME, None) is original:
            setattr(module, NAME, replacement)


def _in_numpy(original: Callable, index_dtype: Callable) -> Callable:
    @wraps(original)
    def merge(values: Any, indices: Any, shape: tuple[int, ...], coalesce: bool = True) -> sparse.BCOO:
        if not coalesce or any(isinstance(array, jax.core.Tracer) for array in (values, indices)):
            return original(values, indices, shape, coalesce)
        merged, where = merged_coefficients(np.asarray(values), np.asarray(indices), shape)
        with jax.ensure_compile_time_eval():
            entries = jnp.asarray(merged), jnp.asarray(where.astype(index_dtype(shape)))
            return sparse.BCOO(entries, shape=shape, indices_sorted=True, unique_indices=True)

    return merge


def merged_coefficients(
    values: np.ndarray, indices: np.ndarray, shape: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """Entries of a sparse array without its zeros, sorted by index, those of one index added up."""
    values, indices = values[values != 0], indices[values != 0]
    flat = np.ravel_multi_index(tuple(indices.astype(np.int64).T), shape)
    unique, place = np.unique(flat, return_inverse=True)
    sums = np.zeros(len(unique), values.dtype)
    np.add.at(sums, place, values)
    return sums, np.stack(np.unravel_index(unique, shape), axis=-1)
