"""A baseline's file: read with clear errors, written whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path, PurePath

from trainperf import store
from trainperf.check.running import repeat
from trainperf.check.values import Baseline, Repeat
from trainperf.errors import TrainperfError
from trainperf.model import Diagnosis


def load(path: Path, script: str) -> Baseline:
    """Read the baseline of `script`; any saved report will do, as a baseline of one run.

    Raises `TrainperfError` where there is none yet, where the file is not whole, or of a
    newer format, where it is of another script, and where no step was timed for it.
    """
    make = f"trainperf check --save-baseline {path} {script}"
    if not path.exists():
        raise TrainperfError(f"there is no baseline {path} yet", f"this makes one: {make}")
    saved = store.load_value(store.resolve_run(path), Baseline)
    if not _names(saved.script) & _names(script):
        raise TrainperfError(
            f"{path} is a baseline of {saved.script}, not of {script}",
            f"give that of {script}, or make one: {make}",
        )
    if not all(map(_sound, saved.repeats)):
        raise TrainperfError(f"{path} holds figures that no run gives", f"again: {make}")
    if saved.times.real_s is None:
        raise TrainperfError(f"{path} has no time of a step: that run failed", f"again: {make}")
    return saved


def repeats_of(saved: Baseline) -> tuple[Repeat, ...]:
    """The runs that a baseline was made of; of a plain report, the one."""
    return saved.repeats or (repeat(saved),)


def save(diagnosis: Diagnosis, repeats: Sequence[Repeat], path: Path) -> None:
    """Write `diagnosis`, the run that stands for the others, with all runs."""
    values = {one.name: getattr(diagnosis, one.name) for one in fields(Diagnosis)}
    store.save_value(Baseline(**values, repeats=tuple(repeats)), path)


def _sound(run: Repeat) -> bool:
    """Whether a run's figures can be reckoned with: the file may have been edited."""
    speeds = () if run.speed is None else (run.speed.one_s, run.speed.all_s)
    positive = (run.fastest_s, run.mean_s, run.batch_size, *speeds)
    paired = len(run.bounds) in (0, len(run.findings))
    return paired and all(one is None or one > 0 for one in positive)


def _names(script: str) -> set[str]:
    """A script's name wherever it is called from: the last part of its path.

    It may be a command, or a path with spaces in it. Bytes that are no text are as a file
    has them, see `store.save_value`.
    """
    text = script.encode("utf-8", "backslashreplace").decode()
    whole = {PurePath(text).name} if text.endswith(".py") else set()
    return whole | {" ".join(PurePath(word).name for word in text.split())}
