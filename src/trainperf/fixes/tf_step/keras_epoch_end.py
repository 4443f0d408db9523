"""Long pauses between epochs."""

from __future__ import annotations

from dataclasses import dataclass, replace

from trainperf.fixes import Fix
from trainperf.fixes.common.cases import SITE, evidence
from trainperf.fixes.common.words import ms, percent, worth
from trainperf.model import BetweenEpochs, Equivalence, Evidence, Finding, Loop, StartUp

LEAST_SHARE = 0.10
"""Share of an epoch from which a pause for callbacks or a restart is told."""

VALIDATION_SHARE = 0.25
"""The same for validation: a fifth of the data, without the backward pass, costs less."""

LEAST_SECONDS = 0.5
"""Shorter pauses belong to toy epochs ..."""

MOST_SHARE = 0.5
"""... unless they take more than half of all time."""

REPEAT_IN_FIT = "model.fit(dataset.repeat(), steps_per_epoch=steps, epochs=epochs)"

REPEAT_IN_LOOP = """\
batches = iter(dataset.repeat())  # under a strategy: repeat, then distribute
for epoch in range(epochs):
    for _ in range(steps):
        train_step(*next(batches))
"""

SHORT_EPOCHS = Loop("fit", where=SITE, batch_size=32, epochs=50, epoch_steps=100)


@dataclass(frozen=True)
class _Part:
    name: str
    seconds: float
    advice: str
    snippet: str


class ShorterEpochEnd(Fix):
    """Shorten what happens between epochs.

    ## Why it is slow
    Between two epochs the model stands still while validation runs, callbacks write
    checkpoints, and the input pipeline starts anew: files are opened, the shuffle
    buffer is filled, worker processes are started. With short epochs this adds up.

    ## What changes
    Validation every few epochs (`validation_freq`), fewer or smaller checkpoints, a
    smaller shuffle buffer, `cache()`, or longer epochs: there is less of it. Each step
    stays as it is; what is observed and when changes.

    ## When not to
    - Early stopping and schedules that follow validation need it often enough.
    - Checkpoints guard against losing work: keep as many as the run's length asks for.
    """

    category = "host"
    concerns = "epoch end"
    counted = True
    equivalence = Equivalence.SEMANTICS

    silent = [
        evidence(),
        # an ordinary validation set
        evidence(between_epochs=BetweenEpochs(11.0, 1, 1000, validation_s=10.5)),
        # short against the epoch
        evidence(between_epochs=BetweenEpochs(4.0, 1, 1000, callbacks_s=4.0)),
        # a toy: a long share, but of nothing
        evidence(
            real=0.005,
            resident=0.0049,
            input=0.001,
            loop=SHORT_EPOCHS,
            between_epochs=BetweenEpochs(0.3, 1, 100, restart_s=0.3),
        ),
        # the first validation, most of which is tracing
        evidence(
            loop=SHORT_EPOCHS,
            startup=StartUp(9.0, tracing_s=4.0),
            between_epochs=BetweenEpochs(6.0, 1, 100, validation_s=5.5),
        ),
        # it is not known how long an epoch is
        evidence(
            loop=Loop("fit", where=SITE), between_epochs=BetweenEpochs(40.0, 1, restart_s=40.0)
        ),
        # only one epoch: nothing comes between
        evidence(
            loop=Loop("fit", where=SITE, epochs=1, epoch_steps=100),
            between_epochs=BetweenEpochs(40.0, 1, 100, restart_s=40.0),
        ),
    ]
    fires = [
        evidence(loop=SHORT_EPOCHS, between_epochs=BetweenEpochs(8.0, 1, 100, restart_s=7.5)),
        evidence(
            loop=SHORT_EPOCHS,
            between_epochs=BetweenEpochs(
                20.0, 2, 100, validation_s=12.0, callbacks_s=5.0, restart_s=3.0
            ),
        ),
        # short epochs of which most is the opening of the next: a strategy's iterators
        evidence(
            real=0.0034,
            resident=0.0016,
            input=0.002,
            loop=Loop("iterator", where=SITE, batch_size=128),
            between_epochs=BetweenEpochs(0.388, 11, 16, restart_s=0.388),
        ),
        # nothing was told apart
        evidence(loop=SHORT_EPOCHS, between_epochs=BetweenEpochs(8.0, 2, 100)),
    ]

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find pauses that are a large share of an epoch, each part by its own line."""
        pause = evidence.between_epochs
        if pause is None or not pause.sure or evidence.loop.epochs == 1:
            return None
        steps = pause.epoch_steps or evidence.loop.epoch_steps
        if not steps:
            return None
        pause = _without_tracing(pause, evidence)
        epoch_s = steps * evidence.times.real + pause.seconds
        parts = _long_parts(pause, epoch_s, evidence.loop.kind)
        avoidable = min(pause.seconds, sum(part.seconds for part in parts))
        if not parts or (avoidable < LEAST_SECONDS and avoidable < MOST_SHARE * epoch_s):
            return None
        bound = epoch_s / (epoch_s - avoidable)
        if not worth(evidence, bound):
            return None
        parts.sort(key=lambda part: -part.seconds)
        named = ", ".join(f"{part.name} {ms(part.seconds)}" for part in parts)
        once = " Seen once: the first time may be longer." if pause.epochs_seen < 2 else ""
        where = evidence.loop.where
        return self.finding(
            title=f"{percent(avoidable / epoch_s)} of the time passes between epochs",
            text=f"After each epoch of {steps} steps ({ms(epoch_s - pause.seconds)}), training "
            f"stands still for {ms(pause.seconds)}: {named}.{once}",
            bound=bound,
            bound_basis="the pause against the length of an epoch",
            where=(where,) if where else (),
            advice=" ".join(part.advice for part in parts if part.advice),
            snippet=parts[0].snippet,
        )


def _without_tracing(pause: BetweenEpochs, evidence: Evidence) -> BetweenEpochs:
    """Take tracing out of a validation that was seen once: it comes only the first time.

    The step of validation takes at most as long to trace as that of training.
    """
    tracing = evidence.startup.tracing_s if evidence.startup else None
    if pause.epochs_seen > 1 or pause.validation_s is None or tracing is None:
        return pause
    once = min(tracing, pause.validation_s)
    return replace(pause, seconds=pause.seconds - once, validation_s=pause.validation_s - once)


def _long_parts(pause: BetweenEpochs, epoch_s: float, loop: str) -> list[_Part]:
    """The parts of the pause that are long against the epoch."""
    parts = []
    if pause.validation_s is not None and pause.validation_s >= VALIDATION_SHARE * epoch_s:
        parts.append(
            _Part(
                "validation",
                pause.validation_s,
                "Validate every few epochs, or on fewer steps.",
                "model.fit(..., validation_freq=5)",
            )
        )
    if pause.callbacks_s is not None and pause.callbacks_s >= LEAST_SHARE * epoch_s:
        parts.append(
            _Part(
                "callbacks",
                pause.callbacks_s,
                "Save less often, or only the best weights.",
                'keras.callbacks.ModelCheckpoint("best.weights.h5", save_best_only=True, '
                "save_weights_only=True)",
            )
        )
    if pause.restart_s is not None and pause.restart_s >= LEAST_SHARE * epoch_s:
        parts.append(
            _Part(
                "restart of the input",
                pause.restart_s,
                "Repeat the dataset inside one iterator, and keep the shuffle buffer small.",
                REPEAT_IN_FIT if loop == "fit" else REPEAT_IN_LOOP,
            )
        )
    known = (pause.validation_s, pause.callbacks_s, pause.restart_s)
    rest = pause.seconds - sum(part for part in known if part is not None)
    if rest >= LEAST_SHARE * epoch_s:
        repeated = any(part.snippet == REPEAT_IN_FIT for part in parts)
        parts.append(_not_told_apart(rest, loop, pause.callbacks_s is None, repeated))
    return parts


def _not_told_apart(seconds: float, loop: str, callbacks: bool, repeated: bool) -> _Part:
    """What is left of the pause; in `fit` it is Keras's, and its callbacks' if not timed."""
    if loop != "fit":
        return _Part("not told apart", seconds, "Look at what the script does between epochs.", "")
    advice = ["Save and log less often."] if callbacks else []
    if not repeated:
        advice.append("Repeat the dataset inside one iterator, so that Keras opens it once.")
    name = "callbacks and Keras's own work" if callbacks else "Keras's own work"
    return _Part(name, seconds, " ".join(advice), REPEAT_IN_FIT)
