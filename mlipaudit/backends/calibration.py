# SPDX-License-Identifier: Apache-2.0
"""How fast this device is, measured with a fixed workload of the kind that interatomic potentials run.

Two machines' speed scores can be put side by side when each is divided by this. The workload is a two-layer
message-passing network with 32 channels and 32 neighbours per atom, energy and forces, always the same random
weights; its time is measured at two sizes, which gives an overhead and a cost per atom. The device's plain matrix
and memory rates are measured as well, so that a surprising number can be understood.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np

from mlipaudit.benchmark import Record

SIZES = (256, 1024)
CHANNELS, NEIGHBOURS, LAYERS = 32, 32, 2
MATRIX, COPY_FLOATS = 1024, 1 << 24
MIN_REPEATS = 5


class Calibration(Record):
    """What one measurement of the device gave."""

    device: str
    workload_seconds: dict[int, float]
    """Atoms -> fastest time of the reference workload."""
    matrix_flops_per_second: float
    memory_bytes_per_second: float

    def seconds(self, num_atoms: int) -> float:
        """Time of the reference workload at a size: overhead plus cost per atom."""
        (n0, t0), (n1, t1) = sorted(self.workload_seconds.items())
        slope = max((t1 - t0) / (n1 - n0), 0.0)
        return max(t0 + slope * (num_atoms - n0), min(t0, slope * num_atoms))


def calibrate(seconds: float = 0.5) -> Calibration:
    """Measure the default device, four times `seconds`, once compiled."""
    a = jnp.ones((MATRIX, MATRIX))
    x = jnp.ones(COPY_FLOATS)
    fastest = partial(_fastest, seconds=seconds)
    return Calibration(
        device=device_name(),
        workload_seconds={size: fastest(partial(_compiled_workload(), *_inputs(size))) for size in SIZES},
        matrix_flops_per_second=2 * MATRIX**3 / fastest(partial(_multiply, a)),
        memory_bytes_per_second=2 * x.nbytes / fastest(partial(_add_one, x)),
    )


def device_name() -> str:
    """Kind of the default device, for example `cpu` or `NVIDIA H100 80GB HBM3`."""
    return jax.devices()[0].device_kind


@jax.jit
def _multiply(a: jax.Array) -> jax.Array:
    return a @ a


@jax.jit
def _add_one(x: jax.Array) -> jax.Array:
    return x + 1.0


@cache
def _compiled_workload() -> Callable:
    return jax.jit(jax.value_and_grad(_energy))


def _energy(positions: jax.Array, pairs: jax.Array, weights: jax.Array) -> jax.Array:
    senders, receivers = pairs
    vectors = positions[receivers] - positions[senders]
    lengths = jnp.sqrt(jnp.sum(vectors**2, axis=-1, keepdims=True) + 1.0)
    radial = jnp.exp(-((lengths - jnp.linspace(0.0, 5.0, CHANNELS)) ** 2))
    nodes = jnp.ones((positions.shape[0], CHANNELS))
    for message, update in weights:
        passed = jax.ops.segment_sum(nodes[senders] * (radial @ message), receivers, positions.shape[0])
        nodes = jax.nn.silu((nodes + passed / NEIGHBOURS) @ update)
    return jnp.sum(nodes)


@cache
def _inputs(num_atoms: int) -> tuple[jax.Array, jax.Array, jax.Array]:
    rng = np.random.default_rng(0)
    positions = rng.uniform(0.0, 5.0, (num_atoms, 3))
    pairs = np.stack(
        [np.repeat(np.arange(num_atoms), NEIGHBOURS), rng.integers(0, num_atoms, num_atoms * NEIGHBOURS)]
    )
    weights = rng.standard_normal((LAYERS, 2, CHANNELS, CHANNELS)) / np.sqrt(CHANNELS)
    return jnp.asarray(positions, jnp.float32), jnp.asarray(pairs), jnp.asarray(weights, jnp.float32)


def _fastest(work: Callable[[], object], *, seconds: float) -> float:
    """Shortest of several timings: what the device can do when nothing disturbs it."""
    jax.block_until_ready(work())
    times: list[float] = []
    while len(times) < MIN_REPEATS or sum(times) < seconds:
        start = time.perf_counter()
        jax.block_until_ready(work())
        times.append(time.perf_counter() - start)
    return min(times)
