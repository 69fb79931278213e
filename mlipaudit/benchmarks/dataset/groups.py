# SPDX-License-Identifier: Apache-2.0
"""Parts of a comparison: by element, by size, by whatever a file says of its frames."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mlipaudit.benchmarks.dataset.comparison import Comparison
from mlipaudit.benchmarks.dataset.config import ELEMENT, DatasetProtocol
from mlipaudit.benchmarks.dataset.frames import group_of, size_group
from mlipaudit.metrics import FORCES, Values


def groups_of(comparison: Comparison, key: str, protocol: DatasetProtocol) -> dict[str, dict[str, Values]]:
    """Group -> quantity -> its values there, of groups that have any."""
    masks = _element_masks(comparison) if key == ELEMENT else _frame_masks(comparison, key, protocol)
    found = {
        group: {name: values.only(mask[name]) for name, values in comparison.values.items()}
        for group, mask in masks.items()
    }
    return {
        group: {name: values for name, values in by_name.items() if values.x.size}
        for group, by_name in found.items()
    }


def _element_masks(comparison: Comparison) -> dict[str, dict[str, np.ndarray]]:
    from ase.data import chemical_symbols

    numbers = np.concatenate(
        [np.zeros(0, int), *(comparison.frames[i].atoms.numbers for i in comparison.force_frames)]
    )
    found = {}
    for element in comparison.reference.elements:
        contain = np.array([bool((f.atoms.numbers == element).any()) for f in comparison.frames], bool)
        found[chemical_symbols[element]] = {
            name: numbers == element if name == FORCES.name else contain[values.owner]
            for name, values in comparison.values.items()
        }
    return found


def _frame_masks(comparison: Comparison, key: str, protocol: DatasetProtocol) -> dict[str, dict[str, np.ndarray]]:
    groups = np.array([group_of(frame, key, protocol) for frame in comparison.frames])
    return {
        group: {name: (groups == group)[values.owner] for name, values in comparison.values.items()}
        for group in ordered_groups(groups.tolist(), protocol)
    }


def ordered_groups(groups: Sequence[str], protocol: DatasetProtocol) -> list[str]:
    """Each group once: sizes ascending, numbers by value, others by name."""
    bins = [
        size_group(n, protocol.size_bins) for n in (*protocol.size_bins, max(protocol.size_bins, default=0) + 1)
    ]

    def rank(group: str) -> tuple:
        try:
            return (0, bins.index(group), "") if group in bins else (1, float(group), "")
        except ValueError:
            return (2, 0, group)

    return sorted(set(groups), key=rank)
