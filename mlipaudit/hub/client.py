# SPDX-License-Identifier: Apache-2.0
"""Archives of the public dataset, downloaded with `huggingface_hub` into its own cache.

Left to itself that client waits for a lock for ever, asks a dead host for minutes, and throws away what it had when it
gives up. So its parts are called one by one, each with a limit; what is left is an ordinary entry of its cache.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from threading import Thread
from typing import NoReturn, TypeVar

from mlipaudit.data import sha256_of
from mlipaudit.errors import DataCorruptError
from mlipaudit.hub import problems
from mlipaudit.hub.folders import COMMIT
from mlipaudit.hub.problems import REPOSITORY, HubUnreachableError, NotAHubError, StuckError, Subject

REPOSITORY_KIND = "dataset"
LOCK_PATIENCE_S = 10.0
"""How long others may hold a lock without anything being downloaded."""
SPARE_S = 5.0
"""On top of the client's own time limits, before a call of it is given up."""
STALL_TIMEOUTS = 3
"""Time limits of one read that pass without a byte before a download is given up."""
RETRY_PAUSE_S = 1.0
"""Before the only second try, when the hub has a problem of its own."""
UNREACHABLE_FOR_S = 60.0
"""A hub that was not reached is not asked again by this process for so long."""
CHUNK_BYTES = 1 << 18
"""The client's own 10 MB are all lost when a download breaks off within them."""
_POLL_S = 0.1
_SHA256, _ETAG = re.compile("[0-9a-f]{64}"), re.compile(r"[\w-]+")

OnBytes = Callable[[str, int, int], None]
"""Called with the data name, and bytes done and in total; a total of 0 is not known."""
T = TypeVar("T")


@dataclass(frozen=True)
class Archive:
    """A downloaded archive that is what the hub says it is."""

    path: Path
    sha256: str


@dataclass(frozen=True)
class Remote:
    """An archive as the hub describes it, and where the client's cache keeps it."""

    subject: Subject
    url: str
    etag: str
    size: int | None
    blob: Path
    lock: Path

    @property
    def name(self) -> str:
        """Data name."""
        return self.subject.name

    def left(self) -> list[Path]:
        """What downloads that broke off have left of it, the largest first."""
        found = self.blob.parent.glob(f"{self.etag}*.incomplete")
        return sorted(found, key=lambda path: -_size_of(path))

    def new_part(self) -> Path:
        """Where to begin, named as the client names it."""
        return self.blob.with_name(f"{self.etag}.{token_hex(4)}.incomplete")


def resolve(revision: str, *, name: str = "") -> str:
    """The commit that a branch or tag stands for at the moment.

    Raises:
        DataUnavailableError: the hub cannot be asked, or has no such revision.
    """
    subject = Subject(name, revision)
    with _client(subject) as hub:
        if hub.constants.HF_HUB_OFFLINE:
            return _resolved_offline(subject)
        return _commit_on_hub(revision)


def cached(name: str, commit: str) -> Archive | None:
    """The archive that an earlier download left, if it is still right. Makes no request."""
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(REPOSITORY, f"{name}.zip", repo_type=REPOSITORY_KIND, revision=commit)
    if not isinstance(found, str):
        return None
    # Where the client makes no symbolic links, its cache does not tell what an archive should be.
    blob = Path(os.readlink(found)) if os.path.islink(found) else Path()
    return _checked(Path(found), etag=blob.name) if blob.parent.name == "blobs" else None


def download(name: str, commit: str, *, progress: OnBytes | None = None) -> Archive:
    """The archive from the hub; goes on where an earlier download broke off.

    Raises:
        DataUnavailableError: the hub does not answer, or does not have it; a lock is held by others for nothing.
        DataCorruptError: what came is not what the hub says it is.
    """
    subject = Subject(name, commit)
    report = progress or (lambda *_: None)
    with _client(subject) as hub:
        if hub.constants.HF_HUB_OFFLINE:
            raise problems.offline(subject)
        remote = _described(subject)
        with _locked(remote, report):
            if _checked(remote.blob, etag=remote.etag) is None:
                _fill_blob(remote, report)
        for _ in range(2):  # A rotten entry is removed at the first time, and made anew at the second.
            if archive := _checked(Path(_asked(lambda _: _pointer(name, commit))), etag=remote.etag):
                return archive
        _refuse(subject)


# Asking


def _commit_on_hub(revision: str) -> str:
    from huggingface_hub import HfApi

    api = HfApi()
    try:
        commit = _asked(lambda limit_s: api.dataset_info(REPOSITORY, revision=revision, timeout=limit_s)).sha
    except (ValueError, KeyError, TypeError) as error:
        raise NotAHubError("it does not answer in JSON") from error
    if commit is None or not COMMIT.fullmatch(commit):
        raise NotAHubError("it gives no commit")
    return commit


def _described(subject: Subject) -> Remote:
    from huggingface_hub import get_hf_file_metadata, hf_hub_url

    url = hf_hub_url(REPOSITORY, f"{subject.name}.zip", repo_type=REPOSITORY_KIND, revision=subject.revision)
    metadata = _asked(lambda limit_s: get_hf_file_metadata(url, timeout=limit_s))
    if metadata.etag is None or not _ETAG.fullmatch(metadata.etag):
        raise NotAHubError("it gives no hash")
    blob = _repository_folder() / "blobs" / metadata.etag
    lock = _cache_folder() / ".locks" / _repository_folder().name / f"{metadata.etag}.lock"
    return Remote(subject, url, metadata.etag, metadata.size, blob, lock)


def _pointer(name: str, commit: str) -> str:
    """The client's entry for an archive whose bytes it has."""
    from huggingface_hub import hf_hub_download

    return hf_hub_download(REPOSITORY, f"{name}.zip", repo_type=REPOSITORY_KIND, revision=commit)


def _resolved_offline(subject: Subject) -> str:
    """What the client itself remembers of a revision."""
    try:
        text = (_repository_folder() / "refs" / subject.revision).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        text = ""
    if not COMMIT.fullmatch(text):
        raise problems.offline(subject)
    return text


def _cache_folder() -> Path:
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE).expanduser().resolve()


def _repository_folder() -> Path:
    from huggingface_hub.file_download import repo_folder_name

    return _cache_folder() / repo_folder_name(repo_id=REPOSITORY, repo_type=REPOSITORY_KIND)


# Downloading


def _fill_blob(remote: Remote, report: OnBytes) -> None:
    """Put the bytes in the client's cache, once they are right."""
    remote.blob.parent.mkdir(parents=True, exist_ok=True)
    mine = _lock_excludes_others(remote.lock)
    for part in [*(remote.left()[:1] if mine else []), remote.new_part()]:
        _get_all(remote, part, report)
        if _matches(part, remote.etag):
            os.replace(part, remote.blob)
            break
        part.unlink()
    else:
        _refuse(remote.subject)
    for part in remote.left() if mine else []:
        part.unlink(missing_ok=True)


def _get_all(remote: Remote, part: Path, report: OnBytes) -> None:
    """Append what is missing to a part, also over connections that break as long as each brings something."""
    while True:
        before = _size_of(part)
        try:
            return _get(remote, part, report)
        except Exception as error:  # around a download: only a broken connection is taken up again
            if not problems.is_network(error) or _size_of(part) <= before:
                raise
        time.sleep(RETRY_PAUSE_S)


def _get(remote: Remote, part: Path, report: OnBytes) -> None:
    from huggingface_hub import constants
    from huggingface_hub.file_download import http_get
    from huggingface_hub.utils import build_hf_headers

    done, total = _size_of(part), remote.size or 0
    if done > total:
        part.unlink(missing_ok=True)
        done = 0
    if shutil.disk_usage(part.parent).free < total - done:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    headers = build_hf_headers()
    # Closing the file ends a thread that was left behind, should the hub ever go on sending.
    with part.open("ab") as file:
        _bounded(
            lambda: http_get(remote.url, file, resume_size=done, headers=headers, expected_size=remote.size),
            patience_s=STALL_TIMEOUTS * constants.HF_HUB_DOWNLOAD_TIMEOUT,
            watch=lambda: _reported(part, remote, report),
        )
    _reported(part, remote, report)


def _reported(part: Path, remote: Remote, report: OnBytes) -> int:
    size = _size_of(part)
    report(remote.name, size, remote.size or 0)
    return size


def _refuse(subject: Subject) -> NoReturn:
    raise DataCorruptError(
        f"{subject.name}.zip came from the hub with other content than the hub says; it was thrown away, "
        f"try again with: {problems.download_command(subject.name)}"
    )


def _checked(path: Path, *, etag: str) -> Archive | None:
    """An archive of the cache; one that differs from its hash is removed from there."""
    if not path.is_file():
        return None
    if sha256 := _matches(path, etag):
        return Archive(path, sha256)
    path.resolve().unlink(missing_ok=True)
    path.unlink(missing_ok=True)
    return None


def _matches(file: Path, etag: str) -> str | None:
    """sha256 of a file that is what the hub says. An archive's etag is its sha256, unless a mirror has its own."""
    sha256 = sha256_of(file)
    return None if _SHA256.fullmatch(etag) and sha256 != etag else sha256


def _size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


# Locks


@contextmanager
def _locked(remote: Remote, report: OnBytes) -> Iterator[None]:
    """Hold the client's lock; wait for a holder that downloads, not for one that does nothing."""
    remote.lock.parent.mkdir(parents=True, exist_ok=True)
    seen, since = _traces(remote), time.monotonic()
    with ExitStack() as stack:
        while not _acquired(stack, remote.lock):
            if (now := _traces(remote)) != seen:
                seen, since = now, time.monotonic()
                report(remote.name, max((size for size, _ in now.values()), default=0), remote.size or 0)
            elif time.monotonic() - since > LOCK_PATIENCE_S:
                raise problems.lock_held(remote.lock, remote.name, waited_s=LOCK_PATIENCE_S)
        yield


def _acquired(stack: ExitStack, lock: Path) -> bool:
    from filelock import Timeout
    from huggingface_hub.utils import WeakFileLock

    try:
        stack.enter_context(WeakFileLock(lock, timeout=_POLL_S))
    except Timeout:
        return False
    return True


def _traces(remote: Remote) -> dict[str, tuple[int, int]]:
    """What shows that somebody is downloading: size and time of last change."""
    traces = {}
    for path in remote.left():
        with suppress(FileNotFoundError):
            found = path.stat()
            traces[path.name] = (found.st_size, found.st_mtime_ns)
    return traces


def _lock_excludes_others(lock: Path) -> bool:
    """Whether the lock that we hold means something: some file systems give the same one to everybody.

    There the parts of others may be growing, and are left alone.
    """
    try:
        with lock.open("rb") as again:
            fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    return False


# Limits


_not_reached: dict[str, tuple[float, str]] = {}
"""Endpoint -> when it was found unreachable, and why."""


@contextmanager
def _client(subject: Subject) -> Iterator:
    """`huggingface_hub` with our settings; its errors come out in words."""
    import huggingface_hub as hub
    from huggingface_hub import constants

    at, reason = _not_reached.get(constants.ENDPOINT, (0.0, ""))
    if reason and time.monotonic() - at < UNREACHABLE_FOR_S:
        raise HubUnreachableError(reason, subject)
    try:
        with _our_settings():
            yield hub
    except Exception as error:  # around a download: said in words where a user can do something about it
        explained = problems.explained(error, subject)
        if isinstance(explained, HubUnreachableError):
            _not_reached[constants.ENDPOINT] = (time.monotonic(), explained.reason)
        if explained is error:
            raise
        raise explained from error


@contextmanager
def _our_settings() -> Iterator[None]:
    """Quiet, and in small chunks."""
    from huggingface_hub import constants
    from huggingface_hub.utils import logging

    chunk_bytes, level = constants.DOWNLOAD_CHUNK_SIZE, logging.get_verbosity()
    constants.DOWNLOAD_CHUNK_SIZE = CHUNK_BYTES
    if level == logging.WARNING:
        logging.set_verbosity_error()
    try:
        with _no_bars():
            yield
    finally:
        constants.DOWNLOAD_CHUNK_SIZE = chunk_bytes
        logging.set_verbosity(level)


@contextmanager
def _no_bars() -> Iterator[None]:
    """Without the client's progress bars, unless HF_HUB_DISABLE_PROGRESS_BARS=0 forces them."""
    from huggingface_hub.constants import HF_HUB_DISABLE_PROGRESS_BARS
    from huggingface_hub.utils import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

    if HF_HUB_DISABLE_PROGRESS_BARS is not None or are_progress_bars_disabled():
        yield
        return
    disable_progress_bars()
    try:
        yield
    finally:
        enable_progress_bars()


def _asked(job: Callable[[float], T]) -> T:
    """The answer to a question, which is given the client's time limit; that does not hold for looking up names."""
    from huggingface_hub import constants
    from huggingface_hub.errors import HfHubHTTPError

    limit_s = float(constants.HF_HUB_ETAG_TIMEOUT)
    try:
        return _bounded(lambda: job(limit_s), patience_s=limit_s + SPARE_S)
    except HfHubHTTPError as error:
        if problems.status_of(error) < 500:
            raise
    time.sleep(RETRY_PAUSE_S)
    return _bounded(lambda: job(limit_s), patience_s=limit_s + SPARE_S)


def _bounded(job: Callable[[], T], *, patience_s: float, watch: Callable[[], object] = bool) -> T:
    """What `job` returns. Its thread is left behind when `watch()` has not changed for too long.

    Raises:
        StuckError: it was.
    """
    future: Future[T] = Future()
    thread = Thread(target=_settle, args=(future, job), daemon=True)
    thread.start()
    seen, since = watch(), time.monotonic()
    while thread.is_alive():
        thread.join(_POLL_S)
        if (now := watch()) != seen:
            seen, since = now, time.monotonic()
        elif time.monotonic() - since > patience_s:
            raise StuckError(f"no answer for {patience_s:.0f} s")
    return future.result()


def _settle(future: Future[T], job: Callable[[], T]) -> None:
    try:
        future.set_result(job())
    except BaseException as error:  # around a call of the client: raised where its result is waited for
        future.set_exception(error)
