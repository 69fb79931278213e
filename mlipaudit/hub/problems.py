# SPDX-License-Identifier: Apache-2.0
"""What can go wrong with the hub, in one line each that says what to type."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass

from mlipaudit.errors import DataUnavailableError, UserError

REPOSITORY = "InstaDeepAI/MLIPAudit-data"
_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EFBIG, errno.ENAMETOOLONG}
_NETWORK_LIBRARIES = ("httpx", "httpx2", "httpcore", "httpcore2", "requests", "urllib3")


class HubUnreachableError(DataUnavailableError):
    """Nothing is known about the data: the hub does not answer. `reason` is the short form."""

    def __init__(self, reason: str, subject: Subject) -> None:
        self.reason = reason
        super().__init__(
            f"{subject} is not downloaded and the hub cannot be reached ({reason}); {subject.way_out}"
        )


class NotAHubError(Exception):
    """What answers is something else: a login page, a proxy."""


class StuckError(Exception):
    """A call of the client that nothing has come out of for too long."""


@dataclass(frozen=True)
class Subject:
    """What was wanted: a data name at a revision, or with an empty name the revision itself."""

    name: str
    revision: str

    def __str__(self) -> str:
        return f"data for {self.name!r}" if self.name else f"revision {self.revision!r}"

    @property
    def way_out(self) -> str:
        """What to do without the hub."""
        return f"run {download_command(self.name)} where there is internet, or pass --data embedded"


def download_command(name: str) -> str:
    """What to type to have a data name in the cache."""
    return f"mlipaudit data download {name}".rstrip()


def explained(error: Exception, subject: Subject) -> Exception:
    """An error of the client in words, where a user can do something about it; else the error as it is."""
    from huggingface_hub import errors as hf

    match error:
        case UserError():
            return error
        case hf.LocalEntryNotFoundError() if isinstance(error.__cause__, Exception):
            return explained(error.__cause__, subject)
        case hf.LocalEntryNotFoundError():
            return HubUnreachableError("no connection", subject)
        case hf.OfflineModeIsEnabled():
            return offline(subject)
        case hf.RevisionNotFoundError():
            return _no_revision(subject)
        case hf.EntryNotFoundError():
            return _no_archive(subject)
        case hf.FileMetadataError() | NotAHubError():
            return _no_hub(error, subject)
    return _explained_by_system(error, subject)


def _explained_by_system(error: Exception, subject: Subject) -> Exception:
    if status := status_of(error):
        return _refused(status, subject)
    if isinstance(error, StuckError) or is_network(error):
        return HubUnreachableError(_short(error), subject)
    if isinstance(error, OSError) and error.errno in _DISK:
        return cache_unusable(error, subject.name)
    if isinstance(error, OSError):
        return DataUnavailableError(
            f"the download of {subject} broke off ({_short(error)}); run the command again"
        )
    return error


def offline(subject: Subject) -> DataUnavailableError:
    """No request may be made, and the data is not here."""
    return DataUnavailableError(f"{subject} is not downloaded and HF_HUB_OFFLINE is set; {subject.way_out}")


def cache_unusable(error: OSError, name: str) -> DataUnavailableError:
    """A disk that is full, read-only or somebody else's."""
    return DataUnavailableError(
        f"the cache cannot keep the data for {name!r} ({_short(error)}); make room, or point "
        "MLIPAUDIT_CACHE and HF_HOME to folders that can be written"
    )


def lock_held(lock: os.PathLike, name: str, *, waited_s: float) -> DataUnavailableError:
    """Somebody holds the lock of an archive and downloads nothing."""
    return DataUnavailableError(
        f"the download of {name!r} waits for a lock that another process holds, and for {waited_s:.0f} s nothing was "
        f"downloaded: {os.fspath(lock)}; if another mlipaudit or huggingface process is running, end it or wait for it "
        "and run the command again; if not, delete that file"
    )


def _no_revision(subject: Subject) -> DataUnavailableError:
    return DataUnavailableError(
        f"the public dataset {REPOSITORY} has no revision {subject.revision!r}; "
        "--data hub@REVISION takes one of its branches, tags or commits"
    )


def _no_archive(subject: Subject) -> DataUnavailableError:
    return DataUnavailableError(
        f"the public dataset {REPOSITORY} has no {subject.name}.zip at {subject.revision[:12]}; "
        f"{download_command(subject.name)} --latest looks for a newer revision, "
        "--data embedded or --data PATH takes other data"
    )


def _refused(status: int, subject: Subject) -> DataUnavailableError:
    if status in (401, 403):
        reason = f"the hub does not give out {REPOSITORY} (HTTP {status}): log in with hf auth login"
    elif status == 404:
        reason = f"the hub has no dataset {REPOSITORY} (HTTP 404): check HF_ENDPOINT"
    else:
        reason = f"the hub has a problem of its own (HTTP {status}): try again later"
    return DataUnavailableError(f"no {subject}: {reason}; or {subject.way_out}")


def _no_hub(error: Exception, subject: Subject) -> DataUnavailableError:
    return DataUnavailableError(
        f"no {subject}: what answers is no Hugging Face hub ({_short(error)}); "
        f"check HF_ENDPOINT and the proxy settings; or {subject.way_out}"
    )


def status_of(error: Exception) -> int:
    """The HTTP status that an error stands for, 0 if for none."""
    return getattr(getattr(error, "response", None), "status_code", 0)


def is_network(error: Exception) -> bool:
    """Whether a connection could not be made or broke."""
    libraries = {cls.__module__.partition(".")[0] for cls in type(error).__mro__}
    return isinstance(error, ConnectionError | TimeoutError) or not libraries.isdisjoint(_NETWORK_LIBRARIES)


def _short(error: Exception) -> str:
    """A few words: an operating system's text without the file name, else the first line."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__
