# SPDX-License-Identifier: Apache-2.0
"""Activation energies and reaction enthalpies (differences of electronic energies) of elementary reactions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, NonNegativeFloat, TypeAdapter

from mlipaudit.benchmark import DEFAULT_CHARGE, Record, SystemResult
from mlipaudit.data import read_json
from mlipaudit.failures import Failure
from mlipaudit.families.relative_energies import (
    EnergiesModelOutput,
    EnergyErrorsResult,
    Labelled,
    RelativeEnergies,
    first_systems,
    labelled,
    mean_of,
    rms_of,
    summary,
    why_unusable,
)
from mlipaudit.metric import Metric, SoftThreshold
from mlipaudit.protocol import SinglePoints
from mlipaudit.units import KCAL_MOL_PER_EV
from mlipaudit.views import Axis, Scatter

DATASET = "grambow_dataset.json"
SOURCE = "mlipaudit 0.1.8 (arXiv:2511.20487)"


class Molecule(BaseModel):
    """One state of a reaction."""

    energy: float
    """kcal/mol"""
    atom_symbols: list[str]
    coordinates: list[tuple[float, float, float]]
    """Å"""


class Reaction(BaseModel):
    """Reactants, products and the transition state between them."""

    reactants: Molecule
    products: Molecule
    transition_state: Molecule
    charge: float = DEFAULT_CHARGE

    @property
    def states(self) -> tuple[Molecule, Molecule, Molecule]:
        """Reactants, products, transition state."""
        return self.reactants, self.products, self.transition_state


Reactions = dict[str, Reaction]
_REACTIONS = TypeAdapter(Reactions)


class ReactionModelOutput(Record):
    """Energies of the three states, kcal/mol."""

    reactants_energy: float
    products_energy: float
    transition_state_energy: float


class ReactivityModelOutput(EnergiesModelOutput):
    """Energies of the reactions that have an answer, and the names of those that have none."""

    reaction_ids: list[str]
    energy_predictions: list[ReactionModelOutput]
    failed_reactions: list[str] = []


class ReactionResult(SystemResult):
    """One reaction, kcal/mol."""

    activation_energy_pred: float | None = None
    activation_energy_ref: float | None = None
    activation_energy_abs_error: Annotated[
        NonNegativeFloat | None, Metric(unit="kcal/mol", score=SoftThreshold(3.0), source=SOURCE)
    ] = None
    """Absolute error of transition state minus reactants."""
    enthalpy_of_reaction_pred: float | None = None
    enthalpy_of_reaction_ref: float | None = None
    enthalpy_of_reaction_abs_error: Annotated[
        NonNegativeFloat | None, Metric(unit="kcal/mol", score=SoftThreshold(2.0), source=SOURCE)
    ] = None
    """Absolute error of products minus reactants."""


class ReactivityResult(EnergyErrorsResult):
    """Errors over all reactions that could be predicted."""

    reaction_results: dict[str, ReactionResult] = {}
    mae_activation_energy: Annotated[NonNegativeFloat | None, Metric(unit="kcal/mol")] = None
    rmse_activation_energy: Annotated[NonNegativeFloat | None, Metric(unit="kcal/mol")] = None
    mae_enthalpy_of_reaction: Annotated[NonNegativeFloat | None, Metric(unit="kcal/mol")] = None
    rmse_enthalpy_of_reaction: Annotated[NonNegativeFloat | None, Metric(unit="kcal/mol")] = None
    failed_reactions: list[str] = []


class ReactivityBenchmark(RelativeEnergies):
    """Are activation energies and reaction enthalpies right?"""

    name = "reactivity"
    category = "Small Molecules"
    result_class = ReactivityResult
    model_output_class = ReactivityModelOutput
    required_elements = {"H", "C", "N", "O"}
    views = (
        Scatter(
            "Activation energies",
            x=Axis("activation_energy_ref", "reference activation energy", "kcal/mol"),
            y=Axis("activation_energy_pred", "predicted activation energy", "kcal/mol"),
            diagonal=True,
        ),
        Scatter(
            "Reaction enthalpies",
            x=Axis("enthalpy_of_reaction_ref", "reference reaction enthalpy", "kcal/mol"),
            y=Axis("enthalpy_of_reaction_pred", "predicted reaction enthalpy", "kcal/mol"),
            diagonal=True,
        ),
    )

    @classmethod
    def load(cls, data_dir: Path, protocol: SinglePoints) -> Reactions:
        """The reactions that the protocol asks for, by id."""
        return first_systems(read_json(data_dir, DATASET, _REACTIONS), protocol)

    @classmethod
    def structures(cls, reference: Reactions) -> dict[str, list[Labelled]]:
        """The three states of each reaction."""
        return {
            name: [
                labelled(state.atom_symbols, state.coordinates, reaction.charge, state.energy / KCAL_MOL_PER_EV)
                for state in reaction.states
            ]
            for name, reaction in reference.items()
        }

    @classmethod
    def collect(
        cls, energies: Mapping[str, list[float] | None], failures: dict[str, Failure]
    ) -> ReactivityModelOutput:
        """Energies by reaction, in kcal/mol as published."""
        answered = {
            name: [energy * KCAL_MOL_PER_EV for energy in states] for name, states in energies.items() if states
        }
        predictions = [
            ReactionModelOutput(reactants_energy=r, products_energy=p, transition_state_energy=t)
            for r, p, t in answered.values()
        ]
        return ReactivityModelOutput(
            reaction_ids=list(answered),
            energy_predictions=predictions,
            failed_reactions=[name for name in energies if name not in answered],
            failures=failures,
        )

    @classmethod
    def judge(
        cls, output: ReactivityModelOutput, reference: Reactions, protocol: SinglePoints
    ) -> ReactivityResult:
        """Errors of both differences of every reaction, their means, and the score."""
        answers: dict[str, ReactionModelOutput | None] = dict.fromkeys(output.failed_reactions)
        answers |= dict(zip(output.reaction_ids, output.energy_predictions, strict=True))
        reactions = {
            name: cls._judge_reaction(name, answer, reference[name], output.failures)
            for name, answer in answers.items()
        }
        activation = [r.activation_energy_abs_error for r in reactions.values()]
        enthalpy = [r.enthalpy_of_reaction_abs_error for r in reactions.values()]
        aggregates = {
            "mae_activation_energy": mean_of(activation),
            "rmse_activation_energy": rms_of(activation),
            "mae_enthalpy_of_reaction": mean_of(enthalpy),
            "rmse_enthalpy_of_reaction": rms_of(enthalpy),
        }
        return ReactivityResult(
            reaction_results={name: r for name, r in reactions.items() if not r.failed},
            failed_reactions=[name for name, r in reactions.items() if r.failed],
            **summary(output, reactions, aggregates),
        )

    @classmethod
    def _judge_reaction(
        cls, name: str, answer: ReactionModelOutput | None, reaction: Reaction, failures: Mapping[str, Failure]
    ) -> ReactionResult:
        energies = list(answer.model_dump().values()) if answer else None
        if (failure := why_unusable(name, energies, 3, failures)) or answer is None:
            return ReactionResult(failed=True, failure=failure)
        barrier = answer.transition_state_energy - answer.reactants_energy
        enthalpy = answer.products_energy - answer.reactants_energy
        reactants, products, transition_state = (state.energy for state in reaction.states)
        return ReactionResult(
            activation_energy_pred=barrier,
            activation_energy_ref=transition_state - reactants,
            activation_energy_abs_error=abs(barrier - (transition_state - reactants)),
            enthalpy_of_reaction_pred=enthalpy,
            enthalpy_of_reaction_ref=products - reactants,
            enthalpy_of_reaction_abs_error=abs(enthalpy - (products - reactants)),
        )
