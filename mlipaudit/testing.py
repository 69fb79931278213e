# SPDX-License-Identifier: Apache-2.0
"""The contract suites, for us and for plug-in authors: run them on your own benchmark or backend."""

from __future__ import annotations

import json
from typing import Any

from mlipaudit.backends.contract import Backend
from mlipaudit.backends.oracle import OracleBackend
from mlipaudit.benchmark import Benchmark
from mlipaudit.families.relative_energies import RelativeEnergies
from mlipaudit.metric import metrics_of
from mlipaudit.reporting.charts.declared_views import view_problems
from mlipaudit.run_mode import RunMode


def oracle_for(benchmark_class: type[RelativeEnergies], *, offset: float = 0.0, **settings: Any) -> OracleBackend:
    """A backend that answers a benchmark of the relative-energies family with its own reference.

    Args:
        benchmark_class: the benchmark.
        offset: eV added to every energy.
        settings: as for the benchmark itself: `data_input_dir`, `run_mode`, `data`.
    """
    reference = benchmark_class(OracleBackend([]), **settings).reference
    labelled = [entry for group in benchmark_class.structures(reference).values() for entry in group]
    return OracleBackend(labelled, offset=offset)


def check_benchmark(benchmark_class: type[Benchmark]) -> None:
    """What can be asked of a benchmark without running it.

    Raises:
        AssertionError: it breaks the contract; the message says how.
    """
    name = benchmark_class.name
    assert name.isidentifier(), f"{name!r} is also a folder and a module: letters, digits and underscores only"
    assert benchmark_class.uses_hooks(), f"{name} implements neither ask() and judge() nor a family's hooks"
    assert set(benchmark_class.protocols) == set(RunMode), f"{name} lacks a protocol for some run mode"
    assert (benchmark_class.__doc__ or "").strip(), f"{name} has no docstring, which is what users read first"
    assert benchmark_class.result_class is not None
    for field, metric in metrics_of(benchmark_class.result_class).items():
        assert metric.score is None, f"{name}.{field} is an aggregate: scores come from the entries of systems"
    assert not (problems := view_problems(benchmark_class)), (
        f"{name} has pictures that cannot be drawn: {problems}"
    )


def check_result(benchmark: Benchmark) -> None:
    """Run a benchmark and check what it reports.

    Raises:
        AssertionError: it breaks the contract; the message says how.
    """
    benchmark.run_model()
    output, result = benchmark.model_output, benchmark.analyze()
    assert output is not None and benchmark.model_output_class is not None and benchmark.result_class is not None
    reread = benchmark.model_output_class.model_validate_json(output.model_dump_json())
    again = benchmark.judge(reread, benchmark.reference, benchmark.protocol)
    assert again.model_dump_json() == result.model_dump_json(), "the judgement of a stored output differs"
    json.loads(result.model_dump_json(), parse_constant=_refuse)
    if benchmark.scored:
        assert result.score is not None and 0.0 <= result.score <= 1.0, "no score"
    else:
        assert result.score is None, "a benchmark that is not scored has a score"
    assert result.num_systems is not None and result.num_failed is not None, "systems are not counted"


def check_backend(backend: Backend, systems: list) -> None:
    """Check that predictions come in order, one by one as in a batch, and leave the systems alone.

    Raises:
        AssertionError: it breaks the contract; the message says how.
    """
    before = [atoms.copy() for atoms in systems]
    together = backend.predict(systems, forces=True)
    assert len(together) == len(systems), "one answer per system"
    for atoms, untouched, answer in zip(systems, before, together, strict=True):
        assert atoms == untouched, "a system was changed"
        (alone,) = backend.predict([atoms], forces=True)
        assert type(alone) is type(answer), "batched and single answers differ in kind"
        energies = getattr(alone, "energy", 0.0), getattr(answer, "energy", 0.0)
        assert abs(energies[0] - energies[1]) <= 3e-7 * max(abs(energies[0]), 1.0), (
            "batched and single energies differ"
        )


def _refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is not JSON")
