# SPDX-License-Identifier: Apache-2.0
"""Putting frames to a model: transforms before and after, and metrics that need more than what is stored."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mlipaudit.benchmarks.dataset.config import MODEL, DatasetProtocol
from mlipaudit.benchmarks.dataset.frames import Frame, Reference
from mlipaudit.benchmarks.dataset.schemas import DatasetModelOutput
from mlipaudit.failures import Failure
from mlipaudit.metrics import Sample
from mlipaudit.metrics.chosen import Chosen
from mlipaudit.metrics.contract import KEPT
from mlipaudit.transforms import choose_transforms

if TYPE_CHECKING:
    from ase import Atoms

    from mlipaudit.backends.contract import Backend, CountProgress, Prediction

CHANGED = "a preprocessor has changed the atoms or their order, so that forces cannot be compared"


@dataclass
class Exchange:
    """A frame, as the model saw it and what it said."""

    frame: Frame
    atoms: Atoms | None
    answer: Prediction | Failure | None = None

    @property
    def prediction(self) -> Prediction | None:
        """What can be compared."""
        return None if isinstance(self.answer, Failure) else self.answer


def ask(
    backend: Backend, reference: Reference, names: Sequence[str], protocol: DatasetProtocol, tell: CountProgress
) -> DatasetModelOutput:
    """The answers for some frames."""
    before = choose_transforms(protocol.preprocessors, "preprocessor")
    after = choose_transforms(protocol.postprocessors, "postprocessor")
    needs = {need for metric in protocol.chosen for need in metric.needs}
    needed = [what for what in sorted(needs) if what not in KEPT or reference.has(what)]
    exchanges = [_prepared(reference, reference.by_name[name], before) for name in names]
    _predict(backend, exchanges, needed, tell)
    for exchange in exchanges:
        _postprocess(exchange, after)
    output = _collected(exchanges)
    output.absent = [what for what in needed if what not in KEPT[:2] and what not in backend.offers]
    if protocol.reference_energies.source == MODEL:
        output.atomic_energies = _atomic_energies(backend, reference)
    for metric in protocol.chosen:
        if metric.keeps_states:
            _keep_states(metric, exchanges, output)
    return output


def _prepared(reference: Reference, frame: Frame, transforms: Sequence[Callable]) -> Exchange:
    """The structure for the model; a failure where a transform raises, or leaves other atoms."""
    try:
        atoms = reference.bare(frame)
        for transform in transforms:
            atoms = transform(atoms)
        if not np.array_equal(atoms.numbers, frame.atoms.numbers):
            raise ValueError(CHANGED)
        return Exchange(frame, atoms)
    except Exception as error:  # around a system: it costs only itself
        return Exchange(frame, None, Failure.from_exception(error))


def _predict(backend: Backend, exchanges: Sequence[Exchange], needed: Sequence[str], tell: CountProgress) -> None:
    """Fill in the answers. Frames whose stress is needed are put to the model apart from the others."""
    from mlipaudit.backends.neighbours import shared_neighbours

    open_ = [exchange for exchange in exchanges if exchange.answer is None]
    done = len(exchanges) - len(open_)
    for stress in (False, True):
        chosen = [e for e in open_ if ("stress" in needed and "stress" in e.frame.labels) is stress]
        also = [what for what in needed if what in backend.offers and (stress or what != "stress")]
        with shared_neighbours():
            answers = backend.predict(
                [e.atoms for e in chosen if e.atoms is not None],
                forces="forces" in needed,
                also=also,
                progress=_shifted(tell, done, len(exchanges)),
            )
        done += len(chosen)
        for exchange, answer in zip(chosen, answers, strict=True):
            exchange.answer = answer


def _shifted(tell: CountProgress, before: int, total: int) -> CountProgress:
    return lambda done, _: tell(before + done, total)


def _postprocess(exchange: Exchange, transforms: Sequence[Callable]) -> None:
    from mlipaudit.backends.contract import require_valid

    answer = exchange.prediction
    if answer is None or not transforms:
        return
    try:
        for transform in transforms:
            answer = transform(answer, exchange.atoms)
        exchange.answer = require_valid(answer, len(exchange.frame.atoms))
    except Exception as error:  # around a system: it costs only itself
        exchange.answer = Failure.from_exception(error)


def _collected(exchanges: Sequence[Exchange]) -> DatasetModelOutput:
    """What is stored: numbers in one row, and why there are none."""
    sizes = [len(e.frame.atoms) for e in exchanges]
    energies, forces = np.full(len(sizes), np.nan), np.full((sum(sizes), 3), np.nan)
    stress = np.full((len(sizes), 6), np.nan)
    starts = np.cumsum([0, *sizes])
    for i, exchange in enumerate(exchanges):
        prediction = exchange.prediction
        if prediction is None:
            continue
        energies[i] = prediction.energy
        if prediction.forces is not None:
            forces[starts[i] : starts[i + 1]] = prediction.forces
        if prediction.stress is not None:
            stress[i] = prediction.stress
    return DatasetModelOutput(
        names=[e.frame.name for e in exchanges],
        energies=energies,
        forces=forces,
        stress=stress,
        num_atoms=sizes,
        failures={e.frame.name: e.answer for e in exchanges if isinstance(e.answer, Failure)},
    )


def _atomic_energies(backend: Backend, reference: Reference) -> dict[str, float] | None:
    """What the model adds for each element of the data; None where it does not say."""
    from ase.data import chemical_symbols

    table = backend.atomic_energies
    if table is None:
        return None
    found = {number: float(table[number]) for number in reference.elements if number < len(table)}
    return {chemical_symbols[number]: energy for number, energy in found.items() if np.isfinite(energy)}


def _keep_states(metric: Chosen, exchanges: Sequence[Exchange], output: DatasetModelOutput) -> None:
    """Of each frame what a metric makes of it, or why it makes nothing."""
    states: dict[str, Any] = output.states.setdefault(metric.key, {})
    failures = output.metric_failures.setdefault(metric.key, {})
    for exchange in exchanges:
        if exchange.prediction is None:
            continue
        predicted, labelled = _samples(exchange)
        if not all(predicted.has(need) for need in metric.needs):
            continue
        if not all(labelled.has(need) for need in metric.needs if need in KEPT):
            continue
        try:
            made = metric.make()
            made.update(predicted, labelled)
            states[exchange.frame.name] = json.loads(json.dumps(made.state(), allow_nan=False))
        except Exception as error:  # around a system: it costs only itself
            failures[exchange.frame.name] = Failure.from_exception(error).message


def _samples(exchange: Exchange) -> tuple[Sample, Sample]:
    prediction, frame = exchange.prediction, exchange.frame
    assert prediction is not None and exchange.atoms is not None
    energy, forces, stress = prediction.energy, prediction.forces, prediction.stress
    return Sample(exchange.atoms, energy, forces, stress, prediction.others), frame.sample


def join(parts: Sequence[DatasetModelOutput]) -> DatasetModelOutput:
    """One output from those of all chunks, in their order."""
    keys = list(dict.fromkeys(key for part in parts for key in part.states))

    def united(field: str) -> dict[str, dict[str, Any]]:
        return {key: {k: v for p in parts for k, v in getattr(p, field).get(key, {}).items()} for key in keys}

    return DatasetModelOutput(
        names=[name for part in parts for name in part.names],
        energies=np.concatenate([part.energies for part in parts]),
        forces=np.concatenate([part.forces for part in parts]),
        stress=np.concatenate([part.stress for part in parts]),
        num_atoms=[size for part in parts for size in part.num_atoms],
        failures={name: failure for part in parts for name, failure in part.failures.items()},
        states=united("states"),
        metric_failures=united("metric_failures"),
        absent=list(dict.fromkeys(what for part in parts for what in part.absent)),
        atomic_energies=parts[0].atomic_energies,
    )
