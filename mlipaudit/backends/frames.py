# SPDX-License-Identifier: Apache-2.0
"""Frames of a trajectory, in memory or on disk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np


class Frames(Sequence[np.ndarray]):
    """Arrays of one shape, appended one by one. In a file, they take no memory however many they are.

    On disk they are the bytes of float32 numbers without a header; a frame that was cut off by a kill is dropped.
    """

    def __init__(self, path: Path | None = None, *, shape: tuple[int, ...] = (), keep: int | None = None) -> None:
        """Open or make a list of frames.

        Args:
            path: file; in memory if None.
            shape: of one frame; needed for a file.
            keep: how many frames of an existing file to keep; all by default.
        """
        self._path, self._shape = path, shape
        self._arrays: list[np.ndarray] = []
        self._length = 0
        if path is not None:
            path.touch()
            whole = path.stat().st_size // self._bytes_per_frame
            self._length = whole if keep is None else min(keep, whole)
            with path.open("r+b") as file:
                file.truncate(self._length * self._bytes_per_frame)

    @property
    def _bytes_per_frame(self) -> int:
        return 4 * int(np.prod(self._shape))

    def append(self, frame: np.ndarray) -> None:
        """Add one frame."""
        if self._path is None:
            self._arrays.append(np.array(frame, np.float32))
        else:
            if np.shape(frame) != self._shape:
                raise ValueError(f"a frame of shape {np.shape(frame)} among those of {self._shape}")
            with self._path.open("ab") as file:
                file.write(np.ascontiguousarray(frame, np.float32).tobytes())
        self._length += 1

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: Any) -> Any:
        return self._all()[index]

    def __iter__(self) -> Iterator[np.ndarray]:
        return iter(self._all())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self._all(), dtype)

    def _all(self) -> Any:
        if self._path is None:
            return self._arrays
        if not self._length:
            return np.zeros((0, *self._shape), np.float32)
        return np.memmap(self._path, np.float32, "r", shape=(self._length, *self._shape))
