# SPDX-License-Identifier: Apache-2.0
"""Proteins in water: what is broken scores nothing, what holds together is judged whole, whatever the box."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from test_trajectories import BROKEN, KINDS, Scripted, edited, harmonic, scattered

from mlipaudit.backends.checkpoints import Checkpoints
from mlipaudit.backends.contract import Relaxation
from mlipaudit.backends.toy import ToyCalculator
from mlipaudit.benchmarks import FoldingStabilityBenchmark, SamplingBenchmark
from mlipaudit.benchmarks.sampling.judgement import References, sampled_angles
from mlipaudit.data import embedded_root
from mlipaudit.errors import DataCorruptError
from mlipaudit.failures import Failure, FailureKind
from mlipaudit.families.proteins import RELAXATION, ProteinDynamics
from mlipaudit.protocol import MolecularDynamics, Optimizer

ALL = [FoldingStabilityBenchmark, SamplingBenchmark]
NAME, OTHER = "chignolin_1uao_xray", "trp_cage_2jof_xray"
PROTOCOL = ProteinDynamics(MolecularDynamics(1000, 10, 100), score_every=10)
DATA = embedded_root()
PUSH = np.array([0.1, 0.0, 0.0])
GONE = Failure(kind=FailureKind.EXCEPTION, message="no")

every = pytest.mark.parametrize("cls", ALL, ids=lambda cls: cls.name)
broken = pytest.mark.parametrize("how", BROKEN, ids=lambda how: how.__name__)


class Backend(Scripted):
    """Answers with scripted dynamics, and relaxes by a push along x."""

    def __init__(self, how=harmonic, end=lambda x: x + PUSH):
        super().__init__(how)
        self.end, self.started, self.minimised = end, [], []

    def minimise(self, systems, protocol, *, progress=None):
        self.minimised.append(protocol)
        ends = [self.end(atoms.positions) for atoms in systems]
        return [GONE if end is None else Relaxation(end, -1.0, 0.1, 100, False) for end in ends]

    def simulate(self, systems, protocol, **settings):
        self.started.append([atoms.positions.copy() for atoms in systems])
        return super().simulate(systems, protocol, **settings)


def load(cls, folder=DATA):
    return cls.load(folder / "folding_stability", PROTOCOL)


@pytest.fixture(scope="module")
def references():
    return {cls: load(cls) for cls in ALL}


def output_of(protein, how):
    """Model output of one protein whose dynamics are scripted."""
    benchmark = FoldingStabilityBenchmark(ToyCalculator(), data="embedded")
    return benchmark.collect({NAME: how(protein.atoms)}, {NAME: protein.atoms})


def judged(cls, reference, how=harmonic, protocol=PROTOCOL):
    output = output_of(cls.proteins(reference)[NAME], how)
    result = cls.judge(output, reference, protocol)
    json.loads(result.model_dump_json(), parse_constant=pytest.fail)
    return result


@pytest.fixture
def copy(tmp_path):
    """A copy of the data that may be changed."""
    without = shutil.ignore_patterns("manifest.toml")
    shutil.copytree(DATA / "folding_stability", tmp_path / "folding_stability", ignore=without)
    return tmp_path


def with_two(folder):
    """The same protein a second time, under another name."""
    for ending in (".xyz", ".pdb", "_ref.pdb"):
        shutil.copy(
            folder / "folding_stability" / f"{NAME}{ending}", folder / "folding_stability" / f"{OTHER}{ending}"
        )
    return folder


def renamed(folder, old, new):
    """Residues renamed in both PDB files."""
    for ending in (".pdb", "_ref.pdb"):
        file = folder / "folding_stability" / f"{NAME}{ending}"
        file.write_text(file.read_text("utf-8").replace(f" {old} A", f" {new} A"), "utf-8")
    return folder


# Scores


def test_a_fold_that_holds_scores_one(references):
    result = judged(FoldingStabilityBenchmark, references[FoldingStabilityBenchmark])
    (entry,) = result.molecules
    assert (result.score, result.failed, result.num_systems, result.num_failed) == (1.0, False, 1, 0)
    assert entry.avg_rmsd == pytest.approx(np.sqrt(3) * 0.02, rel=0.15)
    assert entry.avg_match > 0.9 and entry.avg_tm_score > 0.95
    assert entry.avg_radius_of_gyration == pytest.approx(entry.reference_radius_of_gyration, rel=1e-3)
    assert set(entry.reference_secondary_structure) == set("ET ")


def test_sampling_of_a_still_protein(references):
    result = judged(SamplingBenchmark, references[SamplingBenchmark])
    assert 0.0 <= result.score <= 1.0 and not result.failed
    assert set(result.outliers_ratio_backbone_dihedrals) == {"TYR", "ASP", "PRO", "GLU", "THR", "GLY", "TRP"}
    assert set(result.outliers_ratio_sidechain_dihedrals) == {"TYR", "ASP", "PRO", "GLU", "THR", "TRP"}
    assert result.score == pytest.approx(result.systems[0].score)
    assert result.score <= result.calibrated_score


@every
@broken
def test_broken_dynamics_score_nothing(cls, how, references):
    """E = 0, NaN, explosions, heat, too few frames: the bound is 0 for all of them."""
    result = judged(cls, references[cls], how)
    assert (result.score, result.failed, result.num_failed) == (0.0, True, 1)
    assert result.failures[NAME].kind is FailureKind(KINDS[how.__name__])


@every
def test_a_protein_that_failed_counts_nothing(cls, copy):
    reference = load(cls, with_two(copy))
    proteins = cls.proteins(reference)
    systems = {name: protein.atoms for name, protein in proteins.items()}
    outcomes = {NAME: harmonic(systems[NAME]), OTHER: scattered(systems[OTHER])}
    output = cls(ToyCalculator(), copy).collect(outcomes, systems)
    result = cls.judge(output, reference, PROTOCOL)
    alone = judged(cls, reference)
    assert result.score == pytest.approx(alone.score / 2)
    assert (result.num_systems, result.num_failed, list(result.failures)) == (2, 1, [OTHER])
    low, high = result.score_interval
    assert low == 0.0 <= result.score <= high == pytest.approx(alone.score)


def test_two_equal_proteins_score_as_one(copy):
    cls = SamplingBenchmark
    reference = load(cls, with_two(copy))
    systems = {name: protein.atoms for name, protein in reference.proteins.items()}
    output = cls(ToyCalculator(), copy).collect({name: harmonic(a) for name, a in systems.items()}, systems)
    result, alone = cls.judge(output, reference, PROTOCOL), judged(cls, reference)
    assert result.score == pytest.approx(alone.score)
    assert result.score_interval == pytest.approx((alone.score, alone.score))
    assert result.outliers_ratio_backbone_dihedrals == alone.outliers_ratio_backbone_dihedrals


# Frames


def late(atoms):
    """Unfolded by 1 Å or so in every frame but each tenth."""

    def warped(x, frame):
        return x if (frame + 1) % 10 == 0 else x * [1.15, 1.0, 1.0]

    return edited(harmonic(atoms), since=0, positions=warped)


def test_only_every_tenth_frame_scores_but_all_make_the_interval(references):
    (entry,) = judged(FoldingStabilityBenchmark, references[FoldingStabilityBenchmark], late).molecules
    assert len(entry.rmsd_trajectory) == len(entry.tm_score_trajectory) == len(entry.secondary_structure) == 10
    assert len(entry.rmsd_all_frames) == 100
    assert entry.rmsd_trajectory == entry.rmsd_all_frames[9::10]
    assert entry.avg_rmsd < 0.1 < entry.avg_rmsd_interval[0]


@every
def test_an_interval_contains_the_mean_of_dynamics_that_go_on_alike(cls, references):
    result = judged(cls, references[cls])
    if cls is FoldingStabilityBenchmark:
        (entry,) = result.molecules
        pairs = [(entry.avg_rmsd, entry.avg_rmsd_interval), (entry.avg_match, entry.avg_match_interval)]
        pairs[0] = (float(np.mean(entry.rmsd_all_frames)), entry.avg_rmsd_interval)
    else:
        (entry,) = result.systems
        rates = entry.outliers_ratio_sidechain_dihedrals.values()
        pairs = [(float(np.mean(list(rates))), entry.outliers_ratio_sidechain_interval)]
    for mean, (low, high) in pairs:
        assert low - 0.05 <= mean <= high + 0.05


@every
def test_a_wrapped_protein_is_made_whole(cls, references):
    def wrapped(atoms):
        box = atoms.cell.lengths()
        return edited(harmonic(atoms), since=0, positions=lambda x, f: (x + 0.7 * f) % box)

    before, after = (judged(cls, references[cls], how) for how in (harmonic, wrapped))
    if cls is FoldingStabilityBenchmark:
        before, after = before.molecules[0], after.molecules[0]
        assert after.secondary_structure == before.secondary_structure
        assert after.avg_rmsd == pytest.approx(before.avg_rmsd, abs=1e-5)
        assert after.avg_radius_of_gyration == pytest.approx(before.avg_radius_of_gyration, abs=1e-5)
    else:
        assert after.outliers_ratio_backbone_dihedrals == before.outliers_ratio_backbone_dihedrals
        assert after.outliers_ratio_sidechain_dihedrals == before.outliers_ratio_sidechain_dihedrals


def index_of(protein, residue, atom):
    """Place of an atom among all."""
    return int(protein.solute[protein.residues[residue].atoms[atom]])


def move(protein, atom, target):
    """Dynamics in which an atom of the protein ends at a distance (Å) from an oxygen of the solvent."""

    def script(atoms):
        oxygen = next(i for i in range(len(atoms)) if atoms.numbers[i] == 8 and i not in set(protein.solute))

        def moved(x, frame):
            x = x.copy()
            x[atom] = x[oxygen] + np.array([0.3, -0.4, 0.866]) * target
            return x

        return edited(harmonic(atoms), since=99, positions=moved)

    return script


@every
def test_a_proton_may_pass_to_water_but_not_float(cls, references):
    protein = cls.proteins(references[cls])[NAME]
    hydrogen = index_of(protein, 0, "H1")
    passed = judged(cls, references[cls], move(protein, hydrogen, 1.0))
    assert not passed.failed
    assert passed.warnings == [f"{NAME}: 1 protons moved to another atom: GLY1:H1"]
    floating = judged(cls, references[cls], move(protein, hydrogen, 1.9))
    assert floating.failed
    assert "GLY1:N–GLY1:H1" in floating.failures[NAME].message


def test_water_may_do_what_it_likes(references):
    reference = references[FoldingStabilityBenchmark]

    def split(atoms):
        def moved(x, frame):
            x = x.copy()
            x[-1] += [5.0, 0.0, 0.0]
            return x

        return edited(harmonic(atoms), since=10, positions=moved)

    assert judged(FoldingStabilityBenchmark, reference, split).score == 1.0


def test_one_broken_heavy_bond_is_enough(references):
    reference = references[SamplingBenchmark]
    protein = reference.proteins[NAME]
    result = judged(SamplingBenchmark, reference, move(protein, index_of(protein, 1, "OH"), 1.4))
    assert result.failed
    assert "TYR2:CZ–TYR2:OH" in result.failures[NAME].message


# Asking


@every
def test_dynamics_start_from_relaxed_geometries_in_one_call(cls, copy):
    benchmark = cls(ToyCalculator(), with_two(copy), "standard", seed=7)
    backend = Backend()
    before = {name: atoms.positions.copy() for name, atoms in cls.systems(benchmark.reference).items()}
    output = benchmark.ask(backend, benchmark.reference)
    ((md, settings),) = backend.calls
    assert md == cls.protocols["standard"].md
    assert (settings["names"], settings["seed"], settings["keep_positions"]) == ([NAME, OTHER], 7, True)
    assert settings["progress"] is benchmark.progress
    assert backend.minimised == [RELAXATION]
    for start, (name, known) in zip(backend.started[0], before.items(), strict=True):
        assert start == pytest.approx(known + PUSH)
        assert cls.systems(benchmark.reference)[name].positions.tolist() == known.tolist()
    assert output.structure_names == [NAME, OTHER]


def one_atom_gone(positions):
    return positions + 500.0 * (np.arange(len(positions)) == 3)[:, None]


@pytest.mark.parametrize("end", [lambda positions: None, one_atom_gone])
def test_a_failed_relaxation_leaves_the_input_geometry(end, copy):
    benchmark = SamplingBenchmark(ToyCalculator(), copy, "dev")
    backend = Backend(end=end)
    benchmark.ask(backend, benchmark.reference)
    assert backend.started[0][0].tolist() == benchmark.reference.proteins[NAME].atoms.positions.tolist()


def asked(folder, checkpoints, end, run_mode="fast"):
    benchmark = FoldingStabilityBenchmark(ToyCalculator(), folder, run_mode, checkpoints=checkpoints)
    backend = Backend(end=end)
    benchmark.ask(backend, benchmark.reference)
    return len(backend.minimised), backend.started[0][0]


def test_a_continued_run_starts_from_the_geometries_it_had(copy, tmp_path):
    ours = Checkpoints(tmp_path / "unfinished", "ours")
    asked_first, start = asked(copy, ours, lambda x: x + 0.1)
    asked_again, again = asked(
        copy, ours, lambda x: x + 0.1000001
    )  # a device that is not the same to the last bit
    assert (asked_first, asked_again) == (1, 0)
    assert again.tolist() == start.tolist()
    for checkpoints, mode in ((Checkpoints(tmp_path / "unfinished", "theirs"), "fast"), (ours, "dev")):
        count, other = asked(copy, checkpoints, lambda x: x + 0.2, mode)
        assert count == 1
        assert other != pytest.approx(start)
    (tmp_path / "unfinished" / "relaxed.npz").write_bytes(b"half a file")
    assert asked(copy, ours, lambda x: x + 0.1)[0] == 1


def test_both_ask_the_same():
    one, other = ALL
    assert one.model_output_class is other.model_output_class
    assert one.protocols is other.protocols
    assert one.reusable_output_id == other.reusable_output_id == ("sampling", "folding_stability")
    assert one.data_folder_name() == other.data_folder_name() == "folding_stability"
    assert one.required_elements == other.required_elements == set("HNOSC")
    first, second = (cls.systems(load(cls)) for cls in ALL)
    assert list(first) == list(second)
    assert all(first[name] == second[name] for name in first)
    assert first[NAME].info["charge"] == -2
    assert first[NAME].cell.lengths().tolist() == [23.98, 22.45, 20.68]


@every
def test_protocols(cls):
    steps = {
        mode: (p.md.num_steps, p.md.num_frames, len(p.scored(range(p.md.num_frames))))
        for mode, p in cls.protocols.items()
    }
    assert steps == {"dev": (5, 5, 5), "fast": (2_000, 100, 10), "standard": (250_000, 250, 25)}
    assert [p.max_systems for p in cls.protocols.values()] == [1, 2, None]
    assert {p.minimisation.optimizer for p in cls.protocols.values()} == {Optimizer.FIRE}
    assert [p.minimisation.max_steps for p in cls.protocols.values()] == [10, 100, 100]


# Sampling


def test_angles_that_the_reference_has_are_no_outliers(references):
    cls = SamplingBenchmark
    reference = references[cls]
    protein = reference.proteins[NAME]
    angles = sampled_angles(protein.residues, protein.folded[None], reference.dihedrals)
    points = {
        kind: {n: a.reshape(-1, a.shape[-1]) for n, a in getattr(angles, kind).items()}
        for kind in ("backbone", "sidechain")
    }
    general = [p for name, p in points["backbone"].items() if name not in ("GLY", "PRO")]
    backbone = {
        "GLY": points["backbone"]["GLY"],
        "PRO": points["backbone"]["PRO"],
        "GENERAL": np.concatenate(general),
    }
    known = reference._replace(dihedrals=References(backbone, points["sidechain"]))
    result = judged(cls, known)
    assert (result.score, result.outliers_ratio_backbone_total, result.outliers_ratio_sidechain_total) == (
        1.0,
        0.0,
        0.0,
    )
    assert result.null_outliers_ratio_sidechain_dihedrals["TRP"] == 1.0  # one point has no others
    assert result.excess_outliers_ratio_sidechain_dihedrals["TRP"] is None
    turned = {name: (p + 280.0) % 360.0 - 180.0 for name, p in points["sidechain"].items()}
    result = judged(cls, reference._replace(dihedrals=References(backbone, turned)))
    assert result.outliers_ratio_sidechain_total == 1.0
    assert result.score == pytest.approx(0.5)


def test_null_rates_stand_beside_every_ratio(references):
    result = judged(SamplingBenchmark, references[SamplingBenchmark])
    for kind in ("backbone", "sidechain"):
        ratios = getattr(result, f"outliers_ratio_{kind}_dihedrals")
        null = getattr(result, f"null_outliers_ratio_{kind}_dihedrals")
        excess = getattr(result, f"excess_outliers_ratio_{kind}_dihedrals")
        assert set(null) == set(ratios) == set(excess)
        assert getattr(result, f"null_outliers_ratio_{kind}_total") == pytest.approx(np.mean(list(null.values())))
        for name, value in excess.items():
            assert value == pytest.approx(max(0.0, (ratios[name] - null[name]) / (1 - null[name])))
    assert result.null_outliers_ratio_sidechain_dihedrals["GLU"] > 0.3  # three angles, a hundred points


def test_names_of_protonation_states_are_known(copy):
    before = judged(SamplingBenchmark, load(SamplingBenchmark, copy))
    after = judged(SamplingBenchmark, load(SamplingBenchmark, renamed(copy, "ASP", "ASH")))
    assert after == before


@pytest.mark.parametrize("cls", ALL)
def test_a_residue_that_nobody_knows_is_left_out_and_said(cls, copy):
    result = judged(cls, load(cls, renamed(copy, "TYR", "NLE")))
    assert not result.failed
    if cls is SamplingBenchmark:
        assert "TYR" not in result.outliers_ratio_backbone_dihedrals
        assert result.warnings == [f"{NAME}: NLE2 is none of the twenty amino acids"]


def test_residues_without_reference_points_are_left_out_and_said(copy):
    for file, lost in (("backbone_reference_data.json", "PRO"), ("sidechain_reference_data.json", "TRP")):
        path = copy / "folding_stability" / file
        content = json.loads(path.read_text("utf-8"))
        del content[lost]
        path.write_text(json.dumps(content), "utf-8")
    result = judged(SamplingBenchmark, load(SamplingBenchmark, copy))
    assert "PRO" not in result.outliers_ratio_backbone_dihedrals
    assert "TRP" not in result.outliers_ratio_sidechain_dihedrals
    assert result.warnings == [
        f"{NAME}: PRO4: no reference points for its backbone",
        f"{NAME}: TRP9: no reference points for its sidechain",
    ]


# Data


@every
def test_only_proteins_whose_three_files_are_there(cls, copy):
    shutil.copy(copy / "folding_stability" / f"{NAME}.xyz", copy / "folding_stability" / f"{OTHER}.xyz")
    assert list(cls.proteins(load(cls, copy))) == [NAME]
    assert list(cls.proteins(load(cls, with_two(copy)))) == [NAME, OTHER]
    dev = replace(PROTOCOL, max_systems=1)
    assert list(cls.proteins(cls.load(copy / "folding_stability", dev))) == [NAME]


@pytest.mark.parametrize(
    "file, old, new, what",
    [
        (f"{NAME}.pdb", " CA  ASP", " CX  ASP", "not of the same atoms"),
        (f"{NAME}_ref.pdb", "ASP A   3", "GLU A   3", "not of the same atoms"),
        (f"{NAME}.xyz", "\nN ", "\nC ", "not of the same atoms"),
        (f"{NAME}_ref.pdb", "ATOM", "NOPE", "not a readable .pdb"),
        ("sidechain_reference_data.json", '"chi1":[', '"chi1":[1.0,', "not equally many"),
    ],
)
def test_files_that_disagree_are_corrupt(file, old, new, what, copy):
    path = copy / "folding_stability" / file
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new), "utf-8")
    with pytest.raises(DataCorruptError, match=what):
        load(SamplingBenchmark, copy)
