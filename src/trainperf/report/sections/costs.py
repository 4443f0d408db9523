"""Where the time goes: input stages, callbacks, late steps."""

from __future__ import annotations

from collections.abc import Iterator

from trainperf.model import Diagnosis, Site, Stage, known
from trainperf.model import words as units
from trainperf.report.document import SHORT, STEP, Page, Section, Words, say
from trainperf.report.plain import place

INPUT_MATTERS = 0.10
"""Input time, as a share of the real step, from which its stages are worth a table."""

CALLBACK_MATTERS = 0.01
"""Share of a step from which a callback is named."""


def input_stages(diagnosis: Diagnosis, page: Page) -> None:
    """Print the stages of the input pipeline, where the input takes long enough."""
    stages, alone = known(diagnosis.evidence.stages_), diagnosis.input_s
    if not stages or alone is None or alone < INPUT_MATTERS * (diagnosis.step_s or alone + 1):
        return
    timed = [known(stage.seconds_per_step_) for stage in stages]
    total = sum(seconds or 0.0 for seconds in timed)
    page.heading("Input, stage by stage")
    rows: list[list[Words | str]] = []
    for stage, seconds in zip(stages, timed, strict=True):
        share = seconds / total if seconds is not None and total > 0 else None
        function, where = stage.function, stage.where
        if where is None and function is not None and function.file:
            where = Site(function.file, function.line)
        rows.append(
            [
                stage.op,
                "" if function is None else function.name,
                "" if where is None else place(where, diagnosis.cwd),
                "not timed" if seconds is None else units.seconds(seconds),
                "" if share is None else say(units.share(share), SHORT if share >= 0.5 else ""),
                ", ".join(_details(stage)),
            ]
        )
    header = ("stage", "function", "where", "per step", "share", "")
    page.table(rows, header=header, right=(3, 4), elastic=(0, 1, 2, 5))


def _details(stage: Stage) -> Iterator[str]:
    calls = stage.arguments.get("num_parallel_calls", "absent")
    if calls is None:
        yield "run in parallel by tf.data" if stage.parallelised_by_default else "serial"
    elif isinstance(calls, int):
        yield "AUTOTUNE" if calls == -1 else f"{calls} calls in parallel"
    for name in ("batch_size", "buffer_size", "workers"):
        if isinstance(value := stage.arguments.get(name), int):
            yield f"{name.partition('_')[0]} {'AUTOTUNE' if value == -1 else value}"


def callbacks(diagnosis: Diagnosis, page: Page) -> None:
    """Print the callbacks that cost a hundredth of a step or more, or something in an epoch."""
    real = diagnosis.step_s
    rows = [
        [
            callback.name,
            "" if callback.where is None else place(callback.where, diagnosis.cwd),
            units.seconds(callback.batch_s),
            units.share(callback.batch_s / real),
            "" if callback.epoch_s is None else units.seconds(callback.epoch_s),
        ]
        for callback in diagnosis.evidence.callbacks
        if real and (callback.batch_s >= CALLBACK_MATTERS * real or callback.epoch_s)
    ]
    if rows:
        page.heading("Callbacks")
        header = ("callback", "where", "per step", "share", "per epoch")
        page.table(rows, header=header, right=(2, 3, 4), elastic=(0, 1))


def _input(diagnosis: Diagnosis) -> bool:
    return diagnosis.verdict.bottleneck in ("input", "storage") and not diagnosis.findings


SECTIONS = (
    Section("stages", STEP + 150, input_stages, input_stages, _input, side="input"),
    Section("callbacks", STEP + 170, callbacks),
)
