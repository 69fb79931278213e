# SPDX-License-Identifier: Apache-2.0
"""Writes the pages that follow from declarations: docs/benchmarks/<name>.md, one per benchmark, and docs/faults.md.

    python docs/generate.py                   write the pages
    python docs/generate.py --check           exit 1 when a page on disk is not what would be written
    python docs/generate.py --output FOLDER   pages of all installed benchmarks, those of plug-ins included

Nothing here names a benchmark: what a page says is on the class, on its result models and in its data's manifest; the
page of faults is the table that `mlipaudit selftest` goes through.
"""

from __future__ import annotations

import argparse
import inspect
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, get_args, get_origin

from pydantic import BaseModel

from mlipaudit import registry
from mlipaudit.benchmark import Benchmark
from mlipaudit.data import MANIFEST, embedded_root, read_manifest
from mlipaudit.metric import Metric, metrics_of
from mlipaudit.reporting.declared import body_of, describe_rule, field_docs, first_line, one_line
from mlipaudit.run_mode import RunMode
from mlipaudit.selftest.faults import FAULTS, Fault

DOCS = Path(__file__).parent
BENCHMARKS, FAULT_PAGE = "benchmarks", "faults.md"
MARK = "<!-- Written by docs/generate.py from the declarations in the code. Do not edit. -->"
ABOUT_FAULTS = """\
What becomes of a broken model. The table is in `mlipaudit.selftest.faults`: this page is made from it, a test goes
through it, and `mlipaudit selftest` tries it on the installed package.

    mlipaudit selftest                      # all of them, a few minutes
    mlipaudit selftest hangs vanishes       # only these, by the name of the fault

It prints a line per fault with what was promised and what was found, and exits 1 when a promise was broken:

    fault                 benchmark        promised                      found
    hangs                 tautomers        timeout, score 0              timeout: not done after 8 s
    vanishes              tautomers        crashed, score 0              crashed: the worker process ended by itself, with exit code 0
    2 of 2 faults end by name, score what they should, and cost the good model nothing

Each fault is a `mlipaudit run` of its own, with one worker and two models: the broken one first, a good one after it.
They get three pairs of tautomers, or a cube of 125 hydrogen atoms. The good model knows the reference energies and
scores 1 on the tautomers; so would most of the broken ones, were it not for their fault. What is checked:

* The broken model ends with the failure of the table and no other, and has the score of the table.
* The last lines of the run name the model and the failure, and no traceback is printed.
* The exit code is 1, or 0 where nothing fails. Both results can be read.
* The good model's result is the one that it has in a run without company: metrics, score, failures and provenance, all
  but times, memory, command and time limit. In a benchmark that measures times, what failed is compared.

A score of 0.667 is two pairs of three: what fails in one system costs that system."""  # noqa: E501 (a line of output, as it is printed)


def main(arguments: Sequence[str]) -> int:
    """Write the pages, or compare them with what is on disk."""
    parser = argparse.ArgumentParser(prog="docs/generate.py")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--output", type=Path)
    args = parser.parse_args(arguments)
    names = registry.names(registry.BENCHMARKS)
    chosen = names if args.output else [name for name in names if is_ours(name)]
    pages = {f"{BENCHMARKS}/{name}.md": page_of(load(name)) for name in chosen}
    if args.output:
        return write(pages, args.output)
    pages[FAULT_PAGE] = page_of_faults(FAULTS)
    return check(pages) if args.check else write(pages, DOCS)


def write(pages: dict[str, str], folder: Path) -> int:
    """Write every page, and remove those of benchmarks that are gone."""
    (folder / BENCHMARKS).mkdir(parents=True, exist_ok=True)
    for name in {*on_disk(folder)} - {*pages}:
        (folder / name).unlink()
    for name, text in pages.items():
        (folder / name).write_text(text, encoding="utf-8")
    print(f"wrote {len(pages)} pages to {folder}")
    return 0


def check(pages: dict[str, str]) -> int:
    """1 when a page is missing, different or of no benchmark; names the pages and the command."""
    found = on_disk(DOCS)
    stale = sorted(name for name in {*pages, *found} if pages.get(name) != found.get(name))
    if stale:
        print(f"stale: {', '.join(f'docs/{name}' for name in stale)}; run python docs/generate.py")
    return 1 if stale else 0


def on_disk(folder: Path) -> dict[str, str]:
    """The generated pages that are there: path below the folder -> text."""
    files = [*(folder / BENCHMARKS).glob("*.md"), *folder.glob(FAULT_PAGE)]
    return {file.relative_to(folder).as_posix(): file.read_text(encoding="utf-8") for file in files}


def is_ours(name: str) -> bool:
    """Whether a benchmark comes with mlipaudit: a plugin that happens to be installed must not change our pages."""
    distribution = registry.registered(registry.BENCHMARKS)[name].dist
    return distribution is not None and distribution.name == "mlipaudit"


def load(name: str) -> type[Benchmark]:
    """A registered benchmark."""
    cls: Any = registry.load(registry.BENCHMARKS, name)
    return cls


def page_of(cls: type[Benchmark]) -> str:
    """The page of one benchmark."""
    sections = [
        f"# {cls.name}",
        MARK,
        first_line(cls),
        facts_of(cls),
        body_of(inspect.getmodule(cls)),
        "## Data",
        data_of(cls),
        "## Metrics",
        metrics_section(cls.result_class),
        "## Protocol",
        protocol_table(cls),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def page_of_faults(faults: Sequence[Fault]) -> str:
    """The fault table, and how it is proven."""
    header = ("fault", "what the model does", "benchmark", "failure", "score")
    rows = [(f"`{f.name}`", f.what, f"`{f.benchmark}`", failure_cell(f), score_cell(f.score)) for f in faults]
    return "\n\n".join(["# Faults", MARK, ABOUT_FAULTS, table(header, rows)]) + "\n"


def failure_cell(fault: Fault) -> str:
    """How the fault is named in the result."""
    return f"`{fault.kind}`" if fault.kind else "none"


def score_cell(score: float | None) -> str:
    """What the broken model scores."""
    return "by its times" if score is None else f"{score:.3g}"


def facts_of(cls: type[Benchmark]) -> str:
    """Category, version, elements, and what else the class declares."""
    rows = [
        ("category", cls.category),
        ("version", cls.version),
        ("class", f"`{cls.__module__}.{cls.__name__}`"),
        ("data name", f"`{cls.data_folder_name()}`"),
        ("elements of the public dataset", listed(cls.required_elements)),
        (
            "a model without them",
            "is not run" if cls.skip_if_elements_missing else "is run on the systems it covers",
        ),
        ("runs alone", "yes: it needs a quiet machine" if cls.runs_alone else "no"),
    ]
    return bullets(rows)


def data_of(cls: type[Benchmark]) -> str:
    """What the manifest of the embedded edition says."""
    folder = embedded_root() / cls.data_folder_name()
    if not (folder / MANIFEST).is_file():
        return "Not in the embedded edition: a local folder is needed."
    manifest = read_manifest(folder)
    about = manifest.about
    rows = [
        ("title", one_line(about.get("title"))),
        ("version", manifest.version),
        ("elements", listed(manifest.elements)),
        ("level of theory", one_line(about.get("level_of_theory"))),
        ("source", one_line(about.get("source"))),
        ("DOI", ", ".join(doi_link(doi) for doi in about.get("doi", ()))),
        ("licence", one_line(about.get("license"))),
        ("units", ", ".join(f"{name}: {unit}" for name, unit in about.get("units", {}).items())),
        ("files", ", ".join(f"`{name}`" for name in sorted(manifest.files))),
    ]
    return "\n\n".join(
        part for part in ("The embedded edition:", about.get("description", "").strip(), bullets(rows)) if part
    )


def bullets(rows: Iterable[tuple[str, str]]) -> str:
    """A list of names and texts; without a text, no entry."""
    return "\n".join(f"* {name}: {text}" for name, text in rows if text)


def doi_link(doi: str) -> str:
    """A DOI as a link."""
    return f"[{doi}](https://doi.org/{doi})"


def metrics_section(result_class: Any) -> str:
    """One table per model that declares metrics: the result itself, then the models inside it."""
    parts = []
    for path, model in models_in(result_class):
        rows = [metric_row(model, field, metric) for field, metric in metrics_of(model).items()]
        if rows:
            parts.append(f"`{path}` ({first_line(model)})")
            parts.append(table(("field", "unit", "better", "score", "source", "meaning"), rows))
    return "\n\n".join(parts) or "None is declared."


def models_in(model: type[BaseModel], path: str = "", seen: frozenset = frozenset()) -> Iterator[tuple[str, type]]:
    """A model and those in its fields, lists and dicts included, each with the path to it."""
    yield path or "result", model
    for name, field in model.model_fields.items():
        for nested, suffix in nested_models(field.annotation):
            if nested not in seen:
                yield from models_in(nested, f"{path}.{name}{suffix}".lstrip("."), seen | {model, nested})


def nested_models(annotation: Any, suffix: str = "") -> Iterator[tuple[type[BaseModel], str]]:
    """pydantic models in an annotation; the suffix is [] per list and [key] per dict on the way."""
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        yield annotation, suffix
    deeper = {list: "[]", tuple: "[]", dict: "[key]"}.get(get_origin(annotation), "")
    for argument in get_args(annotation):
        yield from nested_models(argument, suffix + deeper)


def metric_row(model: type[BaseModel], field: str, metric: Metric) -> tuple[str, ...]:
    """One metric as cells."""
    unit, rule = metric.unit or "none", describe_rule(metric.score, metric.unit)
    return f"`{field}`", unit, metric.better, rule, metric.source, field_docs(model).get(field, "")


def protocol_table(cls: type[Benchmark]) -> str:
    """Settings by run mode, nested ones with a dot."""
    settings = {mode: dict(flatten(cls.protocols[mode])) for mode in RunMode if mode in cls.protocols}
    if not settings:
        return "None is declared."
    names = list(dict.fromkeys(name for values in settings.values() for name in values))
    rows = [(f"`{name}`", *(cell(values.get(name)) for values in settings.values())) for name in names]
    return table(("setting", *map(str, settings)), rows)


def flatten(protocol: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Fields of a dataclass and of the dataclasses in it."""
    for field in fields(protocol):
        value = getattr(protocol, field.name)
        if is_dataclass(value):
            yield from flatten(value, f"{prefix}{field.name}.")
        else:
            yield prefix + field.name, value


def cell(value: Any) -> str:
    """A setting as text."""
    if value is None:
        return "–"
    return str(value.value) if isinstance(value, Enum) else str(value)


def listed(symbols: Iterable[str] | None) -> str:
    """Elements in order of the alphabet."""
    return " ".join(sorted(symbols)) if symbols else "not stated"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; a bar inside a cell is escaped."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(text.replace("|", "\\|") for text in line) + " |" for line in lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
