# SPDX-License-Identifier: Apache-2.0
"""What the tests share. Models are tiny and loaded once; compiled programs are kept between runs."""

import os
from functools import cache
from pathlib import Path

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")
# Read by jax when it is first imported, in this process and in those that tests start.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path.home() / ".cache" / "mlipaudit" / "tests"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")

TESTS = Path(__file__).parent


@pytest.fixture(scope="session")
def models() -> Path:
    """Folder of small mlip archives with random weights, made with mlip 0.2.5."""
    return TESTS / "models"


@pytest.fixture(scope="session")
def golden() -> Path:
    """Folder of numbers of mlipaudit 0.1.8."""
    return TESTS / "golden"


@pytest.fixture(scope="session")
def force_fields(models):
    """name -> force field, loaded once."""
    from mlipaudit.backends.mlip_zip import load_zip

    return cache(lambda name: load_zip(models / f"{name}.zip"))


@pytest.fixture(scope="session")
def backends(force_fields):
    """name -> backend with its compiled programs, made once."""
    from mlipaudit.backends.contract import backend_for

    return cache(lambda name: backend_for(force_fields(name)))
