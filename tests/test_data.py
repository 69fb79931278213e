# SPDX-License-Identifier: Apache-2.0
"""Input data is what its hash says, or an error that says which file is not."""

import shutil

import pytest

from mlipaudit import data
from mlipaudit.data import DataSet, EditionKind, Embedded, Hub, Local, parse_edition, visible_files
from mlipaudit.errors import DataCorruptError, DataUnavailableError, UsageError
from mlipaudit.run_mode import RunMode

SPEED = "inference_speed"
PROTEIN = "284_2jof_A.xyz"


@pytest.fixture
def own_copy(tmp_path, monkeypatch):
    """Folder of a copy of the embedded inference_speed data, which `Embedded` then reads."""
    copy = shutil.copytree(data.embedded_root() / SPEED, tmp_path / SPEED)
    monkeypatch.setattr(data, "embedded_root", lambda: tmp_path)
    return copy


@pytest.fixture
def local(tmp_path):
    """Root of a local edition with one data set, two files and no manifest."""
    folder = tmp_path / "mine" / "water"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.xyz").write_text("one", encoding="utf-8")
    (folder / "sub" / "b.xyz").write_text("two", encoding="utf-8")
    return tmp_path / "mine"


# Embedded


@pytest.mark.parametrize("name", data.embedded_names())
def test_embedded_data_verifies(name):
    dataset = Embedded().fetch(name)
    assert (dataset.edition, dataset.manifest.name) == (EditionKind.EMBEDDED, name)
    assert set(dataset.hashes) == {str(f.relative_to(dataset.path)) for f in visible_files(dataset.path)} - {
        data.MANIFEST
    }


def test_embedded_speed_data_says_its_elements():
    assert Embedded().fetch(SPEED).elements == {"C", "H", "N", "O", "S"}


def test_untouched_copy_has_the_same_hash(own_copy):
    copied = Embedded().fetch(SPEED)
    assert copied.path == own_copy
    assert copied.sha256 == Local(own_copy.parent).fetch(SPEED).sha256


def test_tampered_file_is_named(own_copy):
    file = own_copy / PROTEIN
    file.write_bytes(file.read_bytes().replace(b"1", b"2", 1))
    with pytest.raises(DataCorruptError, match=rf"{PROTEIN} has sha256 .*says 942a6bc07a41"):
        Embedded().fetch(SPEED)


def test_listed_but_missing_file_is_named(own_copy):
    (own_copy / PROTEIN).unlink()
    with pytest.raises(DataCorruptError, match=f"{PROTEIN} is listed in manifest.toml but is not there"):
        Embedded().fetch(SPEED)


@pytest.mark.parametrize(
    "manifest",
    [
        b"this is no TOML",
        b"\xff\xfe",
        b'name = "x"\nversion = "1"\n',
        b'version = "1"\n[files]\n',
        b'name = "x"\nversion = "1"\nfiles = 3\n',
        b'name = "x"\nversion = "1"\n[files]\n"a.xyz" = "no table"\n',
        b'name = "x"\nversion = "1"\n[files."a.xyz"]\nbytes = 3\n',
        b'name = "x"\nversion = "1"\nelements = 6\n[files]\n',
    ],
)
def test_unreadable_manifest(own_copy, manifest):
    (own_copy / data.MANIFEST).write_bytes(manifest)
    with pytest.raises(DataCorruptError, match=r"manifest\.toml cannot be read"):
        Embedded().fetch(SPEED)


def test_unknown_name_lists_what_there_is(own_copy):
    with pytest.raises(DataUnavailableError, match="no data for 'nonsense'; it has: inference_speed"):
        Embedded().fetch("nonsense")


# Local


def test_local_folder_hashes_visible_files_only(local):
    (local / "water" / ".DS_Store").write_bytes(b"\x00")
    (local / "water" / ".cache").mkdir()
    (local / "water" / ".cache" / "c.xyz").write_text("three", encoding="utf-8")
    assert sorted(Local(local).fetch("water").hashes) == ["a.xyz", "sub/b.xyz"]


def test_hidden_files_do_not_change_the_hash(local):
    before = Local(local).fetch("water").sha256
    (local / "water" / ".DS_Store").write_bytes(b"\x00")
    assert Local(local).fetch("water").sha256 == before


@pytest.mark.parametrize("file", ["a.xyz", "sub/b.xyz"])
def test_one_byte_changes_the_hash(local, file):
    before = Local(local).fetch("water").sha256
    (local / "water" / file).write_text("onE", encoding="utf-8")
    assert Local(local).fetch("water").sha256 != before


def test_renaming_a_file_changes_the_hash(local):
    before = Local(local).fetch("water").sha256
    (local / "water" / "a.xyz").rename(local / "water" / "c.xyz")
    assert Local(local).fetch("water").sha256 != before


def test_local_hash_does_not_depend_on_where_it_lies(local, tmp_path):
    moved = shutil.copytree(local, tmp_path / "elsewhere")
    assert Local(moved).fetch("water").sha256 == Local(local).fetch("water").sha256


def test_local_manifest_is_checked(own_copy):
    (own_copy / PROTEIN).write_text("1\n\nH 0 0 0\n", encoding="utf-8")
    with pytest.raises(DataCorruptError, match=PROTEIN):
        Local(own_copy.parent).fetch(SPEED)


def test_file_beside_the_manifest_is_noticed(own_copy):
    before = Local(own_copy.parent).fetch(SPEED).sha256
    (own_copy / "3_extra.xyz").write_text("1\n\nH 0 0 0\n", encoding="utf-8")
    try:
        after = Local(own_copy.parent).fetch(SPEED).sha256
    except DataCorruptError:
        return
    assert after != before


def test_local_folder_without_the_data_set(local):
    with pytest.raises(DataUnavailableError, match=r"no tautomers/.*--data embedded"):
        Local(local).fetch("tautomers")


# Which edition


def test_dev_takes_the_embedded_edition():
    assert isinstance(parse_edition(None, RunMode.DEV), Embedded)


@pytest.mark.parametrize("run_mode", RunMode)
def test_embedded_when_asked_for(run_mode):
    assert isinstance(parse_edition("embedded", run_mode), Embedded)


@pytest.mark.parametrize("run_mode", [RunMode.FAST, RunMode.STANDARD])
def test_other_modes_take_the_hub(run_mode):
    assert parse_edition(None, run_mode) == Hub()


@pytest.mark.parametrize("run_mode", RunMode)
def test_hub_when_asked_for(run_mode):
    assert parse_edition("hub", run_mode) == Hub(None)


@pytest.mark.parametrize("revision", ["main", "v1.0", "refs/pr/3", "0123456789" * 4])
def test_hub_at_a_revision(revision):
    edition = parse_edition(f"hub@{revision}", RunMode.DEV)
    assert (edition.kind, edition.revision) == (EditionKind.HUB, revision)


@pytest.mark.parametrize("revision", ["", " ", "..", "../x", "a..b", "/main", "-x", "a b", "ä", "a" * 201])
def test_what_cannot_be_a_revision_is_a_usage_error(revision):
    with pytest.raises(UsageError, match=r"--data hub@.*that is no revision \(allowed: hub, or hub@ and a branch"):
        parse_edition(f"hub@{revision}", RunMode.FAST)


def test_verified_hashes_are_not_computed_again(tmp_path):
    dataset = DataSet("water", EditionKind.HUB, tmp_path / "nowhere", None, verified={"a.xyz": "0" * 64})
    assert dataset.hashes == {"a.xyz": "0" * 64}


def test_folder_is_a_local_edition(local):
    assert parse_edition(str(local), RunMode.DEV) == Local(local)


def test_missing_folder_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError, match=r"--data .*nowhere: no such folder"):
        parse_edition(str(tmp_path / "nowhere"), RunMode.FAST)
