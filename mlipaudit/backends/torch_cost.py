# SPDX-License-Identifier: Apache-2.0
"""What a calculator that holds torch modules costs. Torch is not imported here: without it there are none."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

from ase import Atoms
from ase.calculators.calculator import BaseCalculator, all_changes

from mlipaudit.backends import cost
from mlipaudit.backends.cost import Cost, ModuleCost, Weights
from mlipaudit.failures import Failure

_COUNTER = "torch.utils.flop_counter"


def cost_of_calculator(calculator: BaseCalculator, systems: Sequence[Atoms], *, cutoff: float | None) -> Cost:
    """Parameters from the modules that a calculator holds, operations as torch counts them while it runs.

    Args:
        calculator: any; without a torch module nothing is known of it.
        systems: the smallest is run.
        cutoff: that the calculator names, Å.
    """
    modules = list(_modules_of(calculator))
    if not modules:
        why = f"{type(calculator).__name__} holds no torch module: what it computes cannot be seen"
        return Cost(cutoff=cutoff, not_applicable=dict.fromkeys(cost.QUANTITIES, why))
    weights, by_type = _weigh(modules)
    measured, why_not = _count(calculator, systems)
    only_jax = "only known of models that jax traces"
    reasons = dict.fromkeys((cost.PARTS, cost.ACTIVATIONS, cost.MESSAGES, cost.MEMORY), only_jax)
    return Cost(
        parameters_by_type=by_type,
        modules=weights,
        measured_macs=measured,
        cutoff=cutoff,
        not_applicable=reasons | ({cost.OPERATIONS: why_not} if why_not else {}),
    )


def _modules_of(calculator: BaseCalculator) -> Iterator[tuple[str, Any]]:
    """Attributes, or entries of lists and mappings among them, that are torch modules."""
    torch: Any = sys.modules.get("torch")
    if torch is None:
        return
    for name, value in vars(calculator).items():
        if isinstance(value, torch.nn.Module):
            yield name, value
        elif isinstance(value, list | tuple | dict):
            entries = value.items() if isinstance(value, dict) else enumerate(value)
            yield from ((f"{name}/{key}", entry) for key, entry in entries if isinstance(entry, torch.nn.Module))


def _weigh(modules: Sequence[tuple[str, Any]]) -> tuple[tuple[ModuleCost, ...], dict[str, int]]:
    """Parameters by module, down to its children; one that is shared counts where it is met first."""
    found: dict[str, Weights] = {}
    by_type: dict[str, int] = {}
    seen: set[int] = set()
    for name, module in modules:
        for path, tensor in module.named_parameters():
            if id(tensor) in seen:
                continue
            seen.add(id(tensor))
            part = "/".join([name, *path.split(".")[:-1][:1]])
            found[part] = _with(found.get(part, Weights()), path, tensor)
            kind = str(tensor.dtype).removeprefix("torch.")
            by_type[kind] = by_type.get(kind, 0) + tensor.numel()
    return tuple(ModuleCost(part, weights) for part, weights in found.items()), by_type


def _with(weights: Weights, path: str, tensor: Any) -> Weights:
    number, is_bias = tensor.numel(), "bias" in path.rpartition(".")[2]
    zeros = 0 if is_bias else int((tensor == 0).sum())
    return Weights(
        weights.parameters + number,
        weights.num_bytes + number * tensor.element_size(),
        weights.connections + (0 if is_bias else number),
        weights.zeros + zeros,
    )


def _count(calculator: BaseCalculator, systems: Sequence[Atoms]) -> tuple[tuple[int | None, ...], str]:
    """Multiply–accumulates of energy and forces of the smallest system, and why they are not known."""
    from importlib import import_module

    smallest = min(range(len(systems)), key=lambda i: len(systems[i]))
    try:
        with import_module(_COUNTER).FlopCounterMode(display=False) as counter:
            calculator.calculate(systems[smallest].copy(), ["energy", "forces"], all_changes)
        flops = int(counter.get_total_flops())
    except (Exception, SystemExit) as error:  # around a system: its parameters are known all the same
        return (), f"torch could not count them: {Failure.from_exception(error)}"
    if not flops:
        return (), "torch saw no operation that it counts, as in compiled or scripted modules"
    return tuple(flops // 2 if i == smallest else None for i in range(len(systems))), ""
