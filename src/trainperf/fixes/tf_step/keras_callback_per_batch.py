"""Callbacks that take a noticeable part of every step."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from trainperf.errors import CannotRewrite
from trainperf.fixes import Fix
from trainperf.fixes.common.step import at_most, bound_if_saved
from trainperf.fixes.common.words import (
    SMALLEST_GAIN,
    at,
    make_those_that_can_be,
    ms,
    percent,
    refusal,
    worth,
)
from trainperf.fixes.tf_step._callback_bodies import EVERY, call_seldom, work_last, work_seldom
from trainperf.model import CallbackCost, Equivalence, Evidence, Finding, Site
from trainperf.rewrite import Script

HEAVY = 0.05
"""Share of a step from which a callback is named."""

LIGHT = 0.01
"""Share of a step from which a callback is tried together with others."""

PART_OF_KERAS = frozenset({"History", "ProgbarLogger"})
"""Callbacks that `fit` brings along; nobody asked for them, nobody takes them out."""

EPOCH = '"epoch"'

Place = tuple[Site, dict[str, Any]]

POSITIONS = {"save_freq": 6, "update_freq": 5, "profile_batch": 6}
"""Where these stand among the positional arguments, in Keras 2 and 3 alike."""


class LighterCallback(Fix):
    """Do the work of a callback once per epoch or every 100 batches, not in each.

    ## Why it is slow
    Callbacks run in Python between two steps, and the model waits for them. Writing a
    checkpoint, a TensorBoard record or a log line after each batch can take longer
    than the batch.

    ## What changes
    `ModelCheckpoint(save_freq="epoch")` and `TensorBoard(update_freq="epoch")` write at
    the end of each epoch; a callback of your own works in every 100th batch. Training
    computes the same numbers; there are fewer checkpoints and fewer points in the logs.
    Where each batch overwrites what the one before left, and only an epoch's end reads it, it
    works in the epoch's last batch: nothing changes at all.

    ## When not to
    - Epochs of hours: keep a checkpoint every few thousand batches, so that little is
      lost when the machine stops.
    - A callback that steers the training (a schedule, early stopping) or keeps sums over
      batches: no edit is written for it.
    - On a GPU, part of what a callback takes may be waiting for the step to end, which
      stays when the callback goes.
    """

    category = "host"
    framework = "keras"
    usual = 1.5
    equivalence = Equivalence.SEMANTICS

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find callbacks that take at least `HEAVY` of the step, all in one finding."""
        heavy = _heavy(evidence, HEAVY)
        if not heavy:
            return None
        bound = bound_if_saved(evidence, _taken(heavy))
        return self._finding(evidence, heavy, bound) if worth(evidence, bound) else None

    def possible(self, evidence: Evidence) -> Finding | None:
        """Try callbacks that together take a twentieth of the step, for all the noise allows."""
        heavy = _heavy(evidence, LIGHT)
        left = evidence.times.real - _taken(heavy)
        if not heavy or left <= 0:
            return None
        bound = at_most(evidence, evidence.times.real / left)
        if bound is None or bound <= 1 + SMALLEST_GAIN:
            return None
        return self._finding(evidence, heavy, bound)

    def _finding(self, evidence: Evidence, heavy: list[CallbackCost], bound: float) -> Finding:
        real = evidence.times.real
        every = [place for callback in heavy for place in _places(callback, evidence)]
        places = [place for index, place in enumerate(every) if place not in every[:index]]
        edits = [edit for _, edit in places]
        where = tuple(site for site, _ in places)
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
            rewritable=any(_writable(site, edit) for site, edit in places),
            data={"edits": edits, "callbacks": [callback.name for callback in heavy]},
        )

    def as_written(self, script: Script, finding: Finding) -> Finding:
        """Have a method work in an epoch's last batch, where only that is read: nothing changes."""
        edits = [
            {"last": True} if "every" in edit and _reads_last(script, site) else edit
            for site, edit in zip(finding.where, finding.data["edits"], strict=True)
        ]
        made = [edit for edit in edits if edit]
        if not made or any("last" not in edit for edit in made):
            return finding
        return replace(
            finding,
            equivalence=Equivalence.EXACT,
            advice="Do it once, in the last batch of an epoch: nothing else is read.",
            data={**finding.data, "edits": edits},
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Set `save_freq` or `update_freq` of Keras's callbacks; have others skip batches.

        What can be edited is, unless nothing can.
        """
        places = zip(finding.where, finding.data["edits"], strict=True)
        make_those_that_can_be(
            script,
            (
                partial(_edit, site=site, edit=edit)
                for site, edit in places
                if _writable(site, edit)
            ),
        )


def _heavy(evidence: Evidence, least: float) -> list[CallbackCost]:
    """The user's callbacks that take at least this share of the step, dearest first."""
    found = (
        callback
        for callback in evidence.callbacks
        if callback.name not in PART_OF_KERAS and callback.batch_s >= least * evidence.times.real
    )
    return sorted(found, key=lambda callback: -callback.batch_s)


def _taken(callbacks: list[CallbackCost]) -> float:
    return sum(callback.batch_s for callback in callbacks)


def _places(callback: CallbackCost, evidence: Evidence) -> list[Place]:
    """Where a callback was built, and its own methods that take the time; with the edits."""
    places: list[Place] = []
    seldom = evidence.loop.steps_per_execution > 1
    if callback.where is not None and not (seldom and callback.name == "LambdaCallback"):
        places.append((callback.where, _edits(callback)))
    if seldom:  # the batches told of may skip every 100th
        return places
    least = HEAVY * evidence.times.real
    methods = callback.methods.items()
    slow = [site for name, site in methods if callback.hooks.get(name, least) >= least]
    every = slow or list(callback.methods.values())
    return places + [(site, {"every": EVERY}) for site in dict.fromkeys(every)]


def _edit(script: Script, site: Site, edit: dict[str, Any]) -> None:
    """Make one callback act less often, as its edit says."""
    if "last" in edit:
        work_last(script, site)
    elif "calls" in edit:
        call_seldom(script, site, edit["calls"])
    elif "every" in edit:
        work_seldom(script, site, edit["every"])
    elif "{batch" in script.expression(site):
        raise CannotRewrite("the file name has the batch in it")
    else:
        for name, value in edit.items():
            script.set_keyword(site, name, value, POSITIONS[name])


def _writable(site: Site, edit: dict[str, Any]) -> bool:
    """Whether there is an edit, and its place is known: a method's head is its line."""
    return bool(edit) and (site.exact or "every" in edit or "last" in edit)


def _reads_last(script: Script, site: Site) -> bool:
    return refusal(script, partial(work_last, site=site)) is None


def _edits(callback: CallbackCost) -> dict[str, Any]:
    """The keywords that make a callback of Keras's own act once per epoch."""
    given = callback.arguments
    if callback.name == "LambdaCallback":
        return {"calls": EVERY}
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
    real = evidence.times.real  # a callback's mean is of other steps as well, slower ones perhaps
    parts = [
        f"{callback.name}{_settings(callback)} takes {ms(min(real, callback.batch_s))}"
        for callback in heavy
    ]
    text = f"Of each step of {ms(real)}, {', '.join(parts)}."
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
    if _edits(callback) and callback.name != "LambdaCallback":
        return "Write once per epoch."
    return f"Do the work of {callback.name} once per epoch, or every hundred batches."


def _snippet(callback: CallbackCost) -> str:
    edits = _edits(callback)
    method = next(iter(callback.methods), "on_train_batch_end")
    if "calls" in edits:
        return f"LambdaCallback(on_batch_end=lambda b, logs: None if b % {EVERY} else show(logs))"
    if edits:
        settings = ", ".join(f"{name}={value}" for name, value in edits.items())
        return f"keras.callbacks.{callback.name}(..., {settings})"
    if callback.name == "ModelCheckpoint":
        return 'keras.callbacks.ModelCheckpoint("{epoch:03d}.keras", save_freq="epoch")'
    return f"def {method}(self, batch, logs=None):\n    if batch % {EVERY}:\n        return"
