# SPDX-License-Identifier: Apache-2.0
"""This version against mlipaudit 0.1.8: the same model, data and run mode, in turn, each in its own environment.

    python bench/against_reference.py [--parts single-points prediction dynamics all] [--run-modes dev fast]
        [--rounds 1] [--md-steps 5000] [--environment FOLDER] [MODEL.zip]

`all` runs the 18 benchmarks in `dev`; the run modes are those of the single points.

Installs mlipaudit 0.1.8 once. Everything is counted: starting Python, imports, loading the model, compiling. Ours
begins without a compilation cache, and is then run a second time with the cache that it has made. Needs no internet
besides the package registry: the data is the embedded edition, laid out for both.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from mlipaudit.data import MANIFEST, Embedded, embedded_names
from mlipaudit.suites import CORE

HERE = Path(__file__).parent
REFERENCE = "mlipaudit==0.1.8"
SINGLE_POINTS = ("conformer_selection", "dihedral_scan", "noncovalent_interactions", "tautomers", "reactivity")
DYNAMICS = ("bond_length_distribution", "ring_planarity")
REFERENCE_DATA = "data-of-the-reference"
PARTS = ("single-points", "prediction", "dynamics", "all")
DEV_IDS = {"dihedral_scan": ("fragment_001", "fragment_002"), "noncovalent_interactions": ("1.03.03", "1.01.01")}
"""What the reference looks up in `dev`, whatever the data holds."""


def main() -> None:
    """Measure and print."""
    args = _arguments()
    python = _reference_python(args.environment)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        data = _lay_out(work / "data")
        # The reference finds the architecture in the file's name.
        model = Path(shutil.copy(args.model, work / "mace_model.zip"))
        if "single-points" in args.parts:
            for run_mode in args.run_modes:
                _compare(python, model, data, run_mode, SINGLE_POINTS, work=work, rounds=args.rounds)
        if "prediction" in args.parts:
            _compare_prediction(python, model, work)
        if "dynamics" in args.parts:
            _compare_dynamics(python, model, data, work=work, steps=args.md_steps, rounds=args.rounds)
        if "all" in args.parts:
            _compare(python, model, data, "dev", CORE, work=work, rounds=args.rounds)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", type=Path, default=HERE.parent / "examples" / "example_model.zip")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--md-steps", type=int, default=5000)
    parser.add_argument("--run-modes", nargs="+", default=["dev", "fast"])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--environment", type=Path, default=HERE.parent / ".reference-env")
    return parser.parse_args()


def _reference_python(folder: Path) -> Path:
    """The interpreter of an environment with the reference, made where it is missing."""
    python = folder.absolute() / "bin" / "python"
    if not (folder / "installed").exists():
        print(f"installing {REFERENCE} into {folder} …", flush=True)
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", REFERENCE], check=True)
        (folder / "installed").touch()
    return python


def _lay_out(folder: Path) -> Path:
    """The embedded data in the reference's layout, with the names that its `dev` mode looks for.

    Once more below `REFERENCE_DATA`, without manifests: it takes every file of a folder for a structure.
    """
    for name in embedded_names():
        shutil.copytree(Embedded().fetch(name).path, folder / name)
        if name in DEV_IDS:
            (file,) = (folder / name).glob("*.json")
            _rename(file, DEV_IDS[name])
    shutil.copytree(folder, folder.parent / REFERENCE_DATA, ignore=shutil.ignore_patterns(MANIFEST))
    return folder


def _rename(file: Path, names: tuple[str, ...]) -> None:
    """Give the first entries other names, and the file's new hash to the manifest, which lists the elements."""
    entries, old = json.loads(file.read_text("utf-8")), sha256(file.read_bytes())
    file.write_text(json.dumps(dict(_renamed(entries, names))), "utf-8")
    manifest = file.parent / "manifest.toml"
    text = manifest.read_text("utf-8").replace(old.hexdigest(), sha256(file.read_bytes()).hexdigest())
    manifest.write_text(text, "utf-8")


def _renamed(entries: dict[str, Any], names: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    for index, (name, entry) in enumerate(entries.items()):
        name = names[index] if index < len(names) else name
        yield name, {**entry, "system_id": name} if "system_id" in entry else entry


def _compare(
    python: Path, model: Path, data: Path, run_mode: str, names: Sequence[str], *, work: Path, rounds: int
) -> None:
    ours, theirs, again = [], [], []
    for number in range(rounds):
        place = work / f"{len(names)}-{run_mode}-{number}"
        ours.append(_ours(model, data, run_mode, names, place / "cache", place / "cold"))
        theirs.append(_theirs(python, model, data, run_mode, names))
        again.append(_ours(model, data, run_mode, names, place / "cache", place / "warm"))
    print(f"\n{run_mode}: {'':<24}{'0.1.8':>9}{'ours':>9}{'ratio':>8}   compilations   largest difference")
    for name in names:
        one, other = theirs[0][name], ours[0][name]
        failed = " (0.1.8 has no result)" if one["result"].get("failed") else ""
        print(
            f"  {name:<28}{one['seconds']:>7.1f} s{other['seconds']:>7.1f} s"
            f"{one['seconds'] / max(other['seconds'], 1e-3):>8.1f}{one['compilations']:>8} / {other['compilations']}"
            f"{_largest_difference(one['result'], other['result']):>20.1e}{failed}"
        )
    total = [statistics.median(r["total"] for r in side) for side in (theirs, ours, again)]
    memory = [max(side[0][name]["peak_memory_bytes"] for name in names) / 2**30 for side in (theirs, ours)]
    print(f"  {'whole command':<28}{total[0]:>7.1f} s{total[1]:>7.1f} s{total[0] / total[1]:>8.1f}")
    print(f"  {'… with a warm cache':<28}{total[0]:>7.1f} s{total[2]:>7.1f} s{total[0] / total[2]:>8.1f}")
    compiled = sum(ours[0][name]["compilations"] for name in names)
    print(f"  compilations of ours in all: {compiled}; peak memory {memory[0]:.1f} and {memory[1]:.1f} GiB")


def _theirs(python: Path, model: Path, data: Path, run_mode: str, names: Sequence[str]) -> dict[str, Any]:
    command = [python, HERE / "reference_driver.py", "audit", model, data.parent / REFERENCE_DATA, run_mode]
    command += names
    return _timed(list(map(str, command)), read=lambda out: json.loads(out.splitlines()[-1]))


def _ours(
    model: Path, data: Path, run_mode: str, names: Sequence[str], cache: Path, output: Path
) -> dict[str, Any]:
    command = [sys.executable, "-m", "mlipaudit", "run", "--models", model, "--benchmarks", *names]
    command += ["--run-mode", run_mode, "--data", data, "--output", output]
    # 1: the model failed somewhere, which is no failure of the audit.
    return _timed(list(map(str, command)), {0, 1}, read=lambda out: _stored(output), MLIPAUDIT_CACHE=str(cache))


def _stored(output: Path) -> dict[str, Any]:
    """What our results say about themselves."""
    found = {}
    for file in output.glob("*/*/result.json"):
        result = json.loads(file.read_text("utf-8"))
        provenance = result.pop("provenance")
        found[file.parent.name] = {
            "result": result,
            "seconds": provenance["wall_seconds"],
            "compilations": provenance["num_compilations"],
            "peak_memory_bytes": provenance["peak_memory_bytes"],
        }
    return found


def _timed(
    command: list[str], accepted: Collection[int] = (0,), *, read: Any, **environment: str
) -> dict[str, Any]:
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})
    total = time.perf_counter() - start
    if done.returncode not in accepted:
        sys.exit(f"{' '.join(command)}\n{done.stderr[-2000:]}")
    return {**read(done.stdout), "total": total}


def _largest_difference(one: Any, other: Any) -> float:
    """Of all numbers that both results have."""
    if isinstance(one, dict):
        return max((_largest_difference(one[k], other[k]) for k in one if k in (other or {})), default=0.0)
    if isinstance(one, list):
        return max(map(_largest_difference, one, other or []), default=0.0)
    numbers = isinstance(one, int | float) and isinstance(other, int | float)
    return abs(one - other) if numbers else 0.0


def _compare_prediction(python: Path, model: Path, work: Path) -> None:
    driver = str(HERE / "reference_driver.py")
    read = {"read": lambda out: json.loads(out.splitlines()[-1])}
    theirs = _timed([str(python), driver, "predict", str(model)], **read)
    tunables = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
    ours = _timed([sys.executable, driver, "predict", str(model)], **read, **tunables)
    rates = [side["structures_per_second"] for side in (theirs, ours)]
    difference = max(abs(a - b) for a, b in zip(theirs["energies"], ours["energies"], strict=True))
    print(f"\nprediction alone, warm, 400 molecules: {rates[0]:.0f} and {rates[1]:.0f} structures per second")
    print(f"  ratio {rates[1] / rates[0]:.1f}, largest difference {difference:.1e} eV")


def _compare_dynamics(python: Path, model: Path, data: Path, *, work: Path, steps: int, rounds: int) -> None:
    """The same number of steps of the same molecules, everything counted; ours without a compilation cache."""
    driver = [str(HERE / "reference_driver.py"), "dynamics", str(model), str(data), str(steps), *DYNAMICS]
    read = {"read": lambda out: json.loads(out.splitlines()[-1])}
    tunables = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
    theirs, ours = [], []
    for number in range(rounds):
        cache = {"MLIPAUDIT_CACHE": str(work / f"dynamics-cache-{number}")}
        ours.append(_timed([sys.executable, *driver], **read, **tunables, **cache))
        theirs.append(_timed([str(python), *driver], **read))
    print(f"\ndynamics, {steps} steps per molecule: {'0.1.8':>16}{'ours':>20}{'ratio':>8}   compilations  scores")
    for name in DYNAMICS:
        one, other = theirs[0][name], ours[0][name]
        rates = [side["steps"] / side["seconds"] for side in (one, other)]
        print(
            f"  {name:<26}{one['seconds']:>7.1f} s {rates[0]:>5.0f}/s{other['seconds']:>9.1f} s {rates[1]:>5.0f}/s"
            f"{rates[1] / rates[0]:>8.1f}{one['compilations']:>8} / {other['compilations']}"
            f"   {one['score']:.3f} {other['score']:.3f}"
        )
    total = [statistics.median(r["total"] for r in side) for side in (theirs, ours)]
    memory = [max(side[0][name]["peak_memory_bytes"] for name in DYNAMICS) / 2**30 for side in (theirs, ours)]
    print(f"  whole process{total[0]:>20.1f} s{total[1]:>17.1f} s{total[0] / total[1]:>14.1f}")
    print(f"  peak memory {memory[0]:.1f} and {memory[1]:.1f} GiB")


if __name__ == "__main__":
    main()
