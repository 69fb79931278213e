# SPDX-License-Identifier: Apache-2.0
"""Whether the temperatures of sampled frames are those of dynamics that hold together."""

from __future__ import annotations

import numpy as np

JUMP = 100.0
"""From one frame to the next no temperature rises by more than this factor (mlipaudit 0.1.8)."""
HOT = 3.0
"""Times the target: five standard deviations above it even for four atoms, whose temperature fluctuates by 40 %."""


def explosion_frame(temperatures: np.ndarray, limit: float, *, jump: float | None = JUMP) -> int | None:
    """First frame above `limit` K; where there is none, the first that is `jump` times hotter than the one before."""
    t = np.asarray(temperatures, np.float64)
    above = np.flatnonzero(t > limit)
    if above.size or jump is None:
        return int(above[0]) if above.size else None
    jumps = np.flatnonzero(t[1:] > jump * t[:-1])
    return int(jumps[0]) + 1 if jumps.size else None


def hot_from(temperatures: np.ndarray, limit: float) -> int | None:
    """Frame from which a run is hot; None unless the mean over its last half is above `limit` K.

    From that frame on, the mean of every stretch that begins there is above the limit: one hot frame is no beginning.
    """
    t = np.asarray(temperatures, np.float64)
    if not t.size or not t[len(t) // 2 :].mean() > limit:
        return None
    excess = np.concatenate([[0.0], np.cumsum(t - limit)])
    return int(np.argmin(excess[:-1]))
