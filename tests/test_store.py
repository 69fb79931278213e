# SPDX-License-Identifier: Apache-2.0
"""Results survive the disk, whatever they hold and whatever happens to their neighbours."""

import json
import math
import os
from pathlib import Path

import pytest

from mlipaudit import registry, store
from mlipaudit.benchmark import BenchmarkResult, Record, SystemResult
from mlipaudit.benchmarks.tautomers import TautomersModelOutput, TautomersMoleculeResult, TautomersResult
from mlipaudit.errors import StoreError, UserError
from mlipaudit.failures import Failure, FailureKind
from mlipaudit.record import Identity, Provenance, TaskRecord
from mlipaudit.store import ResultStore, Unreadable, checksum, read_record, unsealed, write_json

ODD = [math.nan, math.inf, -math.inf, -0.0, 5e-324, 1.7976931348623157e308]


class Part(Record):
    value: float | None = None
    pair: tuple[float, float] | None = None
    by_size: dict[int, float] = {}


class OddResult(BenchmarkResult):
    number: float
    series: list[float | None]
    by_name: dict[str, list[float]]
    parts: list[Part]


def odd_result(value):
    return OddResult(
        number=value,
        series=[value, None],
        by_name={"ase": [value]},
        parts=[Part(value=value, pair=(value, 1.0), by_size={3: value}), Part()],
        failures={"a": Failure(kind=FailureKind.NON_FINITE, message=f"energy is {value}", frame=3)},
    )


def same(one, other):
    """Equality for which NaN equals itself."""
    return repr(one.model_dump()) == repr(other.model_dump())


def refuse(constant):
    raise AssertionError(f"{constant} is not JSON")


def strict(path):
    return json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse)


def record_of(result, benchmark="mine", *, model="m", sha256="0" * 64, run_mode="dev", edition="embedded"):
    identity = Identity(model_sha256=sha256, benchmark=benchmark, benchmark_version="1", run_mode=run_mode, seed=0)
    provenance = Provenance(
        task_id=identity.task_id,
        identity=identity,
        model=model,
        model_source=f"{model}.zip",
        data_edition=edition,
        versions={"python": "3.11"},
        device="cpu: cpu",
        started_at="2026-01-01T00:00:00+00:00",
        wall_seconds=1.5,
        compile_seconds=0.0,
        num_compilations=0,
        peak_memory_bytes=1,
        command="mlipaudit run",
    )
    return TaskRecord.model_construct(result=result, provenance=provenance)


def scored(score, *args, **kwargs):
    return record_of(BenchmarkResult(score=score), *args, **kwargs)


def scores_in(root, model="m"):
    return strict(root / model / "score.json")


# Round trip of values


@pytest.mark.parametrize("value", ODD)
def test_odd_numbers_survive_pydantic(value):
    result = odd_result(value)
    assert same(OddResult.model_validate_json(result.model_dump_json()), result)


@pytest.mark.parametrize("value", ODD)
def test_odd_numbers_survive_the_store(value, tmp_path):
    result = odd_result(value)
    content = strict(ResultStore(tmp_path).write(record_of(result)))
    assert same(OddResult.model_validate(content), result)


@pytest.mark.parametrize("value", ODD)
def test_odd_model_output_survives(value):
    output = TautomersModelOutput(structure_ids=["a", "b"], predictions=[(value, 1.0), None])
    assert same(TautomersModelOutput.model_validate_json(output.model_dump_json()), output)


def tautomers_result(value):
    return TautomersResult(
        molecules=[
            TautomersMoleculeResult(structure_id="a", abs_deviation=value, predicted_energy_diff=-value),
            TautomersMoleculeResult(
                structure_id="ü/Å",
                failed=True,
                failure=Failure(kind=FailureKind.EXCEPTION, message='a "quoted"\nline', where="f.py:3 g"),
            ),
        ],
        mae=value,
        score=0.25,
        score_interval=(0.0, 0.5),
        num_systems=2,
        num_failed=1,
        warnings=["read this"],
    )


@pytest.mark.parametrize("value", [0.5, *ODD])
def test_store_gives_back_what_it_was_given(tmp_path, value):
    record = record_of(tautomers_result(value), "tautomers")
    path = ResultStore(tmp_path).write(record)
    assert path == tmp_path / "m" / "tautomers" / "result.json"
    strict(path)
    (read,) = ResultStore(tmp_path).records()
    assert type(read.result) is TautomersResult
    assert same(read.result, record.result)
    assert read.provenance == record.provenance


def test_fields_of_the_result_lie_at_the_top(tmp_path):
    content = strict(ResultStore(tmp_path).write(record_of(tautomers_result(0.5), "tautomers")))
    assert (content["score"], content["mae"], content["provenance"]["model"]) == (0.25, 0.5, "m")


def test_benchmark_that_is_not_installed_is_read_in_the_base_class(tmp_path):
    ResultStore(tmp_path).write(record_of(odd_result(1.0), "of_another_package"))
    (read,) = ResultStore(tmp_path).records()
    assert (type(read.result), read.result.failures["a"].frame) == (BenchmarkResult, 3)


def test_whole_failure_of_an_installed_benchmark_is_read(tmp_path):
    failure = Failure(kind=FailureKind.LOAD_ERROR, message="no weights")
    ResultStore(tmp_path).write(record_of(BenchmarkResult(failed=True, score=0.0, failure=failure), "tautomers"))
    (read,) = ResultStore(tmp_path).records()
    assert read.reasons == {"tautomers": failure}


def test_records_come_by_model_and_benchmark(tmp_path):
    for model, benchmark in (("n", "a"), ("m", "b"), ("m", "a")):
        ResultStore(tmp_path).write(scored(0.5, benchmark, model=model))
    found = [(r.provenance.model, r.provenance.identity.benchmark) for r in ResultStore(tmp_path).records()]
    assert found == [("m", "a"), ("m", "b"), ("n", "a")]


# score.json


def test_score_file_has_what_was_run_and_the_mean(tmp_path):
    results = ResultStore(tmp_path)
    results.write(scored(0.2, "a"))
    assert scores_in(tmp_path) == {"a": 0.2, "overall_score": 0.2}
    results.write(scored(0.4, "b"))
    assert scores_in(tmp_path) == {"a": 0.2, "b": 0.4, "overall_score": pytest.approx(0.3)}


def test_a_benchmark_without_a_score_enters_no_mean(tmp_path):
    results = ResultStore(tmp_path)
    results.write(scored(None, "a"))
    results.write(scored(0.4, "b"))
    assert scores_in(tmp_path) == {"a": None, "b": 0.4, "overall_score": 0.4}


@pytest.mark.parametrize("other", [{"run_mode": "fast"}, {"edition": "local"}, {"sha256": "1" * 64}])
def test_score_file_mixes_nothing(tmp_path, other):
    results = ResultStore(tmp_path)
    results.write(scored(0.2, "a", **other))
    results.write(scored(0.4, "b"))
    assert scores_in(tmp_path) == {"b": 0.4, "overall_score": 0.4}


def test_models_have_their_own_score_files(tmp_path):
    results = ResultStore(tmp_path)
    results.write(scored(0.2, "a", model="m"))
    results.write(scored(0.4, "a", model="n"))
    assert [scores_in(tmp_path, model)["overall_score"] for model in "mn"] == [0.2, 0.4]


@pytest.mark.parametrize("order", [1, -1])
def test_task_that_failed_before_it_had_data_counts_zero(tmp_path, order):
    failed = BenchmarkResult(failed=True, score=0.0, failure=Failure(kind="missing_elements", message="no Si"))
    for record in [record_of(failed, "a"), scored(0.4, "b")][::order]:
        ResultStore(tmp_path).write(record)
    assert scores_in(tmp_path) == {"a": 0.0, "b": 0.4, "overall_score": 0.2}


# What cannot be read


@pytest.fixture
def two_results(tmp_path):
    """A store with a result to be spoiled and a good one."""
    results = ResultStore(tmp_path)
    results.write(record_of(tautomers_result(0.5), "tautomers"))
    results.write(scored(0.4, "good"))
    return results


def sealed(text, **changes):
    """A result with other fields, under a checksum of its own."""
    content = {**unsealed(json.loads(text)), **changes}
    return json.dumps({**content, "checksum": checksum(content)}).encode()


def spoil(results, change):
    path = results.root / "m" / "tautomers" / "result.json"
    path.write_bytes(change(path.read_bytes()))


@pytest.mark.parametrize(
    "change, reason",
    [
        (lambda text: text[: len(text) // 2], "not JSON, or cut short"),
        (lambda text: b"", "not JSON, or cut short"),
        (lambda text: b"not JSON", "not JSON, or cut short"),
        (lambda text: b"[" * 100_000, "not a result"),
        (lambda text: b"[]", "no checksum"),
        (lambda text: b"{}", "no checksum"),
        (lambda text: b'"text"', "dictionary update sequence"),
        (lambda text: b"5", "not a result"),
        (lambda text: b"\xff\xfe", "can't decode"),
        (lambda text: text.replace(b'"score": 0.25', b'"score": 0.35'), "changed after it was written"),
        (lambda text: text.replace(b'"score": 0.25', b'"score": NaN'), "NaN is not JSON"),
        (lambda text: text.replace(b'"seed": 0', b'"seed": 1'), "changed after it was written"),
        (lambda text: sealed(text, score=5), "score: Input should be less than or equal to 1"),
        (lambda text: sealed(text, molecules=None), "molecules: Input should be a valid list"),
        (lambda text: sealed(text, provenance={}), "task_id: Field required"),
    ],
)
def test_spoilt_result_has_a_reason_and_harms_no_other(two_results, change, reason):
    spoil(two_results, change)
    good, spoilt = two_results.records()
    assert good.result.score == 0.4
    assert isinstance(spoilt, Unreadable)
    assert spoilt.path.parent.name == "tautomers"
    assert reason in spoilt.reason


def test_spoilt_result_does_not_enter_the_score_file(two_results):
    spoil(two_results, lambda text: text.replace(b'"score": 0.25', b'"score": 5'))
    two_results.write(scored(0.6, "good"))
    assert scores_in(two_results.root) == {"good": 0.6, "overall_score": 0.6}


def test_benchmark_that_cannot_be_imported_harms_no_other(two_results, monkeypatch):
    def broken(group, name):
        raise UserError(f"benchmark {name!r} cannot be imported: no module named torch")

    monkeypatch.setattr(registry, "load", broken)
    good, other = two_results.records()
    assert good.result.score == 0.4
    assert "torch" in other.reason if isinstance(other, Unreadable) else other.result.score == 0.25


def test_hidden_folders_hold_no_results(two_results):
    (two_results.root / "m").rename(two_results.root / ".trash")
    assert list(two_results.records()) == []


def test_missing_folder(tmp_path):
    with pytest.raises(StoreError, match=r"no results folder .*nowhere"):
        list(ResultStore(tmp_path / "nowhere").records())


# What cannot be written


@pytest.fixture
def blocked(tmp_path):
    """A path below a regular file, where not even root can write."""
    (tmp_path / "file").write_text("", encoding="utf-8")
    return tmp_path / "file" / "results"


def test_folder_that_cannot_be_written_is_found_beforehand(blocked):
    with pytest.raises(StoreError, match=r"cannot write to .*results: Not a directory; choose another --output"):
        ResultStore(blocked).prepare()


def test_prepare_leaves_nothing_behind(tmp_path):
    ResultStore(tmp_path / "a" / "b").prepare()
    assert list((tmp_path / "a" / "b").iterdir()) == []


def test_result_that_cannot_be_written(blocked):
    with pytest.raises(StoreError, match=r"cannot write .*result\.json"):
        ResultStore(blocked).write(scored(0.5))


def test_interrupted_write_leaves_the_old_file(tmp_path, monkeypatch):
    results = ResultStore(tmp_path)
    path = results.write(scored(0.2, "a"))
    old, files = path.read_bytes(), set(tmp_path.rglob("*"))

    def full(self, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(StoreError, match=r"cannot write .*result\.json: No space left on device"):
        results.write(scored(0.9, "a"))
    assert path.read_bytes() == old
    assert set(tmp_path.rglob("*")) == files


def test_value_that_is_not_json_leaves_the_old_file(tmp_path):
    write_json(tmp_path / "x.json", {"a": 1})
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "x.json", {"a": math.nan})
    assert [(p.name, strict(p)) for p in tmp_path.iterdir()] == [("x.json", {"a": 1})]


def test_reader_never_sees_half_a_file(tmp_path, monkeypatch):
    path = tmp_path / "x.json"
    write_json(path, {"a": 1})
    seen = []
    monkeypatch.setattr(store.os, "fsync", lambda descriptor: seen.append(strict(path)))
    write_json(path, {"a": 2})
    assert (seen, strict(path)) == ([{"a": 1}], {"a": 2})


def test_temporary_files_are_hidden_from_readers(two_results):
    (two_results.root / "m" / "good" / f".result.json.{os.getpid()}").write_text("{", encoding="utf-8")
    assert len(list(two_results.records())) == 2


# Identity and provenance


@pytest.mark.parametrize(
    "change",
    [
        {"model_sha256": "1" * 64},
        {"benchmark": "other"},
        {"benchmark_version": "2"},
        {"data_sha256": "2" * 64},
        {"protocol": {"num_steps": 10}},
        {"run_mode": "fast"},
        {"seed": 1},
        {"precision": "float64"},
    ],
)
def test_everything_in_an_identity_changes_the_task_id(change):
    identity = scored(0.5).provenance.identity
    assert identity.model_copy(update=change).task_id != identity.task_id


def test_task_id_survives_the_disk(tmp_path):
    record = scored(0.5)
    read = read_record(ResultStore(tmp_path).write(record))
    assert read.provenance.identity.task_id == record.provenance.task_id


def test_reasons_name_the_benchmark_and_its_systems():
    whole, one = (Failure(kind="crashed", message=m) for m in ("died", "here"))
    record = record_of(BenchmarkResult(failure=whole, failures={"s": one}))
    assert record.reasons == {"mine": whole, "s": one}


def test_system_result_keeps_its_reason():
    failure = Failure(kind="exploded", message="T > 10300 K", frame=7)
    system = SystemResult(failed=True, failure=failure)
    assert SystemResult.model_validate_json(system.model_dump_json()).failure == failure
