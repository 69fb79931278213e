# SPDX-License-Identifier: Apache-2.0
"""`mlipaudit data`: what input data is here, and how the public dataset gets here."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from mlipaudit.data import Hub

HELP = "list, download and verify input data"
EPILOG = """\
The public dataset is kept in the folder that `mlipaudit data path` prints. Set MLIPAUDIT_CACHE to keep it elsewhere,
for example on a disk that compute nodes can read: download once where there is internet, then run anywhere.
"""
LIVE_INTERVAL_S, PLAIN_INTERVAL_S = 0.1, 10.0
"""Between two shows of progress: on a terminal, and elsewhere."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.epilog = EPILOG
    actions = parser.add_subparsers(dest="action", title="actions", metavar="ACTION", required=True)
    _add(actions, "list", "what is embedded, and what of the public dataset is downloaded")
    download = _add(actions, "download", "download the public dataset, or some of it")
    _add_names(download, "data names (default: those of all installed benchmarks)")
    _add_revision(download)
    download.add_argument(
        "--latest",
        action="store_true",
        help="move on to what the branch stands for today; it is else kept as it was",
    )
    _add_names(
        _add(actions, "verify", "compare every file with its sha256"), "data names (default: all that is here)"
    )
    path = _add(actions, "path", "print the folder of the downloaded data")
    path.add_argument("name", nargs="?", metavar="NAME", help="a data name (default: the folder of all)")
    _add_revision(path)


def main(args: argparse.Namespace) -> int:
    """Carry out the action; 1 when something that was asked for failed or is not there."""
    actions = {"list": _list, "download": _download, "verify": _verify, "path": _path}
    return actions[args.action](args)


def _add(actions: argparse._SubParsersAction, name: str, what: str) -> argparse.ArgumentParser:
    return actions.add_parser(name, help=what, description=f"{what[0].upper()}{what[1:]}.", epilog=EPILOG)


def _add_names(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help=what)


def _add_revision(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data",
        default="hub",
        metavar="hub@REVISION",
        help="a branch, tag or commit of the public dataset (default: hub, its main branch)",
    )


# list


def _list(_: argparse.Namespace) -> int:
    from mlipaudit.data import embedded_names
    from mlipaudit.hub.folders import data_root

    embedded, here = embedded_names(), _downloaded()
    names = sorted({*_benchmark_names(), *embedded, *here})
    width = max(len(name) for name in ("data", *names))
    print(f"{'data':<{width}}  embedded  hub")
    for name in names:
        first, *others = here.get(name) or ["not downloaded"]
        print(f"{name:<{width}}  {'yes' if name in embedded else 'no':<8}  {first}")
        for other in others:
            print(f"{'':<{width}}  {'':<8}  {other}")
    print(f"\ndownloaded data is in {data_root()} (set MLIPAUDIT_CACHE to keep it elsewhere)")
    return 0


def _downloaded() -> dict[str, list[str]]:
    """Data name -> one line for each commit that it was downloaded at."""
    from mlipaudit.hub import folders
    from mlipaudit.reporting.tables import size_text

    lines: dict[str, list[str]] = {}
    for folder in folders.downloaded():
        size = size_text(folders.num_bytes_of(folder))
        lines.setdefault(folder.name, []).append(f"{_commit_text(folder.parent.name)}, {size}")
    return lines


# download


def _download(args: argparse.Namespace) -> int:
    from mlipaudit import hub
    from mlipaudit.errors import UserError

    edition, names = _hub(args.data), args.names or _benchmark_names()
    _require_known(names, _benchmark_names())
    if args.latest:
        try:
            print(
                f"{edition.revision or hub.DEFAULT_REVISION} now stands for commit {hub.renew(edition.revision)}"
            )
        except UserError as error:
            return _failed([str(error)])
    failed = sum(not _download_one(edition, name) for name in names)
    if failed:
        print(f"mlipaudit: {failed} of {len(names)} data sets could not be downloaded", file=sys.stderr)
    return 1 if failed else 0


def _download_one(edition: Hub, name: str) -> bool:
    from mlipaudit import hub
    from mlipaudit.errors import UserError

    with _Progress(sys.stderr) as progress:
        try:
            there = hub.fetch(name, revision=edition.revision, progress=progress, again=True)
        except UserError as error:
            failure = str(error)
        else:
            failure = ""
    if failure:
        _failed([f"{name}: {failure}"])
        return False
    how = "downloaded" if progress.reported else "already here"
    print(
        f"{name}: {how}, commit {there.origin['commit'][:12]}, {_amount(there.path, len(there.files))}", flush=True
    )
    return True


class _Progress:
    """Shows a download: one live line on a terminal, a line now and then elsewhere."""

    def __init__(self, stream: TextIO) -> None:
        self.stream, self.live = stream, stream.isatty()
        self.reported = False
        self.shown: float | None = None

    def __enter__(self) -> _Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self.live and self.reported:
            self._write("\r\033[K")

    def __call__(self, name: str, done: int, total: int) -> None:
        from mlipaudit.reporting.tables import download_text

        self.reported = True
        now, interval = time.monotonic(), LIVE_INTERVAL_S if self.live else PLAIN_INTERVAL_S
        if self.shown is not None and now - self.shown < interval:
            return
        self.shown = now
        text = download_text(name, done, total)
        self._write(f"\r\033[K{text}" if self.live else f"{text}\n")

    def _write(self, text: str) -> None:
        self.stream.write(text)
        self.stream.flush()


# verify


def _verify(args: argparse.Namespace) -> int:
    from mlipaudit.data import embedded_names
    from mlipaudit.hub import folders

    embedded, here = embedded_names(), folders.downloaded()
    known = {*_benchmark_names(), *embedded, *(folder.name for folder in here)}
    _require_known(args.names, known)
    names = sorted(args.names or {*embedded, *(folder.name for folder in here)})
    wrong = sum(not _verify_one(name, embedded=name in embedded, folders=here) for name in names)
    return 1 if wrong else 0


def _verify_one(name: str, *, embedded: bool, folders: Sequence[Path]) -> bool:
    from mlipaudit.data import Embedded

    checks: dict[str, Callable[[], Collection]] = {}
    if embedded:
        checks["embedded"] = lambda: Embedded().fetch(name).hashes
    for folder in (folder for folder in folders if folder.name == name):
        checks[f"hub, {_commit_text(folder.parent.name)}"] = partial(_hashes_of, folder)
    if not checks:
        _failed([f"{name} is neither downloaded nor embedded"])
    wrong = sum(not _verdict(f"{name}: {where}", files_of) for where, files_of in checks.items())
    return bool(checks) and not wrong


def _hashes_of(folder: Path) -> dict[str, str]:
    from mlipaudit.hub.folders import verified

    return verified(folder).files


def _verdict(what: str, files_of: Callable[[], Collection]) -> bool:
    from mlipaudit.errors import UserError

    try:
        num_files = len(files_of())
    except UserError as error:
        print(f"{what}: WRONG: {error}")
        return False
    print(f"{what}: ok, {_count(num_files)}")
    return True


# path


def _path(args: argparse.Namespace) -> int:
    from mlipaudit import hub
    from mlipaudit.hub import folders, problems

    commit = folders.remembered(_hub(args.data).revision or hub.DEFAULT_REVISION)
    folder: Path | None = folders.data_root()
    if args.name:
        _require_known([args.name], {*_benchmark_names(), *(path.name for path in folders.downloaded())})
        folder = folders.folder_of(args.name, commit) if commit else None
    if folder is None or not folder.is_dir():
        what = f"{args.name} is not downloaded" if args.name else "nothing is downloaded"
        return _failed([f"{what}; run: {problems.download_command(args.name or '')}"])
    print(folder)
    return 0


# Shared


def _hub(text: str) -> Hub:
    from mlipaudit.data import Hub, parse_edition
    from mlipaudit.errors import UsageError
    from mlipaudit.run_mode import RunMode

    edition = parse_edition(text, RunMode.STANDARD)
    if not isinstance(edition, Hub):
        raise UsageError(f"--data {text}: only the public dataset is downloaded (allowed: hub, hub@REVISION)")
    return edition


def _benchmark_names() -> list[str]:
    """Data names of the installed benchmarks; one that cannot be imported costs only itself."""
    from mlipaudit import registry
    from mlipaudit.errors import UserError

    names = set()
    for benchmark in registry.names(registry.BENCHMARKS):
        try:
            cls = registry.load(registry.BENCHMARKS, benchmark)
        except UserError as error:
            _failed([str(error)])
            continue
        names.add(cls.data_folder_name())  # type: ignore[attr-defined]
    return sorted(names)


def _require_known(names: Iterable[str], known: Iterable[str]) -> None:
    from mlipaudit.errors import UnknownNameError

    known = set(known)
    for name in names:
        if name not in known:
            raise UnknownNameError("data name", name, known)


def _failed(lines: Iterable[str]) -> int:
    for line in lines:
        print(f"mlipaudit: {line}", file=sys.stderr, flush=True)
    return 1


def _commit_text(commit: str) -> str:
    from mlipaudit.hub.folders import revisions_of

    names = ", ".join(revisions_of(commit))
    return f"commit {commit[:12]}" + (f" ({names})" if names else "")


def _amount(folder: Path, num_files: int) -> str:
    from mlipaudit.hub.folders import num_bytes_of
    from mlipaudit.reporting.tables import size_text

    return f"{_count(num_files)}, {size_text(num_bytes_of(folder))}"


def _count(num_files: int) -> str:
    return f"{num_files} file" if num_files == 1 else f"{num_files} files"
