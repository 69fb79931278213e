# SPDX-License-Identifier: Apache-2.0
"""Numpy arrays as fields of pydantic models: exact, compact, strict JSON.

An array is stored as its bytes in base64 with dtype and shape, so that a trajectory of a thousand frames takes
megabytes rather than a text of numbers, and every value survives, NaN and infinity included.
"""

from __future__ import annotations

import base64
from typing import Annotated, Any

import numpy as np
from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

KINDS = "biuf"
"""Booleans, integers and floating-point numbers: what bytes alone can describe."""


def to_json(array: np.ndarray) -> dict[str, Any]:
    """An array as JSON, in little-endian byte order."""
    plain = np.ascontiguousarray(array)
    plain = plain.astype(plain.dtype.newbyteorder("<"), copy=False)
    return {
        "dtype": plain.dtype.str,
        "shape": list(array.shape),
        "base64": base64.b64encode(plain.tobytes()).decode("ascii"),
    }


def from_json(value: Any) -> np.ndarray:
    """The array that `to_json` wrote; arrays and nested lists of numbers are taken as they are.

    Raises:
        ValueError: the value describes no array of numbers.
    """
    if not isinstance(value, dict):
        array = np.asarray(value)
    else:
        try:
            dtype, shape = np.dtype(value["dtype"]), tuple(value["shape"])
            content = base64.b64decode(value["base64"], validate=True)
            if dtype.kind not in KINDS:
                raise ValueError(f"no array of {dtype}")
            array = np.frombuffer(content, dtype).reshape(shape)
        except (KeyError, TypeError) as error:
            raise ValueError(f"not an array: {error}") from error
    if array.dtype.kind not in KINDS:
        raise ValueError(f"an array of numbers is needed, not of {array.dtype}")
    return array


Array = Annotated[
    np.ndarray,
    BeforeValidator(from_json),
    PlainSerializer(to_json, when_used="json"),
    WithJsonSchema({"type": "object"}),
]
"""A numpy array as a field; the model needs `arbitrary_types_allowed`."""
