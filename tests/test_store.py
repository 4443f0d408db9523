import json
import os
import types
import typing
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from pathlib import Path

import pytest

from trainperf.errors import TrainperfError
from trainperf.model import FORMAT_VERSION, Diagnosis, Recording
from trainperf.store import load, load_recording, resolve_run, save, save_recording


def filled(kind):
    """A value of a type with everything in it given, nothing left None or empty."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        written = [field for field in fields(kind) if not field.metadata]  # others are not saved
        return kind(**{field.name: filled(hints[field.name]) for field in written})
    if origin in (typing.Union, types.UnionType):
        return filled(next(each for each in arguments if each is not type(None)))
    if origin is tuple:
        endless = arguments[-1] is Ellipsis
        return tuple(filled(one) for one in (arguments[:1] * 2 if endless else arguments))
    if origin is dict:
        return {filled(arguments[0]): filled(arguments[1])}
    if origin is typing.Literal:
        return arguments[0]
    if isinstance(kind, type) and issubclass(kind, Enum):
        return list(kind)[-1]
    return {
        str: "text – é 日本",
        int: 3,
        float: 0.1,
        bool: True,
        bytes: b"\x00\xff",
        typing.Any: {"a": [1, 2.5, None, {"b": "c"}]},
    }[kind]


DIAGNOSIS = replace(filled(Diagnosis), format_version=FORMAT_VERSION)
RECORDING = filled(Recording)


def test_a_number_that_is_none_is_refused_by_its_field_and_nothing_is_written(tmp_path):
    for number in (float("nan"), float("inf"), -float("inf")):
        training = replace(DIAGNOSIS.training, runs=(0.1, number))
        with pytest.raises(TrainperfError, match=r"training\.runs\[1\] is -?(nan|inf)"):
            save(replace(DIAGNOSIS, training=training), tmp_path / "run.json")
        finding = replace(DIAGNOSIS.findings[1], data={"share": number})
        with pytest.raises(TrainperfError, match=r"findings\[1\]\.data\.share"):
            save(replace(DIAGNOSIS, findings=(DIAGNOSIS.findings[0], finding)), tmp_path / "a")
    assert not list(tmp_path.iterdir())


def test_a_value_that_json_does_not_know_is_refused(tmp_path):
    finding = replace(DIAGNOSIS.findings[0], data={"what": object()})
    with pytest.raises(TrainperfError, match="cannot be written as JSON"):
        save(replace(DIAGNOSIS, findings=(finding,)), tmp_path / "run.json")


BROKEN = [
    (b"", "cut short"),
    (b"{", "cut short"),
    (b"hello", "no JSON"),
    (b"\x80\x02", "no JSON"),
    (b"[" * 100_000, "no JSON"),
    (b"[]", "not written by trainperf"),
    (b"{}", "not written by trainperf"),
    (b'{"version": 1}', "not written by trainperf"),
    (b'{"format_version": 1, "trainperf_version": "9.1"}', "format 1"),
    (b'{"format_version": "1"}', "format 1; this"),
    (b'{"format_version": 2}', "does not hold"),
]


@pytest.mark.parametrize(("data", "message"), BROKEN)
@pytest.mark.parametrize("read", [load, load_recording])
def test_a_file_that_holds_no_run_is_refused_with_the_next_step(tmp_path, data, message, read):
    file = tmp_path / "run.json"
    file.write_bytes(data)
    with pytest.raises(TrainperfError, match=message) as error:
        read(file)
    assert str(file) in str(error.value)
    assert error.value.hint


def test_every_cut_of_a_file_is_refused(tmp_path):
    file = tmp_path / "run.json"
    save(DIAGNOSIS, file)
    data = file.read_bytes()
    for end in range(0, len(data) - 2, len(data) // 40):
        file.write_bytes(data[:end])
        with pytest.raises(TrainperfError):
            load(file)


def test_a_field_of_the_wrong_type_is_named(tmp_path):
    file = tmp_path / "run.json"
    save(DIAGNOSIS, file)
    value = json.loads(file.read_text())
    value["evidence"]["times"]["real"]["steps"] = "many"
    file.write_text(json.dumps(value))
    with pytest.raises(TrainperfError, match=r"times\.real\.steps"):
        load(file)


def test_a_missing_file_is_refused_with_the_next_step(tmp_path):
    for read in (load, load_recording, resolve_run):
        with pytest.raises(TrainperfError) as error:
            read(tmp_path / "nothing.json")
        assert error.value.hint


def test_what_was_saved_is_read_back_equal(tmp_path):
    file = tmp_path / "new" / "run.json"
    save(DIAGNOSIS, file)
    assert load(file) == DIAGNOSIS
    save_recording(RECORDING, file)
    assert load_recording(file) == RECORDING


def test_what_is_absent_comes_back_absent(tmp_path):
    hints = typing.get_type_hints(Diagnosis)
    absent = {name: None for name, kind in hints.items() if type(None) in typing.get_args(kind)}
    diagnosis = replace(DIAGNOSIS, **absent, findings=())
    save(diagnosis, tmp_path / "run.json")
    assert load(tmp_path / "run.json") == diagnosis
    assert absent


def test_a_key_of_a_later_version_is_passed_over(tmp_path):
    file = tmp_path / "run.json"
    save(DIAGNOSIS, file)
    file.write_text(json.dumps({**json.loads(file.read_text()), "new": 1}))
    assert load(file) == DIAGNOSIS


def test_a_loss_that_is_no_number_becomes_null_in_a_recording(tmp_path):
    events = {7: ({"event": "loss", "value": float("nan")},)}
    save_recording(replace(RECORDING, events=events), tmp_path / "run.json")
    assert load_recording(tmp_path / "run.json").events == {7: ({"event": "loss", "value": None},)}
    with pytest.raises(TrainperfError, match=r"recording\.ended"):
        save_recording(replace(RECORDING, ended=float("nan")), tmp_path / "run.json")


def test_saving_replaces_the_whole_file_or_leaves_the_old_one(tmp_path, monkeypatch):
    file = tmp_path / "run.json"
    save(DIAGNOSIS, file)

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(TrainperfError, match="No space left") as error:
        save(replace(DIAGNOSIS, script="other.py"), file)
    assert error.value.hint
    assert load(file) == DIAGNOSIS
    assert [each.name for each in tmp_path.iterdir()] == ["run.json"]


def test_saving_keeps_a_link_and_writes_into_a_device(tmp_path):
    file, link = tmp_path / "run.json", tmp_path / "last.json"
    file.write_text("old")
    link.symlink_to(file)
    save(DIAGNOSIS, link)
    assert link.is_symlink()
    assert load(file) == DIAGNOSIS
    save(DIAGNOSIS, Path(os.devnull))
    assert not Path(os.devnull).is_file()


def test_a_run_is_found_by_its_file_or_its_folder(tmp_path):
    file = tmp_path / "runs" / "one" / "diagnosis.json"
    save(DIAGNOSIS, file)
    assert resolve_run(file) == file
    assert resolve_run(file.parent) == file
    with pytest.raises(TrainperfError) as error:
        resolve_run(tmp_path / "runs")
    assert str(file.parent) in error.value.hint
    with pytest.raises(TrainperfError, match="holds no"):
        resolve_run(tmp_path)
