# SPDX-License-Identifier: Apache-2.0
"""What does a model cost, whatever it runs on?

Nothing here is timed, so that the numbers are the same on any machine, but for padding and memory, and there is no
score. Parameters are counted once where modules share them. Multiply–accumulates are those of matrix products and
convolutions, counted in the program that jax traces, loops included, for the energy and for energy and forces.

The program is traced at sizes that are prime numbers, from which the count follows as a polynomial in atoms, edges
(directed neighbour pairs) and structures: `real` numbers are its value for a structure as it is, `padded` ones for the
shape that the structure is evaluated in by itself. A second trace at another size must give the same polynomial.
Products of single values, of which equivariant models have many, are counted apart.

Activations are what enters modules that call no other, with the energy of the smallest structures. Messages are passed
along edges as often as sums over edges follow each other in the program; the cutoff times that is the receptive field.

A calculator that holds torch modules has parameters, and the operations that torch counts while it runs. Of others
nothing is known; `not_applicable` says what is missing and why.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlipaudit.benchmark import DEFAULT_CHARGE, DEFAULT_SPIN, Benchmark
from mlipaudit.benchmarks.model_cost.judgement import result_of
from mlipaudit.benchmarks.model_cost.schemas import (
    VIEWS,
    CostProtocol,
    ModelCostModelOutput,
    ModelCostResult,
    ModelCostStructureResult,
    ModuleResult,
)
from mlipaudit.run_mode import RunMode

if TYPE_CHECKING:
    from ase import Atoms

    from mlipaudit.backends.contract import Backend

__all__ = [
    "ModelCostBenchmark",
    "ModelCostModelOutput",
    "ModelCostResult",
    "ModelCostStructureResult",
    "ModuleResult",
]


class ModelCostBenchmark(Benchmark):
    """What does a model cost: parameters, operations and memory, without a stopwatch?"""

    name = "model_cost"
    category = "General"
    result_class = ModelCostResult
    model_output_class = ModelCostModelOutput
    required_elements = {"N", "H", "O", "S", "C"}
    skip_if_elements_missing = False
    scored = False
    data_name = "inference_speed"
    protocols = {
        RunMode.DEV: CostProtocol(max_structures=1, compiled=False),
        RunMode.FAST: CostProtocol(max_structures=2),
        RunMode.STANDARD: CostProtocol(),
    }
    views = VIEWS

    @classmethod
    def load(cls, data_dir: Path, protocol: CostProtocol) -> dict[str, Atoms]:
        """The structures by name, smallest first. Hidden files do not count."""
        from ase.io import read

        from mlipaudit.backends.contract import set_charge_and_spin

        files = [file for file in data_dir.glob("*.xyz") if not file.name.startswith(".")]
        found: dict[str, Any] = {file.stem: read(file) for file in files}
        by_size = sorted(found, key=lambda name: (len(found[name]), name))[: protocol.max_structures]
        return {name: set_charge_and_spin(found[name], DEFAULT_CHARGE, DEFAULT_SPIN) for name in by_size}

    @classmethod
    def geometries(cls, reference: dict[str, Atoms], system: str) -> list[Atoms]:
        """The structure."""
        return [reference[system]] if system in reference else []

    def ask(self, backend: Backend, reference: dict[str, Atoms]) -> ModelCostModelOutput:
        """Have the backend count."""
        self.progress("tracing the model", 0, 1)
        return ModelCostModelOutput(
            structure_names=list(reference),
            num_atoms=[len(atoms) for atoms in reference.values()],
            cost=backend.cost(list(reference.values()), compiled=self.protocol.compiled),
        )

    @classmethod
    def judge(cls, output: ModelCostModelOutput, reference: Any, protocol: CostProtocol) -> ModelCostResult:
        """Evaluate the counts for every structure; there is no score."""
        return result_of(output)
