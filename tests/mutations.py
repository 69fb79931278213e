# SPDX-License-Identifier: Apache-2.0
"""What can happen to files: every kind of damage takes a seeded generator and a folder, and says what it did.

A kind that finds nothing to damage says None.
"""

import json
import random
import shutil
import string
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

Kind = Callable[[random.Random, Path], str | None]
KINDS: dict[str, Kind] = {}
OF_BYTES: list[str] = []
"""Kinds that change the bytes of a single file."""
CONTENTS = {
    "nothing": b"",
    "blanks": b" \n",
    "{}": b"{}",
    "[]": b"[]",
    "null": b"null",
    "true": b"true",
    "a string": b'"text"',
    "1e999": b"1e999",
    "a score of 1e999": b'{"score": 1e999, "overall_score": 1e999, "checksum": ""}',
    "NaN": b'{"score": NaN, "tautomers": NaN, "overall_score": NaN}',
    "a huge integer": b"1" * 400,
    "an integer beyond reading": b'{"score": ' + b"1" * 5000 + b"}",
    "a nested list": b"[" * 100_000,
    "nested objects": b'{"a":' * 50_000,
    "a nested TOML list": b"name = " + b"[" * 100_000,
    "a TOML integer beyond reading": b"version = " + b"1" * 5000,
    "no UTF-8": b"\xff\xfe\x00",
    "zeros": bytes(512),
    "a page": b"<!DOCTYPE html><html>404</html>",
    "git's pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
}
WEIGHTS = {
    "result.json": 4,
    "score.json": 2,
    "run.json": 8,
    ".lock": 6,
    "manifest.toml": 8,
    "tautobase_2792.json": 8,
}
"""By name, so that what there is one of is hit as often as what there are ten of."""


class Damage(NamedTuple):
    """One thing that happened to a folder."""

    kind: str
    what: str

    def __str__(self) -> str:
        return f"[{self.kind}: {self.what}]"


def damage(kind: str, rng: random.Random, root: Path) -> Damage:
    """Do a kind of damage, with draws until something changes."""
    before = snapshot(root)
    for _ in range(50):
        what = KINDS[kind](rng, root)
        if what is not None and snapshot(root) != before:
            return Damage(kind, what)
    raise AssertionError(f"{kind} finds nothing to damage")


def snapshot(root: Path) -> dict[str, bytes | str]:
    """Everything below a folder, links as what they point to."""
    return {str(path.relative_to(root)): _content(path) for path in sorted(root.rglob("*"))}


def _content(path: Path) -> bytes | str:
    if path.is_symlink():
        return f"-> {path.readlink()}"
    return "folder" if path.is_dir() else path.read_bytes()


def kind(function: Kind) -> Kind:
    """Register a kind of damage under the function's name."""
    KINDS[function.__name__] = function
    return function


def of_bytes(function: Callable[[random.Random, bytes], tuple[bytes, str] | None]):
    """Register damage to the bytes of a single file."""

    def apply(rng: random.Random, root: Path) -> str | None:
        file = choose(rng, root)
        changed = function(rng, file.read_bytes())
        if changed is None:
            return None
        file.write_bytes(changed[0])
        return f"{file.relative_to(root)} {changed[1]}"

    KINDS[function.__name__] = apply
    OF_BYTES.append(function.__name__)
    return function


def files_in(root: Path, name: str = "*") -> list[Path]:
    return sorted(path for path in root.rglob(name) if path.is_file() and not path.is_symlink())


def folders_in(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if path.is_dir() and not path.is_symlink())


def choose(rng: random.Random, root: Path) -> Path:
    """A file, those with rare names more often."""
    files = files_in(root)
    return rng.choices(files, [WEIGHTS.get(file.name, 2) for file in files])[0]


def swap(one: Path, other: Path) -> None:
    between = one.with_name("between")
    one.rename(between)
    other.rename(one)
    between.rename(other)


def _swapped(root: Path, one: Path, other: Path) -> str | None:
    if one == other:
        return None
    swap(one, other)
    return f"{one.relative_to(root)} and {other.relative_to(root)}"


# The bytes of a file


@of_bytes
def truncate(rng, content):
    place = rng.randrange(len(content)) if content else 0
    return content[:place], f"at {place} of {len(content)}"


@of_bytes
def flip_bit(rng, content):
    if not content:
        return None
    place, bit = rng.randrange(len(content)), rng.randrange(8)
    changed = bytearray(content)
    changed[place] ^= 1 << bit
    return bytes(
        changed
    ), f"bit {bit} of byte {place}, {content[place : place + 1]} to {changed[place : place + 1]}"


@of_bytes
def change_digit(rng, content):
    places = [i for i, byte in enumerate(content) if chr(byte) in string.digits]
    if not places:
        return None
    place = rng.choice(places)
    digit = rng.choice(string.digits).encode()
    return content[:place] + digit + content[place + 1 :], f"digit at {place} to {digit}"


@of_bytes
def change_letter(rng, content):
    places = [i for i, byte in enumerate(content) if chr(byte) in string.ascii_letters]
    if not places:
        return None
    place, letter = rng.choice(places), rng.choice(string.ascii_letters).encode()
    return content[:place] + letter + content[place + 1 :], f"letter at {place} to {letter}"


@of_bytes
def cut_out(rng, content):
    if not content:
        return None
    start = rng.randrange(len(content))
    end = min(len(content), start + rng.randint(1, 40))
    return content[:start] + content[end:], f"bytes {start} to {end}"


@of_bytes
def insert_bytes(rng, content):
    place, more = rng.randint(0, len(content)), rng.choice([rng.randbytes(4), b"0", b"-", b" ", b"\n", b'"', b"}"])
    return content[:place] + more + content[place:], f"{more} at {place}"


@of_bytes
def write_twice(rng, content):
    return content * 2, "twice"


@of_bytes
def overwrite(rng, content):
    what = rng.choice(list(CONTENTS))
    return CONTENTS[what], f"with {what}"


# The values in a JSON file


def _leaves(value, path=()):
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in pairs:
        yield (value, key, (*path, key))
        yield from _leaves(child, (*path, key))


def _edited(rng: random.Random, root: Path, edit: Callable) -> str | None:
    file = choose(rng, root)
    if file.suffix != ".json":
        return None
    try:
        content = json.loads(file.read_bytes())
    except (ValueError, RecursionError):
        return None
    places = list(_leaves(content))
    if not places:
        return None
    parent, key, path = rng.choice(places)
    done = edit(rng, parent, key)
    file.write_text(json.dumps(content, indent=rng.choice([None, 1])), "utf-8")
    return f"{file.relative_to(root)} {'/'.join(map(str, path))} {done}"


@kind
def change_value(rng, root):
    def edit(rng, parent, key):
        parent[key] = rng.choice([0, 1, 0.5, -1, 1e300, None, True, "text", "NaN", [], {}, [[]], 10**30])
        return f"to {parent[key]!r}"

    return _edited(rng, root, edit)


@kind
def drop_value(rng, root):
    def edit(rng, parent, key):
        del parent[key]
        return "dropped"

    return _edited(rng, root, edit)


@kind
def lay_out_anew(rng, root):
    """Changes no value."""
    file = rng.choice(files_in(root / "results", "*.json"))
    file.write_text(json.dumps(json.loads(file.read_bytes()), indent=3), "utf-8")
    return str(file.relative_to(root))


# Files and folders that go, or are something else


@kind
def delete_file(rng, root):
    file = choose(rng, root)
    file.unlink()
    return str(file.relative_to(root))


@kind
def delete_folder(rng, root):
    folder = rng.choice(folders_in(root))
    shutil.rmtree(folder)
    return str(folder.relative_to(root))


@kind
def folder_instead(rng, root):
    path = choose(rng, root)
    path.unlink()
    path.mkdir()
    if full := rng.random() < 0.5:
        (path / "file").write_text("text", "utf-8")
    return f"{path.relative_to(root)}{', with a file' if full else ''}"


@kind
def file_instead_of_folder(rng, root):
    folder = rng.choice(folders_in(root))
    shutil.rmtree(folder)
    folder.write_text("text", "utf-8")
    return str(folder.relative_to(root))


@kind
def link_loop_instead(rng, root):
    path = rng.choice([choose(rng, root), *folders_in(root)])
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    path.symlink_to(path)
    return str(path.relative_to(root))


@kind
def link_to_nothing_instead(rng, root):
    path = choose(rng, root)
    path.unlink()
    path.symlink_to("nowhere")
    return str(path.relative_to(root))


# Files and folders in each other's place


@kind
def swap_models(rng, root):
    """Files of one name between two models."""
    name = rng.choice(
        ["*/tautomers/result.json", "*/inference_speed/result.json", "*/*/model_output.*", "*/score.json"]
    )
    return _swapped(root, *rng.sample(sorted((root / "results").glob(name)), 2))


@kind
def swap_benchmarks(rng, root):
    """The results of one model."""
    model = rng.choice(sorted((root / "results").glob("*/tautomers"))).parent
    return _swapped(root, model / "tautomers" / "result.json", model / "inference_speed" / "result.json")


@kind
def swap_result_and_output(rng, root):
    output = rng.choice(sorted((root / "results").glob("*/*/model_output.*")))
    return _swapped(root, output, output.with_name("result.json"))


@kind
def swap_result_and_run(rng, root):
    return _swapped(root, rng.choice(files_in(root, "result.json")), root / "results" / "run.json")


@kind
def swap_result_and_score(rng, root):
    return _swapped(root, rng.choice(files_in(root, "result.json")), rng.choice(files_in(root, "score.json")))


@kind
def swap_any(rng, root):
    return _swapped(root, choose(rng, root), choose(rng, root))


@kind
def swap_folders(rng, root):
    depth = rng.choice(["results/*", "results/*/*", "data/*"])
    return _swapped(root, *rng.sample([path for path in sorted(root.glob(depth)) if path.is_dir()], 2))


@kind
def copy_over(rng, root):
    one, other = choose(rng, root), choose(rng, root)
    other.write_bytes(one.read_bytes())
    return f"{one.relative_to(root)} over {other.relative_to(root)}"


@kind
def copy_to_another_folder(rng, root):
    file = choose(rng, root)
    target = rng.choice(folders_in(root)) / file.name
    if target.is_dir() or target == file:
        return None
    shutil.copy(file, target)
    return f"{file.relative_to(root)} to {target.relative_to(root)}"


@kind
def copy_folder(rng, root):
    folder = rng.choice(folders_in(root))
    target = folder.with_name(f"{folder.name}{rng.choice(['-2', ' copy', '.bak', '~'])}")
    if target.exists():
        return None
    shutil.copytree(folder, target)
    return f"{folder.relative_to(root)} to {target.name}"


@kind
def rename_folder(rng, root):
    folder = rng.choice(folders_in(root))
    name = rng.choice(["renamed", ".hidden", folder.name.upper()])
    folder.rename(folder.with_name(name))
    return f"{folder.relative_to(root)} to {name}"


# What does not belong there


@kind
def stray_file(rng, root):
    folder = rng.choice([root / "results", root / "data", *folders_in(root)])
    path = folder / rng.choice(
        [".DS_Store", "._result.json", "Thumbs.db", "core", "result.json~", "a\nb", "ä", ".nfs0"]
    )
    path.write_bytes(rng.randbytes(100))
    return str(path.relative_to(root))


@kind
def stray_folder(rng, root):
    names = [
        "empty",
        ".Trashes",
        "@eaDir",
        ".writing-1-result.json",
        "model_output.0123.json",
        "result.json.unreadable",
    ]
    path = rng.choice([root / "results", root / "data", *folders_in(root)]) / rng.choice(names)
    (path / "inner").mkdir(parents=True)
    return str(path.relative_to(root))


@kind
def stray_link(rng, root):
    """To another folder, to itself, to the one above."""
    folders = [root / "results", root / "data", *folders_in(root)]
    path = rng.choice(folders) / rng.choice(["alias", "model_output.alias.json", ".writing-alias"])
    path.symlink_to(rng.choice([rng.choice(folders), path, Path(".."), Path(".")]))
    return f"{path.relative_to(root)} -> {path.readlink().name or '..'}"


@kind
def unfinished_file(rng, root):
    """What a run that died leaves."""
    path = rng.choice(files_in(root / "results", "*.json"))
    path.with_name(f".writing-1-{path.name}").write_bytes(path.read_bytes()[: rng.randrange(40)])
    return str(path.relative_to(root))
