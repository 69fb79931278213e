# SPDX-License-Identifier: Apache-2.0
"""What `--models` names: unique names, identities that follow the weights, clear refusals."""

import io
import json
import zipfile

import numpy as np
import pytest

from mlipaudit.backends.mlip_zip import load_zip, read_archive
from mlipaudit.errors import ModelLoadError, UnknownNameError, UsageError
from mlipaudit.models import ModelKind, load_force_field, parse_models, parse_options

HYPERPARAMS = {"config": {"num_layers": 2}, "dataset_info": {"cutoff": 5.0}}
PARAMS = {"a#w": np.arange(6, dtype=np.float32).reshape(2, 3), "a#b": np.zeros(3, np.float32)}
LENNARD_JONES = "from ase.calculators.lj import LennardJones\nmlipaudit_external_model = LennardJones(sigma=2.0)\n"


def write_archive(
    path,
    *,
    hyperparams=HYPERPARAMS,
    params=PARAMS,
    compression=zipfile.ZIP_STORED,
    year=2024,
    leave_out=None,
    reverse=False,
):
    """A tiny archive in mlip's layout."""
    stream = io.BytesIO()
    np.savez(stream, **params)
    members = {"hyperparams.json": json.dumps(hyperparams).encode(), "params.npz": stream.getvalue()}
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in sorted(members.items(), reverse=reverse):
            if name != leave_out:
                archive.writestr(zipfile.ZipInfo(name, (year, 1, 1, 0, 0, 0)), content, compress_type=compression)
    return path


def write_python(folder, text, name="model.py"):
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return str(file)


def sha256(path):
    return parse_models([str(path)])[0].sha256


# Names


@pytest.mark.parametrize(
    "file, name",
    [
        ("mace.zip", "mace"),
        ("my model (v2)!.zip", "my_model__v2__"),
        ("....zip", "model"),
        (".hidden.zip", "hidden"),
        ("größe+1.5_b.zip", "größe+1.5_b"),
        ("mace.tar.zip", "mace.tar"),
    ],
)
def test_any_file_name_gives_a_folder_name(tmp_path, file, name):
    (spec,) = parse_models([str(write_archive(tmp_path / file))])
    assert (spec.name, spec.kind) == (name, ModelKind.ARCHIVE)


def test_equal_stems_get_unique_names(tmp_path):
    files = []
    for folder in ("a", "b", "c"):
        (tmp_path / folder).mkdir()
        files.append(write_python(tmp_path / folder, "", "m.py"))
    assert [spec.name for spec in parse_models(files)] == ["m", "m-2", "m-3"]


def test_unique_names_avoid_names_that_are_taken(tmp_path):
    (tmp_path / "b").mkdir()
    files = [write_python(tmp_path, "", name) for name in ("m.py", "m-2.py")]
    files.append(write_python(tmp_path / "b", "", "m.py"))
    assert [spec.name for spec in parse_models(files)] == ["m", "m-2", "m-3"]


def test_one_model_twice_with_other_options():
    specs = parse_models(["toy", "toy:depth=0.3"])
    assert [(s.name, s.kind, s.options) for s in specs] == [
        ("toy", ModelKind.NAMED, {}),
        ("toy-2", ModelKind.NAMED, {"depth": 0.3}),
    ]


# Refusals


def test_missing_file(tmp_path):
    with pytest.raises(UsageError, match=r"nowhere\.zip: no such file"):
        parse_models([str(tmp_path / "nowhere.zip")])


def test_unknown_name_suggests_the_nearest():
    with pytest.raises(UnknownNameError, match="unknown model 'gfn2xtb'; did you mean 'gfn2-xtb'"):
        parse_models(["gfn2xtb"])


def test_file_of_another_kind(tmp_path):
    file = tmp_path / "weights.pt"
    file.touch()
    with pytest.raises(UsageError, match=r"model files end in \.zip \(saved by mlip\) or \.py"):
        parse_models([str(file)])


@pytest.mark.parametrize("text", ["depth", "=1", "depth=1,width"])
def test_bad_option(text):
    with pytest.raises(UsageError, match="is not key=value"):
        parse_models([f"toy:{text}"])


def test_option_values_are_json_or_text():
    assert parse_options("a=1,b=true,c=x=y,d=1.5e-3,e=null") == {
        "a": 1,
        "b": True,
        "c": "x=y",
        "d": 1.5e-3,
        "e": None,
    }


def test_option_value_may_be_a_file_name():
    (spec,) = parse_models(["toy:weights=w.zip"])
    assert (spec.kind, spec.options) == (ModelKind.NAMED, {"weights": "w.zip"})


# Identity


def test_repacked_archive_is_the_same_model(tmp_path):
    one = write_archive(tmp_path / "one.zip")
    other = write_archive(tmp_path / "o.zip", compression=zipfile.ZIP_DEFLATED, year=1999, reverse=True)
    assert one.read_bytes() != other.read_bytes()
    assert sha256(one) == sha256(other)


def test_one_weight_makes_another_model(tmp_path):
    changed = {**PARAMS, "a#b": np.array([0, 0, 1e-7], np.float32)}
    one = write_archive(tmp_path / "one.zip")
    assert sha256(one) != sha256(write_archive(tmp_path / "o.zip", params=changed))


@pytest.mark.parametrize(
    "hyperparams",
    [
        {**HYPERPARAMS, "config": {"num_layers": 3}},
        {**HYPERPARAMS, "dataset_info": {"cutoff": 6.0}},
    ],
)
def test_architecture_makes_another_model(tmp_path, hyperparams):
    one = write_archive(tmp_path / "one.zip")
    assert sha256(one) != sha256(write_archive(tmp_path / "o.zip", hyperparams=hyperparams))


def test_dtype_and_shape_make_another_model(tmp_path):
    flat = {**PARAMS, "a#w": PARAMS["a#w"].reshape(6)}
    wide = {**PARAMS, "a#b": PARAMS["a#b"].astype(np.float64)}
    files = [write_archive(tmp_path / f"{i}.zip", params=p) for i, p in enumerate([PARAMS, flat, wide])]
    assert len({sha256(file) for file in files}) == 3


def test_python_file_is_its_text(tmp_path):
    one = write_python(tmp_path, LENNARD_JONES, "a.py")
    same = write_python(tmp_path, LENNARD_JONES, "b.py")
    other = write_python(tmp_path, LENNARD_JONES.replace("2.0", "2.1"), "c.py")
    assert sha256(one) == sha256(same) != sha256(other)


def test_options_are_part_of_a_named_models_identity():
    plain, deep, also_deep, gfn2 = parse_models(["toy", "toy:depth=0.3", "toy:depth=0.3", "gfn2-xtb"])
    assert deep.sha256 == also_deep.sha256
    assert len({plain.sha256, deep.sha256, gfn2.sha256}) == 3


def test_order_of_options_does_not_matter():
    one, other = parse_models(["toy:depth=0.3,width=2", "toy:width=2,depth=0.3"])
    assert one.sha256 == other.sha256


# Archives


def test_archive_comes_back_as_written(tmp_path):
    archive = read_archive(write_archive(tmp_path / "m.zip"))
    assert archive.hyperparams == HYPERPARAMS
    assert {name: array.tolist() for name, array in archive.params.items()} == {
        name: array.tolist() for name, array in PARAMS.items()
    }


def refused(path, match):
    """Parsing lets the file pass, with an identity; loading says what is wrong with it."""
    (spec,) = parse_models([str(path)])
    assert len(spec.sha256) == 64
    with pytest.raises(ModelLoadError, match=match):
        spec.load()


def test_half_an_archive(tmp_path):
    file = write_archive(tmp_path / "m.zip")
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    refused(file, r"m\.zip is not a zip archive, or is damaged")


def test_archive_without_its_last_bytes(tmp_path):
    # What is left ends like params.npz, a zip archive in itself.
    file = write_archive(tmp_path / "m.zip")
    file.write_bytes(file.read_bytes()[:-100])
    refused(file, r"m\.zip is not a (zip archive|model saved by mlip)")


def test_flipped_byte_in_an_archive(tmp_path):
    file = write_archive(tmp_path / "m.zip")
    content = bytearray(file.read_bytes())
    content[content.index(b"num_layers")] ^= 1
    file.write_bytes(bytes(content))
    refused(file, r"m\.zip is not a zip archive, or is damaged: Bad CRC")


def test_damaged_compressed_stream(tmp_path):
    file = write_archive(tmp_path / "m.zip", compression=zipfile.ZIP_DEFLATED)
    content = bytearray(file.read_bytes())
    start = content.index(b"params.npz") + len("params.npz")
    content[start + 2 : start + 12] = b"\xff" * 10
    file.write_bytes(bytes(content))
    refused(file, r"m\.zip (cannot be read|is not a zip archive, or is damaged)")


def test_text_file_named_zip(tmp_path):
    file = tmp_path / "m.zip"
    file.write_text("not a model", encoding="utf-8")
    refused(file, r"m\.zip is not a zip archive, or is damaged")


def test_empty_file_named_zip(tmp_path):
    file = tmp_path / "m.zip"
    file.touch()
    refused(file, r"m\.zip is not a zip archive, or is damaged")


@pytest.mark.parametrize("member", ["params.npz", "hyperparams.json"])
def test_archive_without_a_part(tmp_path, member):
    refused(
        write_archive(tmp_path / "m.zip", leave_out=member), f"is not a model saved by mlip: it has no {member}"
    )


def test_archive_without_architecture(tmp_path):
    file = write_archive(tmp_path / "m.zip", hyperparams={"epochs": 3})
    refused(file, r"is not a model saved by mlip: hyperparams\.json has no config and dataset_info")


@pytest.mark.parametrize("params", [b"no arrays", b""])
def test_archive_whose_parameters_are_no_arrays(tmp_path, params):
    file = tmp_path / "m.zip"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("hyperparams.json", json.dumps(HYPERPARAMS))
        archive.writestr("params.npz", params)
    refused(file, r"m\.zip (cannot be read|is not a zip archive, or is damaged)")


def test_archive_whose_json_is_no_object(tmp_path):
    refused(write_archive(tmp_path / "m.zip", hyperparams=[1, 2]), "is not a model saved by mlip")


def test_archive_with_one_bare_array(tmp_path):
    file, stream = tmp_path / "m.zip", io.BytesIO()
    np.save(stream, np.zeros(3))
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("hyperparams.json", json.dumps(HYPERPARAMS))
        archive.writestr("params.npz", stream.getvalue())
    refused(file, r"m\.zip cannot be read")


def test_encrypted_archive(tmp_path):
    file = write_archive(tmp_path / "m.zip")
    content = bytearray(file.read_bytes())
    for signature, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        start = content.find(signature)
        while start >= 0:
            content[start + flags] |= 1
            start = content.find(signature, start + 1)
    file.write_bytes(bytes(content))
    refused(file, r"m\.zip cannot be read")


# Python files


@pytest.mark.parametrize(
    "text, match",
    [
        ("model = 1\n", "does not define mlipaudit_external_model"),
        ("mlipaudit_external_model = 'mace'\n", "must be either .* or an ASE calculator, not str"),
        ("mlipaudit_external_model = None\n", "not NoneType"),
        ("raise RuntimeError('no GPU here')\n", "cannot be run: RuntimeError: no GPU here"),
        ("import a_package_nobody_has\n", "cannot be run: ModuleNotFoundError"),
        ("def broken(:\n", "cannot be run: SyntaxError"),
        ("import sys\nsys.exit(0)\n", "cannot be run: SystemExit: 0"),
    ],
)
def test_python_file_without_a_model(tmp_path, text, match):
    (spec,) = parse_models([write_python(tmp_path, text)])
    with pytest.raises(ModelLoadError, match=rf"model\.py.* {match}"):
        spec.load()


def test_python_file_with_a_calculator(tmp_path):
    (spec,) = parse_models([write_python(tmp_path, LENNARD_JONES)])
    calculator = spec.load()
    assert (type(calculator).__name__, calculator.parameters["sigma"]) == ("LennardJones", 2.0)


# Loading by name and by path


def test_named_model_gets_its_options():
    (spec,) = parse_models(["toy:depth=0.3"])
    assert spec.load().depth == 0.3


def test_unknown_option_is_a_load_error():
    (spec,) = parse_models(["toy:colour=red"])
    with pytest.raises(ModelLoadError, match=r"toy with the options .*colour.* cannot be made"):
        spec.load()


def test_load_force_field_takes_files_only(tmp_path):
    with pytest.raises(ModelLoadError, match=r"model files end in \.zip or \.py"):
        load_force_field("toy")


def test_load_zip_names_the_file(tmp_path):
    with pytest.raises(ModelLoadError, match=r"absent\.zip cannot be read"):
        load_zip(tmp_path / "absent.zip")


@pytest.mark.parametrize("where", ["mlipaudit_external_model.allowed_atomic_numbers", "allowed_atomic_numbers"])
def test_elements_may_stand_on_the_model_or_beside_it(tmp_path, where):
    file = tmp_path / "mine.py"
    lines = [
        "from ase.calculators.lj import LennardJones",
        "mlipaudit_external_model = LennardJones()",
        f"{where} = {{1, 8}}",
    ]
    file.write_text("\n".join(lines))
    assert load_force_field(str(file)).allowed_atomic_numbers == {1, 8}
