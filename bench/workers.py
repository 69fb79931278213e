# SPDX-License-Identifier: Apache-2.0
"""Eight independent tasks, with one worker and with two: the ratio of the times.

    python bench/workers.py [rounds]

Each task is a model of its own (GFN2-xTB at eight accuracies) on the embedded tautomers. Everything counts: starting
the command and its workers, loading, computing, storing.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MODELS = [f"gfn2-xtb:accuracy=0.0{digit}" for digit in range(1, 9)]


def seconds(workers: int) -> float:
    """Wall time of the whole command."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "mlipaudit", "run", "--models", *MODELS, "--benchmarks", "tautomers"]
        command += ["--run-mode", "fast", "--data", "embedded", "--workers", str(workers)]
        start = time.perf_counter()
        subprocess.run([*command, "--output", str(Path(folder) / "out")], check=True, capture_output=True)
        return time.perf_counter() - start


def main(rounds: int = 3) -> None:
    """Alternate, so that a change of the machine meets both."""
    pairs = [(seconds(1), seconds(2)) for _ in range(rounds)]
    one, two = (statistics.median(times) for times in zip(*pairs, strict=True))
    ratio = statistics.median(a / b for a, b in pairs)
    print(f"8 tasks, 1 worker {one:.1f} s · 2 workers {two:.1f} s · ratio {ratio:.2f} (median of {rounds})")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
