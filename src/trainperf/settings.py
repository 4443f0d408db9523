"""The user's settings: pyproject.toml, then the environment, then the flags."""

from __future__ import annotations

import difflib
import math
import os
import re
import tempfile
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

from trainperf.errors import TrainperfError

FailOn = Literal["none", "any"] | float

PREFIX = "TRAINPERF_"
NOT_SETTINGS = frozenset({"run"})
"""Variables of ours that are no settings, in an observed process that starts trainperf."""


LARGEST = 1e15
LONGEST_S = 1e8
"""Three years: what is longer was mistyped, and some clocks cannot count that far."""
_UNITS = {"": 1.0, "ms": 1e-3, "s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


def duration(value: object) -> float:
    """Return seconds for `90`, "90s", "1.5m", "3min", "2h"; raises `ValueError`."""
    text = value if isinstance(value, str) else _number(value)
    match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([a-z]*)\s*", str(text).lower())
    seconds = float(match[1]) * _UNITS.get(match[2], math.nan) if match else math.nan
    if not 0 < seconds <= LONGEST_S:
        raise ValueError("a time above zero is wanted, such as 90, 90s, 1.5m or 3min")
    return seconds


def _fail_on(value: object) -> FailOn:
    """Return what makes the exit status 1: "none", "any" or a speed-up; raises `ValueError`."""
    if isinstance(value, str) and value in ("none", "any", "finding"):
        return "none" if value == "none" else "any"
    if (bound := _number(value)) >= 1:
        return bound
    raise ValueError('"finding" (any finding), "none", or a speed-up such as 1.2 is wanted')


def _number(value: object) -> float:
    """A number, or what a text says as one; NaN for all else."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return math.nan
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return math.nan
    return number if abs(number) <= LARGEST else math.nan


def _flag(value: object) -> bool:
    if isinstance(value, bool):
        return value
    words = {"1": True, "true": True, "yes": True, "on": True}
    words |= {"0": False, "false": False, "no": False, "off": False}
    if isinstance(value, str) and value.lower() in words:
        return words[value.lower()]
    raise ValueError("true or false is wanted")


def _path(value: object) -> Path:
    if isinstance(value, Path) or (isinstance(value, str) and value):
        return Path(value)
    raise ValueError("a path is wanted")


def ids_of(value: object) -> tuple[str, ...]:
    """The ids in a text with commas between them, or in several; `ValueError` for all else."""
    given = value if isinstance(value, list | tuple) else [value]
    texts = [text for text in given if isinstance(text, str)]
    if len(texts) == len(given):
        ids = (part.strip().replace("-", "_") for text in texts for part in text.split(","))
        return tuple(dict.fromkeys(id_ for id_ in ids if id_))
    raise ValueError("a list of fix ids is wanted; `trainperf explain` lists them")


def _price(value: object) -> float:
    if (price := _number(value)) > 0:
        return price
    raise ValueError("US dollars an hour for one host are wanted, such as 1.21")


def _formats(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",") if part.strip()]
    if isinstance(value, list | tuple) and all(isinstance(each, str) and each for each in value):
        return tuple(dict.fromkeys(value))
    raise ValueError('formats are wanted, such as "html=report.html" or "terminal"')


def default_output_dir() -> Path:
    """Where runs are kept: the user's cache, or a folder of theirs in /tmp without one."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "trainperf" / "runs"
    existing = next(one for one in (folder, *folder.parents) if one.exists())
    if os.access(existing, os.W_OK):
        return folder
    return Path(tempfile.gettempdir()) / f"trainperf-{os.getuid()}" / "runs"


@dataclass(frozen=True)
class Settings:
    """The settings of one diagnosis; times in seconds.

    `budget_s` is what the whole diagnosis may take, `measure_s` at most the three times of
    it and `extra_s` the stages and probes, None for as long as the budget lets them;
    `stall_s` how long the script may show no sign of progress. `full_run_s` is what plain runs of
    the whole script, with and without the patch, may take beyond the budget. `trials` says
    whether the fixes are tried on the script, `sequential` that it be in fresh processes one after
    another, `allow_semantic` that those that change the experiment may be kept; `only` are
    the ids of those to try, all if it is empty. `fail_on` is "none", "any" (any finding) or
    the speed-up from which a finding makes the exit status 1. `ignore` are ids of fixes not
    to report. `run_dir` is where the ranks of a job leave their records, None for a folder
    of `output_dir` with the job's own name. `trace` is where a trace of a few steps goes.
    `price_per_hour` is what the machine costs, US dollars for one host. `output_format` are
    the formats of the report, each with the file it goes to behind a "=", or without. `python` is
    the interpreter that runs the script, or the folder of its environment.
    """

    budget_s: Annotated[float, duration] = 180.0
    measure_s: Annotated[float | None, duration] = None
    extra_s: Annotated[float | None, duration] = None
    stall_s: Annotated[float, duration] = 300.0
    full_run_s: Annotated[float, duration] = 0.0
    trials: Annotated[bool, _flag] = True
    sequential: Annotated[bool, _flag] = False
    allow_semantic: Annotated[bool, _flag] = False
    quiet: Annotated[bool, _flag] = False
    full: Annotated[bool, _flag] = False
    output_dir: Annotated[Path, _path] = field(default_factory=default_output_dir)
    run_dir: Annotated[Path | None, _path] = None
    json: Annotated[Path | None, _path] = None
    patch: Annotated[Path | None, _path] = None
    trace: Annotated[Path | None, _path] = None
    fail_on: Annotated[FailOn, _fail_on] = "none"
    ignore: Annotated[tuple[str, ...], ids_of] = ()
    only: Annotated[tuple[str, ...], ids_of] = ()
    price_per_hour: Annotated[float | None, _price] = None
    output_format: Annotated[tuple[str, ...], _formats] = ()
    python: Annotated[Path | None, _path] = None


_SETTINGS = {
    name.removesuffix("_s"): (name, kind.__metadata__[0])
    for name, kind in get_type_hints(Settings, include_extras=True).items()
}
"""By the names that they are given by: a field, and what reads its value."""


def load_settings(
    start: Path, env: Mapping[str, str], flags: Mapping[str, object] | None = None
) -> Settings:
    """Return the settings for a script or folder at `start`; later sources win.

    Keys are the names of the fields in kebab or snake case, times without `_s`:
    `output-dir`, `budget`. Read from `[tool.trainperf]` of the nearest pyproject.toml
    that has it (relative paths are relative to that file), from `TRAINPERF_*`, and from
    `flags`, where None means not given. Raises `TrainperfError` for an unknown key or a
    wrong value; of the environment's unknown variables only those that look like a
    setting mistyped.
    """
    settings = Settings()
    found = _pyproject(start)
    if found:
        path, table = found
        settings = _merged(settings, table, f"{path}, [tool.trainperf]", path.parent)
    settings = _merged(settings, _variables(env), "the environment", None)
    given = {key: value for key, value in (flags or {}).items() if value is not None}
    return _merged(settings, given, "the command line", None)


def _pyproject(start: Path) -> tuple[Path, Mapping[str, object]] | None:
    for folder in (start, *start.absolute().parents):
        path = folder / "pyproject.toml"
        if not path.is_file():
            continue
        try:
            tool = tomllib.loads(path.read_text(encoding="utf-8")).get("tool", {})
        except (ValueError, RecursionError, OSError) as error:
            raise TrainperfError(f"{path} cannot be read: {error}", "repair the file") from error
        table = tool.get("trainperf") if isinstance(tool, dict) else None
        if isinstance(table, dict):
            return path, table
        if table is not None:
            raise TrainperfError(f"{path}: tool.trainperf is not a table", "write [tool.trainperf]")
    return None


def _variables(env: Mapping[str, str]) -> dict[str, object]:
    given: dict[str, object] = {}
    for variable, text in env.items():
        key = variable.removeprefix(PREFIX).lower()
        known = key in _SETTINGS or bool(difflib.get_close_matches(key, _SETTINGS))
        if variable.startswith(PREFIX) and known and text and key not in NOT_SETTINGS:
            given[key] = text
    return given


def _merged(
    settings: Settings, given: Mapping[str, object], place: str, base: Path | None
) -> Settings:
    changes: dict[str, Any] = {}
    for key, value in given.items():
        name = key.replace("-", "_")
        name = name if name in _SETTINGS else name.removesuffix("_s")
        if name not in _SETTINGS:
            raise TrainperfError(f"{place}: there is no setting {key!r}", _suggestion(name))
        field_name, reader = _SETTINGS[name]
        try:
            read = reader(value)
        except ValueError as error:
            raise TrainperfError(f"{place}: {key} = {value!r} is wrong", str(error)) from error
        changes[field_name] = read if base is None else _below(base, name, read)
    return replace(settings, **changes)


def _below(base: Path, name: str, read: object) -> object:
    if name == "output_format" and isinstance(read, tuple):
        parts = (each.partition("=") for each in read)
        return tuple(f"{form}={base / file}" if file else form for form, _, file in parts)
    return base / read if isinstance(read, Path) else read


def _suggestion(name: str) -> str:
    close = difflib.get_close_matches(name, _SETTINGS, n=1)
    choices = close or sorted(_SETTINGS)
    names = ", ".join(choice.replace("_", "-") for choice in choices)
    return f"did you mean {names}?" if close else f"the settings are {names}"
