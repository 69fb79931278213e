# SPDX-License-Identifier: Apache-2.0
"""Which shard a job of a SLURM array is."""

from __future__ import annotations

from collections.abc import Mapping

from mlipaudit.errors import UsageError
from mlipaudit.running.shards import Shard

ID, FIRST, LAST, STEP, COUNT = (f"SLURM_ARRAY_TASK_{part}" for part in ("ID", "MIN", "MAX", "STEP", "COUNT"))


def shard_of(environ: Mapping[str, str]) -> Shard:
    """From the variables of a job array: `--array=1-N`, or any that begins elsewhere or takes steps.

    Raises:
        UsageError: they do not say it.
    """
    if ID not in environ:
        raise UsageError(
            f"--shard slurm: {ID} is not set; submit a job array (sbatch --array=1-N), or pass --shard I/N"
        )
    found = {name: _number(name, environ) for name in (ID, FIRST, LAST, COUNT)}
    step = _number(STEP, environ) if STEP in environ else 1
    number, rest = divmod(found[ID] - found[FIRST], max(step, 1))
    evenly = found[FIRST] + (found[COUNT] - 1) * step == found[LAST]
    if rest or not evenly or not 0 <= number < found[COUNT]:
        raise UsageError(
            f"--shard slurm: the {found[COUNT]} ids of this array, {found[FIRST]} to {found[LAST]}, have gaps, "
            f"so that they do not say which shard this is; pass --shard ${ID}/N with the N of the whole run"
        )
    return Shard(number + 1, found[COUNT])


def _number(name: str, environ: Mapping[str, str]) -> int:
    text = environ.get(name, "")
    if not text.isdecimal():
        what = f"is {text!r}, no number" if text else "is not set"
        raise UsageError(
            f"--shard slurm: {name} {what}; submit a job array (sbatch --array=1-N), or pass --shard I/N"
        )
    return int(text)
