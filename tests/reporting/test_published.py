# SPDX-License-Identifier: Apache-2.0
"""A results folder of mlipaudit 0.1.8 opens, says what it does not know, and never stands beside ours."""

import json
import math

import numpy as np
import pytest
from golden_cases import stored
from made_records import scored

from mlipaudit import registry
from mlipaudit.benchmark import BenchmarkResult
from mlipaudit.record import TaskRecord
from mlipaudit.reporting.contents import open_results
from mlipaudit.reporting.leaderboard import rankings
from mlipaudit.reporting.published import EDITION, published_record
from mlipaudit.store import ResultStore, Unreadable
from mlipaudit.suites import CORE

CASES = {
    "bond_length_distribution": "one_none",
    "conformer_selection": "synthetic_noise_1kcal",
    "dihedral_scan": "one_failed",
    "folding_stability": "hot",
    "inference_speed": "fast",
    "noncovalent_interactions": "one_failed_one_ok",
    "nudged_elastic_band": "one_converged",
    "nve_energy_conservation": "linear_drifts_0.1_0.5_1_5_eV",
    "reactivity": "synthetic_noise",
    "reference_geometry_stability": "one_failed",
    "ring_planarity": "one_exploded",
    "sampling": "growing_noise",
    "solvent_density": "input_frame",
    "solvent_radial_distribution": "input_frame",
    "stability": "h_drift_at_6",
    "tautomers": "one_failed",
    "water_density": "input_frame",
    "water_radial_distribution": "hot",
}
"""A result of 0.1.8 for each benchmark; some failed, wholly or in part."""


def write(folder, text, benchmark="tautomers"):
    path = folder / "old" / benchmark / "result.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text if isinstance(text, str) else json.dumps(text), "utf-8")
    return path


@pytest.fixture
def results(golden, tmp_path):
    """A folder as 0.1.8 writes it: results and a score file, nothing else."""
    scores = {}
    for benchmark, case in CASES.items():
        content = stored(golden / benchmark / case, "result.json")
        write(tmp_path, json.dumps(content, indent=2, default=np.ndarray.tolist), benchmark)
        scores[benchmark] = content["score"]
    scores["overall_score"] = sum(scores.values()) / len(scores)
    (tmp_path / "old" / "score.json").write_text(json.dumps(scores, indent=2), "utf-8")
    return tmp_path


def test_every_benchmark_of_0_1_8_has_a_case():
    assert set(CASES) == set(CORE)


def test_every_result_is_read_in_its_own_class_with_its_numbers(results):
    contents = open_results(results)
    assert (len(contents.records), contents.unreadable, contents.gaps) == (18, (), ())
    for record in contents.records:
        benchmark = record.provenance.identity.benchmark
        assert type(record.result) is registry.load(registry.BENCHMARKS, benchmark).result_class
        written = json.loads((results / "old" / benchmark / "result.json").read_text("utf-8"))
        assert (record.result.score, record.result.failed) == (written["score"], written["failed"])
    (tautomers,) = contents.records_of(benchmark="tautomers")
    assert [m.structure_id for m in tautomers.result.molecules if m.failed] != []


def test_the_overall_score_is_the_one_it_wrote(results):
    (ranking,) = rankings(open_results(results))
    (standing,) = ranking.standings
    written = json.loads((results / "old" / "score.json").read_text("utf-8"))
    assert standing.overall.score == pytest.approx(written["overall_score"], abs=1e-12)
    assert (ranking.run_mode, ranking.edition) == ("unknown", EDITION)
    assert standing.overall.interval is None
    assert math.isnan(standing.overall.seconds)
    assert any("interval" in remark for remark in ranking.remarks)


def test_what_is_not_known_is_not_made_up(results):
    provenance = published_record(results / "old" / "tautomers" / "result.json").provenance
    identity = provenance.identity
    assert (provenance.model, identity.benchmark) == ("old", "tautomers")
    assert provenance.versions == {"mlipaudit": "0.1.x"}
    assert {identity.model_sha256, identity.benchmark_version, identity.run_mode, identity.precision} == {
        "unknown"
    }
    assert (identity.data_sha256, identity.seed, provenance.num_compilations) == (None, None, None)
    assert math.isnan(provenance.wall_seconds) and math.isnan(provenance.compile_seconds)
    assert (provenance.device, provenance.model_source, provenance.command) == ("unknown", "unknown", "")
    assert provenance.output_sha256 is None and provenance.peak_memory_bytes is None


def test_coverage_that_is_not_known_is_not_negative(results):
    record = published_record(results / "old" / "noncovalent_interactions" / "result.json")
    assert (record.result.num_systems, record.result.num_failed) == (None, 1)
    (standing,) = rankings(open_results(results))[0].standings
    row = standing.tasks["noncovalent_interactions"]
    assert (row.covered, row.asked) == (0, 0)


def test_constants_that_are_no_json_are_read(tmp_path):
    path = write(tmp_path, '{"failed": false, "score": 0.25, "molecules": [], "mae": NaN, "rmse": Infinity}')
    result = published_record(path).result
    assert math.isnan(result.mae) and result.rmse == math.inf
    assert result.score == 0.25


def test_fields_that_are_not_ours_leave_the_score(tmp_path):
    path = write(tmp_path, {"failed": False, "score": 0.25, "molecules": "many"})
    result = published_record(path).result
    assert type(result) is BenchmarkResult
    assert result.score == 0.25


def test_a_benchmark_that_is_not_installed_leaves_the_score(tmp_path):
    result = published_record(write(tmp_path, {"failed": False, "score": None, "x": 1}, "elsewhere")).result
    assert (type(result), result.score) == (BenchmarkResult, None)


def ours(folder):
    """A result of ours, as it is written."""
    record = scored("old", [0.25, 0.75], "elsewhere")
    return json.loads(ResultStore(folder).write(record).read_text("utf-8"))


@pytest.mark.parametrize("lost", ["checksum", "provenance", "score"])
def test_a_damaged_result_of_ours_stays_unreadable(tmp_path, lost):
    content = ours(tmp_path / "ours")
    del content[lost]
    assert published_record(write(tmp_path, content)) is None


def test_a_result_of_ours_without_both_is_not_taken_for_an_old_one(tmp_path):
    content = ours(tmp_path / "ours")
    del content["checksum"], content["provenance"]
    assert published_record(write(tmp_path, content)) is None


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "3", "null", "{}", '{"score": 0.5}', '{"failed": true}', '{"failed": 1, "score": 0.5}',
        '{"failed": false, "score": "0.5"}', '{"failed": false, "score": 1.5}', '{"failed": false, "score": NaN}',
        '{"failed": false, "score": 0.5', '{"exception": "ValueError", "message": "no"}',
    ],
)  # fmt: skip
def test_what_is_no_result_stays_unreadable(tmp_path, text):
    path = write(tmp_path, text)
    assert published_record(path) is None
    contents = open_results(tmp_path)
    assert (contents.records, [bad.path for bad in contents.unreadable]) == ((), [path])


def test_no_file_is_no_result(tmp_path):
    assert published_record(tmp_path / "m" / "tautomers" / "result.json") is None


def test_the_store_itself_does_not_take_them(results):
    records = list(ResultStore(results).records())
    assert len(records) == 18
    assert all(isinstance(record, Unreadable) for record in records)
    assert isinstance(ResultStore(results).find("old", "tautomers"), Unreadable)


def test_old_and_new_results_share_no_ranking(results):
    ResultStore(results).write(scored("new", [0.25, 0.75], "elsewhere"))
    contents = open_results(results)
    assert all(isinstance(record, TaskRecord) for record in contents.records)
    found = {(r.run_mode, r.edition): [s.model for s in r.standings] for r in rankings(contents)}
    assert found == {("fast", "hub"): ["new"], ("unknown", EDITION): ["old"]}
