# SPDX-License-Identifier: Apache-2.0
"""The `hub` edition: the public dataset, in a folder of ours, verified at every use.

`client.py` downloads archives into the cache of `huggingface_hub`, `archive.py` unpacks one safely, `folders.py` keeps
what was unpacked, and `problems.py` says in words what went wrong. What is there is used without any request.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from mlipaudit.errors import DataCorruptError, DataUnavailableError
from mlipaudit.hub import client, folders, problems
from mlipaudit.hub.client import Archive, OnBytes
from mlipaudit.hub.folders import Unpacked

DEFAULT_REVISION = "main"


def fetch(
    name: str, *, revision: str | None = None, progress: OnBytes | None = None, again: bool = False
) -> Unpacked:
    """The verified files of a data name: from our folder, else from a downloaded archive, else from the hub.

    Args:
        name: data name.
        revision: branch, tag or commit; a branch keeps the commit that it stood for when it was first used.
        progress: called with the name, and bytes done and in total.
        again: whether a folder that has changed may be downloaded anew, where its archive is gone.

    Raises:
        DataUnavailableError: it is not here and cannot be had.
        DataCorruptError: it differs from its hash and cannot be repaired, or the hub's archive is not usable.
    """
    _require_plain(name)
    asked = revision or DEFAULT_REVISION
    with _cache_problems_in_words(name):
        commit = folders.remembered(asked) or folders.remember(asked, client.resolve(asked, name=name))
        unpacked = _from_folder_or_archive(name, commit, progress=progress, again=again)
    return replace(unpacked, origin={**unpacked.origin, "revision": asked})


def renew(revision: str | None = None) -> str:
    """The commit that a revision stands for today; from now on it stands for that one.

    Raises:
        DataUnavailableError: the hub cannot be asked; what was remembered stays.
    """
    asked = revision or DEFAULT_REVISION
    with _cache_problems_in_words(problems.REPOSITORY):
        return folders.remember(asked, client.resolve(asked), anew=True)


def _from_folder_or_archive(name: str, commit: str, *, progress: OnBytes | None, again: bool) -> Unpacked:
    folder = folders.folder_of(name, commit)
    if not folder.exists():
        archive = client.cached(name, commit) or client.download(name, commit, progress=progress)
        return _unpack(archive, name, commit)
    try:
        return folders.verified(folder)
    except DataCorruptError as error:
        return _unpack(_archive_for_repair(error, name, commit, progress=progress, again=again), name, commit)


def _archive_for_repair(
    error: DataCorruptError, name: str, commit: str, *, progress: OnBytes | None, again: bool
) -> Archive:
    archive = client.cached(name, commit)
    if archive is None and not again:
        raise DataCorruptError(
            f"{error}, and the archive it came from is no longer in the cache of huggingface_hub; "
            f"download it again with: {problems.download_command(name)}"
        ) from error
    return archive or client.download(name, commit, progress=progress)


def _unpack(archive: Archive, name: str, commit: str) -> Unpacked:
    origin = {"commit": commit, "archive_sha256": archive.sha256}
    return folders.install(archive.path, folders.folder_of(name, commit), origin=origin)


def _require_plain(name: str) -> None:
    if not name or name.startswith(".") or not set(name).isdisjoint("/\\"):
        raise DataUnavailableError(f"the public dataset has no data for {name!r}: that is no data name")


@contextmanager
def _cache_problems_in_words(name: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise problems.cache_unusable(error, name) from error
