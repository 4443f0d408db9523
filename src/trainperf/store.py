"""Diagnosis and Recording to and from disk."""

from __future__ import annotations

import math
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from trainperf import bounded
from trainperf.errors import TrainperfError
from trainperf.recording.run import FORMAT_VERSION, Recording

if TYPE_CHECKING:
    from trainperf.model import Diagnosis

LARGEST = 1024 * bounded.MIB
"""No run leaves more: what is recorded of one is bounded, as it is while it is read."""
DIAGNOSIS_FILE = "diagnosis.json"
RECORDING_FILE = "recording.json"

T = TypeVar("T")


@dataclass(frozen=True)
class _SavedRecording:
    format_version: int
    recording: Recording


def save(diagnosis: Diagnosis, path: Path) -> None:
    """Write a diagnosis as JSON: whole, or not at all.

    The keys are the fields of `Diagnosis`; tuples become lists. Raises
    `TrainperfError` where a number is NaN or infinite, naming the field, and where
    the file cannot be written.
    """
    save_value(diagnosis, path)


def load(path: Path) -> Diagnosis:
    """Read a diagnosis; raises `TrainperfError` if the file does not hold one.

    Sequences inside free-form values (`Finding.data`) come back as lists.
    """
    from trainperf.model import Diagnosis

    return load_value(path, Diagnosis)


def save_recording(recording: Recording, path: Path) -> None:
    """Write a recording as JSON: whole, or not at all.

    In events, NaN and infinity (a loss may be either) become null; elsewhere
    they raise `TrainperfError`, as in `save`.
    """
    saved = _SavedRecording(FORMAT_VERSION, recording)
    _write(path, _cleaned(saved, _null_in_events))


def load_recording(path: Path) -> Recording:
    """Read a recording; raises `TrainperfError` if the file does not hold one."""
    return load_value(path, _SavedRecording).recording


def save_value(value: object, path: Path) -> None:
    """Write a value with a `format_version` as JSON: whole, or not at all; errors as in `save`."""
    _write(path, plain(value, _refuse))


def resolve_run(path: Path) -> Path:
    """Return the file of a saved diagnosis, given that file or the folder of its run.

    Raises `TrainperfError` if there is none.
    """
    if path.is_file():
        return path
    if not path.exists():
        raise TrainperfError(f"{path} does not exist", "give a run's folder or its JSON file")
    file = path / DIAGNOSIS_FILE
    if file.is_file():
        return file
    runs = diagnoses(path)
    hint = "give the folder that `trainperf diagnose` named at its end, or a file of --json"
    if runs:
        hint = f"the last of the runs in it is {runs[-1].parent}"
    raise TrainperfError(f"{path} holds no {DIAGNOSIS_FILE}", hint)


def diagnoses(folder: Path) -> list[Path]:
    """The files of the diagnoses in the folders of runs within `folder`, the latest last."""
    return sorted(folder.glob(f"*/{DIAGNOSIS_FILE}"), key=lambda each: each.stat().st_mtime)


# ------------------------------------------------------------------------------ values


def _refuse(value: float, field: str) -> None:
    raise TrainperfError(
        f"{field} is {value}, which JSON cannot hold",
        "this is an error in trainperf: please report it with this line",
    )


def _null_in_events(value: float, field: str) -> None:
    if not field.startswith("recording.events."):
        _refuse(value, field)


def plain(value: object, not_finite: Callable[[float, str], None]) -> Any:
    """Return a value of the model as JSON can hold it.

    Numbers that are not finite are None, after `not_finite` was told of them and their field.
    """
    from trainperf.model.encoding import encoded

    return _cleaned(encoded(value), not_finite)


def _cleaned(value: object, not_finite: Callable[[float, str], None]) -> Any:
    import msgspec  # nothing of it is wanted before the script starts

    def clean(node: Any, field: str) -> Any:
        if isinstance(node, dict):
            at = f"{field}." if field else ""
            return {_text(key): clean(each, f"{at}{key}") for key, each in node.items()}
        if isinstance(node, list | tuple):
            return [clean(each, f"{field}[{index}]") for index, each in enumerate(node)]
        if isinstance(node, str):
            return _text(node)
        if isinstance(node, float) and not math.isfinite(node):
            not_finite(node, field)
            return None
        return node

    try:
        return clean(msgspec.to_builtins(value, str_keys=True), "")
    except (TypeError, msgspec.MsgspecError) as error:
        raise TrainperfError(
            f"a value cannot be written as JSON: {error}",
            "this is an error in trainperf: please report it with this line",
        ) from error


def _text(value: str) -> str:
    """Return `value` with what UTF-8 cannot hold (bytes of odd file names) escaped."""
    return value.encode("utf-8", "backslashreplace").decode()


# ------------------------------------------------------------------------------- files


def write_whole(path: Path, data: bytes) -> None:
    """Write `data` as the file `path`: all of it, or the file stays as it was.

    Links are followed, devices and pipes written into. A new file is the user's alone to read: a
    report quotes the script and what it printed. Raises `OSError`.
    """
    real = Path(os.path.realpath(path))
    if real.exists() and not real.is_file():  # /dev/stdout, a named pipe
        real.write_bytes(data)
        return
    there = real.stat() if real.exists() else None
    mode = stat.S_IMODE(there.st_mode) if there else 0o600
    part = real.with_name(f".{real.name}.{os.urandom(8).hex()}.part")
    made = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    try:
        with open(made, "wb") as file:
            file.write(data)
            if there is not None:
                with suppress(OSError):  # of another user
                    os.fchown(made, there.st_uid, there.st_gid)
                os.fchmod(made, mode)
        os.replace(part, real)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _write(path: Path, value: object) -> None:
    import msgspec

    data = msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n"
    try:
        Path(os.path.realpath(path)).parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, data)
    except OSError as error:
        hint = "free some space, or choose another place with --output-dir or --json"
        raise TrainperfError(f"{path} cannot be written: {error.strerror}", hint) from error


def load_value(path: Path, kind: type[T]) -> T:
    """Read a value of `kind`; raises `TrainperfError` if the file does not hold one."""
    try:
        data = bounded.read(path, LARGEST)
    except OSError as error:
        raise TrainperfError(
            f"{path} cannot be read: {error.strerror}", "give a run's folder or its JSON file"
        ) from error
    import msgspec

    from trainperf.model.encoding import decoded

    hint = "give a file that trainperf wrote, whole"
    try:
        head = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise TrainperfError(f"{path} is no JSON, or was cut short: {error}", hint) from error
    version = head.get("format_version") if isinstance(head, dict) else None
    if version is None:
        raise TrainperfError(f"{path} was not written by trainperf", hint)
    if version != FORMAT_VERSION:
        raise TrainperfError(
            f"{path} has format {version}; this trainperf reads format {FORMAT_VERSION}",
            f"use the trainperf that wrote it ({head.get('trainperf_version', 'not named')}), "
            "or diagnose again",
        )
    try:
        value: T = decoded(kind, head)
    except msgspec.ValidationError as error:
        raise TrainperfError(f"{path} does not hold what it should: {error}", hint) from error
    return value
