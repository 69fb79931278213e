# SPDX-License-Identifier: Apache-2.0
"""Finding, counting and converting labels; everything that is wrong with a file is one line."""

import numpy as np
import pytest
from ase import Atoms, units
from ase.db import connect
from ase.io import write
from labelled import Oracle, crystals, labelled, make_frames, score

from mlipaudit.backends.contract import Prediction
from mlipaudit.backends.oracle import OracleBackend
from mlipaudit.benchmarks.dataset import DatasetBenchmark
from mlipaudit.benchmarks.dataset.frames import group_of, size_group
from mlipaudit.benchmarks.dataset.options import parse_config
from mlipaudit.benchmarks.dataset.reading import make_reference, read_reference
from mlipaudit.errors import UserError

WATER = Atoms("OH2", positions=[[0, 0, 0.1], [0, 0.8, -0.5], [0, -0.8, -0.5]])


def reference_of(frames, **options):
    return make_reference(frames, parse_config(options, "the options"), "my.xyz")


def water(**info):
    atoms = WATER.copy()
    atoms.info.update(info)
    return atoms


# Which there are


@pytest.mark.parametrize("suffix", [".extxyz", ".traj", ".db"])
def test_every_format_gives_the_same_labels(tmp_path, suffix):
    frames = make_frames(12)
    for frame in frames:
        frame.info.clear()
    file = tmp_path / f"my{suffix}"
    if suffix == ".db":
        with connect(file) as database:
            for frame in frames:
                database.write(frame)
    else:
        write(file, frames)
    read, direct = read_reference(file, parse_config({}, "")), reference_of(frames)
    assert [f.name for f in read.frames] == [f.name for f in direct.frames]
    for one, other in zip(read.frames, direct.frames, strict=True):
        assert one.labels.keys() == other.labels.keys()
        for what, array in one.labels.items():
            np.testing.assert_allclose(array, other.labels[what], atol=1e-7)


def test_a_database_gives_what_is_stored_beside_the_structure(tmp_path):
    with connect(tmp_path / "my.db") as database:
        database.write(WATER, my_energy=2.5, family="wet", data={"my_forces": np.ones((3, 3))})
    options = {"labels": {"energy": "my_energy", "forces": "my_forces"}, "group_by": ["family"]}
    (frame,) = read_reference(tmp_path / "my.db", parse_config(options, "")).frames
    assert frame.labels["energy"] == [2.5]
    assert (frame.labels["forces"] == 1).all()
    assert group_of(frame, "family", parse_config(options, "")) == "wet"


@pytest.mark.parametrize("key", ["energy", "REF_energy", "dft_energy", "total_energy", "free_energy"])
def test_energies_are_found_by_their_usual_names(key):
    assert reference_of([water(**{key: -3.0})]).keys == {"energy": key}


def test_free_energies_are_taken_only_where_there_is_nothing_else():
    assert reference_of([labelled(WATER, energy=1.0, free_energy=2.0)]).frames[0].labels["energy"] == [1.0]


def test_a_chosen_key_is_taken_whatever_else_there_is():
    frame = water(energy=1.0, mine=2.0)
    assert reference_of([frame], labels={"energy": "mine"}).frames[0].labels["energy"] == [2.0]


def test_what_is_missing_is_counted():
    frames = make_frames(40)
    reference = reference_of(frames)
    energy, forces = reference.counts["energy"], reference.counts["forces"]
    assert len(reference.frames) == 39
    assert (energy.num_systems, energy.systems_without) == (38, 1)
    assert (energy.systems_not_finite, energy.components_not_finite) == (1, 1)
    without = len([i for i in range(40) if i % 7 == 0]) + 1
    assert (forces.num_systems, forces.systems_without) == (40 - without, without)
    assert (forces.systems_not_finite, forces.components_not_finite) == (1, 1)
    atoms = sum(len(f) for i, f in enumerate(frames) if i % 7 and i != 5)
    assert forces.num_components == 3 * atoms - 1


def test_the_model_sees_charge_and_spin_and_no_label():
    atoms = water(energy=1.0, REF_energy=2.0, mine=3.0, charge=-1, spin=2, family="kept")
    atoms.arrays["REF_forces"] = np.ones((3, 3))
    reference = reference_of(
        [labelled(atoms, forces=np.ones((3, 3)))], labels={"energy": "mine", "forces": "forces"}
    )
    bare = reference.bare(reference.frames[0])
    assert bare.info == {"charge": -1, "spin": 2, "spin_multiplicity": 2, "family": "kept"}
    assert set(bare.arrays) == {"numbers", "positions"}
    assert bare.calc is None


def test_nine_components_of_stress_become_six():
    full = np.array([[1.0, 6, 5], [6, 2, 4], [5, 4, 3]])
    frame = Atoms("Ar", cell=[5, 5, 5], pbc=True, info={"REF_stress": full})
    assert reference_of([frame]).frames[0].labels["stress"].tolist() == [1, 2, 3, 4, 5, 6]


# Units


def test_labels_are_converted():
    frame = water(energy=2.0, stress=np.arange(6.0))
    frame.arrays["forces"] = np.full((3, 3), 0.5)
    chosen = {"energy": "kcal/mol", "forces": "Hartree/Bohr", "stress": "GPa"}
    reference = reference_of([frame], units=chosen)
    labels = reference.frames[0].labels
    assert labels["energy"][0] == pytest.approx(2 * units.kcal / units.mol, rel=1e-12)
    assert labels["forces"] == pytest.approx(np.full((3, 3), 0.5 * units.Hartree / units.Bohr), rel=1e-12)
    assert labels["stress"] == pytest.approx(np.arange(6.0) * units.GPa, rel=1e-12)
    assert reference.counts["energy"].unit == "kcal/mol"


def test_energies_per_atom_become_those_of_the_system():
    reference = reference_of([water(energy=2.0)], units={"energy": "meV/atom"})
    assert reference.frames[0].labels["energy"][0] == pytest.approx(0.006)
    assert reference.counts["energy"].per_atom


def test_a_model_is_perfect_in_any_unit():
    frames, potential = crystals()
    converted = []
    for frame in frames:
        other = frame.copy()
        other.info["REF_energy"] = frame.get_potential_energy() * units.mol / units.kcal
        other.arrays["REF_forces"] = frame.get_forces() * units.Bohr / units.Hartree
        other.info["REF_stress"] = frame.get_stress() / units.GPa
        converted.append(other)
    options = {"units": {"energy": "kcal/mol", "forces": "Ha/Bohr", "stress": "GPa"}}
    result = score(converted, potential, config=options)
    assert result.energy_mae < 1e-12
    assert result.forces_mae < 1e-12
    assert result.stress_mae < 1e-12


# Groups


@pytest.mark.parametrize(("size", "group"), [(1, "1–10"), (10, "1–10"), (11, "11–12"), (13, "13 and more")])
def test_groups_of_sizes(size, group):
    assert size_group(size, (10, 12)) == group


# What is wrong


def frames_called(*names):
    return [water(energy=1.0, id=name) for name in names]


@pytest.mark.parametrize(
    ("frames", "options", "message"),
    [
        ([], {}, "my.xyz has no frames"),
        ([water()], {}, "my.xyz has no labels under their usual names"),
        ([water(my_energy=1)], {}, "there are: my_energy"),
        (
            [water(REF_energy=1)],
            {"labels": {"energy": "REF_enrgy"}},
            "unknown key 'REF_enrgy'; did you mean 'REF_energy'?",
        ),
        (
            [water(energy=1, REF_energy=2)],
            {},
            "labels of energy may be energy or REF_energy: say which in labels.energy",
        ),
        ([water(energy="low")], {}, "frame 0: energy is not one number"),
        ([water(energy=1, forces=[1, 2])], {}, "frame 0: forces is not [atoms, 3]"),
        ([water(energy=1)], {"quantities": ["forces"]}, "forces is asked for, and no frame has a label of it"),
        ([water(energy=1)], {"metrics": ["stress/mae"]}, "stress is asked for"),
        ([water(energy=1)], {"thresholds": {"forces/mae": 0.1}}, "forces is asked for"),
        ([water(energy=1)], {"group_by": ["famly"]}, "group_by: unknown info key 'famly'"),
        (
            [water(energy=1, k=i) for i in range(101)],
            {"group_by": ["k"]},
            "'k' has 101 different values, more than 100",
        ),
        (frames_called("a"), {"name": "ids"}, "name: unknown info key 'ids'; did you mean 'id'?"),
        ([*frames_called("a"), water(energy=1)], {"name": "id"}, "name: frame 1 has no 'id'"),
        (frames_called("a", "b", "a"), {"name": "id"}, "2 frames are called 'a' by 'id'"),
        ([water(energy=1)], {"reference_energies": {"H": 1.0}}, "there is none of O"),
        ([Atoms(info={"energy": 1.0})], {}, "frame 0 has no atoms"),
    ],
)
def test_what_is_wrong_with_the_data_is_said_in_one_line(frames, options, message):
    with pytest.raises(UserError) as error:
        reference_of(frames, **options)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metricks": []}, "unknown option 'metricks'; did you mean 'metrics'?"),
        ({"labels": {"enrgy": "x"}}, "unknown option 'labels.enrgy'; did you mean 'labels.energy'?"),
        ({"metrics": ["rsme"]}, "did you mean 'rmse'?"),
        ({"metrics": []}, "there are no metrics"),
        ({"metrics": "mae"}, "metrics: Input should be a valid"),
        ({"units": {"energy": "kcal"}}, "unknown unit of energy 'kcal'; did you mean 'kcal/mol'?"),
        ({"units": {"forces": "furlong"}}, "unknown unit of forces 'furlong'. Known: "),
        ({"quantities": ["energy"]}, "unknown quantity 'energy'"),
        ({"preprocessors": ["warp"]}, "unknown transform 'warp'; did you mean 'wrap'?"),
        ({"preprocessors": ["without_net_force"]}, "is a postprocessor, not a preprocessor"),
        ({"postprocessors": ["math:pi"]}, "postprocessor 'math:pi' is no function"),
        ({"size_bins": [20, 10]}, "size_bins [20, 10] are not rising"),
        ({"max_systems": 0}, "max_systems is not a number of frames"),
        ({"thresholds": {"mae": 1.0}}, "thresholds are of one quantity each"),
        ({"thresholds": {"forces/r2": 1.0}}, "more of it is better"),
        ({"thresholds": {"forces/mae": 0.0}}, "is not above zero"),
        ({"reference_energies": "guess"}, "reference_energies.source"),
        ({"reference_energies": {"source": "given"}}, "energies belong to source = 'given'"),
        ({"reference_energies": {"Xy": 1.0}}, "there is no element 'Xy'"),
        ({"reference_energies": {"source": "fit", "subtract_from": "both"}}, "is subtracted from the labels"),
    ],
)
def test_what_is_wrong_with_the_options_is_said_in_one_line(options, message):
    with pytest.raises(UserError) as error:
        parse_config(options, "my.toml")
    assert str(error.value).startswith("my.toml: ")
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "text"), [("my.extxyz", ""), ("my.extxyz", "three\natoms"), ("my.unheard", "x"), ("my.db", "x")]
)
def test_a_file_that_ase_cannot_read_is_said_in_one_line(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    with pytest.raises(UserError) as error:
        DatasetBenchmark(OracleBackend([]), tmp_path / name)
    assert name in str(error.value)
    assert "\n" not in str(error.value)


def test_an_oracle_makes_no_error():
    frames = make_frames(30)
    result = score(frames, Oracle([f for f in frames if f.calc.results]))
    assert result.energy_mae == result.energy_rmse == result.forces_mae == result.forces_rmse == 0
    assert result.metrics["forces"]["r2"].value == 1
    assert result.num_failed == 0


def test_predictions_have_no_others_unless_asked():
    assert Prediction(1.0).others == {}
