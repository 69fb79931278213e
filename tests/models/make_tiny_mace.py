# SPDX-License-Identifier: Apache-2.0
"""Write `tiny_mace.zip`: one layer, random weights, light elements; it compiles in a third of the usual time.

usage: make_tiny_mace.py   (mlip 0.2.5)
"""

from pathlib import Path

from mlip.data import DatasetInfo
from mlip.models import ForceField, Mace
from mlip.models.model_io import save_model_to_zip

ELEMENTS = (1, 6, 7, 8, 9, 14, 16, 17)


def main() -> None:
    """Build and save."""
    info = DatasetInfo(
        atomic_energies_map={z: -13.6 * z for z in ELEMENTS},
        graph_cutoff_angstrom=4.0,
        avg_num_neighbors=8.0,
        avg_r_min_angstrom=1.0,
        scaling_mean=0.0,
        scaling_stdev=1.0,
    )
    config = Mace.Config(
        num_layers=1,
        num_channels=4,
        l_max=1,
        correlation=2,
        readout_irreps=("4x0e", "0e"),
        radial_mlp_hidden=[8],
        num_rbf=4,
    )
    model = ForceField.from_mlip_network(Mace(config=config, dataset_info=info), seed=0)
    save_model_to_zip(Path(__file__).with_name("tiny_mace.zip"), model)


if __name__ == "__main__":
    main()
