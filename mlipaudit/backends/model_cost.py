# SPDX-License-Identifier: Apache-2.0
"""What an mlip force field costs. It is traced three times and compiled at most twice.

The energy with probes, whose operations and activations come from one program; the energy once more at another size,
to see that the counts follow atoms and edges there; and energy and forces. Weights are arguments of all of them, or
they would be folded into constants.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import flax.linen as nn
import jax
import numpy as np
from ase import Atoms

from mlipaudit.backends import cost
from mlipaudit.backends.activations import Probe
from mlipaudit.backends.cost import Cost, Memory, ModuleCost, Size, SystemSize, Weights
from mlipaudit.backends.jax_batching import Shape, Structure, device_edges_target, exact_shape, pack, plan_batches
from mlipaudit.backends.message_steps import count_message_steps
from mlipaudit.backends.operations import Tally, count_operations, prime_size, product_terms
from mlipaudit.failures import Failure

if TYPE_CHECKING:
    from mlipaudit.backends.mlip_force_field import ForceFieldBackend

ROOT = "mlip_network"
ELSEWHERE = "outside the network"
LEVELS = 2
"""Of a module's place in the network that its name keeps: `layers_0/readout_block`."""
NUM_PROBED = 2
"""Structures whose activations are looked at: the smallest ones."""
PROBED_ATOMS = 2000
"""That they may have together."""


def cost_of_force_field(backend: ForceFieldBackend, systems: Sequence[Atoms], *, compiled: bool) -> Cost:
    """The price of a force field, and the sizes of some systems in it.

    Args:
        backend: of the force field.
        systems: at least one; the smallest are those that it is run on.
        compiled: whether the program of energy and forces is compiled, for its memory.
    """
    structures = [backend.structure(atoms) for atoms in systems]
    own = _Pricing(backend, structures)
    priced = Cost(
        parameters_by_type=parameters_by_type(backend.force_field.params),
        modules=own.modules(),
        products=product_terms(own.whole),
        systems=tuple(map(_sizes, structures)),
        cutoff=backend.cutoff,
        message_steps=own.message_steps,
        uncounted=tuple(sorted(own.whole.uncounted)),
        not_applicable=own.why_not,
    )
    for step in (own.with_activations, own.with_memory if compiled else _without_memory):
        try:
            priced = step(priced)
        except Exception as error:  # around a system: what was counted without running it stays
            what = cost.ACTIVATIONS if step == own.with_activations else cost.MEMORY
            priced = _without(priced, what, str(Failure.from_exception(error)))
    return priced


def _without(priced: Cost, what: str, why: str) -> Cost:
    return replace(priced, not_applicable={**priced.not_applicable, what: why})


def _without_memory(priced: Cost) -> Cost:
    return _without(priced, cost.MEMORY, "not compiled in this run mode")


@dataclass
class _Pricing:
    """Traces of one force field, each made once."""

    backend: ForceFieldBackend
    structures: Sequence[Structure]

    @cached_property
    def probed(self) -> list[Structure]:
        """Structures that it is run on, the smallest ones that it covers; any for a trace, where it covers none."""
        by_size = sorted(self.structures, key=lambda s: len(s.atoms))
        covered = [s for s in by_size if self.backend._reject(s.atoms) is None][:NUM_PROBED]
        small = [s for i, s in enumerate(covered) if sum(len(t.atoms) for t in covered[: i + 1]) <= PROBED_ATOMS]
        return small or covered[:1] or by_size[:1]

    @cached_property
    def size(self) -> Size:
        """Primes around the probed structures."""
        return self._primes(
            Size(
                atoms=sum(len(s.atoms) for s in self.probed) + 1,
                edges=sum(len(s.edges) for s in self.probed),
                structures=len(self.probed) + 1,
                long_range_edges=sum(len(s.long_range or ()) for s in self.probed),
            )
        )

    @cached_property
    def other_size(self) -> Size:
        """Other primes, to check the counts with."""
        return self._primes(Size(2 * self.size.atoms, 2 * self.size.edges, 2 * self.size.structures))

    def _primes(self, at_least: Size) -> Size:
        dimensions = [length for leaf in jax.tree.leaves(self.backend.params) for length in leaf.shape]
        return prime_size(at_least, dimensions=dimensions, long_range=self.structures[0].long_range is not None)

    def graph(self, size: Size) -> Any:
        """The probed structures, padded to a size."""
        long_range = size.long_range_edges or None
        periodic = any(s.periodic for s in self.probed)
        return pack(self.probed, Shape(size.atoms, size.edges, size.structures, long_range, periodic))

    @cached_property
    def probe(self) -> Probe:
        """Sees atoms and edges of the probed structures, and none of the padding."""
        rows = {
            self.size.atoms: sum(len(s.atoms) for s in self.probed),
            self.size.edges: sum(len(s.edges) for s in self.probed),
        }
        return Probe(rows)

    @cached_property
    def forward(self) -> Any:
        """The traced energy, with its statistics."""
        probe, backend = self.probe, self.backend

        def energy(params: Any, graph: Any) -> Any:
            with nn.intercept_methods(probe):
                answers = backend.evaluate(params, graph, forces=False)
            return {"energy": answers, "statistics": probe.statistics()}

        return jax.jit(energy).trace(backend.params, self.graph(self.size))

    @cached_property
    def is_energy(self) -> list[bool]:
        """Which outputs of `forward` are the energy."""
        outputs = jax.tree_util.tree_flatten_with_path(self.forward.out_info)[0]
        return [path[0].key == "energy" for path, _ in outputs]

    @cached_property
    def energy(self) -> Tally:
        """Operations of the energy."""
        return count_operations(self.forward.jaxpr, self.size, module_of, outputs=self.is_energy)

    @cached_property
    def traced_whole(self) -> Any:
        """Energy and forces."""
        return jax.jit(partial(self.backend.evaluate, forces=True)).trace(
            self.backend.params, self.graph(self.size)
        )

    @cached_property
    def whole(self) -> Tally:
        """Operations of energy and forces."""
        return count_operations(self.traced_whole.jaxpr, self.size, module_of)

    @cached_property
    def why_not(self) -> dict[str, str]:
        """What the traces cannot tell."""
        program = jax.jit(partial(self.backend.evaluate, forces=False))
        again = program.trace(self.backend.params, self.graph(self.other_size)).jaxpr
        if count_operations(again, self.other_size, module_of).terms() != self.energy.terms():
            return {cost.OPERATIONS: "their number does not follow from those of atoms and edges"}
        if self.energy.terms() == self.whole.terms():
            return {cost.PARTS: "the force field does not compute the energy alone"}
        return {}

    @property
    def message_steps(self) -> int:
        """See `count_message_steps`."""
        return count_message_steps(self.forward.jaxpr, self.size, outputs=self.is_energy)

    def modules(self) -> tuple[ModuleCost, ...]:
        """Weights and operations by module, in the order in which they are computed."""
        weights = weigh(self.backend.force_field.params)
        counted = cost.OPERATIONS not in self.why_not
        computed = [*self.energy.modules, *self.whole.modules] if counted else []
        inside = [name for name in computed if name != ELSEWHERE]
        return tuple(
            ModuleCost(
                name,
                weights.get(name, Weights()),
                self.energy.terms(name) if counted else (),
                self.whole.terms(name) if counted else (),
            )
            for name in dict.fromkeys([*inside, *weights, *computed])
        )

    def with_activations(self, priced: Cost) -> Cost:
        """Add what enters the modules when the energy of the probed structures is computed."""
        if refusal := self.backend._reject(self.probed[0].atoms):
            return _without(priced, cost.ACTIVATIONS, refusal.message)
        answers = self.forward.lower().compile()(self.backend.params, self.graph(self.size))
        answers = jax.device_get(answers)
        if not all(np.isfinite(p.energy) for p in self.backend._split(answers["energy"], self.probed)):
            return _without(priced, cost.ACTIVATIONS, "the energy is not finite")
        found = self.probe.collect(answers["statistics"], module_of)
        others = found.keys() - {module.name for module in priced.modules}
        modules = [*priced.modules, *map(ModuleCost, sorted(others))]
        return replace(
            priced, modules=tuple(replace(module, activations=found.get(module.name)) for module in modules)
        )

    def with_memory(self, priced: Cost) -> Cost:
        """Add what the compiled program of energy and forces needs."""
        found = self.traced_whole.lower().compile().memory_analysis()
        if found is None:
            return _without(priced, cost.MEMORY, "the compiler does not say")
        arguments, temporary = found.argument_size_in_bytes, found.temp_size_in_bytes
        peak = getattr(found, "peak_memory_in_bytes", 0)
        if peak < temporary:  # on a CPU it is that of arguments and outputs only
            peak = arguments + found.output_size_in_bytes + temporary
        return replace(priced, memory=Memory(self.size, arguments, temporary, peak))


def module_of(scopes: Sequence[str]) -> str:
    """The module that scopes lie in: what follows the network's own name, down to a few levels."""
    if ROOT not in scopes:
        return ELSEWHERE
    inside = list(scopes[len(scopes) - list(reversed(scopes)).index(ROOT) :])
    modules = [name for name in inside if name.isidentifier()]  # the others are methods, and what einsum computes
    return "/".join(modules[:LEVELS]) or ROOT


def weigh(params: Any) -> dict[str, Weights]:
    """Parameters by module; an array that several modules share counts once, where it is met first."""
    found: dict[str, Weights] = {}
    for names, array in _own_arrays(params):
        name, before = module_of(names[:-1]), found.get(module_of(names[:-1]), Weights())
        is_bias = "bias" in names[-1]
        found[name] = Weights(
            before.parameters + array.size,
            before.num_bytes + array.size * array.dtype.itemsize,
            before.connections + (0 if is_bias else array.size),
            before.zeros + (0 if is_bias else int(array.size - np.count_nonzero(array))),
        )
    return found


def parameters_by_type(params: Any) -> dict[str, int]:
    """Parameters by type, those that are shared once."""
    found: dict[str, int] = {}
    for _, array in _own_arrays(params):
        found[str(array.dtype)] = found.get(str(array.dtype), 0) + array.size
    return found


def _own_arrays(params: Any) -> list[tuple[list[str], Any]]:
    """Names and array of each leaf, the first of those that are one and the same array."""
    unique: dict[int, tuple[list[str], Any]] = {}
    for path, array in jax.tree_util.tree_flatten_with_path(params)[0]:
        names = [str(getattr(key, "key", getattr(key, "name", getattr(key, "idx", key)))) for key in path]
        unique.setdefault(id(array), (names, array))
    return list(unique.values())


def _sizes(structure: Structure) -> SystemSize:
    ((_, padded),) = plan_batches([structure], device_edges_target())
    return SystemSize(_size_of(exact_shape(structure)), _size_of(padded))


def _size_of(shape: Shape) -> Size:
    return Size(shape.atoms, shape.edges, shape.graphs, shape.long_range_edges or 0)
