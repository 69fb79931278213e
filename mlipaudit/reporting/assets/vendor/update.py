# SPDX-License-Identifier: Apache-2.0
"""Brings the JavaScript libraries of the report up to date: python update.py (needs npm). Writes README.md as well."""

import hashlib
import subprocess
import tarfile
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
LIBRARIES = {
    "vega@6": "build/vega.min.js",
    "vega-lite@6": "build/vega-lite.min.js",
    "vega-embed@7": "build/vega-embed.min.js",
    "3dmol@2": "build/3Dmol-min.js",
}
"""npm package and range -> the file of it that goes into a report."""
ABOUT = """\
# Libraries in every report

Minified builds from npm, unchanged, so that a report needs no network. All are BSD-3-Clause; the licences are beside
them. `make vendor` writes this folder anew.

| file | package | sha256 |
| --- | --- | --- |
"""


def main() -> None:
    """Fetch, unpack, describe."""
    rows = []
    for package, path in LIBRARIES.items():
        with tempfile.TemporaryDirectory() as folder:
            pack = ["npm", "pack", package, "--silent"]
            archive = subprocess.run(pack, cwd=folder, capture_output=True, text=True, check=True).stdout.strip()
            with tarfile.open(Path(folder) / archive) as files:
                content = read(files, path)
                licence = read(files, "LICENSE") + read(files, f"{path}.LICENSE.txt")
        name = package.partition("@")[0]
        (HERE / Path(path).name).write_bytes(content)
        (HERE / f"LICENSE-{name}.txt").write_bytes(licence)
        rows.append(
            f"| {Path(path).name} | {archive.removesuffix('.tgz')} | {hashlib.sha256(content).hexdigest()} |"
        )
    (HERE / "README.md").write_text(ABOUT + "\n".join(rows) + "\n", encoding="utf-8")


def read(files: tarfile.TarFile, path: str) -> bytes:
    """A file of a package; nothing where it is not there."""
    try:
        member = files.extractfile(f"package/{path}")
    except KeyError:
        return b""
    return member.read() if member else b""


if __name__ == "__main__":
    main()
