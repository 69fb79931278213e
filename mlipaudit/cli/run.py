# SPDX-License-Identifier: Apache-2.0
"""`mlipaudit run`: audit models."""

from __future__ import annotations

import argparse
import re
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mlipaudit.running.executor import Settings
    from mlipaudit.running.own_files import Request
    from mlipaudit.running.schedulers import Cluster

HELP = "audit one or more models"
RUN_MODES = ("dev", "fast", "standard")
FILES, CONFIG, CLUSTER = "files of ", "configuration of ", "cluster of "
NO_LIMIT = float("inf")
_PATH = re.compile(r"[^=:,\s]*/(?=[^/])")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument(
        "-m",
        "--models",
        nargs="+",
        required=True,
        metavar="MODEL",
        help="any number of: a .zip saved by mlip, a .py file that defines mlipaudit_external_model, "
        "or a registered name with options (gfn2-xtb, name:key=value,key=value)",
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("-b", "--benchmarks", nargs="+", metavar="NAME", help="only these, in this order")
    which.add_argument(
        "--suite", default="core", metavar="NAME", help="a named list of benchmarks (default: core)"
    )
    parser.add_argument("-e", "--exclude", nargs="+", metavar="NAME", help="all of them but these")
    parser.add_argument(
        "-rm",
        "--run-mode",
        choices=RUN_MODES,
        default="standard",
        help="dev: seconds; fast: shorter; standard: the published protocol (default)",
    )
    parser.add_argument(
        "--data",
        metavar="EDITION",
        help="embedded (ships with mlipaudit), hub or hub@REVISION (the public dataset, downloaded once), or a "
        "folder of <data name>/ folders; by default dev takes embedded, the others hub",
    )
    _add_files(parser)
    parser.add_argument(
        "-o", "--output", default="results", metavar="DIR", help="results folder (default: results)"
    )
    parser.add_argument("--seed", type=int, default=0, help="of everything random (default: 0)")
    add_execution_arguments(parser)


def _add_files(parser: argparse.ArgumentParser) -> None:
    """For each benchmark that works on a file of the user's, the file and its configuration."""
    from mlipaudit import registry

    for name in registry.names_at_a_glance(registry.FILE_BENCHMARKS):
        parser.add_argument(
            f"--{name}",
            nargs="+",
            default=[],
            metavar="FILE",
            dest=f"{FILES}{name}",
            help=f"also the benchmark {name}, on files of yours; see docs/{name}.md",
        )
        parser.add_argument(
            f"--{name}-config", metavar="TOML", dest=f"{CONFIG}{name}", help="its options, for all of them"
        )


def _files(args: argparse.Namespace) -> list[Request]:
    from mlipaudit.running.own_files import Request

    given = vars(args)
    names = [key.removeprefix(FILES) for key in given if key.startswith(FILES)]
    return [Request(name, given[FILES + name], given[CONFIG + name]) for name in names]


def add_execution_arguments(parser: argparse.ArgumentParser) -> None:
    """Options on which no result depends."""
    from mlipaudit import registry

    who = parser.add_mutually_exclusive_group()
    who.add_argument(
        "--workers",
        type=_workers,
        metavar="N",
        help="worker processes, each with one task or chunk of a task at a time; 0: none, work in this process "
        "(default: one per GPU, or one)",
    )
    who.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="work on the cluster with this scheduler, such as tcp://node1:8786",
    )
    for name in registry.names_at_a_glance(registry.SCHEDULERS):
        about = f"work on N workers of {name} here"
        who.add_argument(f"--{name}", type=_local_cluster, metavar="local:N", dest=f"{CLUSTER}{name}", help=about)
    arrays = ", ".join(registry.names_at_a_glance(registry.JOB_ARRAYS))
    parser.add_argument(
        "--shard",
        metavar="I/N",
        help="do only shard I of N of the run, to be put together with `mlipaudit merge`; "
        f"{arrays}: as the variables of the job array say",
    )
    parser.add_argument(
        "--timeout",
        type=_duration,
        metavar="TIME",
        help="limit of one task, or of each chunk of one that several share: seconds, 30m, 12h, 2d or none "
        "(default: dev 30m, fast 6h, standard 7d)",
    )
    parser.add_argument("--fresh", action="store_true", help="run again what the results folder holds already")
    parser.add_argument("-v", "--verbose", action="store_true", help="log what libraries and models say")


def main(args: argparse.Namespace) -> int:
    """Audit; 1 when anything that was asked for failed."""
    return audit(args, data=args.data, data_input_dir=None)


def audit(args: argparse.Namespace, *, data: str | None, data_input_dir: str | None) -> int:
    """Plan, execute, show."""
    from mlipaudit.running.environment import restart_with_huge_pages

    if args.workers == 0 and args.is_command:  # and not a call from Python
        restart_with_huge_pages()
    from mlipaudit.cli.display import Display, configure_logging
    from mlipaudit.models import parse_models
    from mlipaudit.run_mode import RunMode
    from mlipaudit.running.executor import execute
    from mlipaudit.running.limits import terminable
    from mlipaudit.running.own_files import own_files
    from mlipaudit.running.plan import choose_benchmarks, make_plan
    from mlipaudit.store import ResultStore

    configure_logging(verbose=args.verbose)
    settings = _settings(args)
    run_mode = RunMode(args.run_mode)
    files = own_files(_files(args), run_mode)
    benchmarks = choose_benchmarks(
        include=args.benchmarks, exclude=args.exclude, suite=getattr(args, "suite", "core"), files=files
    )
    plan = make_plan(
        parse_models(args.models),
        benchmarks,
        run_mode=run_mode,
        data=data,
        data_input_dir=data_input_dir,
        seed=args.seed,
        command=_command(),
        files=files,
    )
    display = Display(sys.stderr)
    with display, terminable():
        records = execute(plan, ResultStore(args.output), display, settings)
    display.summarise(records, output=args.output)
    if settings.shard:
        print(f"this is shard {settings.shard}; when all are done: mlipaudit merge their folders -o results")
    return 1 if any(record.reasons or record.result.failed for record in records) else 0


def _settings(args: argparse.Namespace) -> Settings:
    from mlipaudit.run_mode import RunMode
    from mlipaudit.running.executor import DEFAULT_LIMIT_S, Settings
    from mlipaudit.running.shards import parse_shard

    limit = DEFAULT_LIMIT_S[RunMode(args.run_mode)] if args.timeout is None else args.timeout
    shard = None if args.shard is None else parse_shard(args.shard)
    return Settings(
        workers=args.workers,
        limit=None if limit == NO_LIMIT else limit,
        fresh=args.fresh,
        verbose=args.verbose,
        shard=shard,
        cluster=_cluster(args),
    )


def _cluster(args: argparse.Namespace) -> Cluster | None:
    from mlipaudit.running.schedulers import Cluster

    if args.scheduler:
        return Cluster.at(args.scheduler)
    local = {key.removeprefix(CLUSTER): text for key, text in vars(args).items() if key.startswith(CLUSTER)}
    return next((Cluster(name, text) for name, text in local.items() if text), None)


def _workers(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of processes (0, 1, 2, …)")
    return int(text)


def _local_cluster(text: str) -> str:
    if not re.fullmatch(r"local:[1-9]\d*", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not local:N, such as local:4")
    return text


def _duration(text: str) -> float:
    """Seconds; `NO_LIMIT` for none."""
    if text == "none":
        return NO_LIMIT
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", text)
    if match is None or not float(match[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is not a time (90, 30m, 12h, 2d or none)")
    return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}[match[2]]


def _command() -> str:
    """The command as typed, each path cut down to its last part: a record carries no home paths."""
    return " ".join(["mlipaudit", *(_PATH.sub("", word) for word in sys.argv[1:])])
