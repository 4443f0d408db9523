"""Where the time goes: input stages, between epochs, callbacks, late steps."""

from __future__ import annotations

from collections.abc import Iterator

from trainperf.model import BetweenEpochs, CallbackCost, Diagnosis, Stage, known
from trainperf.model import words as units
from trainperf.report.document import SHORT, STEP, WARN, Page, Section, Words, say
from trainperf.report.plain import defined, place

INPUT_MATTERS = 0.10
"""Input time, as a share of the real step, from which its stages are worth a table."""

CALLBACK_MATTERS = 0.01
"""Share of the time from which a callback is named."""

REST_MATTERS = 0.10
"""Share of a pause between epochs from which what was not told apart in it is named."""


def input_stages(diagnosis: Diagnosis, page: Page) -> None:
    """Print the stages of the input pipeline, where the input takes long enough."""
    stages = known(diagnosis.evidence.stages_)
    if not stages or diagnosis.input_s is None or diagnosis.step_s is None:
        return
    if diagnosis.input_s < INPUT_MATTERS * diagnosis.step_s:
        return
    timed = [known(stage.seconds_per_step_) for stage in stages]
    total = sum(seconds or 0.0 for seconds in timed)
    page.heading("Input, stage by stage")
    rows: list[list[Words | str]] = []
    for stage, seconds in zip(stages, timed, strict=True):
        share = seconds / total if seconds is not None and total > 0 else None
        function = stage.function
        where = "" if stage.where is None else place(stage.where, diagnosis.cwd)
        rows.append(
            [
                stage.op,
                "" if function is None else function.name,
                where or ("" if function is None else defined(function, diagnosis.cwd)),
                "not timed" if seconds is None else units.seconds(seconds),
                _share(share),
                ", ".join(_details(stage)),
            ]
        )
    page.table(
        rows,
        header=("stage", "function", "where", "per step", "share", ""),
        right=(3, 4),
        elastic=(0, 1, 2, 5),
    )


_OF_LOADERS = ("sampler", "dataset item", "collate", "inter-process copy", "pin")
"""The stages of a PyTorch `DataLoader`; that they are Python goes without saying."""


def _details(stage: Stage) -> Iterator[str]:
    calls = stage.arguments.get("num_parallel_calls", "absent")
    if stage.python and stage.op not in _OF_LOADERS:
        yield "Python"
    elif calls is None and stage.parallelised_by_default:
        yield "run in parallel by tf.data"
    if calls is None and not stage.parallelised_by_default:
        yield "serial"
    elif isinstance(calls, int):
        yield "AUTOTUNE" if calls == -1 else f"{calls} calls in parallel"
    for name in ("batch_size", "buffer_size"):
        if isinstance(value := stage.arguments.get(name), int):
            yield f"{name.partition('_')[0]} {'AUTOTUNE' if value == -1 else value}"
    if isinstance(workers := stage.arguments.get("workers"), int):
        yield "1 worker" if workers == 1 else f"{workers} workers"
    if isinstance(ahead := stage.arguments.get("prefetch_factor"), int):
        yield f"{ahead} batches ahead each"


def between_epochs(diagnosis: Diagnosis, page: Page) -> None:
    """Print what passes between two epochs, and what that is of a whole epoch."""
    between = diagnosis.evidence.between_epochs
    if between is None or not between.epochs_seen:
        return
    page.heading("Between epochs")
    text = units.seconds(between.seconds)
    epoch = _epoch_seconds(diagnosis)
    if epoch is not None:
        text += f", {units.share(between.seconds / epoch)} of the time"
    parts = {
        "validation": between.validation_s,
        "callbacks": between.callbacks_s,
        "restarting the input": between.restart_s,
    }
    known = {name: value for name, value in parts.items() if value is not None}
    rest = between.seconds - sum(known.values())
    if known and rest > REST_MATTERS * between.seconds:
        known[_rest(between, diagnosis)] = rest
    told = [f"{name} {units.seconds(value)}" for name, value in known.items()]
    seen = f"; seen {between.epochs_seen} times" if between.epochs_seen > 1 else "; seen once"
    page.prose(text + (f": {', '.join(told)}" if told else "") + seen, indent=2)


def _rest(between: BetweenEpochs, diagnosis: Diagnosis) -> str:
    """Name what passes between epochs besides what was told apart."""
    if diagnosis.loop is None or diagnosis.loop.kind != "fit":
        return "what the script does there besides"
    return "callbacks and Keras's own work" if between.callbacks_s is None else "Keras's own work"


def callbacks(diagnosis: Diagnosis, page: Page) -> None:
    """Print the callbacks that cost a hundredth of the time or more."""
    rows: list[list[Words | str]] = []
    for callback in diagnosis.evidence.callbacks:
        share = _callback_share(callback, diagnosis)
        if share is None or share < CALLBACK_MATTERS:
            continue
        epoch = callback.epoch_s
        rows.append(
            [
                callback.name,
                "" if callback.where is None else place(callback.where, diagnosis.cwd),
                units.seconds(callback.batch_s),
                "" if epoch is None else units.seconds(epoch),
                _share(share),
            ]
        )
    if rows:
        page.heading("Callbacks")
        page.table(
            rows,
            header=("callback", "where", "per step", "per epoch", "share"),
            right=(2, 3, 4),
            elastic=(0, 1),
        )


def _share(share: float | None) -> Words | str:
    """Write a share; half of the whole and more stands out."""
    if share is None:
        return ""
    return say(units.share(share), SHORT if share >= 0.5 else "")


def _epoch_seconds(diagnosis: Diagnosis) -> float | None:
    """Seconds of one epoch with what follows it; None if its length is not known."""
    between, real = diagnosis.evidence.between_epochs, diagnosis.step_s
    if between is None or between.epoch_steps is None or real is None:
        return None
    return between.epoch_steps * real + between.seconds


def _callback_share(callback: CallbackCost, diagnosis: Diagnosis) -> float | None:
    """Share of the time the callback takes; None where that cannot be said."""
    real = diagnosis.step_s
    if real is None or real <= 0:
        return None
    epoch, between = _epoch_seconds(diagnosis), diagnosis.evidence.between_epochs
    if callback.epoch_s is None or epoch is None or between is None or not between.epoch_steps:
        return min(1.0, callback.batch_s / real)
    return min(1.0, (callback.batch_s * between.epoch_steps + callback.epoch_s) / epoch)


def over_time(diagnosis: Diagnosis, page: Page) -> None:
    """Print how late steps compare with early ones, where they are slower."""
    seen = diagnosis.evidence.over_time
    if seen is None:
        return
    lasted = f"{units.clock(seen.seconds)}, {units.count(seen.steps, 'step')}"
    page.heading(f"Over time (one run: {lasted})")
    taken = f"late {units.seconds(seen.late_s)}, early {units.seconds(seen.early_s)}"
    ratio = units.measured(seen.ratio, seen.low, seen.high)
    page.fact("steps", say(f"{taken}: {ratio} as long", WARN), 8)


def _input(diagnosis: Diagnosis) -> bool:
    return diagnosis.verdict.bottleneck in ("input", "storage") and not diagnosis.findings


SECTIONS = (
    Section("stages", STEP + 150, input_stages, input_stages, _input, side="input"),
    Section("between", STEP + 160, between_epochs),
    Section("callbacks", STEP + 170, callbacks),
    Section("over_time", STEP + 180, over_time, over_time),
)
