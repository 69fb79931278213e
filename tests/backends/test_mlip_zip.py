# SPDX-License-Identifier: Apache-2.0
"""Archives of every architecture load under any name and give mlip's own energies and forces."""

import json
import shutil
import zipfile

import numpy as np
import pytest
from ase import Atoms

from mlipaudit.backends.mlip_zip import load_zip, read_archive
from mlipaudit.errors import ModelLoadError

ARCHITECTURES = {"x_mace": "Mace", "x_visnet": "Visnet", "x_nequip": "Nequip", "x_esen": "Esen"}


@pytest.fixture(scope="module")
def predictions(golden):
    return json.loads((golden / "mlip_predictions.json").read_text())


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_predictions_equal_those_of_mlip(name, backends, predictions):
    systems = [
        Atoms(s["symbols"], s["positions"], info={"charge": s["charge"]}) for s in predictions["structures"]
    ]
    answers = backends(name).predict(systems, forces=True)
    expected = predictions["models"][name]
    energies = np.array(expected["energies_eV"])
    np.testing.assert_allclose([a.energy for a in answers], energies, rtol=3e-7, atol=3e-6)
    for answer, forces in zip(answers, expected["forces_eV_per_A"], strict=True):
        np.testing.assert_allclose(answer.forces, forces, atol=1e-5)


@pytest.mark.parametrize(("name", "network"), ARCHITECTURES.items())
def test_the_architecture_is_read_from_the_archive(name, network, models, tmp_path):
    anonymous = shutil.copy(models / f"{name}.zip", tmp_path / "MACE_visnet_large.zip")
    force_field = load_zip(tmp_path / anonymous)
    assert type(force_field.predictor.mlip_network).__name__ == network
    assert not force_field.predictor.required_properties.stress


def test_weights_equal_those_that_mlip_loads(models, force_fields):
    import jax
    from mlip.models import Visnet
    from mlip.models.model_io import load_model_from_zip

    theirs = load_model_from_zip(Visnet, models / "x_visnet.zip")
    equal = jax.tree.map(lambda a, b: bool((a == b).all()), theirs.params, force_fields("x_visnet").params)
    assert all(jax.tree.leaves(equal))


def test_an_archive_of_mlip_v1_loads_and_drops_the_device_axis(tmp_path):
    import jax
    from mlip.data import DatasetInfo
    from mlip.data.helpers.dummy_init_graph import get_dummy_graph_for_model_init
    from mlip.models_v1.predictor_v1 import ForceFieldPredictorV1
    from mlip.models_v1.visnet.models import Visnet
    from mlip.typing.properties import Properties

    info = {"atomic_energies_map": {1: -13.6, 8: -2000.0}, "graph_cutoff_angstrom": 4.0, "avg_num_neighbors": 4.0}
    info |= {"avg_r_min_angstrom": 1.0, "scaling_mean": 0.0, "scaling_stdev": 1.0}
    config = Visnet.Config(num_layers=1, num_channels=8, num_heads=2, num_rbf=4)
    network = Visnet(config=config, dataset_info=DatasetInfo(**info))
    predictor = ForceFieldPredictorV1(mlip_network=network, required_properties=Properties())
    params = predictor.init(jax.random.key(0), get_dummy_graph_for_model_init())
    write_v1_archive(tmp_path / "old.zip", config, network.dataset_info, params)
    loaded = load_zip(tmp_path / "old.zip")
    assert type(loaded.predictor.mlip_network) is Visnet
    assert loaded.cutoff_distance == 4.0
    assert jax.tree.map(np.shape, loaded.params) == jax.tree.map(np.shape, params)
    equal = jax.tree.map(lambda a, b: bool((np.asarray(a) == np.asarray(b)).all()), loaded.params, params)
    assert all(equal for equal in jax.tree.leaves(equal))


def write_v1_archive(path, config, dataset_info, params):
    """As mlip v1 wrote it: another name for the cutoff, parameters with pmap's leading axis."""
    from mlip.utils.dict_flatten import flatten_dict

    info = json.loads(dataset_info.model_dump_json())
    info["cutoff_distance_angstrom"] = info.pop("graph_cutoff_angstrom")
    hyperparams = {"dataset_info": info, "config": json.loads(config.model_dump_json()), "version": "0.1.3"}
    arrays = {"#".join(key): np.asarray(value)[None] for key, value in flatten_dict(params).items()}
    np.savez(path.with_suffix(".npz"), **arrays)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("hyperparams.json", json.dumps(hyperparams))
        archive.write(path.with_suffix(".npz"), "params.npz")


def test_settings_of_no_known_architecture_are_refused_in_words(models, tmp_path):
    archive = read_archive(models / "x_mace.zip")
    hyperparams = {**archive.hyperparams, "config": {**archive.hyperparams["config"], "warp_drive": 1}}
    with zipfile.ZipFile(tmp_path / "m.zip", "w") as out, zipfile.ZipFile(models / "x_mace.zip") as source:
        out.writestr("hyperparams.json", json.dumps(hyperparams))
        out.writestr("params.npz", source.read("params.npz"))
    with pytest.raises(ModelLoadError, match=r"m\.zip.*no architecture.*warp_drive"):
        load_zip(tmp_path / "m.zip")
