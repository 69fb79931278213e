# SPDX-License-Identifier: Apache-2.0
"""What `--models` names: archives, Python files, registered names. Parsing imports no jax; loading may."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from mlipaudit import registry
from mlipaudit.errors import ModelLoadError, UnknownNameError, UsageError

EXTERNAL_MODEL = "mlipaudit_external_model"
"""Variable that a Python file with a model defines."""
ELEMENTS = "allowed_atomic_numbers"
"""Attribute of the model, or variable beside it, that says which elements it covers."""


class ModelKind(StrEnum):
    """How a model is named on the command line."""

    ARCHIVE = "archive"
    PYTHON = "python"
    NAMED = "named"


@dataclass(frozen=True)
class ModelSpec:
    """A model of a run, not yet loaded."""

    name: str
    """Unique within the run; its folder in the results."""
    kind: ModelKind
    source: str
    """File or registered name."""
    sha256: str
    """Identity: hash of the weights, of the text of a Python file, or of name, options and package version."""
    options: dict[str, Any] = field(default_factory=dict, hash=False)

    @property
    def basename(self) -> str:
        """The source without folders."""
        return Path(self.source).name

    def load(self) -> Any:
        """The force field.

        Raises:
            ModelLoadError: it cannot be loaded; the message says why.
        """
        if self.kind is ModelKind.NAMED:
            return _load_named(self)
        return load_force_field(self.source)


def parse_models(arguments: Sequence[str]) -> list[ModelSpec]:
    """The models that command-line arguments name, under unique names.

    A file that exists but holds no model is not refused here: it fails when it is loaded, and the others go on.

    Raises:
        UsageError: a file does not exist, or a name or option is unknown.
    """
    specs: list[ModelSpec] = []
    for argument in arguments:
        spec = _parse(argument)
        taken = {other.name for other in specs}
        specs.append(replace(spec, name=unique_name(spec.name, taken)))
    return specs


def load_force_field(model: str) -> Any:
    """The force field in a `.zip` saved by mlip or in a `.py` file.

    Raises:
        ModelLoadError: the file holds none.
    """
    path = Path(model)
    if path.suffix.lower() == ".zip":
        from mlipaudit.backends.mlip_zip import load_zip

        return load_zip(path)
    if path.suffix.lower() == ".py":
        return _load_python(path)
    raise ModelLoadError(f"{path.name}: model files end in .zip or .py")


def _parse(argument: str) -> ModelSpec:
    path = Path(argument)
    name, _, text = argument.partition(":")
    if name in registry.registered(registry.MODELS):
        options = parse_options(text)
        return ModelSpec(clean_name(name), ModelKind.NAMED, name, _hash_of_named(name, options), options)
    if path.suffix.lower() in (".zip", ".py"):
        if not path.is_file():
            raise UsageError(f"--models {argument}: no such file")
        kind = ModelKind.ARCHIVE if path.suffix.lower() == ".zip" else ModelKind.PYTHON
        return ModelSpec(clean_name(path.stem), kind, argument, _hash_of_file(path, kind))
    if path.exists():
        raise UsageError(f"--models {argument}: model files end in .zip (saved by mlip) or .py")
    raise UnknownNameError("model", name, registry.names(registry.MODELS))


def parse_options(text: str) -> dict[str, Any]:
    """Options behind a model's name, `key=value,key=value`; values are JSON where they can be, else text.

    Raises:
        UsageError: a part is not `key=value`.
    """
    options: dict[str, Any] = {}
    for part in filter(None, text.split(",")):
        key, equals, value = part.partition("=")
        if not (key and equals):
            raise UsageError(f"model option {part!r} is not key=value")
        try:
            options[key] = json.loads(value)
        except json.JSONDecodeError:
            options[key] = value
    return options


def unique_name(name: str, taken: set[str]) -> str:
    """A name that is not taken, with a number where it has to be."""
    candidate, number = name, 1
    while candidate in taken:
        number += 1
        candidate = f"{name}-{number}"
    return candidate


def clean_name(name: str) -> str:
    """A name that is safe as a folder."""
    cleaned = "".join(c if c.isalnum() or c in "._+-" else "_" for c in name).lstrip(".")
    return cleaned or "model"


def _hash_of_file(path: Path, kind: ModelKind) -> str:
    if kind is ModelKind.ARCHIVE:
        from mlipaudit.backends.mlip_zip import read_archive

        try:
            return read_archive(path).sha256
        except ModelLoadError:
            pass  # named when it is loaded
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _hash_of_named(name: str, options: dict[str, Any]) -> str:
    point = registry.registered(registry.MODELS)[name]
    made_by = f"{point.dist.name} {point.dist.version}" if point.dist else ""
    text = json.dumps([point.value, made_by, options], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _load_named(spec: ModelSpec) -> Any:
    factory: Any = registry.load(registry.MODELS, spec.source)
    try:
        return factory(**spec.options)
    except ModelLoadError:
        raise
    except (Exception, SystemExit) as error:  # around a model: it costs only itself
        options = f" with the options {spec.options}" if spec.options else ""
        raise ModelLoadError(f"{spec.source}{options} cannot be made: {type(error).__name__}: {error}") from error


def _load_python(path: Path) -> Any:
    import runpy

    try:
        variables = runpy.run_path(str(path))
    except (Exception, SystemExit) as error:  # around a model: it costs only itself
        raise ModelLoadError(f"{path.name} cannot be run: {type(error).__name__}: {error}") from error
    if EXTERNAL_MODEL not in variables:
        raise ModelLoadError(f"{path.name} does not define {EXTERNAL_MODEL}")
    from mlipaudit.backends.contract import backend_for

    try:
        backend_for(variables[EXTERNAL_MODEL])
    except ValueError as error:
        raise ModelLoadError(f"{path.name}: {error}") from error
    model = variables[EXTERNAL_MODEL]
    if ELEMENTS in variables and getattr(model, ELEMENTS, None) is None:
        setattr(model, ELEMENTS, variables[ELEMENTS])
    return model
