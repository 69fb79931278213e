# SPDX-License-Identifier: Apache-2.0
"""The audit for machine-learning interatomic potentials.

Importing this package imports nothing: every public name is resolved when it is first used.
"""

_PUBLIC = {
    "Benchmark": "mlipaudit.benchmark",
    "BenchmarkResult": "mlipaudit.benchmark",
    "ModelOutput": "mlipaudit.benchmark",
    "SystemResult": "mlipaudit.benchmark",
    "RunMode": "mlipaudit.run_mode",
    "Failure": "mlipaudit.failures",
    "FailureKind": "mlipaudit.failures",
    "Metric": "mlipaudit.metric",
    "SoftThreshold": "mlipaudit.metric",
    "Hill": "mlipaudit.metric",
    "Limit": "mlipaudit.metric",
    "Fraction": "mlipaudit.metric",
    "UserError": "mlipaudit.errors",
    "load_force_field": "mlipaudit.models",
    "DatasetBenchmark": "mlipaudit.benchmarks.dataset",
    "DatasetMetric": "mlipaudit.metrics",
    "ErrorMetric": "mlipaudit.metrics",
    "MeanMetric": "mlipaudit.metrics",
}

__all__ = [
    "Benchmark",
    "BenchmarkResult",
    "DatasetBenchmark",
    "DatasetMetric",
    "ErrorMetric",
    "Failure",
    "FailureKind",
    "Fraction",
    "Hill",
    "Limit",
    "MeanMetric",
    "Metric",
    "ModelOutput",
    "RunMode",
    "SoftThreshold",
    "SystemResult",
    "UserError",
    "__version__",
    "load_force_field",
]


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        return version("mlipaudit")
    if name in _PUBLIC:
        from importlib import import_module

        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'mlipaudit' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
