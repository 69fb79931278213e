# SPDX-License-Identifier: Apache-2.0
"""What the scripts that carry numbers over share: a folder of files with the manifest that lists them."""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

HERE = Path(__file__).resolve().parent

HEAD = """\
# SPDX-License-Identifier: CC0-1.0
name = "{name}"
version = "1"
title = {title}
description = \"\"\"
{description}
\"\"\"
license = {license}
source = {source}
doi = [
{doi}
]
level_of_theory = {level}
made_by = "benchmarks_data/make_{name}.py"
elements = {elements}

[units]
{units}
"""

FILE = """
[files."{file}"]
sha256 = "{sha256}"
bytes = {size}
"""


def quoted(value: str | list[str]) -> str:
    """A TOML string, or a list of them; JSON's escapes are TOML's too."""
    return json.dumps(value, ensure_ascii=False)


def entries_text(entries: dict[str, object]) -> str:
    """A JSON object with one entry on a line."""
    lines = (
        f"{json.dumps(k)}:{json.dumps(v, allow_nan=False, separators=(',', ':'))}" for k, v in entries.items()
    )
    return "{\n" + ",\n".join(lines) + "\n}\n"


def write_folder(
    target: Path,
    *,
    name: str,
    files: dict[str, bytes],
    title: str,
    description: str,
    licence: str,
    source: str,
    doi: dict[str, str],
    level: str,
    elements: Iterable[str],
    units: dict[str, str],
) -> None:
    """Write the files of a data set and the manifest that belongs to them; `doi` gives what each one is."""
    manifest = HEAD.format(
        name=name,
        title=quoted(title),
        description=description,
        license=quoted(licence),
        source=quoted(source),
        doi="\n".join(f'    "{number}", # {what}' for number, what in doi.items()),
        level=quoted(level),
        elements=quoted(sorted(set(elements))),
        units="\n".join(f"{quantity} = {quoted(unit)}" for quantity, unit in units.items()),
    )
    target.mkdir(parents=True, exist_ok=True)
    for file, content in files.items():
        (target / file).write_bytes(content)
        manifest += FILE.format(file=file, sha256=hashlib.sha256(content).hexdigest(), size=len(content))
    (target / "manifest.toml").write_text(manifest, encoding="utf-8")
