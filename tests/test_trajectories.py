# SPDX-License-Identifier: Apache-2.0
"""Benchmarks of trajectories: what is broken scores nothing or a stated bound, what holds together scores 1."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from ase import Atoms, units
from ase.build import molecule

from mlipaudit.backends.contract import Trajectory, backend_for
from mlipaudit.backends.toy import ToyCalculator
from mlipaudit.benchmarks import (
    BondLengthDistributionBenchmark,
    NVEEnergyConservationBenchmark,
    RingPlanarityBenchmark,
    StabilityBenchmark,
)
from mlipaudit.errors import DataCorruptError
from mlipaudit.failures import Failure, FailureKind
from mlipaudit.families.trajectories import SimulationState, read_structure, system, why_unstable
from mlipaudit.protocol import Ensemble, Minimisation, MolecularDynamics, Trajectories
from mlipaudit.run_mode import RunMode

MD = MolecularDynamics(1000, 10, 100)
PROTOCOL = Trajectories(MD)
ALL = [
    BondLengthDistributionBenchmark,
    NVEEnergyConservationBenchmark,
    RingPlanarityBenchmark,
    StabilityBenchmark,
]
MOVING = [cls for cls in ALL if cls.keep_positions]
ETHANOL = system(molecule("CH3CH2OH"), 0)
EXPLODED = Failure(kind=FailureKind.EXPLODED, message="12000 K after step 40, limit 10300 K", frame=4)

every = pytest.mark.parametrize("cls", ALL, ids=lambda cls: cls.name)
moving = pytest.mark.parametrize("cls", MOVING, ids=lambda cls: cls.name)


# Trajectories whose faults are known


def harmonic(atoms, num_frames=MD.num_frames, *, seed=0):
    """Frames near the starting structure, at a temperature near 300 K, its energy conserved."""
    rng = np.random.default_rng(seed)
    trajectory = Trajectory()
    for frame in range(num_frames + 1):
        temperature = 300.0 * rng.chisquare(3 * len(atoms)) / (3 * len(atoms))
        kinetic = 1.5 * len(atoms) * units.kB * temperature
        trajectory.steps.append(frame * MD.snapshot_interval)
        trajectory.positions.append(atoms.positions + (rng.normal(0, 0.02, (len(atoms), 3)) if frame else 0.0))
        trajectory.temperature.append(temperature)
        trajectory.kinetic_energy.append(kinetic)
        trajectory.potential_energy.append(-100.0 - kinetic + 1e-5 * rng.normal())
    return trajectory


def edited(trajectory, *, since, positions=None, temperature=None):
    """The same with other positions or temperatures from a frame on (the starting one is frame -1)."""
    frames = np.array(trajectory.positions)
    trajectory.positions = type(trajectory.positions)()
    for frame, x in enumerate(frames, start=-1):
        trajectory.positions.append(positions(x, frame) if positions and frame >= since else x)
    if temperature is not None:
        factor = temperature / 300.0
        for frame in range(since + 1, len(trajectory.steps)):
            trajectory.temperature[frame] *= factor
            trajectory.kinetic_energy[frame] *= factor
    return trajectory


def flat(atoms):
    """E = 0: every atom flies on as it began, its kinetic energy what it was."""
    trajectory = harmonic(atoms)
    speed = np.random.default_rng(1).normal(0, 0.02, (len(atoms), 3))  # Å/fs
    trajectory = edited(trajectory, since=0, positions=lambda x, f: atoms.positions + 10 * (f + 1) * speed)
    trajectory.kinetic_energy = [1.5 * len(atoms) * units.kB * 300.0 * (1 + 1e-7 * (f % 2)) for f in range(101)]
    trajectory.potential_energy = [0.0] * 101
    return trajectory


def not_a_number(atoms):
    trajectory = edited(harmonic(atoms), since=0, positions=lambda x, f: x * math.nan)
    trajectory.potential_energy = [math.nan] * 101
    return trajectory


def exploding(atoms):
    return edited(harmonic(atoms), since=2, positions=lambda x, f: x * 1.5 ** (f - 1), temperature=60_000.0)


def hot(atoms):
    """9000 K throughout, the molecule in one piece."""
    return edited(harmonic(atoms), since=-1, temperature=9000.0)


def short(atoms):
    """Three frames of a hundred."""
    return harmonic(atoms, 2)


def scattered(atoms):
    """Every bond ten times as long from the second frame on, cold and finite."""
    return edited(harmonic(atoms), since=1, positions=lambda x, f: 10.0 * x)


def ended(atoms):
    """What a backend hands over when it stops at the fifth frame."""
    trajectory = harmonic(atoms, 4)
    trajectory.failure = EXPLODED
    return trajectory


def never_began(atoms):
    return Failure(kind=FailureKind.EXCEPTION, message="no")


BROKEN = [flat, not_a_number, exploding, hot, short, scattered, ended, never_began]
broken = pytest.mark.parametrize("how", BROKEN, ids=lambda how: how.__name__)


class Scripted:
    """A backend that answers with the same kind of trajectory for every system."""

    def __init__(self, how):
        self.how, self.calls = how, []

    def simulate(self, systems, protocol, **settings):
        self.calls.append((protocol, settings))
        return [self.how(atoms) for atoms in systems]


def judged(cls, golden, how):
    benchmark = cls(ToyCalculator(), golden / "data", "standard")
    output = benchmark.ask(Scripted(how), benchmark.reference)
    reread = cls.model_output_class.model_validate_json(output.model_dump_json())
    result = cls.judge(output, benchmark.reference, PROTOCOL)
    assert cls.judge(reread, benchmark.reference, PROTOCOL).model_dump_json() == result.model_dump_json()
    json.loads(result.model_dump_json(), parse_constant=pytest.fail)
    return result


@every
def test_dynamics_that_hold_together_score_one(cls, golden):
    result = judged(cls, golden, harmonic)
    assert (result.score, result.failed, result.num_failed) == (1.0, False, 0)
    assert not result.failures


BOUND = {
    "flat": 0.02,
    "not_a_number": 0.0,
    "exploding": 0.02,
    "hot": 0.0,
    "short": 0.01,
    "scattered": 0.01,
    "ended": 0.02,
    "never_began": 0.0,
}
"""The most that broken dynamics score in `stability`, which pays for the frames before; elsewhere they score 0."""


@every
@broken
def test_broken_dynamics_score_next_to_nothing(cls, how, golden):
    if cls is NVEEnergyConservationBenchmark and how is scattered:
        pytest.skip("it looks at energies only, and these are conserved")
    result = judged(cls, golden, how)
    graded = cls is StabilityBenchmark
    assert result.score <= (BOUND[how.__name__] if graded else 0.0)
    assert result.failed == (how is never_began or not graded)
    assert len(result.failures) == result.num_systems


KINDS = {
    "flat": "exploded",
    "not_a_number": "non_finite",
    "exploding": "exploded",
    "hot": "exploded",
    "short": "incomplete",
    "scattered": "exploded",
    "ended": "exploded",
    "never_began": "exception",
}


@every
@broken
def test_the_reason_is_named(cls, how, golden):
    if cls is NVEEnergyConservationBenchmark and how is scattered:
        pytest.skip("it looks at energies only, and these are conserved")
    kinds = {failure.kind for failure in judged(cls, golden, how).failures.values()}
    assert kinds == {FailureKind(KINDS[how.__name__])}


STEPS = {
    "bond_length_distribution": {"dev": 10, "fast": 20_000, "standard": 1_000_000},
    "ring_planarity": {"dev": 10, "fast": 20_000, "standard": 1_000_000},
    "stability": {"dev": 10, "fast": 5_000, "standard": 100_000},
    "nve_energy_conservation": {"dev": 100, "fast": 1_000, "standard": 50_000},
}


@every
def test_protocols(cls):
    assert {mode: p.md.num_steps for mode, p in cls.protocols.items()} == STEPS[cls.name]
    nve = cls is NVEEnergyConservationBenchmark
    assert {p.md.ensemble for p in cls.protocols.values()} == {Ensemble.NVE if nve else Ensemble.NVT_LANGEVIN}


@every
def test_all_systems_are_simulated_in_one_call(cls, golden):
    backend = Scripted(harmonic)
    benchmark = cls(ToyCalculator(), golden / "data", "standard", seed=7)
    benchmark.ask(backend, benchmark.reference)
    ((md, settings),) = backend.calls
    assert md == cls.protocols[RunMode.STANDARD].md
    assert settings["names"] == list(benchmark.reference)
    assert (settings["seed"], settings["keep_positions"]) == (7, cls.keep_positions)


# The shared judgement


def state(trajectory, atoms=ETHANOL):
    return SimulationState.of(atoms, trajectory)


def test_a_state_has_no_starting_frame():
    one = state(harmonic(ETHANOL, 7))
    assert (one.num_frames, len(one.temperature), one.step) == (7, 7, 70)
    assert one.positions.dtype == np.float32
    assert state(Trajectory()).num_frames == 0


def test_a_bond_that_is_long_for_one_frame_only_is_not_broken():
    def stretched(x, frame):
        return x * 2.0 if frame == 50 else x

    assert why_unstable(state(edited(harmonic(ETHANOL), since=0, positions=stretched)), ETHANOL, MD, None) is None


def test_a_broken_bond_is_named():
    def without_oxygen_hydrogen(x, frame):
        moved = x.copy()
        moved[3] += [0.0, 0.0, 2.0]
        return moved

    oxygen = int(np.flatnonzero(ETHANOL.numbers == 8)[0])
    hydrogen = 3
    assert ETHANOL.get_distance(oxygen, hydrogen) < 1.0
    failure = why_unstable(
        state(edited(harmonic(ETHANOL), since=60, positions=without_oxygen_hydrogen)), ETHANOL, MD, None
    )
    assert failure.kind is FailureKind.EXPLODED
    assert f"O{oxygen}–H{hydrogen}" in failure.message


def test_a_molecule_that_crosses_the_boundary_stays_whole():
    boxed = system(ETHANOL.copy(), 0, (9.0, 9.0, 9.0))

    def wrapped(x, frame):
        return x % 9.0

    assert why_unstable(state(edited(harmonic(boxed), since=0, positions=wrapped), boxed), boxed, MD, None) is None


@pytest.mark.parametrize("field", ["positions", "temperature"])
def test_a_state_without_what_is_judged_is_incomplete(field):
    one = state(harmonic(ETHANOL)).model_copy(update={field: None})
    assert why_unstable(one, ETHANOL, MD, None).kind is FailureKind.INCOMPLETE


def test_a_single_atom_is_not_far_from_all_others():
    atom = system(Atoms("He"), 0)
    assert why_unstable(state(harmonic(atom), atom), atom, MD, None) is None


# Deviations


def test_the_interval_of_a_mean_contains_it(golden):
    for entry in judged(BondLengthDistributionBenchmark, golden, harmonic).molecules:
        low, high = entry.avg_deviation_interval
        assert low < entry.avg_deviation < high
        assert entry.std_deviation == pytest.approx(np.std(entry.deviation_trajectory))


def test_one_broken_molecule_costs_itself(golden):
    good = judged(RingPlanarityBenchmark, golden, harmonic)
    result = judged(RingPlanarityBenchmark, golden, lambda a: hot(a) if len(a) == 12 else harmonic(a))
    assert list(result.failures) == ["benzene"]
    assert (result.score, result.num_failed, result.num_systems) == (0.5, 1, 2)
    assert result.molecules[1] == good.molecules[1]
    assert result.mae_deviation == good.molecules[1].avg_deviation


def test_rings_of_dev_are_benzene_and_furan_where_they_are(golden, tmp_path):
    folder = tmp_path / "ring_planarity"
    folder.mkdir()
    known = json.loads((golden / "data" / "ring_planarity" / "ring_planarity_data.json").read_text("utf-8"))
    others = {f"other {i}": known["benzene"] for i in range(3)}
    file = folder / "ring_planarity_data.json"
    for there, first in (({**others, **known}, ["benzene", "furan"]), (others, ["other 0", "other 1"])):
        file.write_text(json.dumps(there), "utf-8")
        assert list(RingPlanarityBenchmark(ToyCalculator(), tmp_path, "dev").reference) == first
        assert len(RingPlanarityBenchmark(ToyCalculator(), tmp_path, "fast").reference) == len(there)


# Stability


def stability(golden, edit):
    result = judged(StabilityBenchmark, golden, lambda atoms: edit(harmonic(atoms), atoms))
    return result.structure_results[0]


def test_a_lost_hydrogen_scores_by_the_frame_it_left(golden):
    def lose(trajectory, atoms):
        hydrogen = int(np.flatnonzero(atoms.numbers == 1)[0])

        def away(x, frame):
            x = x.copy()
            x[hydrogen] += [0.0, 0.0, 40.0]
            return x

        return edited(trajectory, since=30, positions=away)

    entry = stability(golden, lose)
    assert (entry.exploded_frame, entry.drift_frame, entry.score) == (-1, 30, 0.65)
    assert len(entry.lost_hydrogens) == 1
    assert not entry.failed


def test_a_broken_heavy_bond_scores_by_the_frame_it_broke(golden):
    def tear(trajectory, atoms):
        def apart(x, frame):
            x = x.copy()
            x[x[:, 0] > np.median(x[:, 0]), 0] += 20.0
            return x

        return edited(trajectory, since=40, positions=apart)

    entry = stability(golden, tear)
    assert (entry.exploded_frame, entry.drift_frame, entry.score) == (40, -1, 0.2)
    assert "broken from frame 40 on" in entry.failure.message


def test_heat_from_a_frame_on_scores_by_that_frame(golden):
    entry = stability(golden, lambda trajectory, atoms: edited(trajectory, since=20, temperature=9000.0))
    assert (entry.exploded_frame, entry.score) == (20, 0.1)


def test_water_may_do_what_it_likes():
    water = molecule("H2O")
    water.translate([6.0, 0.0, 0.0])
    both = system(ETHANOL + water, 0)

    def split(x, frame):
        x = x.copy()
        x[-1] += [20.0, 0.0, 0.0]
        return x

    output = StabilityBenchmark.model_output_class(
        structure_names=["Peptide_solvated"],
        simulation_states=[SimulationState.of(both, edited(harmonic(both), since=10, positions=split))],
    )
    result = StabilityBenchmark.judge(output, {"Peptide_solvated": both}, PROTOCOL)
    assert result.score == 1.0
    assert result.num_stable == 1


def test_only_structures_whose_files_are_there(golden):
    found = StabilityBenchmark(ToyCalculator(), golden / "data", "standard").reference
    assert list(found) == ["Small_molecule_HCNO", "Small_molecule_Sulfur", "Small_molecule_Halogen"]
    assert {atoms.info["charge"] for atoms in found.values()} == {0}
    assert len(StabilityBenchmark(ToyCalculator(), golden / "data", "dev").reference) == 2


# Energy conservation


def nve(total, kinetic, num_atoms=46, md=None):
    """The entry of one run from its energies in eV, a frame per 10 fs."""
    total, kinetic = np.asarray(total, float), np.asarray(kinetic, float)
    output = NVEEnergyConservationBenchmark.model_output_class(
        structure_names=["Small_molecule_HCNO"],
        num_atoms=[num_atoms],
        times_ps=[(0.01 * np.arange(len(total))).tolist()],
        potential_energies_ev=[(total - kinetic).tolist()],
        kinetic_energies_ev=[kinetic.tolist()],
        skipped_structures=[],
    )
    protocol = Trajectories(md or MolecularDynamics(10 * (len(total) - 1), 10, 10))
    return NVEEnergyConservationBenchmark.judge(output, None, protocol).structure_results[0]


N = 201
KINETIC = 1.0 + 0.1 * np.random.default_rng(0).normal(size=N)
SPREAD = KINETIC.std()


def test_a_line_scores_as_published():
    entry = nve(np.linspace(0, 2 * SPREAD, N), KINETIC)
    assert entry.energy_drift_ratio == pytest.approx(2.0)
    assert entry.score == pytest.approx(math.exp(-3))
    assert entry.drift_mev_per_atom_per_ps == pytest.approx(1000 * SPREAD / 46)
    assert entry.drift_distinguishable is True


def test_a_v_shape_scores_one_until_it_is_too_deep():
    shallow = nve(5 * SPREAD * np.abs(np.linspace(-1, 1, N)), KINETIC)
    assert shallow.score == 1.0
    assert shallow.energy_drift_ratio < 1e-6
    assert shallow.largest_deviation_ratio == pytest.approx(5, rel=0.1)
    assert shallow.drift_distinguishable is not True
    deep = nve(25 * SPREAD * np.abs(np.linspace(-1, 1, N)), KINETIC)
    assert (deep.score, deep.failure.kind) == (0.0, FailureKind.EXPLODED)
    assert deep.energy_drift_ratio < 1e-6


def test_a_late_spike_has_exploded():
    total = np.zeros(N)
    total[-2] = 50 * SPREAD
    entry = nve(total, KINETIC)
    assert entry.energy_drift_ratio < 1.5
    assert (entry.score, entry.failure.frame) == (0.0, N - 2)


def test_a_late_blow_up_that_raises_its_own_measure_has_exploded():
    kinetic = KINETIC.copy()
    kinetic[-4:] += [2.0, 3.0, 4.0, 5.0]  # 900 K for these atoms, hotter than they are on average, yet no limit
    entry = nve(kinetic - KINETIC, kinetic)
    assert np.abs(entry.energy_drift_ev).max() < 20 * entry.kinetic_energy_std_ev
    assert (entry.score, entry.failure.kind) == (0.0, FailureKind.EXPLODED)


@pytest.mark.parametrize(
    "total, kinetic, kind",
    [
        (np.zeros(N), np.ones(N), FailureKind.EXPLODED),
        ([0.0], [1.0], FailureKind.INCOMPLETE),
        ([], [], FailureKind.INCOMPLETE),
        (np.where(np.arange(N) == 7, np.nan, 0.0), KINETIC, FailureKind.NON_FINITE),
        (np.where(np.arange(N) == 7, np.inf, 0.0), KINETIC, FailureKind.NON_FINITE),
        (np.zeros(N), 50 * KINETIC, FailureKind.EXPLODED),
    ],
)
def test_runs_without_a_drift(total, kinetic, kind):
    entry = nve(total, kinetic, md=MolecularDynamics(10 * (N - 1), 10, 10))
    assert (entry.score, entry.failed, entry.failure.kind) == (0.0, True, kind)


def test_skipped_systems_do_not_count():
    output = NVEEnergyConservationBenchmark.model_output_class(
        structure_names=["Small_molecule_HCNO", "Peptide_solvated"],
        num_atoms=[46, 1349],
        times_ps=[(0.01 * np.arange(N)).tolist(), None],
        potential_energies_ev=[(-KINETIC).tolist(), None],
        kinetic_energies_ev=[KINETIC.tolist(), None],
        skipped_structures=["Peptide_solvated"],
        n_skipped_unallowed_elements=1,
        failures={"Peptide_solvated": Failure(kind=FailureKind.MISSING_ELEMENTS, message="S")},
    )
    result = NVEEnergyConservationBenchmark.judge(
        output, None, Trajectories(MolecularDynamics(10 * (N - 1), 10, 10))
    )
    assert (result.score, result.num_systems, result.num_skipped, result.num_failed) == (1.0, 2, 1, 0)
    assert result.structure_results[1].skipped and result.structure_results[1].score is None
    assert result.warnings


def test_fast_leaves_out_large_systems(golden, tmp_path):
    from ase.io import write

    folder = tmp_path / "nve_energy_conservation"
    folder.mkdir()
    write(folder / "small_molecule_HCNO.xyz", molecule("CH4"), format="xyz")
    write(folder / "peptide_solv_ion.xyz", Atoms("Ar1700", np.random.rand(1700, 3) * 25), format="xyz")
    names = ["Small_molecule_HCNO", "Peptide_solvated_ions"]
    found = {
        mode: NVEEnergyConservationBenchmark(ToyCalculator(), tmp_path, mode).reference
        for mode in ("dev", "fast", "standard")
    }
    assert {mode: list(systems) for mode, systems in found.items()} == {
        "dev": names[:1],
        "fast": names[:1],
        "standard": names,
    }
    large = found["standard"]["Peptide_solvated_ions"]
    assert large.cell.lengths().tolist() == [25.62, 27.89, 37.36]
    assert large.pbc.all() and not found["dev"]["Small_molecule_HCNO"].pbc.any()


# Files


@pytest.mark.parametrize("text", ["", "3\n\nH 0 0\n", "nonsense\n", "1\n\nQq 0 0 0\n"])
def test_a_damaged_structure_is_corrupt_data(text, tmp_path):
    file = tmp_path / "damaged.xyz"
    file.write_text(text, "utf-8")
    with pytest.raises(DataCorruptError, match=r"damaged\.xyz"):
        read_structure(file)


def test_comments_of_a_structure_are_not_read(golden):
    atoms = read_structure(golden / "data" / "stability" / "small_molecule_HCNO.xyz")
    assert (len(atoms), atoms.info, bool(atoms.pbc.any())) == (46, {}, False)


# End to end


@moving
def test_a_whole_run_of_the_toy(cls, golden):
    benchmark = cls(ToyCalculator(), golden / "data", "dev")
    benchmark.run_model()
    result = benchmark.analyze()
    assert result.num_systems == 2
    assert 0.0 <= result.score <= 1.0
    assert {m.num_frames for m in states_in(benchmark.model_output)} == {10}


def states_in(output):
    return getattr(output, "simulation_states", None) or [m.simulation_state for m in output.molecules]


def test_a_whole_nve_run_of_the_toy(golden):
    benchmark = NVEEnergyConservationBenchmark(ToyCalculator(), golden / "data", "dev")
    benchmark.run_model()
    assert len(benchmark.model_output.kinetic_energies_ev[0]) == 11
    entry = benchmark.analyze().structure_results[0]
    assert entry.num_frames == 11
    assert entry.times_ps[-1] == pytest.approx(0.1)


def test_the_toy_conserves_energy_within_rounding(golden):
    """From its own minimum, where it does not heat up."""
    fast = NVEEnergyConservationBenchmark.protocols[RunMode.FAST]
    md = replace(fast.md, num_steps=500)

    class Relaxed(NVEEnergyConservationBenchmark):
        protocols = {RunMode.FAST: replace(fast, md=md, max_systems=1)}

        @classmethod
        def systems(cls, reference):
            starts = super().systems(reference)
            ends = backend_for(ToyCalculator()).minimise(list(starts.values()), Minimisation(max_steps=400))
            for atoms, end in zip(starts.values(), ends, strict=True):
                atoms.positions = end.positions
            return starts

    benchmark = Relaxed(ToyCalculator(), golden / "data", "fast")
    benchmark.run_model()
    result = benchmark.analyze()
    (entry,) = result.structure_results
    assert result.score == 1.0
    assert not entry.drift_distinguishable
    assert abs(entry.drift_mev_per_atom_per_ps) < 0.02
    assert entry.energy_drift_ratio < 0.01
