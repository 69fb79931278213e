# SPDX-License-Identifier: Apache-2.0
"""What `model_cost` reports, and how much it looks at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from mlipaudit.backends.cost import Cost
from mlipaudit.benchmark import BenchmarkResult, ModelOutput, Record, SystemResult
from mlipaudit.metric import Metric
from mlipaudit.views import Axis, Bars, Scatter

Macs = Annotated[float | None, Metric(unit="MAC/atom")]
Bytes = Annotated[int | None, Metric(unit="bytes")]
Share = Annotated[float | None, Metric(unit="", better="neither")]

VIEWS = (
    Bars("Operations by module", Axis("macs_by_module", "energy and forces", "MAC/atom")),
    Bars("Operations of the energy by module", Axis("forward_macs_by_module", "energy", "MAC/atom")),
    Bars("Parameters by module", Axis("parameters_by_module", "parameters")),
    Scatter(
        "Cost by size",
        x=Axis("num_atoms", "atoms", log=True),
        y=Axis("macs_per_atom", "energy and forces", "MAC/atom"),
        joined=True,
        caption="Atoms inside a large structure have more neighbours than those at the surface of a small one.",
    ),
)


@dataclass(frozen=True)
class CostProtocol:
    """How much is looked at."""

    max_structures: int | None = None
    """The smallest ones."""
    compiled: bool = True
    """Whether the program of energy and forces is compiled, for its memory."""


class ModelCostModelOutput(ModelOutput):
    """What the backend counted, for structures in this order."""

    structure_names: list[str]
    num_atoms: list[int]
    cost: Cost


class ModuleResult(Record):
    """A part of the model. Operations are those per atom of the smallest structure, as it is."""

    name: str
    parameters: int
    num_bytes: int
    connection_sparsity: float | None = None
    """Share of exact zeros among its weights, biases left out."""
    macs_per_atom: float | None = None
    """Energy and forces."""
    forward_macs_per_atom: float | None = None
    """The energy alone."""
    backward_macs_per_atom: float | None = None
    """What the forces add."""
    activation_sparsity: float | None = None
    """Share of exact zeros among what enters its innermost modules."""
    channels: int | None = None
    dead_channels: int | None = None


class ModelCostStructureResult(SystemResult):
    """The cost of one structure."""

    structure_name: str
    num_atoms: int
    num_edges: int | None = None
    macs_per_atom: Macs = None
    """Energy and forces."""
    padded_macs_per_atom: Macs = None
    """The same in the padded shape, over the real atoms."""
    messages_per_atom: Annotated[float | None, Metric(unit="1/atom")] = None
    """Edges per atom times message steps."""


class ModelCostResult(BenchmarkResult):
    """The price of a model; what is None has its reason in `not_applicable`. Per atom: of all structures together."""

    parameters: Annotated[int | None, Metric(unit="parameters")] = None
    parameter_bytes: Bytes = None
    parameters_by_type: dict[str, int] = {}
    connection_sparsity: Share = None
    """Share of exact zeros among the weights, biases left out."""
    macs_per_atom: Annotated[float | None, Metric(unit="MAC/atom", is_price=True)] = None
    """Multiply–accumulates of energy and forces, for atoms and edges as they are."""
    forward_macs_per_atom: Macs = None
    """Of the energy alone."""
    backward_macs_per_atom: Macs = None
    """What the forces add."""
    padded_macs_per_atom: Macs = None
    """Energy and forces in the padded shapes, over the real atoms."""
    products_per_atom: Annotated[float | None, Metric(unit="products/atom")] = None
    """Products of single values, energy and forces."""
    macs_of_an_atom: Annotated[int | None, Metric(unit="MAC")] = None
    """What an atom adds without its edges, energy and forces."""
    macs_of_an_edge: Annotated[int | None, Metric(unit="MAC")] = None
    """What an edge adds."""
    activation_sparsity: Share = None
    """Share of exact zeros among what enters the innermost modules."""
    dead_channel_share: Share = None
    """Share of channels there that are zero in every atom or edge."""
    cutoff: float | None = None
    """Å"""
    message_steps: Annotated[int | None, Metric(unit="", better="neither")] = None
    """How often atoms pass on what they have heard."""
    receptive_field: Annotated[float | None, Metric(unit="Å", better="neither")] = None
    """Distance from which an atom can hear anything: cutoff times message steps."""
    messages_per_atom: Annotated[float | None, Metric(unit="1/atom")] = None
    """Edges per atom times message steps."""
    temporary_bytes: Bytes = None
    """Of the compiled program of energy and forces, at the size of the next two fields."""
    peak_bytes: Bytes = None
    memory_atoms: int | None = None
    memory_edges: int | None = None
    modules: list[ModuleResult] = []
    macs_by_module: dict[str, float] = {}
    """Per atom of the smallest structure, energy and forces."""
    forward_macs_by_module: dict[str, float] = {}
    """The same, of the energy alone."""
    parameters_by_module: dict[str, int] = {}
    structures: list[ModelCostStructureResult] = []
    uncounted: list[str] = []
    """Operations of whose inside nothing is known: what is counted is less than what is computed."""
    not_applicable: dict[str, str] = {}
    """What is not known -> why not."""
