# SPDX-License-Identifier: Apache-2.0
"""From options, as a person writes them, to a protocol: everything that is named must be there."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, get_type_hints

from pydantic import TypeAdapter, ValidationError

from mlipaudit import plugins
from mlipaudit.benchmarks.dataset.config import FIT, GIVEN, DatasetProtocol, ReferenceEnergies
from mlipaudit.benchmarks.dataset.units import factor_of
from mlipaudit.errors import UnknownNameError, UsageError
from mlipaudit.metrics import QUANTITIES
from mlipaudit.metrics.chosen import choose_metrics
from mlipaudit.record import protocol_as_dict
from mlipaudit.registry import METRICS, TRANSFORMS
from mlipaudit.run_mode import RunMode
from mlipaudit.transforms import choose_transforms

DEV_SYSTEMS = 100
"""Frames in run mode `dev`, unless told otherwise."""
_PROTOCOL = TypeAdapter(DatasetProtocol)


def full_options(config: Any, plugged: Mapping[str, Iterable[Any] | None], run_mode: RunMode) -> dict[str, Any]:
    """All options, with their defaults.

    Raises:
        UsageError: one of them is not known, or names what is not there.
    """
    is_file = isinstance(config, str | os.PathLike)
    options = read_config(Path(config)) if is_file else dict(config or {})
    where = str(config) if is_file else "the options"
    options.pop("made_by", None)
    for name, things in plugged.items():
        if things is not None:
            options[name] = [plugins.name_of(thing) for thing in things]
    if run_mode is RunMode.DEV:
        options.setdefault("max_systems", DEV_SYSTEMS)
    return json.loads(json.dumps(protocol_as_dict(parse_config(options, where))))


def parse_config(options: Mapping[str, Any], where: str) -> DatasetProtocol:
    """The protocol that options stand for.

    Raises:
        UsageError: an option, a unit, a metric or a transform is not known; `where` begins the message.
    """
    try:
        protocol = _PROTOCOL.validate_json(json.dumps(dict(options), allow_nan=False))
    except ValidationError as error:
        raise _in_words(error, where) from error
    except (ValueError, TypeError) as error:
        raise UsageError(f"{where}: {error}") from error
    _check(protocol, where)
    return replace(protocol, made_by=_made_by(protocol))


def read_config(path: Path) -> dict[str, Any]:
    """Options in a TOML file.

    Raises:
        UsageError: it cannot be read.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"{path} is not TOML: {error}") from error


@cache
def _protocol_of(text: str) -> DatasetProtocol:
    return parse_config(json.loads(text), "the stored options")


def protocol_of(options: Mapping[str, Any]) -> DatasetProtocol:
    """The protocol that the options of a task stand for; versions of plug-ins are those that are installed.

    Raises:
        UsageError: a plug-in is not installed here, or there is no such option.
    """
    return _protocol_of(json.dumps({**options, "made_by": None}, sort_keys=True))


def _check(protocol: DatasetProtocol, where: str) -> None:
    try:
        for quantity, unit in asdict(protocol.units).items():
            factor_of(quantity, unit)
        for quantity in protocol.quantities or ():
            if quantity not in QUANTITIES:
                raise UnknownNameError("quantity", quantity, QUANTITIES)
        _check_metrics(protocol)
        choose_transforms(protocol.preprocessors, "preprocessor")
        choose_transforms(protocol.postprocessors, "postprocessor")
        _check_numbers(protocol)
        _check_reference_energies(protocol.reference_energies)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from error


def _check_metrics(protocol: DatasetProtocol) -> None:
    if not protocol.chosen:
        raise UsageError("there are no metrics")
    for key in protocol.thresholds or {}:
        found = choose_metrics([key], tuple(QUANTITIES))
        if [one.key for one in found] != [key] or found[0].quantity not in QUANTITIES:
            raise UsageError(f"thresholds are of one quantity each, such as forces/mae, not of {key!r}")
        if found[0].direction != "lower":
            raise UsageError(f"threshold of {key}: more of it is better, and thresholds are of errors")


def _check_numbers(protocol: DatasetProtocol) -> None:
    bins = protocol.size_bins
    if list(bins) != sorted(set(bins)) or min(bins, default=1) < 1:
        raise UsageError(f"size_bins {list(bins)} are not rising numbers of atoms")
    if protocol.max_systems is not None and protocol.max_systems < 1:
        raise UsageError("max_systems is not a number of frames")
    for key, threshold in (protocol.thresholds or {}).items():
        if not threshold > 0:
            raise UsageError(f"the threshold of {key} is not above zero")


def _check_reference_energies(reference: ReferenceEnergies) -> None:
    if (reference.source == GIVEN) != bool(reference.energies):
        raise UsageError(f"reference_energies: energies belong to source = {GIVEN!r}, and to no other")
    if reference.source == FIT and reference.from_predictions:
        raise UsageError("reference_energies: a fit of labels minus predictions is subtracted from the labels")
    from ase.data import atomic_numbers

    for element in reference.energies or {}:
        if element not in atomic_numbers:
            raise UsageError(f"reference_energies: there is no element {element!r}")


def _made_by(protocol: DatasetProtocol) -> dict[str, str]:
    named = [(METRICS, one.name) for one in [*protocol.chosen, *(chosen for chosen, _ in protocol.scored)]]
    named += [(TRANSFORMS, text) for text in (*protocol.preprocessors, *protocol.postprocessors)]
    found = {text: plugins.find(group, text).made_by for group, text in named}
    return {text: by for text, by in found.items() if by.split(" ")[0] != plugins.OWN}


def _in_words(error: ValidationError, where: str) -> UsageError:
    first = error.errors(include_url=False)[0]
    place = [str(part) for part in first["loc"]]
    if first["type"] == "unexpected_keyword_argument":
        unknown = UnknownNameError("option", ".".join(place), _names_of_options(DatasetProtocol))
        return UsageError(f"{where}: {unknown}")
    return UsageError(f"{where}: {'.'.join(place) or 'the options'}: {first['msg']}, not {first['input']!r}")


def _names_of_options(cls: Any, prefix: str = "") -> Iterator[str]:
    """All names of options, nested ones with a dot."""
    hints = get_type_hints(cls)
    for field in fields(cls):
        if field.name == "made_by":
            continue
        yield prefix + field.name
        if is_dataclass(hints[field.name]):
            yield from _names_of_options(hints[field.name], f"{prefix}{field.name}.")
