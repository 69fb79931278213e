# SPDX-License-Identifier: Apache-2.0
"""From counts, which are polynomials in sizes, to numbers per atom."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlipaudit.backends.cost import (
    OPERATIONS,
    PARAMETERS,
    PARTS,
    Activations,
    Cost,
    ModuleCost,
    Term,
    coefficient_of,
    operations_at,
)
from mlipaudit.benchmarks.model_cost.schemas import (
    ModelCostModelOutput,
    ModelCostResult,
    ModelCostStructureResult,
    ModuleResult,
)


def result_of(output: ModelCostModelOutput) -> ModelCostResult:
    """The counts, evaluated for every structure."""
    cost = output.cost
    structures = [_structure(output, index) for index in range(len(output.structure_names))]
    modules = [_module(module, cost) for module in cost.modules]
    fields = {**_weights(cost), **_operations(output), **_by_module(modules), **_the_rest(cost)}
    return ModelCostResult(
        num_systems=sum(entry.macs_per_atom is not None for entry in structures),
        num_failed=0,  # a model of which nothing is known has not failed
        structures=structures,
        modules=modules,
        uncounted=list(cost.uncounted),
        not_applicable=cost.not_applicable,
        warnings=[f"operations inside {name} are not counted" for name in cost.uncounted],
        **fields,
    )


def _is_known(cost: Cost, what: str) -> bool:
    return what not in cost.not_applicable


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _weights(cost: Cost) -> dict[str, Any]:
    if not _is_known(cost, PARAMETERS):
        return {}
    weights = [module.weights for module in cost.modules]
    return {
        "parameters": sum(w.parameters for w in weights),
        "parameter_bytes": sum(w.num_bytes for w in weights),
        "parameters_by_type": cost.parameters_by_type,
        "connection_sparsity": _share(sum(w.zeros for w in weights), sum(w.connections for w in weights)),
    }


def _terms(cost: Cost, part: str) -> list[Term]:
    return [term for module in cost.modules for term in getattr(module, part)]


def _structure(output: ModelCostModelOutput, index: int) -> ModelCostStructureResult:
    cost, num_atoms = output.cost, output.num_atoms[index]
    entry = ModelCostStructureResult(structure_name=output.structure_names[index], num_atoms=num_atoms)
    measured = cost.measured_macs[index] if cost.measured_macs else None
    if measured is not None:
        entry.macs_per_atom = measured / num_atoms
    if cost.systems:
        size = cost.systems[index]
        entry.num_edges = size.real.edges + size.real.long_range_edges
        entry.messages_per_atom = entry.num_edges / num_atoms * (cost.message_steps or 0)
        if _is_known(cost, OPERATIONS):
            terms = _terms(cost, "whole")
            entry.macs_per_atom = operations_at(terms, size.real) / num_atoms
            entry.padded_macs_per_atom = operations_at(terms, size.padded) / num_atoms
    return entry


def _operations(output: ModelCostModelOutput) -> dict[str, Any]:
    """Operations per atom, of all structures together."""
    cost = output.cost
    if not _is_known(cost, OPERATIONS):
        return {}
    if not cost.systems:
        counted = [(n, macs) for n, macs in zip(output.num_atoms, cost.measured_macs, strict=True) if macs]
        return {"macs_per_atom": sum(macs for _, macs in counted) / sum(n for n, _ in counted)}
    atoms = sum(system.real.atoms for system in cost.systems)

    def per_atom(terms: Sequence[Term], shape: str = "real") -> float:
        return sum(operations_at(terms, getattr(system, shape)) for system in cost.systems) / atoms

    forward, whole = _terms(cost, "forward"), _terms(cost, "whole")
    found = {
        "macs_per_atom": per_atom(whole),
        "padded_macs_per_atom": per_atom(whole, "padded"),
        "products_per_atom": per_atom(cost.products),
        "macs_of_an_atom": coefficient_of(whole, "atoms"),
        "macs_of_an_edge": coefficient_of(whole, "edges"),
    }
    if _is_known(cost, PARTS):
        found |= {"forward_macs_per_atom": per_atom(forward)}
        found |= {"backward_macs_per_atom": per_atom(whole) - per_atom(forward)}
    return found


def _module(module: ModuleCost, cost: Cost) -> ModuleResult:
    weights, seen = module.weights, module.activations or Activations()
    found = ModuleResult(
        name=module.name,
        parameters=weights.parameters,
        num_bytes=weights.num_bytes,
        connection_sparsity=_share(weights.zeros, weights.connections),
        activation_sparsity=_share(seen.zeros, seen.values),
        channels=seen.channels if module.activations else None,
        dead_channels=seen.dead if module.activations else None,
    )
    if not cost.systems or not _is_known(cost, OPERATIONS):
        return found
    size = cost.systems[0].real
    found.macs_per_atom = operations_at(module.whole, size) / size.atoms
    if _is_known(cost, PARTS):
        found.forward_macs_per_atom = operations_at(module.forward, size) / size.atoms
        found.backward_macs_per_atom = found.macs_per_atom - found.forward_macs_per_atom
    return found


def _by_module(modules: Sequence[ModuleResult]) -> dict[str, dict[str, Any]]:
    """The fields of pictures; a module without any is left out."""

    def of(field: str) -> dict[str, Any]:
        return {module.name: value for module in modules if (value := getattr(module, field))}

    return {
        "macs_by_module": of("macs_per_atom"),
        "forward_macs_by_module": of("forward_macs_per_atom"),
        "parameters_by_module": of("parameters"),
    }


def _the_rest(cost: Cost) -> dict[str, Any]:
    """Activations, messages and memory."""
    seen = sum((module.activations for module in cost.modules if module.activations), Activations())
    found: dict[str, Any] = {
        "activation_sparsity": _share(seen.zeros, seen.values),
        "dead_channel_share": _share(seen.dead, seen.channels),
        "cutoff": cost.cutoff,
        "message_steps": cost.message_steps,
    }
    if cost.cutoff is not None and cost.message_steps is not None:
        found["receptive_field"] = cost.cutoff * cost.message_steps
    if cost.systems and cost.message_steps is not None:
        edges = sum(system.real.edges + system.real.long_range_edges for system in cost.systems)
        found["messages_per_atom"] = edges / sum(s.real.atoms for s in cost.systems) * cost.message_steps
    if memory := cost.memory:
        found |= {"temporary_bytes": memory.temporary, "peak_bytes": memory.peak}
        found |= {"memory_atoms": memory.at.atoms, "memory_edges": memory.at.edges}
    return found
