# SPDX-License-Identifier: Apache-2.0
"""How much of a benchmark is run."""

from enum import StrEnum


class RunMode(StrEnum):
    """`dev`: seconds, is the plumbing whole? `fast`: shorter. `standard`: the published protocol."""

    DEV = "dev"
    FAST = "fast"
    STANDARD = "standard"
