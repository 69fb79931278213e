# SPDX-License-Identifier: Apache-2.0
"""What may be done to structures before a model sees them, and to predictions before they are compared.

Each is a plug-in: an entry point of the group `mlipaudit.transforms`, or `module:function`. A preprocessor takes an
`ase.Atoms` and returns one with the same atoms in the same order, for forces are compared atom by atom. A postprocessor
takes a `Prediction` and the structure as the model saw it, and returns a `Prediction`. One whose attribute `stage` is
`preprocessor` or `postprocessor` cannot be taken for the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from mlipaudit import plugins
from mlipaudit.errors import UsageError
from mlipaudit.registry import TRANSFORMS

if TYPE_CHECKING:
    from ase import Atoms

    from mlipaudit.backends.contract import Prediction

Stage = Literal["preprocessor", "postprocessor"]
F = TypeVar("F", bound=Callable)


def stage_of(thing: Any) -> Stage | None:
    """What a transform says that it is; None where it does not."""
    return getattr(thing, "stage", None)


def at(stage: Stage) -> Callable[[F], F]:
    """Mark a function as a preprocessor or a postprocessor."""

    def mark(function: F) -> F:
        function.stage = stage  # type: ignore[attr-defined]
        return function

    return mark


def choose_transforms(texts: Iterable[str], stage: Stage) -> list[Callable]:
    """The transforms that texts name; what stands behind a colon is their last argument.

    Raises:
        UnknownNameError: nothing is called so.
        UsageError: it is no function, or one for the other stage.
    """
    return [_choose(text, stage) for text in texts]


def _choose(text: str, stage: Stage) -> Callable:
    plugin = plugins.find(TRANSFORMS, text)
    if not callable(plugin.thing):
        raise UsageError(f"{stage} {text!r} is no function")
    if (own := stage_of(plugin.thing)) not in (None, stage):
        raise UsageError(f"{text!r} is a {own}, not a {stage}")
    thing = plugin.thing() if isinstance(plugin.thing, type) else plugin.thing
    return thing if plugin.argument is None else partial(_with_last, thing, plugin.argument)


def _with_last(function: Callable, last: Any, *arguments: Any) -> Any:
    return function(*arguments, last)


@at("preprocessor")
def wrap(atoms: Atoms) -> Atoms:
    """Move all atoms into the cell."""
    atoms.wrap()
    return atoms


@at("preprocessor")
def without_periodicity(atoms: Atoms) -> Atoms:
    """Take the cell away: a molecule in a box becomes a molecule."""
    atoms.set_pbc(False)
    atoms.set_cell(None)
    return atoms


@at("postprocessor")
def without_net_force(prediction: Prediction, atoms: Atoms) -> Prediction:
    """Subtract the mean force, which an isolated system cannot have."""
    if prediction.forces is None:
        return prediction
    return replace(prediction, forces=prediction.forces - prediction.forces.mean(axis=0))
