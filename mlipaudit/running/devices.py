# SPDX-License-Identifier: Apache-2.0
"""Where workers run: one place per device, or a share of the cores. Found without importing jax."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import distributions
from itertools import pairwise

GPU_MEMORY_SHARE = 0.75
"""What jax takes of a GPU for itself unless told otherwise; shared among the workers on one GPU."""


@dataclass(frozen=True)
class Place:
    """The devices and cores of one worker."""

    gpu: str | None = None
    workers_on_gpu: int = 1
    cores: tuple[int, ...] = ()
    """Cores it is bound to; empty: all."""

    def environment(self) -> dict[str, str]:
        """Variables that make jax and others stay in this place."""
        if self.gpu is None:
            return {}
        share = {"XLA_PYTHON_CLIENT_MEM_FRACTION": f"{GPU_MEMORY_SHARE / self.workers_on_gpu:.2f}"}
        return {"CUDA_VISIBLE_DEVICES": self.gpu, **(share if self.workers_on_gpu > 1 else {})}


def places(num_workers: int | None) -> list[Place]:
    """One place per worker; by default one worker per GPU that jax can use, or one on the CPU."""
    gpus = usable_gpus()
    wanted = num_workers or len(gpus) or 1
    if gpus:
        sharing = -(-wanted // len(gpus))
        return [Place(gpu=gpus[i % len(gpus)], workers_on_gpu=sharing) for i in range(wanted)]
    return [Place(cores=cores) for cores in _shares(_cores(), wanted)]


def usable_gpus(environ: Mapping[str, str] = os.environ) -> list[str]:
    """CUDA devices that jax in this environment would use, as CUDA_VISIBLE_DEVICES names them."""
    platforms = environ.get("JAX_PLATFORMS", "")
    if not _has_cuda_plugin() or (platforms and "cuda" not in platforms and "gpu" not in platforms):
        return []
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return [name for name in visible.split(",") if name.strip() and name.strip() != "-1"]
    try:
        listed = subprocess.run(["nvidia-smi", "--list-gpus"], capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [str(i) for i, line in enumerate(listed.stdout.splitlines()) if line.startswith("GPU ")]


def _has_cuda_plugin() -> bool:
    return any((d.name or "").startswith("jax-cuda") for d in distributions())


def _cores() -> list[int]:
    """Cores this process may use; empty where the system does not say."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def _shares(cores: list[int], num_workers: int) -> list[tuple[int, ...]]:
    """Equal shares of the cores, so that workers do not fight for them; all to each where there are too few."""
    if num_workers == 1 or num_workers > len(cores):
        return [()] * num_workers
    size, extra = divmod(len(cores), num_workers)
    starts = [i * size + min(i, extra) for i in range(num_workers + 1)]
    return [tuple(cores[a:b]) for a, b in pairwise(starts)]
