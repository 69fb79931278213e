# SPDX-License-Identifier: Apache-2.0
"""The folders that archives were unpacked into. One is whole or it is not there; its marker knows every byte.

<cache>/data/revisions/<revision>      the commit that a branch or tag stood for when it was first used
<cache>/data/<commit>/<name>/          files, and `.origin.json` with their sha256
<cache>/data/<commit>/.<name>.<pid>.*  being unpacked, or left by a process that died
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from urllib.parse import quote, unquote

from mlipaudit.backends.compilation_cache import cache_root
from mlipaudit.data import sha256_of, visible_files
from mlipaudit.errors import DataCorruptError
from mlipaudit.hub.archive import extract

MARKER = ".origin.json"
COMMIT = re.compile(r"[0-9a-f]{40}")
_ATTEMPTS = 5
"""At putting a folder in its place while others do the same."""
_TEMPORARY = re.compile(r"\..+\.(\d+)\.[0-9a-f]{8}(\.old)?")


@dataclass(frozen=True)
class Unpacked:
    """A folder with the files of one data name."""

    path: Path
    files: dict[str, str]
    """Path relative to the folder -> sha256."""
    origin: dict[str, str]
    """`commit` and `archive_sha256`; once it was asked for, also `revision`."""


def data_root() -> Path:
    """Where the hub's data is kept: below `$MLIPAUDIT_CACHE`."""
    return cache_root() / "data"


def folder_of(name: str, commit: str) -> Path:
    """Where a data name of one commit is unpacked."""
    return data_root() / commit / name


# Revisions


def remembered(revision: str) -> str | None:
    """The commit that a revision stands for, where that is known without asking."""
    if COMMIT.fullmatch(revision):
        return revision
    try:
        text = _revision_file(revision).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    return text if COMMIT.fullmatch(text) else None


def remember(revision: str, commit: str, *, anew: bool = False) -> str:
    """From now on a revision stands for a commit; the one that is remembered already wins unless `anew`.

    Raises:
        OSError: it cannot be written.
    """
    if COMMIT.fullmatch(revision):
        return revision
    file = _revision_file(revision)
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_name(f".{token_hex(8)}")
    temporary.write_text(commit, encoding="utf-8")
    if not anew:
        with suppress(OSError):  # Somebody was faster, or this disk has no hard links.
            os.link(temporary, file)
    if anew or remembered(revision) is None:
        os.replace(temporary, file)
    temporary.unlink(missing_ok=True)
    return remembered(revision) or commit


def revisions_of(commit: str) -> list[str]:
    """The revisions that stand for a commit, sorted."""
    names = sorted(unquote(file.name) for file in visible_files(data_root() / "revisions"))
    return [name for name in names if remembered(name) == commit]


def _revision_file(revision: str) -> Path:
    return data_root() / "revisions" / quote(revision, safe="")


# Folders


def downloaded() -> list[Path]:
    """Every folder of unpacked data, whole or not, sorted by name and commit."""
    folders = [path for path in data_root().glob("*/*") if COMMIT.fullmatch(path.parent.name) and path.is_dir()]
    return sorted((f for f in folders if not f.name.startswith(".")), key=lambda f: (f.name, f.parent.name))


def num_bytes_of(folder: Path) -> int:
    """Size of all its visible files."""
    return sum(file.stat().st_size for file in visible_files(folder))


def read(folder: Path) -> Unpacked:
    """What a folder's marker says, unchecked.

    Raises:
        DataCorruptError: there is no readable marker.
    """
    try:
        marker = json.loads((folder / MARKER).read_bytes())
        return Unpacked(folder, dict(marker["files"]), dict(marker["origin"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataCorruptError(f"{folder.name}/ has no readable list of its files ({MARKER})") from error


def verified(folder: Path) -> Unpacked:
    """A folder after each of its files was compared with its sha256.

    Raises:
        DataCorruptError: a file has changed, is missing, or does not belong there.
    """
    unpacked = read(folder)
    for name, expected in unpacked.files.items():
        if not (folder / name).is_file():
            raise DataCorruptError(f"{folder.name}/{name} is missing since it was downloaded")
        if sha256_of(folder / name) != expected:
            raise DataCorruptError(f"{folder.name}/{name} has changed since it was downloaded")
    added = {str(file.relative_to(folder)) for file in visible_files(folder)} - unpacked.files.keys()
    if added:
        raise DataCorruptError(f"{folder.name}/{min(added)} does not belong to the data that was downloaded")
    return unpacked


def install(archive: Path, folder: Path, *, origin: dict[str, str]) -> Unpacked:
    """Unpack an archive; the folder appears in its place at once and whole.

    Raises:
        DataCorruptError: the archive cannot be used.
        OSError: it cannot be written.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(folder.parent)
    with _temporary_beside(folder) as temporary:
        files = extract(archive, temporary, name=folder.name)
        _write_marker(temporary, {"origin": origin, "files": files})
        _put_in_place(temporary, folder, files=files)
    return Unpacked(folder, files, origin)


def _write_marker(folder: Path, marker: dict) -> None:
    with (folder / MARKER).open("w", encoding="utf-8") as file:
        json.dump(marker, file, indent=1, sort_keys=True)
        file.flush()
        os.fsync(file.fileno())


def _put_in_place(temporary: Path, folder: Path, *, files: dict[str, str]) -> None:
    """Rename; where another process was faster and is right, its folder stays."""
    for attempt in range(_ATTEMPTS):
        try:
            os.rename(temporary, folder)
            return
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST) or attempt == _ATTEMPTS - 1:
                raise
        if _is_right(folder, files):
            return
        _remove(folder, aside=temporary.with_name(f"{temporary.name}.old"))


def _is_right(folder: Path, files: dict[str, str]) -> bool:
    try:
        return verified(folder).files == files
    except DataCorruptError:
        return False


def _remove(folder: Path, *, aside: Path) -> None:
    """Out of the way at once, then file by file."""
    with suppress(FileNotFoundError):  # Another process has done it.
        os.rename(folder, aside)
    shutil.rmtree(aside, ignore_errors=True)


# Folders in the making


@contextmanager
def _temporary_beside(folder: Path) -> Iterator[Path]:
    """A new folder that is locked while its process lives, and gone afterwards."""
    temporary = folder.with_name(f".{folder.name}.{os.getpid()}.{token_hex(4)}")
    temporary.mkdir()
    descriptor = os.open(temporary, os.O_RDONLY)
    try:
        with suppress(OSError):  # Some network disks have no such locks; then the process number has to do.
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield temporary
    finally:
        os.close(descriptor)
        shutil.rmtree(temporary, ignore_errors=True)


def _remove_abandoned(parent: Path) -> None:
    for path in parent.iterdir():
        found = _TEMPORARY.fullmatch(path.name)
        if found and not _process_lives(int(found[1])) and not _is_locked(path):
            shutil.rmtree(path, ignore_errors=True)


def _process_lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _is_locked(folder: Path) -> bool:
    """Also by a process of another machine or container, whose number means nothing here."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False
