# SPDX-License-Identifier: Apache-2.0
"""Arrays survive the round trip through strict JSON bit for bit."""

import json

import numpy as np
import pytest
from pydantic import BaseModel, ConfigDict, ValidationError

from mlipaudit.arrays import Array


class Holder(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    array: Array
    other: Array | None = None


@pytest.mark.parametrize(
    "array",
    (
        np.array([[1.5, np.nan], [np.inf, -np.inf]]),
        np.arange(6, dtype=np.int32).reshape(3, 2, 1),
        np.zeros((0, 5, 3), np.float32),
        np.array(2.5),
        np.arange(12.0).reshape(3, 4)[:, ::2],
        np.array([1.0, 2.0], ">f8"),
        np.array([True, False]),
    ),
)
def test_a_round_trip_keeps_every_bit(array):
    text = Holder(array=array).model_dump_json()
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    again = Holder.model_validate_json(text).array
    assert again.shape == array.shape and again.dtype == array.dtype.newbyteorder("<")
    assert again.tobytes() == np.ascontiguousarray(array).astype(again.dtype).tobytes()


def test_lists_are_taken_and_nothing_else():
    assert Holder(array=[[1.0, 2.0]]).array.shape == (1, 2)
    good = json.loads(Holder(array=[1.0]).model_dump_json())["array"]
    for bad in ("text", {"dtype": "<f8"}, good | {"shape": [7]}, good | {"dtype": "|O"}, good | {"base64": "?"}):
        with pytest.raises(ValidationError):
            Holder(array=bad)
