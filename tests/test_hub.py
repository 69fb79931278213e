# SPDX-License-Identifier: Apache-2.0
"""The hub edition against a hub of our own: whatever goes wrong, right data or one line that says what to do.

The real `huggingface_hub` client runs; nothing here reaches the internet.
"""

import copy
import fcntl
import hashlib
import io
import json
import os
import random
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
import zipfile
from contextlib import contextmanager
from pathlib import Path

import pytest
from hub_server import HubServer, archive_of
from huggingface_hub import constants

from mlipaudit import data, hub
from mlipaudit.cli import COMMANDS, main
from mlipaudit.cli import data as data_command
from mlipaudit.data import EditionKind, Hub, sha256_of, visible_files
from mlipaudit.errors import DataCorruptError, DataUnavailableError
from mlipaudit.failures import Failure, FailureKind
from mlipaudit.hub import archive, client, folders

WATER = {"water/a.txt": b"one", "water/sub/b.txt": b"two"}
WATER_HASHES = {
    "a.txt": "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed",
    "sub/b.txt": "3fc4ccfe745870e2c0d99f71f30ff0656c8dedd41cc1d7d3d376b0dbe685e2f3",
}
LARGE = random.Random(0).randbytes(3 << 20)
LARGE_HASHES = {"a.bin": hashlib.sha256(LARGE).hexdigest()}
CACHE_ENTRIES = Path("hub") / "datasets--InstaDeepAI--MLIPAudit-data"
FETCH = """
import sys, json
from mlipaudit.data import Hub
from mlipaudit.errors import UserError
from mlipaudit.hub import client
client.LOCK_PATIENCE_S = 1.0
try:
    there = Hub().fetch(sys.argv[1])
    print(json.dumps({"hashes": there.hashes, "client": "huggingface_hub" in sys.modules}))
except UserError as error:
    print(json.dumps({"error": str(error)}))
"""
DIES_AT_THE_LAST_MOMENT = f"""
import os, signal
from mlipaudit.hub import folders
folders._put_in_place = lambda *args, **kwargs: os.kill(os.getpid(), signal.SIGKILL)
{FETCH}
"""
HOLDS_A_LOCK = """
import fcntl, sys, time
with open(sys.argv[1], "w") as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def server():
    """A hub with two small data sets at `main`."""
    running = HubServer()
    running.publish({"water": archive_of(WATER), "ice": archive_of({"ice/a.txt": b"three"})})
    yield running
    running.close()


@pytest.fixture
def large(server):
    """The same hub with one data set of 3 MiB."""
    server.publish({"large": archive_of({"large/a.bin": LARGE}, stored=True)})
    return server


@pytest.fixture(autouse=True)
def home(server, tmp_path, monkeypatch):
    """Empty caches, for this process and those that it starts; the client reads its settings when it is imported."""
    settings = {"HF_ENDPOINT": server.url, "HF_HOME": tmp_path / "hf", "MLIPAUDIT_CACHE": tmp_path / "cache"}
    for name, value in settings.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.setattr(constants, "ENDPOINT", server.url)
    monkeypatch.setattr(
        constants, "HUGGINGFACE_CO_URL_TEMPLATE", server.url + "/{repo_id}/resolve/{revision}/{filename}"
    )
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hf" / "hub"))
    monkeypatch.setattr(client, "_not_reached", {})
    monkeypatch.setattr(client, "RETRY_PAUSE_S", 0.01)
    return tmp_path


@pytest.fixture
def impatient(monkeypatch):
    """Time limits of about a second."""
    monkeypatch.setattr(constants, "HF_HUB_ETAG_TIMEOUT", 1)
    monkeypatch.setattr(constants, "HF_HUB_DOWNLOAD_TIMEOUT", 0.3)
    monkeypatch.setattr(client, "SPARE_S", 0.5)
    monkeypatch.setattr(client, "LOCK_PATIENCE_S", 0.6)


class Terminal(io.StringIO):
    """A stream that live progress is shown on."""

    def isatty(self):
        return True


def new_process():
    """What a process knows of unreachable hubs when it begins: nothing."""
    client._not_reached.clear()


def start(*arguments, script=FETCH, **environment):
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )


def answer_of(process):
    out, _ = process.communicate(timeout=60)
    return json.loads(out)


def wait_until(condition):
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def files_in_client_cache(home, what):
    return sorted(path for path in (home / "hf" / CACHE_ENTRIES).glob(what) if path.is_file())


def names_beside(folder):
    return sorted(path.name for path in folder.parent.iterdir())


# The first time


def test_first_download(server):
    there = Hub().fetch("water")
    assert (there.edition, there.name, there.manifest) == (EditionKind.HUB, "water", None)
    assert there.hashes == WATER_HASHES
    assert (there.path / "sub" / "b.txt").read_bytes() == b"two"
    commit, content = server.refs["main"], archive_of(WATER)
    assert there.origin == {
        "revision": "main",
        "commit": commit,
        "archive_sha256": hashlib.sha256(content).hexdigest(),
    }
    assert there.path == folders.data_root() / commit / "water"
    assert names_beside(there.path) == ["water"]
    assert len(server.downloads()) == 1


def test_progress_is_reported_up_to_the_end(large):
    large.faults.seconds_per_piece = 0.01
    seen, size = [], len(large.commits[large.refs["main"]]["large.zip"])
    Hub(progress=lambda *report: seen.append(report)).fetch("large")
    assert {(name, total) for name, _, total in seen} == {("large", size)}
    done = [bytes_done for _, bytes_done, _ in seen]
    assert done == sorted(done)
    assert (done[0], done[-1]) == (0, size)
    assert len(set(done)) > 3


def test_the_client_prints_nothing(large, monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    large.faults.cut_after = 1 << 20
    Hub().fetch("large")
    assert sys.stderr.getvalue() == ""


def test_a_manifest_of_the_hub_is_checked(server):
    text = f'name = "m"\nversion = "1"\nelements = ["H"]\n[files."a.txt"]\nsha256 = "{WATER_HASHES["a.txt"]}"\n'
    server.publish({"good": archive_of({"good/manifest.toml": text.encode(), "good/a.txt": b"one"}),
                    "bad": archive_of({"bad/manifest.toml": text.encode(), "bad/a.txt": b"two"})})  # fmt: skip
    assert Hub().fetch("good").elements == {"H"}
    with pytest.raises(DataCorruptError, match=r"bad/a\.txt has sha256"):
        Hub().fetch("bad")


def test_the_client_is_imported_only_to_download():
    count = (
        "import sys, mlipaudit.data, mlipaudit.hub; print([m for m in sys.modules if m in sys.argv[1].split(',')])"
    )
    heavy = "huggingface_hub,filelock,numpy,jax,httpx,httpx2,requests"
    done = subprocess.run([sys.executable, "-c", count, heavy], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("name", ["", "../water", "a/b", ".hidden", "a\\b"])
def test_a_data_name_is_no_path(server, name):
    with pytest.raises(DataUnavailableError, match="no data name"):
        Hub().fetch(name)
    assert server.requests == []


# What is there makes no request


def test_second_fetch_makes_no_request(server):
    first = Hub().fetch("water")
    server.requests.clear()
    second = Hub().fetch("water")
    assert (second.hashes, second.origin, second.sha256) == (first.hashes, first.origin, first.sha256)
    assert server.requests == []


def test_a_new_process_without_network_needs_neither_hub_nor_client(server):
    Hub().fetch("water")
    server.requests.clear()
    assert answer_of(start("water", HF_HUB_OFFLINE="1")) == {"hashes": WATER_HASHES, "client": False}
    assert answer_of(start("water")) == {"hashes": WATER_HASHES, "client": False}
    assert server.requests == []


def test_offline_without_data(server):
    answer = answer_of(start("water", HF_HUB_OFFLINE="1"))["error"]
    assert "'water' is not downloaded and HF_HUB_OFFLINE is set" in answer
    assert "mlipaudit data download water" in answer
    assert "--data embedded" in answer
    assert server.requests == []


def test_offline_with_the_archive_only(server, monkeypatch):
    shutil.rmtree(Hub().fetch("water").path)
    server.requests.clear()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert Hub().fetch("water").hashes == WATER_HASHES
    assert server.requests == []


def test_offline_uses_what_another_program_has_downloaded(server, monkeypatch):
    from huggingface_hub import hf_hub_download

    hf_hub_download(client.REPOSITORY, "water.zip", repo_type="dataset")
    server.requests.clear()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    there = Hub().fetch("water")
    assert (there.hashes, there.origin["commit"]) == (WATER_HASHES, server.refs["main"])
    assert server.requests == []


def test_an_archive_in_the_store_that_several_caches_share(server, home, monkeypatch):
    shutil.rmtree(Hub().fetch("water").path)
    (blob,) = files_in_client_cache(home, "blobs/*")
    shared = home / "hf" / "hub" / "blobs" / "ab" / "another-hash"
    shared.parent.mkdir(parents=True)
    blob.rename(shared)
    blob.symlink_to(shared)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert Hub().fetch("water").hashes == WATER_HASHES


def test_a_client_that_makes_no_links(server, home, monkeypatch):
    monkeypatch.setattr("huggingface_hub.file_download.are_symlinks_supported", lambda *_: False)
    shutil.rmtree(Hub().fetch("water").path)
    (entry,) = files_in_client_cache(home, "snapshots/*/*")
    assert not entry.is_symlink()
    flip_a_byte(entry)
    assert Hub().fetch("water").hashes == WATER_HASHES
    assert len(server.downloads()) == 1


def test_a_cache_that_cannot_be_written_can_be_used(server, monkeypatch):
    Hub().fetch("water")
    for change in ("mkdir", "rename", "replace", "link", "unlink"):
        monkeypatch.setattr(os, change, lambda *_, **__: pytest.fail("something was written"))
    assert Hub().fetch("water").hashes == WATER_HASHES


# Revisions


def test_a_branch_keeps_its_commit_until_told(server):
    first = server.refs["main"]
    Hub().fetch("water")
    second = server.publish(
        {"water": archive_of({"water/a.txt": b"new"}), "ice": archive_of({"ice/a.txt": b"new"})}
    )
    assert Hub().fetch("water").origin["commit"] == first
    ice = Hub().fetch("ice")
    assert (ice.origin["commit"], (ice.path / "a.txt").read_bytes()) == (first, b"three")
    assert hub.renew() == second
    renewed = Hub().fetch("water")
    assert (renewed.origin["commit"], (renewed.path / "a.txt").read_bytes()) == (second, b"new")


def test_an_older_commit(server):
    first = server.refs["main"]
    server.publish({"water": archive_of({"water/a.txt": b"new"})})
    there = Hub(first).fetch("water")
    assert there.hashes == WATER_HASHES
    assert (there.origin["revision"], there.origin["commit"]) == (first, first)
    assert not any(request.path.startswith("/api/datasets") for request in server.requests)


def test_two_names_of_one_commit_share_the_data(server):
    server.refs["refs/pr/1"] = server.refs["main"]
    Hub().fetch("water")
    there = Hub("refs/pr/1").fetch("water")
    assert (there.origin["revision"], there.hashes) == ("refs/pr/1", WATER_HASHES)
    assert len(server.downloads()) == 1
    assert folders.revisions_of(server.refs["main"]) == ["main", "refs/pr/1"]


def test_renewing_without_a_hub_keeps_what_was(server):
    commit = Hub().fetch("water").origin["commit"]
    server.faults.status = 503
    with pytest.raises(DataUnavailableError, match="HTTP 503"):
        hub.renew()
    assert Hub().fetch("water").origin["commit"] == commit


def test_the_first_of_two_that_remember_wins():
    assert folders.remember("main", "a" * 40) == "a" * 40
    assert folders.remember("main", "b" * 40) == "a" * 40
    assert folders.remember("main", "b" * 40, anew=True) == "b" * 40


@pytest.mark.parametrize("left", ["", "abc", "\0" * 40])
def test_a_damaged_memory_is_none(left):
    folders.remember("main", "a" * 40)
    (folders.data_root() / "revisions" / "main").write_text(left, encoding="utf-8")
    assert folders.remembered("main") is None
    assert folders.remember("main", "b" * 40) == "b" * 40


# The hub says no


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [
        (401, None, "does not give out .*HTTP 401.*hf auth login"),
        (403, "GatedRepo", "does not give out .*HTTP 403.*hf auth login"),
        (404, "RepoNotFound", "has no dataset InstaDeepAI/MLIPAudit-data"),
        (500, None, "HTTP 500.*try again later"),
        (503, None, "HTTP 503.*try again later"),
    ],
)
def test_refusals_name_the_ways_out(server, status, code, words):
    server.faults.status, server.faults.error_code = status, code
    with pytest.raises(DataUnavailableError, match=words) as caught:
        Hub().fetch("water")
    assert "mlipaudit data download water" in str(caught.value)
    assert "--data embedded" in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_a_hub_in_trouble_is_asked_once_more(server):
    server.faults.status = 502
    with pytest.raises(DataUnavailableError):
        Hub().fetch("water")
    assert sum(request.path.startswith("/api/datasets") for request in server.requests) == 2


def test_no_such_revision():
    with pytest.raises(DataUnavailableError, match=r"has no revision 'nonsense'.*hub@REVISION"):
        Hub("nonsense").fetch("water")


def test_no_such_commit():
    with pytest.raises(DataUnavailableError, match="has no revision '0000"):
        Hub("0" * 40).fetch("water")


def test_no_such_data(server):
    with pytest.raises(DataUnavailableError, match=f"has no steam.zip at {server.refs['main'][:12]}.*--latest"):
        Hub().fetch("steam")


def test_a_trouble_of_the_content_network(server):
    server.faults.download_status = 500
    with pytest.raises(DataUnavailableError, match="HTTP 500"):
        Hub().fetch("water")
    server.faults.download_status = None
    assert Hub().fetch("water").hashes == WATER_HASHES


def test_what_answers_is_no_hub(server):
    server.faults.not_a_hub = True
    with pytest.raises(DataUnavailableError, match=r"no Hugging Face hub.*HF_ENDPOINT"):
        Hub().fetch("water")


def test_a_message_in_a_result_has_no_folders(home):
    (home / "cache").write_text("in the way", encoding="utf-8")
    with pytest.raises(DataUnavailableError, match="MLIPAUDIT_CACHE and HF_HOME") as caught:
        Hub().fetch("water")
    failure = Failure.from_exception(caught.value)
    assert failure.kind is FailureKind.DATA_UNAVAILABLE
    assert str(home) not in failure.message


# The hub does not answer


def test_unreachable(server):
    server.close()
    begin = time.monotonic()
    with pytest.raises(DataUnavailableError, match=r"hub cannot be reached.*data download water.*--data embedded"):
        Hub().fetch("water")
    assert time.monotonic() - begin < 5


def test_an_unreachable_hub_is_not_asked_again(server, impatient):
    server.faults.silent = True
    with pytest.raises(DataUnavailableError, match=r"data for 'water'.*hub cannot be reached"):
        Hub().fetch("water")
    begin, num_requests = time.monotonic(), len(server.requests)
    with pytest.raises(DataUnavailableError, match=r"data for 'ice'.*hub cannot be reached"):
        Hub().fetch("ice")
    assert time.monotonic() - begin < 0.3
    assert len(server.requests) == num_requests
    server.faults.silent = False
    new_process()
    assert Hub().fetch("water").hashes == WATER_HASHES


def test_the_client_with_its_own_limits_is_left_behind():
    begin = time.monotonic()
    with pytest.raises(client.StuckError, match="no answer for 0 s"):
        client._bounded(lambda: time.sleep(5), patience_s=0.3)
    assert time.monotonic() - begin < 2


def test_what_is_left_behind_does_not_keep_the_process():
    stuck = (
        "import time; from mlipaudit.hub import client; client._bounded(lambda: time.sleep(60), patience_s=0.2)"
    )
    done = subprocess.run([sys.executable, "-c", stuck], capture_output=True, text=True, timeout=20)
    assert "StuckError" in done.stderr


def test_an_unreachable_hub_costs_15_seconds_at_most():
    assert constants.DEFAULT_ETAG_TIMEOUT + client.SPARE_S <= 15


# Downloads that break off


def resumed_at(server):
    """Where the last download went on, in bytes."""
    return int(server.downloads()[-1].range.removeprefix("bytes=").removesuffix("-"))


def test_a_cut_connection_is_resumed(large):
    large.faults.cut_after = 1 << 20
    assert Hub().fetch("large").hashes == LARGE_HASHES
    assert len(large.downloads()) == 2
    assert resumed_at(large) == 1 << 20


def test_a_download_that_stalls_is_given_up_and_resumed_next_time(large, impatient):
    large.faults.stall_after = 1 << 20
    begin = time.monotonic()
    with pytest.raises(DataUnavailableError, match="hub cannot be reached"):
        Hub().fetch("large")
    assert time.monotonic() - begin < 5
    large.faults.stall_after = None
    new_process()
    assert Hub().fetch("large").hashes == LARGE_HASHES
    assert resumed_at(large) >= 1 << 20


def test_a_killed_download_is_resumed(large, home):
    large.faults.seconds_per_piece = 0.05
    process = start("large")
    wait_until(lambda: large.bytes_sent > 1 << 20)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    (part,) = files_in_client_cache(home, "blobs/*.incomplete")
    size = part.stat().st_size
    assert 0 < size < len(LARGE)
    large.faults.seconds_per_piece = 0.0
    assert Hub().fetch("large").hashes == LARGE_HASHES
    assert resumed_at(large) == size
    assert files_in_client_cache(home, "blobs/*.incomplete") == []


def test_an_interrupt_ends_the_download_and_keeps_what_came(large):
    large.faults.seconds_per_piece = 0.02

    def interrupt(_, done, __):
        if done > 1 << 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Hub(progress=interrupt).fetch("large")
    large.faults.seconds_per_piece = 0.0
    assert Hub().fetch("large").hashes == LARGE_HASHES
    assert resumed_at(large) > 1 << 20


def test_the_largest_part_is_completed_and_the_others_go(large, home):
    content = large.commits[large.refs["main"]]["large.zip"]
    blobs = home / "hf" / CACHE_ENTRIES / "blobs"
    blobs.mkdir(parents=True)
    for size in (1 << 10, 1 << 20, 1 << 15):
        (blobs / f"{hashlib.sha256(content).hexdigest()}.{size:08x}.incomplete").write_bytes(content[:size])
    assert Hub().fetch("large").hashes == LARGE_HASHES
    assert resumed_at(large) == 1 << 20
    assert files_in_client_cache(home, "blobs/*.incomplete") == []


@pytest.mark.parametrize("size", [1 << 20, len(LARGE) + (1 << 20)])
def test_a_part_of_something_else_costs_only_time(large, home, size):
    content = large.commits[large.refs["main"]]["large.zip"]
    blobs = home / "hf" / CACHE_ENTRIES / "blobs"
    blobs.mkdir(parents=True)
    (blobs / f"{hashlib.sha256(content).hexdigest()}.00000000.incomplete").write_bytes(b"x" * size)
    assert Hub().fetch("large").hashes == LARGE_HASHES


def test_wrong_content_is_refused_and_not_kept(server, home):
    server.faults.wrong_content = True
    with pytest.raises(DataCorruptError, match=r"water\.zip came from the hub with other content"):
        Hub().fetch("water")
    assert files_in_client_cache(home, "**/*") == []
    assert folders.downloaded() == []
    server.faults.wrong_content = False
    assert Hub().fetch("water").hashes == WATER_HASHES


def test_an_archive_of_the_client_that_rotted_is_downloaded_again(server, home):
    shutil.rmtree(Hub().fetch("water").path)
    (blob,) = files_in_client_cache(home, "blobs/*")
    flip_a_byte(blob)
    assert Hub().fetch("water").hashes == WATER_HASHES
    assert len(server.downloads()) == 2


def test_a_full_disk(server, monkeypatch):
    usage = shutil.disk_usage("/")
    monkeypatch.setattr(archive.shutil, "disk_usage", lambda _: usage._replace(free=0))
    with pytest.raises(DataUnavailableError, match=r"No space left on device.*make room.*MLIPAUDIT_CACHE"):
        Hub().fetch("water")


def test_a_disk_that_fills_up_while_unpacking(server, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(folders, "_write_marker", full)
        with pytest.raises(DataUnavailableError, match="No space left on device"):
            Hub().fetch("water")
    assert folders.downloaded() == []
    assert names_beside(folders.folder_of("water", server.refs["main"])) == []
    assert Hub().fetch("water").hashes == WATER_HASHES


# Several at once


def test_two_processes_at_once_download_once(large, home):
    large.faults.seconds_per_piece = 0.06  # three seconds, longer than they would wait for a lock held for nothing
    processes = [start("large"), start("large")]
    assert [answer_of(process) for process in processes] == [{"hashes": LARGE_HASHES, "client": True}] * 2
    assert len(large.downloads()) == 1
    assert names_beside(folders.folder_of("large", large.refs["main"])) == ["large"]


def test_many_unpack_at_once(home):
    packed = home / "water.zip"
    packed.write_bytes(archive_of(WATER))
    folder, results = folders.folder_of("water", "a" * 40), []

    def unpack():
        results.append(folders.install(packed, folder, origin={"commit": "a" * 40}).files)

    threads = [threading.Thread(target=unpack) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [WATER_HASHES] * 8
    assert folders.verified(folder).files == WATER_HASHES
    assert names_beside(folder) == ["water"]


def test_who_is_later_takes_the_folder_of_who_was_first(home):
    packed, folder = home / "water.zip", folders.folder_of("water", "a" * 40)
    packed.write_bytes(archive_of(WATER))
    folders.install(packed, folder, origin={})
    first = folder.stat().st_ino
    assert folders.install(packed, folder, origin={}).files == WATER_HASHES
    assert folder.stat().st_ino == first


def test_killed_while_unpacking(server):
    assert start("water", script=DIES_AT_THE_LAST_MOMENT).wait(60) == -signal.SIGKILL
    folder = folders.folder_of("water", server.refs["main"])
    (left,) = names_beside(folder)
    assert left.startswith(".water.")
    assert (folder.with_name(left) / "a.txt").read_bytes() == b"one"
    assert Hub().fetch("water").hashes == WATER_HASHES
    assert names_beside(folder) == ["water"]
    assert len(server.downloads()) == 1


def test_what_others_are_unpacking_is_left_alone(server):
    parent = folders.folder_of("water", server.refs["main"]).parent
    elsewhere, here = parent / f".ice.{a_dead_process()}.00000000", parent / f".ice.{os.getpid()}.00000000"
    elsewhere.mkdir(parents=True)
    here.mkdir()
    with locked(elsewhere):  # by a process of another machine, whose number is nobody's here
        Hub().fetch("water")
    assert elsewhere.is_dir()
    assert here.is_dir()


def a_dead_process():
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


@contextmanager
def locked(path):
    descriptor = os.open(path, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    yield
    os.close(descriptor)


# Locks


def lock_file(home, server):
    etag = hashlib.sha256(server.commits[server.refs["main"]]["water.zip"]).hexdigest()
    lock = home / "hf" / "hub" / ".locks" / CACHE_ENTRIES.name / f"{etag}.lock"
    lock.parent.mkdir(parents=True)
    return lock


def test_a_lock_that_is_held_for_nothing_ends_in_a_message(server, home):
    lock = lock_file(home, server)
    holder = start(str(lock), script=HOLDS_A_LOCK)
    assert holder.stdout.readline() == "held\n"
    begin = time.monotonic()
    message = answer_of(start("water"))["error"]
    assert time.monotonic() - begin < 10
    assert str(lock) in message
    assert "if another mlipaudit or huggingface process is running" in message
    assert "delete that file" in message
    lock.unlink()  # as the message says
    assert Hub().fetch("water").hashes == WATER_HASHES
    holder.kill()
    holder.communicate()


def test_a_lock_file_left_on_a_disk_without_real_locks(server, home, impatient, monkeypatch):
    import huggingface_hub.utils
    from filelock import SoftFileLock

    monkeypatch.setattr(huggingface_hub.utils, "WeakFileLock", SoftFileLock)
    lock = lock_file(home, server)
    lock.write_text("4711\nanother-machine\n", encoding="utf-8")
    with pytest.raises(DataUnavailableError, match=rf"{lock}.*delete that file"):
        Hub().fetch("water")
    lock.unlink()
    assert Hub().fetch("water").hashes == WATER_HASHES


def test_where_locks_mean_nothing_the_parts_of_others_are_left_alone(large, home, monkeypatch):
    content = large.commits[large.refs["main"]]["large.zip"]
    part = home / "hf" / CACHE_ENTRIES / "blobs" / f"{hashlib.sha256(content).hexdigest()}.00000000.incomplete"
    part.parent.mkdir(parents=True)
    part.write_bytes(content[: 1 << 20])
    monkeypatch.setattr(client, "_lock_excludes_others", lambda _: False)
    assert Hub().fetch("large").hashes == LARGE_HASHES
    assert part.stat().st_size == 1 << 20
    assert [request.range for request in large.downloads()] == [None]


def test_a_real_lock_is_known_from_one_that_everybody_gets(tmp_path):
    (tmp_path / "lock").touch()
    assert not client._lock_excludes_others(tmp_path / "lock")
    with locked(tmp_path / "lock"):
        assert client._lock_excludes_others(tmp_path / "lock")


# Unpacked data that has changed


def flip_a_byte(file):
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def add_a_file(folder):
    (folder / "c.txt").write_text("three", encoding="utf-8")


DAMAGES = {
    "changed": lambda folder: flip_a_byte(folder / "sub" / "b.txt"),
    "missing": lambda folder: (folder / "a.txt").unlink(),
    "added": add_a_file,
    "no marker": lambda folder: (folder / folders.MARKER).unlink(),
    "no JSON": lambda folder: (folder / folders.MARKER).write_bytes(b"\xff{"),
    "other JSON": lambda folder: (folder / folders.MARKER).write_text("[]", encoding="utf-8"),
    "empty": lambda folder: [shutil.rmtree(folder), folder.mkdir()],
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damage_is_repaired_without_a_request(server, damage):
    there = Hub().fetch("water")
    damage(there.path)
    server.requests.clear()
    repaired = Hub().fetch("water")
    assert repaired.hashes == WATER_HASHES
    visible = {str(file.relative_to(repaired.path)): sha256_of(file) for file in visible_files(repaired.path)}
    assert visible == WATER_HASHES
    assert names_beside(repaired.path) == ["water"]
    assert server.requests == []


@pytest.mark.parametrize("fate", ["gone", "rotten"])
def test_damage_without_a_good_archive_is_an_error_until_told_to_download(server, home, fate):
    there = Hub().fetch("water")
    DAMAGES["changed"](there.path)
    if fate == "gone":
        shutil.rmtree(home / "hf")
    else:
        flip_a_byte(*files_in_client_cache(home, "blobs/*"))
    server.requests.clear()
    words = r"water/sub/b\.txt has changed.*archive.*no longer.*mlipaudit data download water"
    with pytest.raises(DataCorruptError, match=words):
        Hub().fetch("water")
    assert server.requests == []
    assert hub.fetch("water", again=True).files == WATER_HASHES
    assert Hub().fetch("water").hashes == WATER_HASHES


# Archives that nobody should trust


def with_mode(mode, name="water/a.txt"):
    info = zipfile.ZipInfo(name)
    info.external_attr = (mode | 0o777) << 16
    return packed(lambda archive: archive.writestr(info, "/etc/passwd"))


def packed(write, **options):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", **options) as opened:
        write(opened)
    return content.getvalue()


def write_twice(opened):
    with pytest.warns(UserWarning, match="Duplicate name"):
        for text in ("one", "two"):
            opened.writestr("water/a.txt", text)


def write_overlapping(opened):
    opened.writestr("water/a.txt", random.Random(1).randbytes(1 << 12))
    second = copy.copy(opened.filelist[0])
    second.filename = "water/b.txt"
    opened.filelist.append(second)


def encrypted(content):
    local, central = content.index(b"PK\x03\x04"), content.index(b"PK\x01\x02")
    flagged = bytearray(content)
    flagged[local + 6] |= 1
    flagged[central + 8] |= 1
    return bytes(flagged)


def with_other_bytes(content):
    changed = bytearray(content)
    changed[content.index(b"one")] ^= 1
    return bytes(changed)


REFUSED = {
    "above": (
        archive_of({**WATER, "water/../../evil.txt": b"x"}),
        r"'water/\.\./\.\./evil\.txt' could be written",
    ),
    "above, at once": (archive_of({"../evil.txt": b"x"}), "could be written outside"),
    "absolute": (archive_of({"/tmp/evil.txt": b"x"}), r"'/tmp/evil\.txt' could be written outside"),
    "backslashes": (archive_of({"water/..\\..\\evil.txt": b"x"}), "could be written outside"),
    "drive": (archive_of({"C:/water/evil.txt": b"x"}), "could be written outside"),
    "drive below": (archive_of({"water/C:evil.txt": b"x"}), "could be written outside"),
    "dot": (archive_of({"water/./a.txt": b"x"}), "could be written outside"),
    "line break": (archive_of({"water/a\n.txt": b"x"}), "could be written outside"),
    "link": (with_mode(stat.S_IFLNK), r"'water/a\.txt' is a link or a device"),
    "hidden link": (with_mode(stat.S_IFLNK, "water/.a"), "is a link or a device"),
    "device": (with_mode(stat.S_IFCHR), "is a link or a device"),
    "pipe": (with_mode(stat.S_IFIFO), "is a link or a device"),
    "wrong folder": (archive_of({**WATER, "steam/a.txt": b"x"}), r"'steam/a\.txt' does not lie in water/"),
    "no folder": (archive_of({"a.txt": b"x"}), r"'a\.txt' does not lie in water/"),
    "a file": (archive_of({"water": b"x"}), r"'water' does not lie in water/"),
    "bomb": (archive_of({"water/a.txt": bytes(8 << 20)}), r"'water/a\.txt' is packed more than 200 times"),
    "overlap": (packed(write_overlapping), "members overlap"),
    "twice": (packed(write_twice), r"'water/a\.txt' is there twice"),
    "file as folder": (archive_of({"water/a": b"x", "water/a/b.txt": b"x"}), r"'water/a/b\.txt' is there twice"),
    "encrypted": (encrypted(archive_of(WATER)), "is encrypted"),
    "unusual": (packed(lambda a: a.writestr("water/a", "x"), compression=zipfile.ZIP_LZMA), "unusual way"),
    "nothing": (archive_of({"water/.DS_Store": b"x"}), "has no files in water/"),
    "no archive": (b"this is no archive", r"water\.zip is damaged"),
    "empty": (b"", r"water\.zip is damaged"),
    "cut": (archive_of(WATER)[:-30], r"water\.zip is damaged"),
    "changed": (with_other_bytes(archive_of(WATER, stored=True)), r"water\.zip is damaged: Bad CRC-32"),
}


@pytest.mark.parametrize(("content", "words"), REFUSED.values(), ids=REFUSED)
def test_an_archive_is_refused(tmp_path, content, words):
    (tmp_path / "water.zip").write_bytes(content)
    before = {path for path in tmp_path.rglob("*") if tmp_path / "data" not in path.parents}
    with pytest.raises(DataCorruptError, match=words):
        folders.install(tmp_path / "water.zip", tmp_path / "data" / "water", origin={})
    assert set(tmp_path.rglob("*")) - before <= {tmp_path / "data"}


@pytest.mark.parametrize(
    ("limit", "value", "words"),
    [("MAX_FILES", 1, "has 2 files, more than 1"), ("MAX_BYTES", 5, r"unpacks to 0\.0 GiB, more than")],
)
def test_an_archive_is_bounded(tmp_path, monkeypatch, limit, value, words):
    (tmp_path / "water.zip").write_bytes(archive_of(WATER))
    monkeypatch.setattr(archive, limit, value)
    with pytest.raises(DataCorruptError, match=words):
        archive.extract(tmp_path / "water.zip", tmp_path, name="water")


def test_a_refused_archive_of_the_hub_leaves_nothing(server, home):
    server.publish({"water": archive_of({**WATER, "water/../../../evil.txt": b"x"})})
    with pytest.raises(DataCorruptError, match="could be written outside its folder"):
        Hub().fetch("water")
    assert list(home.rglob("evil.txt")) == []
    assert folders.downloaded() == []
    assert names_beside(folders.folder_of("water", server.refs["main"])) == []


def test_what_is_not_data_is_left_out(server):
    extra = {"__MACOSX/water/._a.txt": b"x", "water/.DS_Store": b"x", "water/.git/config": b"x", "water/empty/": b"",
             "water/.origin.json": b'{"files": {}, "origin": {}}'}  # fmt: skip
    server.publish({"water": archive_of({**WATER, **extra})})
    there = Hub().fetch("water")
    assert there.hashes == WATER_HASHES
    assert sorted(path.name for path in there.path.rglob("*")) == [folders.MARKER, "a.txt", "b.txt", "sub"]


# The command


@pytest.fixture
def command(server, monkeypatch, capsys):
    """Run `mlipaudit data` -> exit code, output, errors. The hub has the data of both benchmarks."""
    names = ["inference_speed", "tautomers"]
    content = {name: archive_of({f"{name}/a.txt": b"12345"}) for name in names}
    server.publish(content)
    monkeypatch.setitem(COMMANDS, "data", data_command)
    monkeypatch.setattr(data_command, "_benchmark_names", lambda: names)
    monkeypatch.setattr(data, "embedded_names", lambda: names)

    def run(*arguments):
        code = main(["data", *arguments])
        return (code, *capsys.readouterr())

    return run


def rows(text):
    """First word -> the others, of the lines of a table."""
    return {line.split()[0]: line.split()[1:] for line in text.splitlines() if line}


def test_list_before_and_after(command, server):
    code, out, _ = command("list")
    assert code == 0
    assert rows(out)["tautomers"] == ["yes", "not", "downloaded"]
    command("download", "tautomers")
    commit = server.refs["main"][:12]
    code, out, _ = command("list")
    assert code == 0
    assert rows(out)["tautomers"] == ["yes", "commit", commit, "(main),", "5", "B"]
    assert rows(out)["inference_speed"] == ["yes", "not", "downloaded"]
    assert str(folders.data_root()) in out
    assert "MLIPAUDIT_CACHE" in out


def test_download_of_everything(command, server):
    commit = server.refs["main"][:12]
    code, out, err = command("download")
    assert code == 0
    assert out.splitlines() == [
        f"inference_speed: downloaded, commit {commit}, 1 file, 5 B",
        f"tautomers: downloaded, commit {commit}, 1 file, 5 B",
    ]
    assert [line.split(":")[0] for line in err.splitlines()] == ["inference_speed", "tautomers"]
    server.requests.clear()
    code, out, err = command("download")
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == f"inference_speed: already here, commit {commit}, 1 file, 5 B"
    assert server.requests == []


def test_download_of_the_latest(command, server):
    command("download", "tautomers")
    new = server.publish({"tautomers": archive_of({"tautomers/a.txt": b"123"})})
    assert "already here" in command("download", "tautomers")[1]
    code, out, _ = command("download", "--latest", "tautomers")
    assert code == 0
    assert out.splitlines() == [
        f"main now stands for commit {new}",
        f"tautomers: downloaded, commit {new[:12]}, 1 file, 3 B",
    ]


def test_download_of_a_revision(command, server):
    old = server.refs["main"]
    server.publish({"tautomers": archive_of({"tautomers/a.txt": b"123"})})
    code, out, _ = command("download", "tautomers", "--data", f"hub@{old}")
    assert (code, out) == (0, f"tautomers: downloaded, commit {old[:12]}, 1 file, 5 B\n")


def test_one_failing_name_does_not_stop_the_others(command, server):
    server.publish({"tautomers": archive_of({"tautomers/a.txt": b"123"})})
    code, out, err = command("download")
    assert code == 1
    assert out.startswith("tautomers: downloaded")
    assert "mlipaudit: inference_speed: the public dataset" in err
    assert err.splitlines()[-1] == "mlipaudit: 1 of 2 data sets could not be downloaded"


def test_download_repairs_where_the_archive_is_gone(command, server, home):
    command("download", "tautomers")
    flip_a_byte(folders.folder_of("tautomers", server.refs["main"]) / "a.txt")
    shutil.rmtree(home / "hf")
    code, out, _ = command("download", "tautomers")
    assert code == 0
    assert out.startswith("tautomers: downloaded")
    assert command("verify", "tautomers")[0] == 0


@pytest.mark.parametrize("arguments", [["download"], ["download", "--latest"]])
def test_download_without_a_hub(command, server, arguments):
    server.close()
    code, out, err = command(*arguments)
    assert (code, out) == (1, "")
    assert "hub cannot be reached" in err


@pytest.mark.parametrize("action", ["download", "verify", "path"])
def test_an_unknown_name(command, action):
    code, _, err = command(action, "tautomer")
    assert code == 2
    assert "unknown data name 'tautomer'; did you mean 'tautomers'?" in err


@pytest.mark.parametrize("edition", ["embedded", "hub@", "hub@../x", "hub@-x"])
def test_only_the_public_dataset_is_downloaded(command, edition):
    code, _, err = command("download", "--data", edition)
    assert code == 2
    assert f"--data {edition}: " in err


def test_verify(command, server):
    command("download", "tautomers")
    commit = server.refs["main"][:12]
    code, out, _ = command("verify", "tautomers")
    assert code == 0
    assert out.splitlines() == [
        "tautomers: embedded: ok, 1 file",
        f"tautomers: hub, commit {commit} (main): ok, 1 file",
    ]
    flip_a_byte(folders.folder_of("tautomers", server.refs["main"]) / "a.txt")
    code, out, _ = command("verify")
    assert code == 1
    assert out.splitlines() == [
        "inference_speed: embedded: ok, 2 files",
        "tautomers: embedded: ok, 1 file",
        f"tautomers: hub, commit {commit} (main): WRONG: tautomers/a.txt has changed since it was downloaded",
    ]


def test_path(command, server):
    assert command("path") == (1, "", "mlipaudit: nothing is downloaded; run: mlipaudit data download\n")
    expected = "mlipaudit: tautomers is not downloaded; run: mlipaudit data download tautomers\n"
    assert command("path", "tautomers") == (1, "", expected)
    command("download", "tautomers")
    folder = folders.folder_of("tautomers", server.refs["main"])
    assert command("path", "tautomers") == (0, f"{folder}\n", "")
    assert command("path") == (0, f"{folder.parent.parent}\n", "")


def test_progress_on_a_terminal_is_one_line():
    stream = Terminal()
    with data_command._Progress(stream) as progress:
        progress("water", 500_000, 2_000_000)
    assert stream.getvalue() == "\r\033[Kwater: 500.0 kB of 2.0 MB\r\033[K"
