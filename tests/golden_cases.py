# SPDX-License-Identifier: Apache-2.0
"""Golden cases: reading them, and comparing a result with one."""

import json

import numpy as np
import pytest


def stored(folder, name):
    """A JSON file of a case, its arrays put back in where it names them."""
    file = folder / "model_output.npz"
    arrays = dict(np.load(file)) if file.exists() else {}

    def filled(value):
        if isinstance(value, dict):
            return {key: filled(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [filled(inner) for inner in value]
        return arrays[value] if isinstance(value, str) and value in arrays else value

    return filled(json.loads((folder / name).read_text("utf-8")))


def assert_contains(found, expected, path="", *, tolerance=1e-9):
    """Every number of the reference is in ours; ours may say more."""
    if isinstance(expected, dict):
        for key, value in expected.items():
            assert_contains(found[key], value, f"{path}.{key}", tolerance=tolerance)
    elif isinstance(expected, list):
        assert len(found) == len(expected), path
        for index, (one, other) in enumerate(zip(found, expected, strict=True)):
            assert_contains(one, other, f"{path}[{index}]", tolerance=tolerance)
    elif isinstance(expected, float | np.ndarray):
        assert found == pytest.approx(expected, rel=tolerance, abs=tolerance), path
    else:
        assert found == expected, path
