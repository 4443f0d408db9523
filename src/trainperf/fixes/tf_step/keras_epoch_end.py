"""Long pauses between epochs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from trainperf.errors import CannotRewrite
from trainperf.fixes import Fix
from trainperf.fixes.common.keras_source import fit_call
from trainperf.fixes.common.words import SMALLEST_GAIN, ms, percent, worth
from trainperf.model import BetweenEpochs, Equivalence, Evidence, Finding, Missing
from trainperf.rewrite import Script
from trainperf.source.arguments import argument

LEAST_SHARE = 0.10
"""Share of an epoch from which a pause for callbacks or a restart is told."""

LEAST_SECONDS = 0.5
"""Shorter pauses belong to toy epochs ..."""

MOST_SHARE = 0.5
"""... unless they take more than half of all time."""

REPEAT_IN_FIT = """\
model.fit(dataset.repeat().prefetch(tf.data.AUTOTUNE), steps_per_epoch=len(dataset), epochs=epochs)
"""

REPEAT_IN_LOOP = """\
batches = iter(dataset.repeat())  # under a strategy: repeat, then distribute
for epoch in range(epochs):
    for _ in range(steps):
        train_step(*next(batches))
"""

STEPS_PER_EPOCH = 11
"""Its place among the positional arguments of `fit`, in Keras 2 and 3."""


@dataclass(frozen=True)
class _Part:
    name: str
    seconds: float
    advice: str
    snippet: str
    opens: bool = False  # the input, anew for each epoch


class ShorterEpochEnd(Fix):
    """Take one iterator for all epochs, and do less between them.

    ## Why it is slow
    Between two epochs the model stands still while callbacks write checkpoints and the
    input pipeline starts anew: it is built and optimised again, files are opened, the
    shuffle buffer is filled. With short epochs this adds up.

    ## What changes
    `fit(ds.repeat().prefetch(tf.data.AUTOTUNE), steps_per_epoch=len(ds))` opens the input
    once, and reads ahead while validation runs. Epochs have the same elements; where the
    dataset is shuffled or draws random numbers, in another order and other ones.
    Fewer or smaller checkpoints and a smaller shuffle buffer take less time as well.

    ## When not to
    - When the dataset changes from epoch to epoch by what Python sets in between.
    - With `steps_per_execution`, unless it divides the steps of an epoch: Keras would round up.
    - Checkpoints guard against losing work: keep as many as the run's length asks for.
    """

    category = "host"
    concerns = "epoch end"
    counted = True
    usual = 1.2
    between_epochs = True
    equivalence = Equivalence.NUMERICS

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find pauses that are a large share of an epoch, each part by its own line."""
        pause = evidence.between_epochs
        if pause is None or not pause.sure or evidence.loop.epochs == 1:
            return None
        steps = pause.epoch_steps or evidence.loop.epoch_steps
        if not steps:
            return None
        pause = pause.without_tracing(evidence.startup)
        epoch_s = steps * evidence.times.real + pause.seconds
        parts = _long_parts(pause, epoch_s, evidence.loop.kind, _told_elsewhere(evidence))
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
            rewritable=None if any(part.opens for part in parts) and _known(evidence) else False,
            equivalence=_equivalence(evidence),
            data=_data(evidence, pause, steps, epoch_s),
        )

    def possible(self, evidence: Evidence) -> Finding | None:
        """Try one iterator wherever opening one takes a twentieth of an epoch, however short."""
        pause, steps = evidence.between_epochs, evidence.loop.epoch_steps
        if pause is None or not steps or evidence.loop.epochs == 1 or not _known(evidence):
            return None
        pause = pause.without_tracing(evidence.startup)
        opens = pause.seconds - (pause.validation_s or 0.0) - (pause.callbacks_s or 0.0)
        epoch_s = steps * evidence.times.real + pause.seconds
        bound = epoch_s / (epoch_s - opens)
        where = evidence.loop.where
        if bound <= 1 + SMALLEST_GAIN or where is None:
            return None
        return self.finding(
            title="The input is opened anew for every epoch",
            text=f"Keras opens its dataset for each epoch of {steps} steps.",
            bound=bound,
            bound_basis="the pause against the length of an epoch",
            where=(where,),
            advice="Repeat the dataset inside one iterator, so that Keras opens it once.",
            snippet=REPEAT_IN_FIT,
            equivalence=_equivalence(evidence),
            data=_data(evidence, pause, steps, epoch_s),
        )

    def clashes(self, finding: Finding, other: Finding) -> str:
        """With several steps in a call Keras rounds epochs of so many steps up to whole calls."""
        steps, together = finding.data["epoch"]["steps"], other.data.get("steps", 1)
        if other.id != "keras_steps_per_execution" or steps % together == 0:
            return ""
        return f"with {together} steps a call Keras would round epochs of {steps} steps up"

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Repeat the dataset of `fit` within one iterator, in epochs of as many steps."""
        site = finding.where[0]
        call = fit_call(script, site)
        if argument(call, "steps_per_epoch", STEPS_PER_EPOCH) is not None:
            raise CannotRewrite("`fit` is told how many steps an epoch has")
        if finding.data.get("uncounted"):
            raise CannotRewrite("the dataset does not know how many batches it has: `len` fails")
        given = script.argument(site, 0, "x")
        if given is None:
            raise CannotRewrite("`fit` is given no dataset")
        place = 0 if call.args else "x"
        dataset = script.name_argument(given, "train_data", "batches")
        tf = script.module_name(site.file, "tensorflow", site)
        script.wrap_argument(site, place, f"{{}}.repeat().prefetch({tf}.data.AUTOTUNE)")
        script.set_keyword(site, "steps_per_epoch", f"len({dataset})")


def _data(evidence: Evidence, pause: BetweenEpochs, steps: int, epoch_s: float) -> dict[str, Any]:
    """The epoch that trials have to hold whole, and what passes in it that no edit changes.

    "uncounted" says that tf.data does not know the number of batches: of a generator's, say.
    """
    besides = (pause.validation_s or 0.0) + (pause.callbacks_s or 0.0)
    stages = () if isinstance(evidence.stages_, Missing) else evidence.stages_
    uncounted = {"uncounted": True} if stages and stages[-1].cardinality is None else {}
    return {"epoch": {"steps": steps, "seconds": epoch_s, "pause_s": besides}} | uncounted


def _known(evidence: Evidence) -> bool:
    """Whether what `fit` is given is a dataset of a known number of batches."""
    loop = evidence.loop
    plain = loop.kind == "fit" and loop.steps_per_execution == 1
    return plain and loop.input_kind == "tf.data" and bool(loop.epoch_steps)


def _equivalence(evidence: Evidence) -> Equivalence:
    """Return NUMERICS where something is shuffled or random: it takes another order."""
    stages = evidence.stages_
    if isinstance(stages, Missing):
        return Equivalence.NUMERICS
    mixed = any(one.stateful_random or "shuffle" in one.op for one in stages)
    return Equivalence.NUMERICS if mixed else Equivalence.EXACT


def _told_elsewhere(evidence: Evidence) -> float:
    """Seconds after an epoch of what the script itself calls there: no edit of `fit` saves them."""
    turn = evidence.outside_
    if isinstance(turn, Missing) or turn.turn != "epoch":
        return 0.0
    return sum(one.seconds for one in turn.spent if one.what in ("prediction", "saving", "other"))


def _long_parts(pause: BetweenEpochs, epoch_s: float, loop: str, own_s: float) -> list[_Part]:
    """The parts of the pause that are long against the epoch, without `own_s` seconds of it."""
    parts = []
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
                opens=True,
            )
        )
    known = (pause.validation_s, pause.callbacks_s, pause.restart_s)
    rest = pause.seconds - sum(part for part in known if part is not None)
    if pause.callbacks_s is None:
        rest -= own_s
    if rest >= LEAST_SHARE * epoch_s:
        repeated = any(part.snippet == REPEAT_IN_FIT for part in parts)
        parts.append(_not_told_apart(rest, loop, pause.callbacks_s is None, repeated))
    return parts


def _not_told_apart(seconds: float, loop: str, callbacks: bool, repeated: bool) -> _Part:
    """Name the rest of the pause; in `fit` it is Keras's, and its callbacks' if not timed."""
    if loop != "fit":
        return _Part("not told apart", seconds, "Look at what the script does between epochs.", "")
    advice = ["Save and log less often."] if callbacks else []
    if not repeated:
        advice.append("Repeat the dataset inside one iterator, so that Keras opens it once.")
    name = "callbacks and Keras's own work" if callbacks else "Keras's own work"
    return _Part(name, seconds, " ".join(advice), REPEAT_IN_FIT, opens=not repeated)
