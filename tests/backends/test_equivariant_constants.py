# SPDX-License-Identifier: Apache-2.0
"""Constants from numpy are those that e3j and e3nn compute themselves."""

import jax
import jax.numpy as jnp
import jax.scipy.special
import numpy as np
import pytest

from mlipaudit.backends.equivariant_constants import (
    evenly_spaced,
    merged_coefficients,
    normal_points,
    use_numpy,
)


def test_repeated_entries_are_added_and_zeros_dropped():
    values = np.array([1.0, 2.0, 3.0, -2.0, 0.0])
    indices = np.array([[1, 0], [0, 1], [1, 0], [1, 0], [0, 0]])
    merged, where = merged_coefficients(values, indices, (2, 2))
    assert merged.tolist() == [2.0, 2.0]
    assert where.tolist() == [[0, 1], [1, 0]]


def test_the_same_as_e3j(backends):
    backends("tiny_mace")  # loads e3j
    from e3j.utils.sparse import sparse_bcoo

    original = sparse_bcoo.__wrapped__
    rng = np.random.default_rng(0)
    indices = rng.integers(0, 3, (40, 3))
    values = rng.integers(-2, 3, 40).astype(np.float32)
    ours, theirs = sparse_bcoo(values, indices, (3, 3, 3)), original(values, indices, (3, 3, 3))
    assert ours.indices.dtype == theirs.indices.dtype and ours.data.dtype == theirs.data.dtype
    assert np.array_equal(ours.todense(), theirs.todense())
    assert np.array_equal(ours.indices, theirs.indices)


def test_a_network_is_the_same_with_both(models, backends, monkeypatch):
    import e3j.core.bigotimes
    import e3j.core.tensor_product
    from ase.build import molecule

    from mlipaudit.backends.contract import backend_for
    from mlipaudit.backends.mlip_zip import load_zip

    (ours,) = backends("tiny_mace").predict([molecule("CH3CH2OH")], forces=True)
    original = e3j.core.tensor_product.sparse_bcoo.__wrapped__
    for module in (e3j.core.tensor_product, e3j.core.bigotimes):
        monkeypatch.setattr(module, "sparse_bcoo", original)
    jax.clear_caches()
    (theirs,) = backend_for(load_zip(models / "tiny_mace.zip")).predict([molecule("CH3CH2OH")], forces=True)
    assert ours.energy == pytest.approx(theirs.energy, abs=1e-6)
    np.testing.assert_allclose(ours.forces, theirs.forces, atol=1e-5)


@pytest.mark.parametrize("n", [9, 1000, 1_000_003])
def test_points_are_those_of_jax_bit_for_bit(n):
    with jax.ensure_compile_time_eval():  # as e3nn calls it; outside it is rounded otherwise
        theirs = jnp.linspace(-1.0, 1.0, n)
    np.testing.assert_array_equal(evenly_spaced(n), theirs)


def test_activations_are_normalised_as_before(monkeypatch):
    from e3nn_jax._src import activation

    def of_e3nn(n):
        return jnp.sqrt(2) * jax.scipy.special.erfinv(jnp.linspace(-1.0, 1.0, n + 2)[1:-1])

    monkeypatch.setattr(activation, "normalspace", of_e3nn)
    before = activation.normalize_function(jnp.tanh)(0.5)
    use_numpy()
    assert activation.normalspace is normal_points
    assert activation.normalize_function(jnp.tanh)(0.5) == before
    with jax.ensure_compile_time_eval():
        np.testing.assert_array_equal(normal_points(1001), of_e3nn(1001))
