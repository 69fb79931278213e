# SPDX-License-Identifier: Apache-2.0
"""What a model costs: counts that can be done by hand, and those of real architectures."""

import math
import sys
import types
from pathlib import Path

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import planted
import pytest
from ase import Atoms
from ase.build import molecule

from mlipaudit.backends import cost
from mlipaudit.backends.activations import Probe
from mlipaudit.backends.ase_calculator import CalculatorBackend
from mlipaudit.backends.contract import backend_for
from mlipaudit.backends.cost import Activations, Size, Term, Weights, operations_at
from mlipaudit.backends.jax_batching import exact_shape, pack
from mlipaudit.backends.message_steps import count_message_steps
from mlipaudit.backends.mlip_zip import read_archive
from mlipaudit.backends.model_cost import _Pricing, module_of, parameters_by_type, weigh
from mlipaudit.backends.operations import count_operations, prime_size, product_terms
from mlipaudit.backends.oracle import OracleBackend
from mlipaudit.backends.toy import ToyCalculator
from mlipaudit.benchmarks.model_cost import ModelCostBenchmark
from mlipaudit.failures import Failure, FailureKind
from mlipaudit.store import ResultStore
from mlipaudit.testing import check_result

EXAMPLE = Path(__file__).parents[1] / "examples" / "example_model.zip"
SIZE = Size(atoms=211, edges=1009)
A, E = SIZE.atoms, SIZE.edges
PER_ATOM, PER_EDGE, PER_PAIR, CONSTANT = (1, 0, 0, 0), (0, 1, 0, 0), (2, 0, 0, 0), (0, 0, 0, 0)


def ones(*shape):
    return jnp.ones(shape)


def joined(scopes):
    return "/".join(scopes)


def tally(function, *arguments, **options):
    return count_operations(jax.make_jaxpr(function)(*arguments), SIZE, joined, **options)


def macs(function, *arguments):
    """Multiply–accumulates by powers of the sizes."""
    return {term.powers: term.count for term in tally(function, *arguments).terms()}


# Counting


def dense(x, w1, w2):
    """5 -> 7 -> 3 for every row."""
    return (jnp.tanh(x @ w1) @ w2).sum()


DENSE = (ones(A, 5), ones(5, 7), ones(7, 3))


def layers(x, weights):
    """Two layers of 8 -> 8, in a scan."""
    return jax.lax.scan(lambda h, w: (jnp.tanh(h @ w), None), x, weights)[0].sum()


LAYERS = (ones(A, 8), ones(2, 8, 8))


def test_a_dense_network_forward():
    assert macs(dense, *DENSE) == {PER_ATOM: 5 * 7 + 7 * 3}


def test_a_dense_network_with_its_gradient_by_the_input():
    # The gradient goes back through each matrix once.
    assert macs(jax.value_and_grad(dense), *DENSE) == {PER_ATOM: 2 * (5 * 7 + 7 * 3)}


def test_a_dense_network_with_its_gradient_by_the_weights():
    # Of the way there only the first product is needed; back go one outer product per matrix and one product between.
    expected = 5 * 7 + (7 * 3 + 7 * 3 + 5 * 7)
    assert macs(jax.grad(dense, argnums=(1, 2)), *DENSE) == {PER_ATOM: expected}


def test_a_scan_counts_its_length():
    assert macs(layers, *LAYERS) == {PER_ATOM: 2 * 8 * 8}
    assert macs(jax.value_and_grad(layers), *LAYERS) == {PER_ATOM: 2 * (2 * 8 * 8)}


def test_a_scan_in_a_scan():
    def twice(x, weights):
        return jax.lax.scan(lambda h, _: (h + layers(x, weights), None), 0.0, length=5)[0]

    assert macs(twice, *LAYERS) == {PER_ATOM: 5 * 2 * 8 * 8}


def test_a_scan_over_atoms_is_per_atom():
    def one_by_one(x, w):
        return jax.lax.map(lambda row: row @ w, x)

    assert macs(one_by_one, ones(A, 5), ones(5, 7)) == {PER_ATOM: 5 * 7}


@pytest.mark.parametrize(
    "start, limit, going_on, step, trips",
    [
        (0, 6, jnp.less, 1, 6),
        (0, 6, jnp.less_equal, 1, 7),
        (0, 7, jnp.less, 3, 3),
        (0, 6, jnp.less_equal, 3, 3),
        (9, 4, jnp.greater, -1, 5),
        (9, 4, jnp.greater_equal, -2, 3),
        (6, 6, jnp.less, 1, 0),
    ],
)
def test_a_loop_with_a_constant_count(start, limit, going_on, step, trips):
    def loop(x, w):
        return jax.lax.while_loop(lambda c: going_on(c[0], limit), lambda c: (c[0] + step, c[1] @ w), (start, x))[
            1
        ]

    found = tally(loop, ones(A, 8), ones(8, 8))
    assert {t.powers: t.count for t in found.terms()} == ({PER_ATOM: trips * 8 * 8} if trips else {})
    assert not found.uncounted


def test_a_loop_that_ends_who_knows_when_is_named_and_not_counted():
    def loop(x, w):
        return jax.lax.while_loop(lambda h: h.sum() < 1e3, lambda h: h @ w, x @ w)

    found = tally(loop, ones(A, 8), ones(8, 8))
    assert {t.powers: t.count for t in found.terms()} == {PER_ATOM: 8 * 8}
    assert found.uncounted == {"while": 1}


def test_a_condition_costs_its_dearest_branch():
    def either(x, w):
        return jax.lax.cond(x[0, 0] > 0, lambda h: h, lambda h: (h @ w) @ w, x)

    assert macs(either, ones(A, 8), ones(8, 8)) == {PER_ATOM: 2 * 8 * 8}


def test_rematerialisation_is_paid_for():
    # Back through both matrices, and the first product once more.
    again = jax.value_and_grad(jax.checkpoint(dense))
    assert macs(again, *DENSE) == {PER_ATOM: 2 * (5 * 7 + 7 * 3) + 5 * 7}


def test_calls_and_custom_derivatives_are_entered():
    @jax.custom_jvp
    def with_jvp(x, w):
        return x @ w

    @jax.custom_vjp
    def with_vjp(x, w):
        return x @ w

    with_jvp.defjvps(lambda dx, _, x, w: dx @ w, None)
    with_vjp.defvjp(lambda x, w: (x @ w, w), lambda w, g: (g @ w.T, jnp.zeros_like(w)))
    arguments = ones(A, 5), ones(5, 7)
    for function in (with_jvp, with_vjp, jax.jit(lambda x, w: x @ w)):
        assert macs(lambda x, w: function(x, w).sum(), *arguments) == {PER_ATOM: 5 * 7}  # noqa: B023
        assert macs(jax.value_and_grad(lambda x, w: function(x, w).sum()), *arguments) == {PER_ATOM: 2 * 5 * 7}  # noqa: B023


def test_products_of_other_kinds():
    def convolved(x, kernel):
        return jax.lax.conv_general_dilated(x, kernel, (1,), "VALID")

    groups = jnp.array([A - 1, 1])
    assert macs(convolved, ones(A, 3, 10), ones(4, 3, 5)) == {PER_ATOM: (4 * 6) * (3 * 5)}
    assert macs(lambda x, w: jax.lax.ragged_dot(x, w, groups), ones(A, 5), ones(2, 5, 7)) == {PER_ATOM: 5 * 7}
    assert macs(lambda x, y: jnp.einsum("eij,ejk->eik", x, y), ones(E, 2, 3), ones(E, 3, 4)) == {
        PER_EDGE: 2 * 3 * 4
    }


def test_each_size_is_told_apart():
    def mixed(x, y, w):
        return (x @ w).sum() + (y @ w).sum() + (x @ x.T).sum() + (w @ w).sum()

    found = macs(mixed, ones(A, 8), ones(E, 8), ones(8, 8))
    assert found == {PER_ATOM: 64, PER_EDGE: 64, PER_PAIR: 8, CONSTANT: 512}


def test_what_no_output_needs_is_not_counted():
    def two(x, w):
        return {"energy": (x @ w).sum(), "statistics": (x @ w @ w).max()}

    arguments = ones(A, 8), ones(8, 8)
    wanted = tally(two, *arguments, outputs=[True, False])
    assert [(t.powers, t.count) for t in wanted.terms()] == [(PER_ATOM, 64)]
    assert tally(two, *arguments).num_macs > wanted.num_macs


def test_products_of_single_values_are_counted_apart():
    found = tally(lambda x, y, n: (x * y * 2.0, n * 3), ones(A, 8), ones(A, 8), jnp.arange(A))
    assert product_terms(found) == (Term(2 * 8, PER_ATOM),)
    assert found.terms() == ()


def test_scopes_lead_into_calls_and_transformations():
    inner = jax.jit(lambda x, w: x @ w)

    def scoped(x, w):
        with jax.named_scope("first"):
            x = inner(x, w)
        with jax.named_scope("second"):
            return jnp.tanh(inner(x, w)).sum()

    arguments = ones(A, 8), ones(8, 8)
    for function, times in ((scoped, 1), (jax.value_and_grad(scoped), 2)):
        found = tally(function, *arguments)
        assert {name: found.terms(name)[0].count for name in found.modules} == {
            "first": times * 64,
            "second": times * 64,
        }


@pytest.mark.parametrize(
    "scopes, name",
    [
        (["Predictor", "mlip_network", "layers_0", "readout", "Linear_0"], "layers_0/readout"),
        (["mlip_network", "layers_0", "layers_0.update", "f_proj", "ij,jk->ik"], "layers_0/f_proj"),
        (["mlip_network", "layers_0", "mlip_network", "layers_0", "dense"], "layers_0/dense"),
        (["mlip_network", "...i,io->...o"], "mlip_network"),
        (["Predictor", "strain"], "outside the network"),
    ],
)
def test_names_of_modules(scopes, name):
    assert module_of(scopes) == name


def test_primes_divide_no_dimension_of_the_weights():
    size = prime_size(
        Size(atoms=300, edges=1000, structures=3), dimensions=[307, 2 * 311, 1009, 64], long_range=True
    )
    assert size == Size(atoms=313, edges=1013, structures=101, long_range_edges=2003)


def test_a_polynomial_at_a_size():
    terms = [Term(5), Term(3, PER_ATOM), Term(2, PER_EDGE), Term(1, PER_PAIR), Term(7, (0, 0, 1, 1))]
    assert operations_at(terms, Size(10, 100, 2, 4)) == 5 + 30 + 200 + 100 + 56
    assert operations_at(terms, Size(10, 100)) == 5 + 30 + 200 + 100


# Messages


def messages(x, senders, receivers):
    """One layer of message passing, both sums of which listen to the same atoms."""
    heard = x[senders]
    return x + sum(jax.ops.segment_sum(f(heard), receivers, num_segments=A) for f in (jnp.tanh, jnp.sin))


def test_message_steps_are_sums_over_edges_that_follow_each_other():
    graph = ones(A, 4), jnp.zeros(E, int), jnp.zeros(E, int)

    def steps(function):
        return count_message_steps(jax.make_jaxpr(function)(*graph), SIZE)

    assert steps(lambda x, s, r: x.sum()) == 0
    assert steps(messages) == 1
    assert steps(lambda x, s, r: messages(jax.jit(messages)(x, s, r), s, r).sum()) == 2
    assert steps(lambda x, s, r: jax.lax.scan(lambda h, _: (messages(h, s, r), None), x, length=3)[0]) == 3
    assert steps(lambda x, s, r: jax.lax.cond(x.sum() > 0, messages, lambda x, s, r: x, x, s, r)) == 1


# Weights


def test_weights_that_are_shared_count_once():
    shared, own = np.ones((4, 5), np.float32), np.ones((4, 5), np.float32)
    own[0] = 0.0
    params = {"mlip_network": {"a": {"w": shared}, "b": {"w": shared, "bias": np.zeros(5)}, "c": {"w": own}}}
    assert weigh(params) == {
        "a": Weights(parameters=20, num_bytes=80, connections=20, zeros=0),
        "b": Weights(parameters=5, num_bytes=40, connections=0, zeros=0),
        "c": Weights(parameters=20, num_bytes=80, connections=20, zeros=5),
    }
    assert parameters_by_type(params) == {"float32": 40, "float64": 5}


@pytest.mark.parametrize(
    "path", [EXAMPLE, *sorted((Path(__file__).parent / "models").glob("x_*.zip"))], ids=lambda p: p.stem
)
def test_parameters_and_bytes_are_those_of_the_archive(path):
    from mlipaudit.backends.mlip_zip import load_zip

    archive, params = read_archive(path), load_zip(path).params
    weights = weigh(params).values()
    assert sum(w.parameters for w in weights) == sum(array.size for array in archive.params.values())
    assert sum(w.num_bytes for w in weights) == sum(array.nbytes for array in archive.params.values())
    assert parameters_by_type(params) == {"float32": sum(array.size for array in archive.params.values())}


# Activations


class Rectified(nn.Module):
    """Two layers; the first one's second channel is never positive."""

    @nn.compact
    def __call__(self, x):
        hidden = jax.nn.relu(nn.Dense(3, name="first")(x))
        return nn.Dense(1, name="second")(hidden) + nn.Dense(1, name="third")(hidden)


def test_zeros_and_dead_channels_of_the_real_rows():
    x = jnp.array([[1.0], [-1.0], [2.0], [0.0], [7.0]])  # the last one is padding
    params = {
        "first": {"kernel": jnp.array([[1.0, 0.0, -1.0]]), "bias": jnp.array([0.0, -1.0, 0.0])},
        **{name: {"kernel": jnp.ones((3, 1)), "bias": jnp.zeros(1)} for name in ("second", "third")},
    }
    probe = Probe({5: 4})
    with nn.intercept_methods(probe):
        Rectified().apply({"params": params}, x)
    found = probe.collect(probe.statistics(), lambda path: path[-1])
    # Hidden: (1, 0, 0), (0, 0, 1), (2, 0, 0), (0, 0, 0); read by two layers, and looked at once.
    assert found == {"first": Activations(4, 1, 1, 0), "second": Activations(12, 9, 3, 1)}


def test_the_probe_leaves_out_graphs_and_integers():
    class Reader(nn.Module):
        def __call__(self, graph, numbers):
            return numbers

    probe = Probe({5: 5})
    with nn.intercept_methods(probe):
        Reader().apply({}, {"a": ones(5, 2), "b": ones(5, 2)}, jnp.ones((5, 2), int))
    assert probe.statistics() == []


# Architectures


@pytest.mark.parametrize("name, steps", [("x_mace", 2), ("x_nequip", 2), ("x_visnet", 3), ("x_esen", 3)])
def test_architectures_count_alike_whatever_the_padding(name, steps, backends):
    backend = backends(name)
    pricing = _Pricing(backend, [backend.structure(molecule("CH3OH"))])
    assert pricing.why_not == {}  # the energy is traced at two sizes
    assert pricing.message_steps == steps
    energy, whole = pricing.energy.terms(), pricing.whole.terms()
    assert {term.powers for term in (*energy, *whole)} == {PER_ATOM, PER_EDGE}
    small, padded = Size(6, 30), Size(60, 300)
    assert 0 < operations_at(energy, small) < operations_at(whole, small) < 4 * operations_at(energy, small)
    assert operations_at(whole, padded) == 10 * operations_at(whole, small)
    assert not pricing.whole.uncounted
    weights = set(weigh(backend.force_field.params))
    assert set(pricing.energy.modules) & weights, "modules have one name, whether counted or weighed"


def test_an_atom_hears_as_far_as_messages_go(backends):
    """Two layers and an embedding that listens: three steps along a chain of nearest neighbours, and no fourth."""
    backend = backends("x_visnet")
    chain = Atoms("C6", positions=np.c_[3.0 * np.arange(6), np.random.default_rng(0).normal(0, 0.4, (6, 2))])
    structure = backend.structure(chain)
    assert len(structure.edges) == 2 * 5
    graph = pack([structure], exact_shape(structure))

    def first_energy(positions):
        moved = graph.replace_nodes(positions=positions)
        return backend.evaluate(backend.params, moved, forces=False)["node_energy"].reshape(-1)[0]

    heard = np.abs(jax.jit(jax.grad(first_energy))(graph.nodes.positions)).max(axis=1) > 0
    assert heard.tolist() == [True, True, True, True, False, False]


def test_forces_count_alike_whatever_the_padding(backends):
    backend = backends("tiny_mace")
    small, large = ([backend.structure(molecule(name))] for name in ("CH4", "C60"))
    small, large = _Pricing(backend, small), _Pricing(backend, large)
    assert small.size != large.size
    assert small.whole.terms() == large.whole.terms()
    assert product_terms(small.whole) == product_terms(large.whole)


@pytest.fixture(scope="module")
def molecules(tmp_path_factory):
    """A folder of the user's with two molecules."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "inference_speed").mkdir()
    (folder / "inference_speed" / "3_water.xyz").write_text(planted.WATER, "utf-8")
    (folder / "inference_speed" / "5_methane.xyz").write_text(planted.METHANE, "utf-8")
    return folder


@pytest.fixture(scope="module")
def priced(molecules, backends):
    benchmark = ModelCostBenchmark(backends("tiny_mace"), molecules, "fast")
    check_result(benchmark)
    return benchmark.analyze()


def test_a_model_is_priced(priced):
    assert (priced.score, priced.failed, priced.not_applicable) == (None, False, {})
    assert (priced.parameters, priced.parameter_bytes) == (564, 2256)
    # One layer, 4 channels, 4 radial functions, l up to 1: per edge the radial network, 4 -> 8 -> 8.
    modules = {module.name: module for module in priced.modules}
    radial, edges = 4 * 8 + 8 * 8, [3 * 2 / 3, 5 * 4 / 5]
    interaction = modules["layers_0/interaction_block"]
    # Per atom: 4 -> 4 before, and 4 -> 4 for one scalar and three components of a vector after.
    assert interaction.forward_macs_per_atom == radial * edges[0] + 4 * 4 + 4 * 4 * (1 + 3)
    assert modules["layers_0/readout_block"].forward_macs_per_atom == 4 * 4 + 4
    assert (priced.message_steps, priced.receptive_field) == (1, 4.0)
    assert priced.messages_per_atom == (3 * 2 + 5 * 4) / 8


def test_parts_add_up_to_the_whole(priced):
    water = priced.structures[0]
    assert sum(priced.macs_by_module.values()) == pytest.approx(water.macs_per_atom)
    assert sum(priced.parameters_by_module.values()) == priced.parameters
    assert priced.forward_macs_per_atom + priced.backward_macs_per_atom == pytest.approx(priced.macs_per_atom)
    assert priced.forward_macs_per_atom < priced.macs_per_atom < priced.padded_macs_per_atom
    total = sum(entry.macs_per_atom * entry.num_atoms for entry in priced.structures)
    assert priced.macs_per_atom == pytest.approx(total / 8)
    assert water.macs_per_atom == pytest.approx(priced.macs_of_an_atom + 2 * priced.macs_of_an_edge)


def test_the_compiled_program_tells_its_memory(priced):
    rows = priced.memory_atoms * 4 * 4  # a scalar feature map of all atoms, in float32
    assert rows < priced.temporary_bytes <= priced.peak_bytes
    assert priced.peak_bytes >= priced.temporary_bytes + 2256


def test_activations_are_measured(priced):
    assert priced.activation_sparsity is not None and 0 <= priced.activation_sparsity < 1
    assert sum(module.channels or 0 for module in priced.modules) > 0
    assert priced.dead_channel_share is not None


def test_a_model_that_lacks_the_elements_has_a_price_all_the_same(backends, tmp_path):
    (tmp_path / "inference_speed").mkdir()
    (tmp_path / "inference_speed" / "2_gold.xyz").write_text("2\n\nAu 0 0 0\nAu 0 0 2.5\n", "utf-8")
    benchmark = ModelCostBenchmark(backends("tiny_mace"), tmp_path, "dev")
    benchmark.run_model()
    result = benchmark.analyze()
    assert result.macs_per_atom == result.macs_of_an_atom + result.macs_of_an_edge
    assert result.not_applicable == {
        cost.ACTIVATIONS: "the model does not cover Au",
        cost.MEMORY: "not compiled in this run mode",
    }


def test_activations_of_a_model_without_an_energy_mean_nothing(backends, molecules):
    benchmark = ModelCostBenchmark(backends("nan_mace"), molecules, "dev")
    benchmark.run_model()
    result = benchmark.analyze()
    assert result.not_applicable[cost.ACTIVATIONS] == "the energy is not finite"
    assert (result.activation_sparsity, result.dead_channel_share) == (None, None)
    assert result.parameters == 6840 and result.macs_per_atom > 0


# Other models


@pytest.mark.parametrize("model", [ToyCalculator(), OracleBackend([])], ids=["calculator", "backend"])
def test_what_cannot_be_seen_is_not_applicable(model, molecules):
    benchmark = ModelCostBenchmark(model, molecules, "fast")
    check_result(benchmark)
    result = benchmark.analyze()
    assert set(result.not_applicable) == set(cost.QUANTITIES) and all(result.not_applicable.values())
    assert (result.failed, result.parameters, result.macs_per_atom, result.temporary_bytes) == (
        False,
        None,
        None,
        None,
    )
    assert result.cutoff == getattr(model, "cutoff", None)


class Tensor:
    """As much of a torch tensor as is asked for."""

    def __init__(self, values):
        self.values, self.dtype = np.asarray(values), f"torch.{np.asarray(values).dtype}"

    def numel(self):
        return self.values.size

    def element_size(self):
        return self.values.itemsize

    def __eq__(self, other):
        return self.values == other

    __hash__ = object.__hash__


class TorchModule:
    def __init__(self, **tensors):
        self.tensors = tensors

    def named_parameters(self):
        return self.tensors.items()


class FlopCounter:
    flops = 1000

    def __init__(self, display):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def get_total_flops(self):
        return self.flops


@pytest.fixture
def torch(monkeypatch):
    """A stand-in for torch, which is not installed here."""
    counter = types.SimpleNamespace(FlopCounterMode=FlopCounter)
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(nn=types.SimpleNamespace(Module=TorchModule)))
    monkeypatch.setitem(sys.modules, "torch.utils.flop_counter", counter)
    return counter


def torch_calculator():
    calculator = ToyCalculator()
    tied = Tensor(np.ones((2, 3), np.float32))
    calculator.models = [
        TorchModule(**{"embed.weight": tied, "out.weight": tied, "out.bias": Tensor(np.zeros(3, np.float32))}),
        TorchModule(**{"embed.weight": tied, "out.weight": Tensor([[0.0, 1.0]])}),
    ]
    return calculator


def test_a_calculator_with_torch_modules(torch, molecules):
    benchmark = ModelCostBenchmark(torch_calculator(), molecules, "fast")
    check_result(benchmark)
    result = benchmark.analyze()
    assert (result.parameters, result.parameter_bytes) == (6 + 3 + 2, 24 + 12 + 16)
    assert result.parameters_by_type == {"float32": 9, "float64": 2}
    assert result.connection_sparsity == 1 / 8
    assert result.parameters_by_module == {"models/0/embed": 6, "models/0/out": 3, "models/1/out": 2}
    # Two operations for one multiply–accumulate, of the smallest structure only.
    assert [entry.macs_per_atom for entry in result.structures] == [500 / 3, None]
    assert result.macs_per_atom == 500 / 3
    assert set(result.not_applicable) == {cost.PARTS, cost.ACTIVATIONS, cost.MESSAGES, cost.MEMORY}


def test_operations_that_torch_does_not_see(torch, monkeypatch):
    monkeypatch.setattr(FlopCounter, "flops", 0)
    found = CalculatorBackend(torch_calculator()).cost([molecule("H2O")])
    assert "scripted" in found.not_applicable[cost.OPERATIONS]
    assert found.parameters_by_type == {"float32": 9, "float64": 2}

    monkeypatch.setattr(torch, "FlopCounterMode", None)
    found = CalculatorBackend(torch_calculator()).cost([molecule("H2O")])
    assert "could not count" in found.not_applicable[cost.OPERATIONS]


def test_without_torch_nothing_is_a_torch_module():
    assert "torch" not in sys.modules
    assert cost.PARAMETERS in backend_for(torch_calculator()).cost([molecule("H2O")]).not_applicable


# Without a score


def test_it_enters_no_average_and_fails_no_run(molecules, tmp_path):
    where = ("-rm", "dev", "-o", tmp_path, "--workers", "0")
    done = planted.command("run", "-m", "toy", "-b", "tautomers", "model_cost", *where)
    assert done.code == 0, done
    assert "no score" in done.err and "no model has a score" not in done.out
    scores = ResultStore(tmp_path).read_scores("toy")
    assert scores["model_cost"] is None
    assert scores["overall_score"] == scores["tautomers"] > 0


def test_one_that_failed_scores_no_zero(tmp_path):
    (tmp_path / "broken.zip").write_text("no archive", "utf-8")
    where = ("-rm", "dev", "-o", tmp_path / "out", "--workers", "0")
    done = planted.command("run", "-m", tmp_path / "broken.zip", "-b", "model_cost", *where)
    assert done.code == 1, done
    assert ResultStore(tmp_path / "out").read_scores("broken") == {"model_cost": None, "overall_score": None}
    failure = Failure(kind=FailureKind.CRASHED, message="gone")
    assert ModelCostBenchmark.result_of_failure(failure).score is None


def test_it_is_in_no_suite():
    from mlipaudit.suites import CORE

    assert ModelCostBenchmark.name not in CORE


def test_numbers_are_finite(priced):
    numbers = [value for value in priced.model_dump().values() if isinstance(value, float)]
    assert len(numbers) > 8 and all(map(math.isfinite, numbers))
