# SPDX-License-Identifier: Apache-2.0
"""Benchmarks of liquids: what is broken scores nothing, what holds together is measured with its errors."""

import json
import math
import shutil

import numpy as np
import pytest

from mlipaudit.analysis.density import densities
from mlipaudit.backends.contract import Trajectory
from mlipaudit.backends.toy import ToyCalculator
from mlipaudit.benchmarks import (
    SolventDensityBenchmark,
    SolventRadialDistributionBenchmark,
    WaterDensityBenchmark,
    WaterRadialDistributionBenchmark,
)
from mlipaudit.errors import DataCorruptError
from mlipaudit.failures import Failure, FailureKind
from mlipaudit.families.liquid_density import measured_density, score_interval
from mlipaudit.families.liquid_structure import Structure, measured_structure, structure_of
from mlipaudit.families.liquids import MOLECULE, SOLVENTS, WATER, Sample, boxes_of, changed_molecules, read_box
from mlipaudit.families.trajectories import SimulationState
from mlipaudit.protocol import Ensemble, MolecularDynamics, Trajectories
from mlipaudit.run_mode import RunMode

MD = MolecularDynamics(30, 1, 10, temperature_kelvin=293.15, ensemble=Ensemble.NPT_LANGEVIN)
PROTOCOL = Trajectories(MD)
ALL = [
    SolventDensityBenchmark,
    SolventRadialDistributionBenchmark,
    WaterDensityBenchmark,
    WaterRadialDistributionBenchmark,
]
PAIRS = [ALL[:2], ALL[2:]]
EXPLODED = Failure(kind=FailureKind.EXPLODED, message="12000 K after step 40", frame=4)

every = pytest.mark.parametrize("cls", ALL, ids=lambda cls: cls.name)
pairs = pytest.mark.parametrize("pair", PAIRS, ids=["solvents", "water"])


# Trajectories whose faults are known


def liquid(atoms, num_frames=MD.num_frames, *, volume=lambda frame: 1.0, temperature=293.15):
    """Molecules that shake, in a box whose volume is so many times that of the start (the start is frame -1)."""
    rng = np.random.default_rng(0)
    trajectory = Trajectory()
    _, member = np.unique(atoms.arrays[MOLECULE], return_inverse=True)
    count = np.bincount(member)
    centres = np.stack([np.bincount(member, x) / count for x in atoms.positions.T], axis=1)[member]
    for frame in range(-1, num_frames):
        factor = np.cbrt(volume(frame)) if frame >= 0 else 1.0
        shake = rng.normal(0, 0.02, atoms.positions.shape) if frame >= 0 else 0.0
        trajectory.steps.append(frame + 1)
        trajectory.positions.append(atoms.positions + (factor - 1) * centres + shake)
        trajectory.cells.append(factor * atoms.cell.lengths())
        trajectory.temperature.append(temperature * (1 + 0.01 * rng.normal()))
        trajectory.kinetic_energy.append(1.0)
        trajectory.potential_energy.append(-100.0 + rng.normal())
    return trajectory


def edited(trajectory, change):
    """The same with positions changed by frame."""
    frames = np.array(trajectory.positions)
    trajectory.positions = type(trajectory.positions)()
    for frame, positions in enumerate(frames, start=-1):
        trajectory.positions.append(change(positions, frame) if frame >= 0 else positions)
    return trajectory


def flat(atoms):
    """E = 0: every atom flies on as it began."""
    speed = np.random.default_rng(1).normal(0, 0.02, atoms.positions.shape)  # Å/fs
    trajectory = edited(liquid(atoms), lambda x, frame: atoms.positions + 100 * (frame + 1) * speed)
    trajectory.potential_energy = [0.0] * len(trajectory.steps)
    return trajectory


def flat_and_short(atoms):
    """E = 0 for so short a time that nothing has happened yet."""
    trajectory = liquid(atoms)
    trajectory.potential_energy = [-7.0] * len(trajectory.steps)
    return trajectory


def flying(atoms):
    """The same as E = 0, with an energy that says otherwise."""
    trajectory = flat(atoms)
    trajectory.potential_energy = liquid(atoms).potential_energy
    return trajectory


def not_a_number(atoms):
    return edited(liquid(atoms), lambda x, frame: x * math.nan)


def nan_energy(atoms):
    trajectory = liquid(atoms)
    trajectory.potential_energy[5] = math.nan
    return trajectory


def exploding(atoms):
    trajectory = edited(liquid(atoms), lambda x, frame: x * 1.5**frame)
    trajectory.temperature = [293.15 * 1.5**frame for frame in range(len(trajectory.steps))]
    return trajectory


def hot(atoms):
    return liquid(atoms, temperature=9000.0)


def melting(atoms):
    """One molecule in five comes apart, the rest are whole."""
    lost = np.isin(atoms.arrays[MOLECULE] % 5, 0)[:, None] * np.random.default_rng(2).normal(
        0, 1.5, (len(atoms), 3)
    )
    return edited(liquid(atoms), lambda x, frame: x + lost * frame / MD.num_frames)


def boiling(atoms):
    return liquid(atoms, volume=lambda frame: 1.0 + 0.1 * frame)


def collapsing(atoms):
    return liquid(atoms, volume=lambda frame: 0.9**frame)


def short(atoms):
    return liquid(atoms, 3)


def without_boxes(atoms):
    trajectory = liquid(atoms)
    trajectory.cells = []
    return trajectory


def ended(atoms):
    trajectory = liquid(atoms, 4)
    trajectory.failure = EXPLODED
    return trajectory


def empty(atoms):
    """Nothing but the starting frame."""
    return liquid(atoms, 0)


def never_began(atoms):
    return Failure(kind=FailureKind.EXCEPTION, message="no")


KINDS = {
    flat: "exploded",
    flat_and_short: "exploded",
    flying: "exploded",
    not_a_number: "non_finite",
    nan_energy: "non_finite",
    exploding: "exploded",
    hot: "exploded",
    melting: "exploded",
    boiling: "exploded",
    collapsing: "exploded",
    short: "incomplete",
    without_boxes: "incomplete",
    ended: "exploded",
    empty: "incomplete",
    never_began: "exception",
}


class Scripted:
    """A backend that answers with the same kind of trajectory for every system."""

    def __init__(self, how):
        self.how, self.calls = how, []

    def simulate(self, systems, protocol, **settings):
        self.calls.append((systems, protocol, settings))
        return [self.how(atoms) for atoms in systems]


def prepared(cls, golden, mode="standard"):
    return cls(ToyCalculator(), golden / "data", mode, seed=3)


def judged(cls, golden, how):
    benchmark = prepared(cls, golden)
    output = benchmark.ask(Scripted(how), benchmark.reference)
    reread = cls.model_output_class.model_validate_json(output.model_dump_json())
    result = cls.judge(output, benchmark.reference, PROTOCOL)
    assert cls.judge(reread, benchmark.reference, PROTOCOL).model_dump_json() == result.model_dump_json()
    json.loads(result.model_dump_json(), parse_constant=pytest.fail)
    return result


@every
def test_a_liquid_is_measured(cls, golden):
    result = judged(cls, golden, liquid)
    assert (result.failed, result.num_systems, result.num_failed, result.failures) == (False, 1, 0, {})
    assert 0.4 < result.score <= 1.0
    (entry,) = result.structures
    assert (entry.num_changed_molecules, entry.score) == (0, result.score)


@every
@pytest.mark.parametrize("how", KINDS, ids=lambda how: how.__name__)
def test_what_is_broken_scores_nothing_and_says_why(cls, how, golden):
    result = judged(cls, golden, how)
    assert (result.score, result.failed, result.num_failed) == (0.0, True, 1)
    assert {failure.kind for failure in result.failures.values()} == {FailureKind(KINDS[how])}


@every
def test_a_few_protons_that_hop_are_told_and_score(cls, golden):
    def hopping(atoms):
        last = len(atoms) - 1
        away = np.zeros_like(atoms.positions)
        away[last] = atoms.positions[last] - atoms.positions[last - 1]
        return edited(liquid(atoms), lambda x, frame: x + away)

    result = judged(cls, golden, hopping)
    assert result.score > 0.4
    assert 1 <= result.structures[0].num_changed_molecules <= 3
    assert "broken or joined" in result.warnings[-1]


# What is asked


@pairs
def test_both_of_a_pair_ask_the_same(pair, golden):
    asked = []
    for cls in pair:
        benchmark, backend = prepared(cls, golden), Scripted(liquid)
        benchmark.ask(backend, benchmark.reference)
        ((systems, md, settings),) = backend.calls
        asked.append((systems, md, settings["names"], settings["seed"], settings["keep_positions"]))
    assert asked[0] == asked[1]
    one, other = pair
    assert one.model_output_class is other.model_output_class
    assert one.reusable_output_id == other.reusable_output_id == (other.name, one.name)
    assert one.protocols == other.protocols
    assert one.data_folder_name() == other.data_folder_name() == other.name


@pairs
def test_one_judges_what_the_other_was_answered(pair, golden):
    one, other = (prepared(cls, golden) for cls in pair)
    output = one.ask(Scripted(liquid), one.reference)
    assert type(other).judge(output, other.reference, PROTOCOL).score > 0


@every
def test_protocols(cls):
    steps = {mode: (p.md.num_steps, p.md.snapshot_interval) for mode, p in cls.protocols.items()}
    assert steps == {"dev": (5, 1), "fast": (10_000, 50), "standard": (500_000, 500)}
    water = cls.name.startswith("water")
    for mode, protocol in cls.protocols.items():
        assert protocol.md.ensemble is Ensemble.NPT_LANGEVIN
        assert protocol.md.temperature_kelvin == (295.15 if water else 293.15)
        assert (protocol.md.timestep_fs, protocol.md.pressure_bar) == (1.0, 1.01325)
        assert protocol.max_systems == (None if water or mode is RunMode.STANDARD else 1)


@every
def test_the_boxes(cls, golden):
    for name, atoms in cls.systems(prepared(cls, golden).reference).items():
        assert name in ("water", "CCl4")
        assert atoms.pbc.all()
        assert atoms.cell.lengths() == pytest.approx(24.772 if name == "water" else 28.575)
        assert (atoms.info["charge"], atoms.info["spin"]) == (0, 1)
        assert np.bincount(atoms.arrays[MOLECULE]).tolist() == [3] * 501 if name == "water" else [5] * 125


def test_frames_keep_their_boxes(golden):
    (atoms,) = WaterDensityBenchmark.systems(prepared(WaterDensityBenchmark, golden).reference).values()
    state = SimulationState.of(atoms, liquid(atoms, 4, volume=lambda frame: 1 + 0.01 * frame))
    again = SimulationState.model_validate_json(state.model_dump_json())
    assert boxes_of(again) == pytest.approx(24.772 * np.cbrt([1.0, 1.01, 1.02, 1.03])[:, None] * np.ones(3))
    assert state.num_frames == 4


def test_boxes_of_outputs_of_0_1_x():
    state = SimulationState(positions=np.zeros((2, 1, 3)), cell=np.eye(3)[None] * [[[5.0]], [[6.0]]])
    assert boxes_of(state).tolist() == [[5.0] * 3, [6.0] * 3]


# Data that is not what it should be


def copied(golden, tmp_path):
    folder = tmp_path / "water_radial_distribution"
    shutil.copytree(golden / "data" / folder.name, folder)
    return folder


def test_a_file_without_a_box(golden, tmp_path):
    folder = copied(golden, tmp_path)
    file = folder / "water_box_n500_eq.pdb"
    file.write_text("".join(line for line in file.open() if not line.startswith("CRYST1")))
    with pytest.raises(DataCorruptError, match="CRYST1"):
        read_box(folder, "water_box_n500")


@pytest.mark.parametrize("molecules", [np.zeros(7, int), np.zeros(1503), None], ids=["few", "floats", "text"])
def test_molecules_of_something_else(molecules, golden, tmp_path):
    folder = copied(golden, tmp_path)
    file = folder / "water_box_n500_molecule_indices.npy"
    file.write_text("no") if molecules is None else np.save(file, molecules)
    with pytest.raises(DataCorruptError, match=r"water_box_n500_molecule_indices\.npy"):
        read_box(folder, "water_box_n500")


def test_no_experiment(golden, tmp_path):
    (copied(golden, tmp_path) / "experimental_reference.npz").write_bytes(b"PK")
    with pytest.raises(DataCorruptError, match="experimental_reference"):
        WaterRadialDistributionBenchmark(ToyCalculator(), tmp_path, "dev").reference  # noqa: B018


@every
def test_data_without_a_box(cls, golden, tmp_path):
    folder = tmp_path / cls.data_folder_name()
    folder.mkdir()
    if cls is WaterRadialDistributionBenchmark:
        shutil.copy(golden / "data" / folder.name / "experimental_reference.npz", folder)
    benchmark = cls(ToyCalculator(), tmp_path, "dev")
    benchmark.run_model()
    result = benchmark.analyze()
    assert (result.score, result.failed) == (0.0, True)
    assert result.failure.kind == "data_unavailable"


def test_molecules_that_a_box_has_cut_are_made_whole(golden, tmp_path):
    folder = copied(golden, tmp_path)
    known = read_box(folder, "water_box_n500")
    file = folder / "water_box_n500_eq.pdb"
    from ase.io import read, write

    cut = read(file)
    cut.wrap()
    write(file, cut)
    made = read_box(folder, "water_box_n500")
    oxygens = made.positions[made.arrays[MOLECULE] * 3]
    assert np.abs(made.positions - oxygens).max() < 1.2
    assert not changed_molecules(made.positions, made.cell.lengths(), known).size


# Statistics


def sample(num_frames, *, change=0.0, seed=0):
    """Frames of an ideal gas of 40 one-atom molecules whose volume fluctuates by one in a hundred."""
    from ase import Atoms

    rng = np.random.default_rng(seed)
    lengths = 12.0 * np.cbrt(1 + 0.01 * rng.normal(size=num_frames) + np.linspace(0, change, num_frames))
    boxes = np.stack([lengths] * 3, axis=1)
    start = Atoms("O40", positions=rng.random((40, 3)) * 12.0, cell=[12.0] * 3, pbc=True)
    start.set_array(MOLECULE, np.arange(40))
    return Sample(start, rng.random((num_frames, 40, 3)) * boxes[:, None], boxes)


def test_a_density_has_its_error():
    fields = measured_density(sample(500), WATER["water"])
    truth = densities([12.0] * 3, num_molecules=40, molar_mass=WATER["water"].molar_mass)
    assert fields["average_density"] == pytest.approx(truth, rel=2e-3)
    assert fields["density_error"] == pytest.approx(0.01 * truth / 20, rel=0.5)
    assert fields["drift_distinguishable"] is False and not fields["remarks"]
    assert len(fields["densities"]) == 500


def test_the_first_fifth_does_not_count():
    whole = sample(500)
    whole.boxes[:100] *= 2
    fields = measured_density(whole, WATER["water"])
    assert fields["average_density"] == np.mean(fields["densities"][100:])
    found = structure_of(whole, WATER["water"])
    assert len(found.pairs.counts) == 400
    assert found.pairs.radii[-1] < 6.2


def test_a_density_that_has_not_settled_says_so():
    fields = measured_density(sample(500, change=0.1), WATER["water"])
    assert fields["drift_distinguishable"] is True
    assert "has not settled" in fields["remarks"][0]


def test_a_box_that_never_changes_tells_no_error():
    still = sample(500)
    still.boxes[:] = 12.0
    fields = measured_density(still, WATER["water"])
    assert fields["density_interval"] is fields["score_interval"] is None
    assert "never changed" in fields["remarks"][0]


def test_the_interval_of_a_score_is_that_of_its_density():
    from mlipaudit.analysis.blocks import Estimate

    assert score_interval(Estimate(1.0, 0.01, (0.99, 1.01)), 1.0) == (1.0, 1.0)
    low, high = score_interval(Estimate(0.9, 0.02, (0.85, 0.95)), 1.0)
    assert (low, high) == pytest.approx((math.exp(-0.1 * 6.5), math.exp(-0.1 * 1.5)))
    assert score_interval(Estimate(1.0), 1.0) is None


def test_a_distribution_has_its_errors():
    found = structure_of(sample(400), WATER["water"])
    assert isinstance(found, Structure) and found.blocks is not None
    fields = measured_structure(found, WATER["water"])
    far = slice(100, None)
    counting = 1 / np.sqrt(found.pairs.gas.sum() * found.pairs.shells[far])
    assert np.mean(np.array(fields["rdf_error"])[far] / counting) == pytest.approx(1.0, abs=0.1)
    mean = found.estimate(lambda g: float(g[far].mean()))
    assert mean.interval[0] < 1.0 < mean.interval[1]
    low, high = fields["peak_interval"]
    assert low <= fields["first_solvent_peak"] <= high
    assert fields["score_interval"][0] <= fields["peak_score"] <= fields["score_interval"][1]


def test_few_frames_have_no_errors():
    fields = measured_structure(structure_of(sample(12), WATER["water"]), WATER["water"])
    assert fields["rdf_error"] is fields["peak_interval"] is fields["smooth_peak_interval"] is None
    assert fields["score_interval"] is fields["num_blocks"] is None


def test_a_box_too_small_for_its_peak():
    found = structure_of(sample(12), SOLVENTS["CCl4"])
    assert isinstance(found, Failure)
    assert found.kind is FailureKind.INCOMPLETE and "half the box" in found.message


def test_no_peak_in_the_window_is_told():
    """Acetonitrile's score cannot fall below 0.687: a curve that rises towards the edge of its window says so."""
    gas = sample(12)
    found = structure_of(gas, SOLVENTS["acetonitrile"]._replace(atom="O"))
    rising = Structure(found.pairs, found.volumes, found.near)
    rising.__dict__["rdf"] = found.pairs.radii
    fields = measured_structure(rising, SOLVENTS["acetonitrile"])
    assert "no peak between 3.5 and 4.5" in fields["remarks"][0]
    assert fields["peak_score"] == pytest.approx(0.687, abs=0.001)


def test_water_is_compared_as_far_as_half_its_box(golden):
    experiment = WaterRadialDistributionBenchmark.load(golden / "data" / "water_radial_distribution", PROTOCOL)
    fields = WaterRadialDistributionBenchmark.measure(sample(400), WATER["water"], experiment)
    low, high = fields["compared_range"]
    assert low == 2.5 and high == pytest.approx(sample(400).boxes[80:].min() / 2, abs=0.01)
    assert "not 10" in fields["remarks"][0]
    assert fields["profile_deviation"] == pytest.approx(1.0, abs=0.05)  # that of a gas
    assert fields["profile_score"] < 1e-4
    assert fields["rmse_noise"] < fields["rmse"]
    assert fields["rmse_interval"][0] < fields["rmse"] < fields["rmse_interval"][1]
    assert fields["reference_coordination_number"] == pytest.approx(4.35, abs=0.01)
    gas = 39 / 12.0**3 * 4 / 3 * np.pi * 3.295**3
    assert fields["coordination_number"] == pytest.approx(gas, rel=0.03)
