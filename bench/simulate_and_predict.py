# SPDX-License-Identifier: Apache-2.0
"""Speed ratios of one model, measured in one run.

`simulate` against a bare forward pass, and `predict` with and without forces.

usage: simulate_and_predict.py [MODEL.zip]

The machine may be noisy: both sides of a ratio are timed in turn, several times, and the medians are compared.
"""

import statistics
import sys
import time
from pathlib import Path

from ase.io import read

from mlipaudit.backends.compilation_cache import use_compilation_cache
from mlipaudit.backends.contract import backend_for
from mlipaudit.data import Embedded
from mlipaudit.models import load_force_field
from mlipaudit.protocol import MolecularDynamics

ROUNDS, STEPS, MOLECULES = 5, 20, 200
EXAMPLE = Path(__file__).parent.parent / "examples" / "example_model.zip"


def main(model: Path) -> None:
    """Measure and print."""
    use_compilation_cache()
    backend = backend_for(load_force_field(str(model)))
    print(f"model {model.name}, {ROUNDS} rounds in turn, medians")
    for structure in Embedded().fetch("inference_speed").hashes:
        _step_against_pass(backend, read(Embedded().fetch("inference_speed").path / structure))
    _forces_against_energies(backend)


def _step_against_pass(backend, atoms):
    forward = backend.forward_pass(atoms)
    forward.wait()
    _step_seconds(backend, atoms)  # compiles
    passes, steps = [], []
    for _ in range(ROUNDS):
        passes.append(_seconds(lambda: [forward.wait() for _ in range(STEPS)]) / STEPS)
        steps.append(_step_seconds(backend, atoms))
    step, one = statistics.median(steps), statistics.median(passes)
    ratios = sorted(s / p for s, p in zip(steps, passes, strict=True))
    print(
        f"{len(atoms):5d} atoms: step {1e3 * step:7.1f} ms, forward pass {1e3 * one:7.1f} ms, ratio {step / one:.2f}"
        f" (rounds {ratios[0]:.2f} to {ratios[-1]:.2f})"
    )


def _step_seconds(backend, atoms):
    """Per step, without start and compilation."""
    marks = []
    protocol = MolecularDynamics(num_steps=STEPS, snapshot_interval=STEPS, log_interval=STEPS)
    backend.simulate([atoms], protocol, observer=lambda report: marks.append(time.perf_counter()))
    return (marks[-1] - marks[0]) / STEPS


def _forces_against_energies(backend):
    from ase.build import molecule

    systems = [molecule(name) for name in ("CH3CH2OH", "C6H6", "CH3COOH", "C4H4NH")] * (MOLECULES // 4)
    with_forces, energies = [], []
    for forces in (True, False):
        backend.predict(systems, forces=forces)  # compiles
    for _ in range(ROUNDS):
        with_forces.append(_seconds(lambda: backend.predict(systems, forces=True)))
        energies.append(_seconds(lambda: backend.predict(systems)))
    slow, fast = statistics.median(with_forces), statistics.median(energies)
    print(
        f"predict, {len(systems)} molecules: with forces {1e3 * slow:.0f} ms, energies only {1e3 * fast:.0f} ms, "
        f"ratio {slow / fast:.2f}"
    )


def _seconds(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else EXAMPLE)
