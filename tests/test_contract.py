# SPDX-License-Identifier: Apache-2.0
"""The contract suites over everything that is registered."""

import pytest
from ase.build import molecule

from mlipaudit import registry
from mlipaudit.backends.contract import backend_for
from mlipaudit.backends.toy import ToyCalculator
from mlipaudit.data import embedded_names
from mlipaudit.testing import check_backend, check_benchmark, check_result


@pytest.fixture(params=registry.names(registry.BENCHMARKS))
def benchmark_class(request):
    return registry.load(registry.BENCHMARKS, request.param)


def test_declarations(benchmark_class):
    check_benchmark(benchmark_class)


def test_the_name_is_the_name_of_module_and_data(benchmark_class):
    module = benchmark_class.__module__.removeprefix("mlipaudit.benchmarks.").split(".")[0]
    assert module == benchmark_class.name
    assert benchmark_class.data_folder_name() in embedded_names()


def test_a_dev_run_of_the_toy(benchmark_class):
    check_result(benchmark_class(ToyCalculator(), run_mode="dev"))


def test_backends(backends):
    systems = [molecule(name) for name in ("H2O", "CH4", "CH3OH")]
    check_backend(backend_for(ToyCalculator()), systems)
    check_backend(backends("tiny_mace"), systems)
