# SPDX-License-Identifier: Apache-2.0
"""Unpacks a zip archive that nobody has looked at: nothing leaves the folder, and nothing grows without bound."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import stat
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from mlipaudit.errors import DataCorruptError

# The public archives are JSON and xyz text: at most a few GB, thousands of files, and about ten times smaller packed.
MAX_BYTES = 16 << 30
MAX_FILES = 200_000
MAX_RATIO = 200
"""Unpacked bytes per packed byte, of a file larger than `ANY_RATIO_BYTES`."""
ANY_RATIO_BYTES = 1 << 20

_CHUNK_BYTES = 1 << 20
_PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED = 0x1
_REGULAR = (0, stat.S_IFREG, stat.S_IFDIR)
"""Kinds of members that are unpacked; archives made elsewhere than on Unix give none."""
_DRIVE = re.compile(r"[A-Za-z]:")
_DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, ValueError, IndexError)


class _File(NamedTuple):
    path: str
    """Relative to the folder."""
    member: zipfile.ZipInfo


def extract(archive: Path, into: Path, *, name: str) -> dict[str, str]:
    """Unpack the files below `<name>/`, without hidden ones and what macOS adds; path -> sha256.

    Raises:
        DataCorruptError: the archive is damaged, too large, or has a member that does not belong there.
        OSError: they cannot be written.
    """
    try:
        with zipfile.ZipFile(archive) as opened:
            files = [_File(path, member) for member in opened.infolist() if (path := _path_of(member, name))]
            _require_bounds(files, archive, name)
            _require_room(files, into)
            return {file.path: _write(opened, file, into) for file in files}
    except _DAMAGED as error:
        raise DataCorruptError(f"{name}.zip is damaged: {error}; pass --data embedded or --data PATH") from error


def _path_of(member: zipfile.ZipInfo, name: str) -> str | None:
    """Path of a member below `<name>/`; None for what is left out."""
    parts = member.filename.removesuffix("/").split("/")
    if not _stays_inside(member.filename, parts):
        raise _refused(member, name, "could be written outside its folder")
    if stat.S_IFMT(member.external_attr >> 16) not in _REGULAR:
        raise _refused(member, name, "is a link or a device")
    if parts[0] == "__MACOSX" or any(part.startswith(".") for part in parts):
        return None
    if parts[0] != name or (len(parts) == 1 and not member.is_dir()):
        raise _refused(member, name, f"does not lie in {name}/")
    if member.flag_bits & _ENCRYPTED or member.compress_type not in _PACKED:
        raise _refused(member, name, "is encrypted or packed in an unusual way")
    return None if member.is_dir() else "/".join(parts[1:])


def _stays_inside(filename: str, parts: Sequence[str]) -> bool:
    if "\\" in filename or not filename.isprintable():
        return False
    return not any(part in ("", ".", "..") or _DRIVE.match(part) for part in parts)


def _require_bounds(files: Sequence[_File], archive: Path, name: str) -> None:
    if not files:
        raise DataCorruptError(f"{name}.zip has no files in {name}/")
    if len(files) > MAX_FILES:
        raise DataCorruptError(f"{name}.zip has {len(files)} files, more than {MAX_FILES}")
    for _, member in files:
        if member.file_size > max(ANY_RATIO_BYTES, MAX_RATIO * member.compress_size):
            raise _refused(member, name, f"is packed more than {MAX_RATIO} times smaller than it is")
    if (total := _size(files)) > MAX_BYTES:
        raise DataCorruptError(
            f"{name}.zip unpacks to {total / 2**30:.1f} GiB, more than {MAX_BYTES / 2**30:.0f} GiB"
        )
    # Members that share their bytes could otherwise multiply them unnoticed.
    if sum(file.member.compress_size for file in files) > archive.stat().st_size:
        raise DataCorruptError(f"{name}.zip is damaged: its members overlap")


def _require_room(files: Sequence[_File], into: Path) -> None:
    if shutil.disk_usage(into).free < _size(files):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _write(opened: zipfile.ZipFile, file: _File, into: Path) -> str:
    target = into / file.path
    digest = hashlib.sha256()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with opened.open(file.member) as source, target.open("xb") as out:
            while chunk := source.read(_CHUNK_BYTES):
                digest.update(chunk)
                out.write(chunk)
    except (FileExistsError, NotADirectoryError) as error:
        raise _refused(file.member, into.name, "is there twice") from error
    return digest.hexdigest()


def _size(files: Sequence[_File]) -> int:
    return sum(file.member.file_size for file in files)


def _refused(member: zipfile.ZipInfo, name: str, why: str) -> DataCorruptError:
    return DataCorruptError(f"{name}.zip is not unpacked: its member {member.filename!r} {why}")
