# SPDX-License-Identifier: Apache-2.0
"""Model archives written by `mlip.models.model_io.save_model_to_zip`, under any file name.

The archive holds `hyperparams.json` and `params.npz` but not the name of the architecture: the key set of its
`config` tells it. mlip's own loader compiles and runs an `init` whose parameters it throws away (33 CPU seconds for
52k parameters); here the network is put together from its parts and, where shapes are needed, `jax.eval_shape`
gives them.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mlipaudit.errors import ModelLoadError

if TYPE_CHECKING:
    from mlip.models import ForceField

HYPERPARAMS, PARAMS = "hyperparams.json", "params.npz"


@dataclass(frozen=True)
class Archive:
    """Content of a model archive."""

    path: Path
    hyperparams: dict[str, Any]
    params: dict[str, np.ndarray]
    """Flat: module names joined by #, as mlip writes them."""

    @property
    def sha256(self) -> str:
        """Hash of weights and architecture; the same when the archive is only packed anew."""
        digest = hashlib.sha256()
        parts = {key: self.hyperparams[key] for key in ("config", "dataset_info")}
        digest.update(json.dumps(parts, sort_keys=True).encode())
        for name, array in sorted(self.params.items()):
            digest.update(f"{name} {array.dtype} {array.shape}".encode())
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()


def read_archive(path: Path) -> Archive:
    """Read a model archive; imports no jax.

    Raises:
        ModelLoadError: the file is no zip, is damaged, or was not written by mlip.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            missing = {HYPERPARAMS, PARAMS} - set(archive.namelist())
            if missing:
                raise ModelLoadError(
                    f"{path.name} is not a model saved by mlip: it has no {' and no '.join(sorted(missing))}"
                )
            hyperparams = json.loads(archive.read(HYPERPARAMS))
            with np.load(io.BytesIO(archive.read(PARAMS)), allow_pickle=False) as arrays:
                params = {name: arrays[name] for name in arrays.files}
    except zipfile.BadZipFile as error:
        raise ModelLoadError(f"{path.name} is not a zip archive, or is damaged: {error}") from error
    except (OSError, EOFError, ValueError, TypeError, RuntimeError, AttributeError, zlib.error) as error:
        # An encrypted archive is a RuntimeError, a bare array instead of an npz a TypeError.
        raise ModelLoadError(f"{path.name} cannot be read: {error}") from error
    if not isinstance(hyperparams, dict) or not all(
        isinstance(hyperparams.get(key), dict) for key in ("config", "dataset_info")
    ):
        raise ModelLoadError(
            f"{path.name} is not a model saved by mlip: {HYPERPARAMS} has no config and dataset_info"
        )
    return Archive(path, hyperparams, params)


def load_zip(path: Path) -> ForceField:
    """The force field in a model archive: energy and forces, no stress. Compiles nothing.

    Raises:
        ModelLoadError: no mlip model, a damaged one, or an architecture this version of mlip does not know.
    """
    archive = read_archive(path)
    network_class = _architecture(archive)
    try:
        return _assemble(network_class, archive)
    except (KeyError, TypeError, ValueError) as error:
        reason = str(error).splitlines()[0] if str(error) else repr(error)
        raise ModelLoadError(f"{path.name} ({network_class.__name__}) cannot be loaded: {reason}") from error


def _architecture(archive: Archive) -> Any:
    """The network class whose configuration has all the archive's keys and the fewest besides."""
    keys = set(archive.hyperparams["config"])
    fitting = [cls for cls in _network_classes() if keys <= set(cls.Config.model_fields)]
    if not fitting:
        raise ModelLoadError(
            f"{archive.path.name}: the installed mlip knows no architecture with the settings {', '.join(sorted(keys))}"
        )
    return min(fitting, key=lambda cls: len(set(cls.Config.model_fields) - keys))


def _network_classes() -> list[Any]:
    from mlip.models import Esen, Mace, Nequip, Visnet
    from mlip.models_v1.mace.models import Mace as MaceV1
    from mlip.models_v1.nequip.models import Nequip as NequipV1
    from mlip.models_v1.visnet.models import Visnet as VisnetV1

    return [Mace, Visnet, Nequip, Esen, MaceV1, VisnetV1, NequipV1]


def _assemble(network_class: Any, archive: Archive) -> ForceField:
    from mlip.data import DatasetInfo
    from mlip.models import ForceField
    from mlip.models_v1.mlip_network_v1 import MLIPNetworkV1
    from mlip.models_v1.predictor_v1 import ForceFieldPredictorV1
    from mlip.typing.properties import Properties

    info = dict(archive.hyperparams["dataset_info"])
    if "cutoff_distance_angstrom" in info:  # v1 spelling
        info["graph_cutoff_angstrom"] = info.pop("cutoff_distance_angstrom")
    config = network_class.Config(**archive.hyperparams["config"])
    network = network_class(config=config, dataset_info=DatasetInfo(**info))
    properties = Properties(energy=True, forces=True, stress=False)
    if issubclass(network_class, MLIPNetworkV1):
        predictor = ForceFieldPredictorV1(mlip_network=network, required_properties=properties)
    else:
        predictor = ForceField.get_predictor_class(properties, config)(
            mlip_network=network,
            required_properties=properties,
            energy_head=ForceField.get_energy_head(config, properties, network),
        )
    return ForceField(predictor, _match_shapes(_nest(archive.params), predictor))


def _nest(flat: dict[str, np.ndarray]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for name, array in flat.items():
        *parents, leaf = name.split("#")
        node = nested
        for parent in parents:
            node = node.setdefault(parent, {})
        node[leaf] = array
    return nested


def _match_shapes(params: dict[str, Any], predictor: Any) -> dict[str, Any]:
    """Parameters as the network wants them, on the device.

    v1 models trained with pmap carry one leading device axis too many, and blocks without elements may have lost their
    shape: only then the network's shapes are worked out, which takes many seconds for a MACE.

    Raises:
        ValueError: the archive's parameters are not those of this architecture.
    """
    import jax
    from mlip.data.helpers.dummy_init_graph import get_dummy_graph_for_model_init
    from mlip.models_v1.predictor_v1 import ForceFieldPredictorV1

    shaped = all(array.size or array.ndim > 1 for array in jax.tree.leaves(params))
    if shaped and not isinstance(predictor, ForceFieldPredictorV1):
        return jax.tree.map(jax.numpy.asarray, params)
    wanted = jax.eval_shape(predictor.init, jax.random.key(0), get_dummy_graph_for_model_init())

    def fit(path: Any, array: np.ndarray, shape: jax.ShapeDtypeStruct) -> jax.Array:
        if shape.size == 0:
            return jax.numpy.zeros(shape.shape, shape.dtype)
        if array.ndim == shape.ndim + 1:
            array = array[0]
        if array.shape != shape.shape:
            raise ValueError(f"{jax.tree_util.keystr(path)} has shape {array.shape}, expected {shape.shape}")
        return jax.numpy.asarray(array)

    return jax.tree_util.tree_map_with_path(fit, params, wanted)
