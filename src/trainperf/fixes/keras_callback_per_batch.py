"""Callbacks that take a noticeable part of every step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainperf.fixes import Example, Fix
from trainperf.fixes._cases import GPU, OTHER_SITE, SITE, evidence
from trainperf.fixes._step import bound_if_saved
from trainperf.fixes._words import at, ms, percent, worth
from trainperf.model import CallbackCost, Equivalence, Evidence, Finding

if TYPE_CHECKING:
    from trainperf.rewrite import Script

HEAVY = 0.05
"""Share of a step from which a callback is named."""

PART_OF_KERAS = frozenset({"History", "ProgbarLogger"})
"""Callbacks that `fit` brings along; nobody asked for them, nobody takes them out."""

EPOCH = '"epoch"'

POSITIONS = {"save_freq": 6, "update_freq": 5, "profile_batch": 6}
"""Where these stand among the positional arguments, in Keras 2 and 3 alike."""


def _checkpoint(batch_s: float, **arguments: Any) -> CallbackCost:
    arguments.setdefault("filepath", "last.keras")
    return CallbackCost("ModelCheckpoint", batch_s, 30, where=SITE, arguments=arguments)


class LighterCallback(Fix):
    """Do the work of a callback once per epoch instead of in every batch.

    ## Why it is slow
    Callbacks run in Python between two steps, and the model waits for them. Writing a
    checkpoint, a TensorBoard record or a log line after each batch can take longer
    than the batch.

    ## What changes
    `ModelCheckpoint(save_freq="epoch")` and `TensorBoard(update_freq="epoch")` write at
    the end of each epoch. Training computes the same numbers; there are fewer
    checkpoints and fewer points in the logs.

    ## When not to
    - Epochs of hours: keep a checkpoint every few thousand batches, so that little is
      lost when the machine stops.
    - On a GPU, part of what a callback takes may be waiting for the step to end, which
      stays when the callback goes.
    """

    category = "host"
    equivalence = Equivalence.SEMANTICS

    silent = [
        evidence(),
        # light callbacks
        evidence(callbacks=(_checkpoint(0.0, save_freq="epoch"),)),
        evidence(callbacks=(CallbackCost("LossLog", 0.0005, 30, where=SITE),)),
        # seldom enough: 4 % of the step on average
        evidence(callbacks=(_checkpoint(0.004, save_freq=500),)),
        # what Keras itself brings along
        evidence(callbacks=(CallbackCost("ProgbarLogger", 0.02, 30, builtin=True),)),
        # heavy between epochs only
        evidence(callbacks=(CallbackCost("Report", 0.0, 30, epoch_s=4.0, where=SITE),)),
        # overlapped: the loop cannot be faster than its input anyway
        evidence(input=0.099, callbacks=(CallbackCost("Log", 0.02, 30, where=SITE),)),
        evidence(real=None, callbacks=(_checkpoint(0.040, save_freq=1),)),
    ]
    fires = [
        evidence(callbacks=(_checkpoint(0.040, save_freq=1),)),
        evidence(callbacks=(CallbackCost("Histograms", 0.030, 30, where=SITE),)),
        evidence(callbacks=(CallbackCost("Histograms", 0.030, 30),), device=GPU),
        evidence(
            callbacks=(
                CallbackCost("LossLog", 0.020, 30, where=OTHER_SITE),
                CallbackCost(
                    "TensorBoard", 0.040, 30, where=SITE, arguments={"update_freq": "batch"}
                ),
            )
        ),
        evidence(callbacks=(_checkpoint(0.040, save_freq=1, filepath="at-{batch}.keras"),)),
    ]
    examples = [
        Example(
            before="""\
model.fit(x, callbacks=[▸keras.callbacks.ModelCheckpoint("last.keras", save_freq=1)◂])
""",
            after="""\
model.fit(x, callbacks=[keras.callbacks.ModelCheckpoint("last.keras", save_freq="epoch")])
""",
            data={"edits": [{"save_freq": EPOCH}]},
        ),
        Example(
            before="""\
board = ▸keras.callbacks.TensorBoard(
    log_dir="logs",
    update_freq="batch",
)◂
log = ▸LossLog()◂
""",
            after="""\
board = keras.callbacks.TensorBoard(
    log_dir="logs",
    update_freq="epoch",
)
log = LossLog()
""",
            data={"edits": [{"update_freq": EPOCH}, {}]},
        ),
        # a file name with the batch in it has none at the end of an epoch
        Example(
            before='saver = ▸ModelCheckpoint("{batch:05d}.keras", save_freq=1)◂\n',
            after='saver = ModelCheckpoint("{batch:05d}.keras", save_freq=1)\n',
            data={"edits": [{"save_freq": EPOCH}]},
        ),
    ]

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find callbacks that take at least `HEAVY` of the step, all in one finding."""
        real = evidence.times.real
        heavy = sorted(
            (
                callback
                for callback in evidence.callbacks
                if callback.name not in PART_OF_KERAS and callback.batch_s >= HEAVY * real
            ),
            key=lambda callback: -callback.batch_s,
        )
        if not heavy:
            return None
        taken = sum(callback.batch_s for callback in heavy)
        bound = bound_if_saved(evidence, taken)
        if not worth(evidence, bound):
            return None
        built = [callback for callback in heavy if callback.where is not None]
        edits = [_edits(callback) for callback in built]
        where = tuple(callback.where for callback in built if callback.where is not None)
        first = heavy[0]
        place = f" ({at(first.where)})" if first.where else ""
        return self.finding(
            title=f"{first.name}{place} takes {percent(min(1.0, first.batch_s / real))} "
            "of every step",
            text=_text(heavy, evidence),
            bound=bound,
            bound_basis="what the callbacks take" if len(heavy) > 1 else "what the callback takes",
            where=where,
            advice=_advice(first),
            snippet=_snippet(first),
            rewritable=any(edit and site.exact for edit, site in zip(edits, where, strict=True)),
            data={"edits": edits, "callbacks": [callback.name for callback in heavy]},
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Set `save_freq` or `update_freq` where Keras's own callbacks were built."""
        for site, edit in zip(finding.where, finding.data["edits"], strict=True):
            if not edit or not site.exact or "{batch" in script.expression(site):
                continue
            for name, value in edit.items():
                script.set_keyword(site, name, value, POSITIONS[name])


def _edits(callback: CallbackCost) -> dict[str, str]:
    """The keywords that make a callback of Keras's own act once per epoch."""
    given = callback.arguments
    if callback.name == "ModelCheckpoint":
        per_batch = isinstance(given.get("save_freq"), int)
        named_by_batch = "{batch" in str(given.get("filepath", ""))
        return {"save_freq": EPOCH} if per_batch and not named_by_batch else {}
    edits = {}
    if callback.name == "TensorBoard":
        if given.get("update_freq", "epoch") != "epoch":
            edits["update_freq"] = EPOCH
        if given.get("profile_batch"):
            edits["profile_batch"] = "0"
    return edits


def _text(heavy: list[CallbackCost], evidence: Evidence) -> str:
    parts = [
        f"{callback.name}{_settings(callback)} takes {ms(callback.batch_s)}" for callback in heavy
    ]
    text = f"Of each step of {ms(evidence.times.real)}, {', '.join(parts)}."
    if evidence.device.kind == "GPU":
        text += " Some of that may be waiting for the GPU to end the step."
    return text


def _settings(callback: CallbackCost) -> str:
    shown = [
        f"{name}={callback.arguments[name]!r}"
        for name in ("save_freq", "update_freq", "profile_batch")
        if callback.arguments.get(name) not in (None, "epoch", 0)
    ]
    return f" ({', '.join(shown)})" if shown else ""


def _advice(callback: CallbackCost) -> str:
    if callback.name == "ModelCheckpoint" and not _edits(callback):
        return "Save once per epoch: save_freq='epoch', and no {batch} in the file name."
    if _edits(callback):
        return "Write once per epoch."
    return f"Do the work of {callback.name} once per epoch, or every hundred batches."


def _snippet(callback: CallbackCost) -> str:
    edits = _edits(callback)
    if edits:
        settings = ", ".join(f"{name}={value}" for name, value in edits.items())
        return f"keras.callbacks.{callback.name}(..., {settings})"
    if callback.name == "ModelCheckpoint":
        return 'keras.callbacks.ModelCheckpoint("{epoch:03d}.keras", save_freq="epoch")'
    return "def on_train_batch_end(self, batch, logs=None):\n    if batch % 100:\n        return"
