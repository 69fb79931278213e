# SPDX-License-Identifier: Apache-2.0
"""Labelled frames from any file that ase reads, and what of their labels is missing."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mlipaudit.benchmarks.dataset.config import ELEMENT, SIZE, DatasetProtocol
from mlipaudit.benchmarks.dataset.frames import Frame, Reference
from mlipaudit.benchmarks.dataset.labels import find_keys, label, places
from mlipaudit.benchmarks.dataset.schemas import LabelCount
from mlipaudit.benchmarks.dataset.units import factor_of, is_per_atom
from mlipaudit.errors import DataCorruptError, UnknownNameError, UsageError
from mlipaudit.metrics import QUANTITIES

if TYPE_CHECKING:
    from ase import Atoms

MAX_GROUPS = 100
_last: dict[tuple, Reference] = {}
"""What was read last: the plan, its chunks and the judgement read the same."""


def read_reference(path: Path, protocol: DatasetProtocol) -> Reference:
    """The labelled frames of a file.

    Raises:
        UserError: the file cannot be read or has no frames, or what the protocol names is not in it.
    """
    try:
        status = path.stat()
    except OSError as error:
        raise UsageError(f"{path.name}: {error.strerror}") from error
    key = (str(path), status.st_mtime_ns, status.st_size, json.dumps(asdict(protocol), sort_keys=True))
    if key not in _last:
        images = read_images(path, protocol.format)
        _last.clear()
        _last[key] = make_reference(images, protocol, path.name)
    return _last[key]


def read_images(path: Path, form: str | None) -> list[Atoms]:
    """All frames of a file, those of a database with what is stored beside them.

    Raises:
        DataCorruptError: it cannot be read.
    """
    from ase.io import iread

    try:
        if form == "db" or (form is None and path.suffix == ".db"):
            return list(_of_database(path))
        return list(iread(path, ":", format=form, do_not_split_by_at_sign=True))
    except Exception as error:  # around a file of the user's: a reader may raise anything
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise DataCorruptError(f"{path.name} cannot be read by ase: {reason[0]}") from error


def _of_database(path: Path) -> Iterator[Atoms]:
    from ase.db import connect

    for row in connect(path, type="db", append=True).select():
        atoms = row.toatoms()
        beside = {**row.key_value_pairs, **row.data}
        atoms.info.update({key: value for key, value in beside.items() if key not in atoms.info})
        yield atoms


def make_reference(images: Sequence[Atoms], protocol: DatasetProtocol, where: str) -> Reference:
    """Labels of frames, in eV and Å.

    Raises:
        UsageError: there are no frames or no labels, or what the protocol names is not there; begins with `where`.
    """
    if not images:
        raise UsageError(f"{where} has no frames")
    chosen = images[: protocol.max_systems]
    try:
        keys = find_keys(chosen, protocol)
        frames = _frames(chosen, keys, protocol)
        _require_groups(chosen, protocol)
        _require_reference_energies(chosen, protocol)
        _require_labels(keys, protocol)
    except (UsageError, ValueError) as error:
        raise UsageError(f"{where}: {error}") from error
    counts = {what: _count(what, key, frames, protocol) for what, key in keys.items()}
    labelled = tuple(frame for frame in frames if frame.is_labelled)
    if not labelled:
        there = ", ".join(dict.fromkeys(key for atoms in chosen for place in places(atoms) for key in place))
        raise UsageError(
            f"{where} has no labels under their usual names; say where in [labels] (there are: {there})"
        )
    return Reference(labelled, keys, counts, len(images), len(chosen))


def _frames(images: Sequence[Atoms], keys: dict[str, str], protocol: DatasetProtocol) -> list[Frame]:
    frames = []
    for index, (atoms, name) in enumerate(zip(images, _names(images, protocol.name), strict=True)):
        if not len(atoms):
            raise ValueError(f"frame {name} has no atoms")
        try:
            found = {what: label(atoms, what, key, protocol.units) for what, key in keys.items()}
        except ValueError as error:
            raise ValueError(f"frame {name}: {error}") from error
        labels = {what: array for what, array in found.items() if array is not None}
        frames.append(Frame(name, index, atoms, labels))
    return frames


def _names(images: Sequence[Atoms], key: str | None) -> list[str]:
    if key is None:
        return [str(index) for index in range(len(images))]
    missing = [index for index, atoms in enumerate(images) if atoms.info.get(key) is None]
    if len(missing) == len(images):
        raise UsageError(f"name: {_unknown(key, images)}")
    if missing:
        raise UsageError(f"name: frame {missing[0]} has no {key!r}")
    names = [str(atoms.info[key]) for atoms in images]
    most, times = Counter(names).most_common(1)[0]
    if times > 1:
        raise UsageError(f"name: {times} frames are called {most!r} by {key!r}; leave it out to number them")
    return names


def _unknown(key: str, images: Sequence[Atoms]) -> UnknownNameError:
    return UnknownNameError("info key", key, {known for atoms in images for known in atoms.info})


def _count(what: str, key: str, frames: Sequence[Frame], protocol: DatasetProtocol) -> LabelCount:
    there = [frame.labels[what] for frame in frames if what in frame.labels]
    finite = [int(np.isfinite(array).sum()) for array in there]
    unit = getattr(protocol.units, what)
    return LabelCount(
        key=key,
        unit=unit,
        converted_by=factor_of(what, unit),
        per_atom=what == "energy" and is_per_atom(unit),
        num_systems=sum(count > 0 for count in finite),
        num_components=sum(finite),
        systems_without=len(frames) - len(there),
        systems_not_finite=sum(count < array.size for count, array in zip(finite, there, strict=True)),
        components_not_finite=sum(array.size for array in there) - sum(finite),
    )


def _require_groups(images: Sequence[Atoms], protocol: DatasetProtocol) -> None:
    for key in protocol.group_by:
        if key in (ELEMENT, SIZE):
            continue
        values = {str(atoms.info[key]) for atoms in images if key in atoms.info}
        if not values:
            raise UsageError(f"group_by: {_unknown(key, images)}")
        if len(values) > MAX_GROUPS:
            raise UsageError(f"group_by: {key!r} has {len(values)} different values, more than {MAX_GROUPS}")


def _require_reference_energies(images: Sequence[Atoms], protocol: DatasetProtocol) -> None:
    given = protocol.reference_energies.energies
    if not given:
        return
    missing = {symbol for atoms in images for symbol in set(atoms.get_chemical_symbols())} - given.keys()
    if missing:
        raise UsageError(f"reference_energies: there is none of {', '.join(sorted(missing))}")


def _require_labels(keys: dict[str, str], protocol: DatasetProtocol) -> None:
    for name in sorted(protocol.needed):
        if QUANTITIES[name].needs not in keys:
            raise UsageError(
                f"{name} is asked for, and no frame has a label of it under a usual name: see [labels]"
            )
