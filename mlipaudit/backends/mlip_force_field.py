# SPDX-License-Identifier: Apache-2.0
"""Backend for `mlip.models.ForceField`: batched prediction, and dynamics on jax_md or through ASE."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np
from ase import Atoms
from mlip.graph import Graph
from mlip.models import ForceField
from mlip.models.predictors.energy_heads import standard_energy_computation_head

from mlipaudit.backends.ase_dynamics import simulate_with_ase
from mlipaudit.backends.contract import Backend, CountProgress, ForwardPass, Prediction, SystemRun
from mlipaudit.backends.equivariant_constants import use_numpy
from mlipaudit.backends.graph_calculator import GraphCalculator, with_spare_pairs
from mlipaudit.backends.jax_batching import (
    Shape,
    Structure,
    build_structure,
    build_structures,
    device_edges_target,
    exact_shape,
    pack,
    plan_batches,
)
from mlipaudit.backends.recorder import Recorder
from mlipaudit.errors import UsageError
from mlipaudit.failures import Failure, FailureKind

if TYPE_CHECKING:
    from mlipaudit.backends.cost import Cost

Answers = dict[str, jax.Array]
"""Of one batch: `energy` per graph or `node_energy` per atom (eV), and `forces` (eV/Å) if asked for."""


class ForceFieldBackend(Backend):
    """Runs an mlip force field."""

    engines = ("jax_md", "ase")

    def __init__(self, force_field: ForceField) -> None:
        use_numpy()
        self.force_field = force_field
        self._programs: dict[tuple[bool, bool], Any] = {}
        self._compiled: dict[Shape, tuple[Any, float]] = {}
        self.md = Dynamics()

    @property
    def allowed_atomic_numbers(self) -> frozenset[int]:
        """Elements of the model's training data."""
        return frozenset(int(number) for number in self.force_field.allowed_atomic_numbers)

    @property
    def precision(self) -> str:
        """Floating-point type of the weights."""
        return str(jax.tree.leaves(self.force_field.params)[0].dtype)

    @property
    def cutoff(self) -> float:
        """Neighbour cutoff in Å."""
        return float(self.force_field.cutoff_distance)

    @cached_property
    def params(self) -> Any:
        """Weights on the device. Arguments of the compiled programs, which would else fold them in as constants."""
        return jax.device_put(self.force_field.params)

    @cached_property
    def skeleton(self) -> ForceField:
        """The force field without weights and fixed energies, which compiled programs may keep for ever."""
        bare = replace(self.force_field, params={})
        return bare if self.atomic_energies is None else without_atomic_energies(bare)

    @cached_property
    def atomic_energies(self) -> np.ndarray | None:
        """The model's fixed energy of each element (eV, by atomic number), where it only adds them; else None.

        They are a thousand times what energy differences are, and float32 has seven digits: added on the host, in
        double precision, they cost no digit.
        """
        return fixed_atomic_energies(self.force_field)

    def energy_of_atoms(self, numbers: np.ndarray) -> float:
        """What the compiled programs leave out of the energy of atoms with these atomic numbers, eV."""
        return 0.0 if self.atomic_energies is None else float(self.atomic_energies[numbers].sum())

    def evaluate(self, params: Any, graph: Graph, *, forces: bool, stress: bool = False) -> Answers:
        """The model itself: a pure function for compilation."""
        return evaluate(self.skeleton, params, graph, forces=forces, stress=stress)

    def program(self, *, forces: bool, stress: bool = False) -> Any:
        """The jitted model, (params, graph) -> answers; compiled anew for every shape."""
        key = (forces, stress)
        if key not in self._programs:
            self._programs[key] = jax.jit(partial(self.evaluate, forces=forces, stress=stress))
        return self._programs[key]

    @cached_property
    def _activation_program(self) -> Any:
        return jax.jit(partial(node_activations, self.skeleton))

    @property
    def offers(self) -> frozenset[str]:
        """The stress, where the library computes it, and what flows through the network."""
        if not _is_plain(self.force_field):
            return frozenset()
        network = getattr(self.force_field.predictor, "mlip_network", None)
        stress = getattr(getattr(network, "available_properties", None), "stress", False)
        return frozenset({"activations", *(["stress"] if stress else [])})

    def on_device(self, device: str | None) -> AbstractContextManager[Any]:
        """On a device of jax."""
        return nullcontext() if device is None else jax.default_device(_device(device))

    def structure(self, atoms: Atoms) -> Structure:
        """A system with the neighbour lists this model needs."""
        return build_structure(atoms, self.cutoff, self.force_field.long_range_cutoff_distance)

    def cost(self, systems: Sequence[Atoms], *, compiled: bool = True) -> Cost:
        """Counted from what jax traces."""
        from mlipaudit.backends.model_cost import cost_of_force_field

        return cost_of_force_field(self, systems, compiled=compiled)

    def compiled(self, graph: Graph, shape: Shape) -> tuple[Any, float]:
        """The model with forces, compiled for graphs of a shape, and the seconds that it took."""
        if shape not in self._compiled:
            start = time.perf_counter()
            program = self.program(forces=True).lower(self.params, graph).compile()
            self._compiled[shape] = program, time.perf_counter() - start
        return self._compiled[shape]

    def forward_pass(self, atoms: Atoms, *, spare_pairs: bool = False) -> ForwardPass:
        """The compiled network on a graph built beforehand."""
        start = time.perf_counter()
        structure = self.structure(atoms)
        neighbour_seconds = time.perf_counter() - start
        shape = with_spare_pairs(structure) if spare_pairs else exact_shape(structure)
        graph = jax.device_put(pack([structure], shape))
        program, compile_seconds = self.compiled(graph, shape)

        def evaluate() -> Answers:
            return jax.block_until_ready(program(self.params, graph))

        def run() -> Prediction:
            (prediction,) = self._split(jax.device_get(evaluate()), [structure])
            return prediction

        return ForwardPass(run, lambda: _discard(evaluate()), compile_seconds, neighbour_seconds)

    def _reject(self, atoms: Atoms) -> Failure | None:
        return super()._reject(atoms) or self._reject_charge(atoms)

    def _reject_charge(self, atoms: Atoms) -> Failure | None:
        if not getattr(self.force_field.config, "use_total_charge_embedding", False):
            return None
        charge, known = (
            atoms.info.get("charge", 0),
            set(self.force_field.dataset_info.available_total_charges),
        )
        if charge in known:
            return None
        message = f"the model knows total charges {sorted(known)}, not {charge}"
        return Failure(kind=FailureKind.EXCEPTION, message=message)

    def _predict(
        self, systems: Sequence[Atoms], *, forces: bool, progress: CountProgress, also: Sequence[str] = ()
    ) -> list[Prediction | Failure]:
        structures = self._structures(systems)
        answers: list[Any] = [s if isinstance(s, Failure) else None for s in structures]
        usable = [(i, s) for i, s in enumerate(structures) if isinstance(s, Structure)]
        done = len(systems) - len(usable)
        wanted = Wanted(forces or "stress" in also, "stress" in also, "activations" in also)
        for indices, predictions in self._predict_batches([s for _, s in usable], wanted):
            for index, prediction in zip(indices, predictions, strict=True):
                answers[usable[index][0]] = prediction
            done += len(indices)
            progress(done, len(systems))
        return answers

    def _structures(self, systems: Sequence[Atoms]) -> Sequence[Structure | Failure]:
        try:
            return build_structures(systems, self.cutoff, self.force_field.long_range_cutoff_distance)
        except Exception:  # around a system: which one it is comes out one by one
            return [self._try_structure(atoms) for atoms in systems]

    def _try_structure(self, atoms: Atoms) -> Structure | Failure:
        try:
            return self.structure(atoms)
        except Exception as error:  # around a system: it costs only itself
            return Failure.from_exception(error)

    def _predict_batches(
        self, structures: Sequence[Structure], wanted: Wanted
    ) -> Iterator[tuple[list[int], list[Prediction | Failure]]]:
        """Evaluate batch after batch; the next one is packed while the device works on this one."""
        batches = plan_batches(structures, device_edges_target())
        patience = _Patience()
        with ThreadPoolExecutor(max_workers=1) as packer:
            packed = [packer.submit(pack, [structures[i] for i in batch], shape) for batch, shape in batches]
            for (batch, shape), graph in zip(batches, packed, strict=True):
                members = [structures[i] for i in batch]
                yield batch, self._predict_batch(members, graph.result(), shape, patience, wanted)

    def _predict_batch(
        self, structures: Sequence[Structure], graph: Graph, shape: Shape, patience: _Patience, wanted: Wanted
    ) -> list[Prediction | Failure]:
        """One batch; one that does not fit in memory, or that raises, is halved down to single systems."""
        if patience.lost:
            return [patience.lost] * len(structures)
        try:
            program = self.program(forces=wanted.forces, stress=wanted.stress)
            answers = jax.device_get(program(self.params, graph))
            if wanted.activations:
                answers |= {"activations": jax.device_get(self._activation_program(self.params, graph))}
        except Exception as error:  # around a system, once the batch is one
            if len(structures) == 1:
                return [patience.note(Failure.from_exception(error))]
            middle = len(structures) // 2
            halves = (structures[:middle], structures[middle:])
            return [p for half in halves for p in self._predict_half(half, shape, patience, wanted)]
        patience.reset()
        return self._split(answers, structures)

    def _predict_half(
        self, structures: Sequence[Structure], shape: Shape, patience: _Patience, wanted: Wanted
    ) -> list[Prediction | Failure]:
        answers: dict[int, Prediction | Failure] = {}
        for batch, smaller in plan_batches(structures, max(shape.edges // 2, 1)):
            members = [structures[i] for i in batch]
            found = self._predict_batch(members, pack(members, smaller), smaller, patience, wanted)
            answers.update(zip(batch, found, strict=True))
        return [answers[i] for i in range(len(structures))]

    def _split(self, answers: Answers, structures: Sequence[Structure]) -> list[Any]:
        """Predictions by structure."""
        sizes = [len(s.atoms) for s in structures]
        forces = answers.get("forces")
        parts = [None] * len(sizes) if forces is None else _by_system(np.asarray(forces), sizes)
        stresses = _stresses(answers, structures)
        others = _activations(answers, sizes)
        return [
            Prediction(
                own.energy + self.energy_of_atoms(structure.atoms.numbers), part, own.rounding, stress, other
            )
            for own, part, structure, stress, other in zip(
                _energies(answers, sizes), parts, structures, stresses, others, strict=True
            )
        ]

    def _simulate_all(self, runs: Sequence[SystemRun], engine: str) -> None:
        if engine != "jax_md":
            return super()._simulate_all(runs, engine)
        # jax_md takes a second to import: only those who move atoms pay for it.
        from mlipaudit.backends.jax_planner import simulate_together

        simulate_together(self, runs)

    def _simulate(self, run: SystemRun, engine: str) -> None:
        run.atoms.calc = GraphCalculator(self)
        simulate_with_ase(run)


class Wanted(NamedTuple):
    """What is needed besides energies."""

    forces: bool
    stress: bool = False
    activations: bool = False


@dataclass
class Dynamics:
    """What simulations of one force field share between calls and threads."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    waiting: dict[Any, threading.Lock] = field(default_factory=dict)
    """Per program and shapes: held while they compile."""
    compiled: dict[Any, float] = field(default_factory=dict)
    """Seconds that each took for that."""
    seconds_per_pair: float = 2e-5
    """And step, as last measured; before that, of a small MACE on a CPU."""
    batches_pay: bool | None = None
    """Whether systems are faster together than one by one on this device; None until it was measured."""


class _Patience:
    """Ends the search for systems that work after a few in a row that failed in the same way, each by itself.

    A model that cannot even be traced would otherwise be tried once per system, for seconds each.
    """

    LIMIT = 3

    def __init__(self) -> None:
        self.lost: Failure | None = None
        self._row: list[str] = []

    def note(self, failure: Failure) -> Failure:
        """Count a single system's failure."""
        self._row = [*self._row, failure.message] if failure.message in self._row else [failure.message]
        if len(self._row) >= self.LIMIT and failure.kind is not FailureKind.OUT_OF_MEMORY:
            self.lost = failure
        return failure

    def reset(self) -> None:
        """Something worked."""
        self._row = []


def evaluate(force_field: ForceField, params: Any, graph: Graph, *, forces: bool, stress: bool = False) -> Answers:
    """Energies and, if asked for, forces and stress of a batch.

    Per-atom energies are handed out where the total is their plain sum: the host adds them in double precision. A
    force field that overrides how it is called is called that way, and gives what it gives.
    """
    if not _is_plain(force_field):
        prediction = replace(force_field, params=params)(graph)
        return {"energy": prediction.energy, "forces": prediction.forces}
    force_field = replace(force_field, params=params)
    if not forces:
        force_field = _requiring(force_field, forces=False, stress=False)
    elif stress:
        force_field = _requiring(force_field, forces=True, stress=True)
    result = force_field.calculate(graph)
    answers = {"energy": result.globals.energy}
    if _sums_atoms(force_field) and "energy" in result.nodes.features:
        answers = {"node_energy": result.nodes.features["energy"]}
    if forces:
        answers["forces"] = result.nodes.forces
    if stress:
        answers["stress"] = result.globals.stress
    return answers


def _requiring(force_field: ForceField, **what: bool) -> ForceField:
    predictor = force_field.predictor
    required = replace(predictor.required_properties, **what)
    return replace(force_field, predictor=replace(predictor, required_properties=required))


def node_activations(force_field: ForceField, params: Any, graph: Graph) -> dict[str, jax.Array]:
    """Module -> what leaves it, [atoms, ...], of the modules that call no other; with the energy alone."""
    from flax.linen import intercept_methods

    recorder = Recorder(graph.nodes.positions.shape[0])
    energy_only = _requiring(replace(force_field, params=params), forces=False, stress=False)
    with intercept_methods(recorder):
        energy_only.calculate(graph)
    return recorder.found


def _by_system(rows: np.ndarray, sizes: Sequence[int]) -> list[np.ndarray]:
    return np.split(rows[: sum(sizes)], np.cumsum(sizes)[:-1])


VOIGT = ([0, 1, 2, 1, 0, 0], [0, 1, 2, 2, 2, 1])


def _stresses(answers: Answers, structures: Sequence[Structure]) -> list[Any]:
    """Of each system, [6]. The library divides by the determinant of the cell, which a left-handed one has negative."""
    if "stress" not in answers:
        return [None] * len(structures)
    signs = [np.sign(np.linalg.det(np.asarray(s.atoms.cell))) for s in structures]
    full = np.asarray(answers["stress"], np.float64)
    return [sign * own[VOIGT] for sign, own in zip(signs, full, strict=False)]


def _activations(answers: Answers, sizes: Sequence[int]) -> list[dict[str, Any]]:
    if "activations" not in answers:
        return [{} for _ in sizes]
    split = {name: _by_system(rows, sizes) for name, rows in answers["activations"].items()}  # type: ignore[attr-defined]
    return [{"activations": {name: parts[i] for name, parts in split.items()}} for i in range(len(sizes))]


def _device(text: str) -> Any:
    kind, _, number = text.partition(":")
    try:
        return jax.devices(kind)[int(number or 0)]
    except (RuntimeError, IndexError, ValueError) as error:
        raise UsageError(f"device {text!r}: jax has none such here") from error


def _sums_atoms(force_field: ForceField) -> bool:
    head = getattr(force_field.predictor, "energy_head", None)
    return head is None or head is standard_energy_computation_head


def _energies(answers: Answers, sizes: Sequence[int]) -> list[Prediction]:
    """Energy of each system, and what the precision of its parts leaves uncertain."""
    if "node_energy" not in answers:
        totals = np.atleast_1d(answers["energy"])[: len(sizes)]
        return [Prediction(float(e), rounding=float(np.abs(np.spacing(e)))) for e in totals]
    per_atom = np.asarray(answers["node_energy"]).reshape(-1)
    parts = np.split(per_atom[: sum(sizes)], np.cumsum(sizes)[:-1])
    return [
        Prediction(float(part.sum(dtype=np.float64)), rounding=float(np.sqrt((np.spacing(part) ** 2.0).sum())))
        for part in parts
    ]


def fixed_atomic_energies(force_field: ForceField) -> np.ndarray | None:
    """Energies (eV, by atomic number) that a force field adds to its network's; None where it is not so simple."""
    network = getattr(force_field.predictor, "mlip_network", None)
    energies = getattr(getattr(network, "dataset_info", None), "atomic_energies_map", None)
    added = getattr(getattr(network, "config", None), "add_atomic_energies", False)
    learned = any("atomic_energies" in jax.tree_util.keystr(path) for path, _ in _leaves(force_field.params))
    plain = _is_plain(force_field) and _sums_atoms(force_field)
    if not (plain and added and isinstance(energies, dict)) or learned:
        return None
    table = np.full(1 + max(map(int, energies)), np.nan)
    table[[int(number) for number in energies]] = list(energies.values())
    return table


def without_atomic_energies(force_field: ForceField) -> ForceField:
    """The same force field, which adds no fixed energies."""
    network = force_field.predictor.mlip_network
    config = network.config.model_copy(update={"add_atomic_energies": False})
    return replace(
        force_field, predictor=replace(force_field.predictor, mlip_network=replace(network, config=config))
    )


def _leaves(params: Any) -> list[tuple[Any, Any]]:
    return jax.tree_util.tree_flatten_with_path(params)[0]


def _is_plain(force_field: ForceField) -> bool:
    """Whether it is called as the library calls it."""
    cls = type(force_field)
    return cls.__call__ is ForceField.__call__ and cls.predict is ForceField.predict


def _discard(answers: Answers) -> None:
    """Answers that came back are answers that have arrived."""
