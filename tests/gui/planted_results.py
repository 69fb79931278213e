# SPDX-License-Identifier: Apache-2.0
"""A results folder whose scores are known: three models on two benchmarks, answered for them, without a run."""

import math

from planted import few_resamples, plan_of, plant, speeds

from mlipaudit.benchmarks.tautomers import TautomersBenchmark, TautomersModelOutput
from mlipaudit.failures import Failure, FailureKind
from mlipaudit.store import ResultStore
from mlipaudit.units import KCAL_MOL_PER_EV

ARGUMENTS = ("toy", "toy:depth=0.3", "toy:depth=0.5")
EXACT, NEAR, PARTIAL = MODELS = ("toy", "toy-2", "toy-3")
ERRORS = {EXACT: 0.0, NEAR: 0.1, PARTIAL: 0.0}
"""kcal/mol, of every pair of tautomers."""
FAILED = "acetone_enol"
"""The pair to which the last model has no answer."""
NUM_PAIRS = 32
NEAR_SCORE = math.exp(-3)
"""Of an error of twice the threshold, with alpha 3."""
PARTIAL_SCORE = (NUM_PAIRS - 1) / NUM_PAIRS
STRUCTURES = ["284_2jof_A", "748_1r0r_I"]


def plant_results(folder):
    """Write it; the plan of the run that would have made it is there too."""
    store = ResultStore(folder)
    store.prepare()
    plan = plan_of(ARGUMENTS, ["tautomers", "inference_speed"], "embedded")
    with few_resamples():
        for number, task in enumerate(plan.tasks, start=1):
            answer = energies(task) if task.benchmark == "tautomers" else timings(number)
            plant(store, task, answer)
    store.write_run(plan.as_dict())
    return store


def energies(task):
    """Reference energies with the model's error."""
    pairs = TautomersBenchmark.load(task.dataset.path, TautomersBenchmark.protocols[task.run_mode])
    error = ERRORS[task.model.name] / KCAL_MOL_PER_EV
    answers = {name: (pair.energies[0], pair.energies[1] + error) for name, pair in pairs.items()}
    failures = {}
    if task.model.name == PARTIAL:
        answers[FAILED] = None
        failures[FAILED] = Failure(kind=FailureKind.NON_FINITE, message="planted: energy is nan")
    return TautomersModelOutput(structure_ids=list(answers), predictions=list(answers.values()), failures=failures)


def timings(factor):
    return speeds(factor).model_copy(update={"structure_names": STRUCTURES})
