# SPDX-License-Identifier: Apache-2.0
"""Input data: an edition gives verified local files. Only the `hub` edition downloads, with `mlipaudit.hub`.

A data set is a folder named after the benchmark's data name. Its `manifest.toml` lists every file with its sha256,
and says where the numbers come from; a `local` folder may go without one, then all its visible files are taken.
"""

from __future__ import annotations

import hashlib
import os
import re
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Protocol, TypeVar

from pydantic import TypeAdapter, ValidationError

from mlipaudit.errors import DataCorruptError, DataUnavailableError, UsageError
from mlipaudit.run_mode import RunMode

MANIFEST = "manifest.toml"
WHOLE = "."
"""Stands for the name of a data set's only file."""
_REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,199}")
T = TypeVar("T")


class EditionKind(StrEnum):
    """Which input data a result rests on."""

    HUB = "hub"
    EMBEDDED = "embedded"
    LOCAL = "local"


@dataclass(frozen=True)
class Manifest:
    """What is known about a data set besides its bytes."""

    name: str
    version: str
    files: dict[str, str]
    """Path relative to the folder -> sha256."""
    elements: frozenset[str] | None
    """Chemical elements that occur, where the manifest says."""
    about: dict = field(default_factory=dict, hash=False, compare=False)
    """Everything else: title, source, DOI, licence, units, level of theory."""


@dataclass(frozen=True)
class DataSet:
    """Verified files of one data name, from one edition."""

    name: str
    edition: EditionKind
    path: Path
    manifest: Manifest | None
    origin: dict[str, str] = field(default_factory=dict, hash=False, compare=False)
    """Of the hub edition: `revision` as it was asked for, the `commit` it stands for, `archive_sha256`."""
    verified: dict[str, str] | None = field(default=None, hash=False, compare=False, repr=False)
    """Hashes that the files were compared with already."""

    @classmethod
    def of_file(cls, file: Path) -> DataSet:
        """A single file of the user's.

        Raises:
            UsageError: it cannot be read.
        """
        try:
            hashes = {WHOLE: sha256_of(file)}
        except OSError as error:
            raise UsageError(f"{file}: {error.strerror}") from error
        return cls(file.name, EditionKind.LOCAL, file.absolute(), None, verified=hashes)

    @cached_property
    def hashes(self) -> dict[str, str]:
        """Path relative to the folder -> sha256, of every file that belongs to the set."""
        if self.manifest is not None:
            return self.manifest.files
        if self.verified is not None:
            return self.verified
        return {str(file.relative_to(self.path)): sha256_of(file) for file in visible_files(self.path)}

    @cached_property
    def sha256(self) -> str:
        """One hash over names and contents; of a single file, whatever it is called, that of its content."""
        if self.hashes.keys() == {WHOLE}:
            return self.hashes[WHOLE]
        lines = "".join(f"{name} {digest}\n" for name, digest in sorted(self.hashes.items()))
        return hashlib.sha256(os.fsencode(lines)).hexdigest()

    @property
    def elements(self) -> frozenset[str] | None:
        """Chemical elements of this edition's systems; None when nobody says."""
        return self.manifest.elements if self.manifest else None


class Edition(Protocol):
    """Where data comes from."""

    kind: EditionKind

    def fetch(self, name: str) -> DataSet:
        """The verified data set called `name`.

        Raises:
            DataUnavailableError: this edition does not have it.
            DataCorruptError: a file is missing or differs from its hash.
        """
        ...


@dataclass(frozen=True)
class Embedded:
    """The edition that ships with the package and needs no network."""

    kind = EditionKind.EMBEDDED

    def fetch(self, name: str) -> DataSet:
        """See `Edition.fetch`."""
        folder = embedded_root() / name
        if not (folder / MANIFEST).is_file():
            known = ", ".join(embedded_names()) or "none"
            raise DataUnavailableError(f"the embedded edition has no data for {name!r}; it has: {known}")
        return DataSet(name, self.kind, folder, read_manifest(folder))


@dataclass(frozen=True)
class Local:
    """A folder of the user's, laid out as `<root>/<data name>/<files>`."""

    root: Path
    kind = EditionKind.LOCAL

    def fetch(self, name: str) -> DataSet:
        """See `Edition.fetch`."""
        folder = self.root / name
        if not folder.is_dir():
            raise DataUnavailableError(f"the data folder has no {name}/; put it there or pass --data embedded")
        manifest = read_manifest(folder) if (folder / MANIFEST).is_file() else None
        return DataSet(name, self.kind, folder, manifest)


@dataclass(frozen=True)
class Hub:
    """The public dataset InstaDeepAI/MLIPAudit-data at a branch, tag or commit; a branch stays at one commit.

    Raises:
        UsageError: no revision can be called so.
    """

    revision: str | None = None
    """`main` where it is not given."""
    progress: Callable[[str, int, int], None] | None = field(default=None, compare=False, repr=False)
    """Called during a download with the data name, and bytes done and in total; a total of 0 is not known."""
    kind = EditionKind.HUB

    def __post_init__(self) -> None:
        if self.revision is not None and (not _REVISION.fullmatch(self.revision) or ".." in self.revision):
            raise UsageError(
                f"--data hub@{self.revision}: that is no revision (allowed: hub, or hub@ and a branch, tag or commit "
                "of the public dataset, such as hub@main)"
            )

    def fetch(self, name: str) -> DataSet:
        """See `Edition.fetch`. Downloads at the first time only, and makes no request afterwards."""
        from mlipaudit import hub

        there = hub.fetch(name, revision=self.revision, progress=self.progress)
        manifest = read_manifest(there.path) if (there.path / MANIFEST).is_file() else None
        return DataSet(name, self.kind, there.path, manifest, origin=there.origin, verified=there.files)


def parse_edition(text: str | None, run_mode: RunMode) -> Edition:
    """The edition that `--data TEXT` names; without it `dev` takes the embedded one, other modes the hub.

    Raises:
        UsageError: no such folder, or no such name for a revision.
    """
    if text == EditionKind.EMBEDDED or (text is None and run_mode is RunMode.DEV):
        return Embedded()
    if text is None or text == EditionKind.HUB:
        return Hub()
    if text.startswith(f"{EditionKind.HUB}@"):
        return Hub(text.removeprefix(f"{EditionKind.HUB}@"))
    if not Path(text).is_dir():
        raise UsageError(
            f"--data {text}: no such folder (allowed: embedded, hub, hub@REVISION, or a folder of <data name>/ folders)"
        )
    return Local(Path(text))


def embedded_root() -> Path:
    """Folder of the embedded edition: inside the installed package, or beside it in a checkout."""
    package = Path(__file__).parent
    installed = package / "benchmarks_data"
    return installed if installed.is_dir() else package.parent / "benchmarks_data"


def embedded_names() -> list[str]:
    """Data names of the embedded edition."""
    return sorted(manifest.parent.name for manifest in embedded_root().glob(f"*/{MANIFEST}"))


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a folder, after every file in it was checked against its sha256.

    Raises:
        DataCorruptError: the manifest cannot be read, or a file is missing or different.
    """
    try:
        about = tomllib.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        files = {name: str(entry["sha256"]) for name, entry in about.pop("files").items()}
        manifest = Manifest(about["name"], str(about["version"]), files, _elements(about), about)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DataCorruptError(f"{folder.name}/{MANIFEST} cannot be read: {error!r}") from error
    for name, expected in files.items():
        _check_file(folder, name, expected)
    unlisted = {str(file.relative_to(folder)) for file in visible_files(folder)} - {*files, MANIFEST}
    if unlisted:
        raise DataCorruptError(f"{folder.name}/{min(unlisted)} is not listed in {MANIFEST}")
    return manifest


def _elements(about: dict) -> frozenset[str] | None:
    return frozenset(about["elements"]) if "elements" in about else None


def _check_file(folder: Path, name: str, expected: str) -> None:
    if not (folder / name).is_file():
        raise DataCorruptError(f"{folder.name}/{name} is listed in {MANIFEST} but is not there")
    if (found := sha256_of(folder / name)) != expected:
        raise DataCorruptError(f"{folder.name}/{name} has sha256 {found[:12]}…, {MANIFEST} says {expected[:12]}…")


def read_json(data_dir: Path, name: str, schema: TypeAdapter[T]) -> T:
    """A JSON file of a data set, validated.

    Raises:
        DataUnavailableError: the file is not there.
        DataCorruptError: it does not follow the schema.
    """
    try:
        return schema.validate_json((data_dir / name).read_bytes())
    except FileNotFoundError as error:
        raise DataUnavailableError(f"{data_dir.name}/{name} is not there") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = " → ".join(str(part) for part in first["loc"]) or "the file"
        raise DataCorruptError(f"{data_dir.name}/{name}: {where}: {first['msg']}") from error


def sha256_of(file: Path) -> str:
    """sha256 of a file's content."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def visible_files(folder: Path) -> Iterator[Path]:
    """Files below a folder, sorted, without hidden ones such as .DS_Store."""
    for file in sorted(folder.rglob("*")):
        if file.is_file() and not any(part.startswith(".") for part in file.relative_to(folder).parts):
            yield file
