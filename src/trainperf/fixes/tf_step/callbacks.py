"""Callbacks that take a noticeable part of every step, and how one does its work less often."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from itertools import takewhile
from typing import Any

from trainperf.errors import CannotRewrite
from trainperf.fixes import Fix
from trainperf.fixes.cause import Cause, Saving
from trainperf.fixes.common.repeating import without_docstring
from trainperf.fixes.common.words import at, make_those_that_can_be, ms, percent, refusal
from trainperf.fixes.tf_step.advice import copying
from trainperf.model import CallbackCost, Equivalence, Evidence, Finding, Site
from trainperf.rewrite import Script
from trainperf.source.effects import effects
from trainperf.source.iterations import stored
from trainperf.source.module import Module
from trainperf.source.statements import (
    COLLECTS,
    Function,
    assigned,
    called,
    dotted,
    names_in,
    parameters,
    root,
    walk,
)

HEAVY = 0.05
"""Share of a step from which a callback is named."""

LIGHT = 0.01
"""Share of a step from which a callback is tried together with others."""

EVERY = 100
"""Batches between two times that a callback of the user's own still does its work."""

PART_OF_KERAS = frozenset({"History", "ProgbarLogger"})
"""Callbacks that `fit` brings along; nobody asked for them, nobody takes them out."""

EPOCH = '"epoch"'

Place = tuple[Site, dict[str, Any]]

POSITIONS = {"save_freq": 6, "update_freq": 5, "profile_batch": 6}
"""Where these stand among the positional arguments."""


class KerasCallbackPerBatch(Fix):
    """Do the work of a callback once per epoch or every 100 batches, not in each.

    Why slow: Callbacks run in Python between two steps, and the model waits for them. Writing a
    checkpoint, a TensorBoard record or a log line after each batch can take longer than it.
    Changes: `ModelCheckpoint(save_freq="epoch")` and `TensorBoard(update_freq="epoch")` write at
    the end of each epoch; a callback of your own works in every 100th batch. Training computes the
    same numbers; there are fewer checkpoints and fewer points in the logs. Where each batch
    overwrites what the one before left, and only an epoch's end reads it, it works in the epoch's
    last batch: nothing changes at all.
    When not:
    - Epochs of hours: keep a checkpoint every few thousand batches, so that little is lost.
    - A callback that steers the training (a schedule, early stopping) or keeps sums over batches:
      no edit is written for it.
    - On a GPU, part of what a callback takes may be waiting for the step to end, which stays.
    """

    framework = "keras"
    usual = 1.5
    equivalence = Equivalence.SEMANTICS

    def look(self, evidence: Evidence) -> Cause | None:
        """Find the user's callbacks that take a part of each step."""
        real = evidence.times.real
        told = [cost for cost, _ in copying(evidence)]  # by `keras_weight_copies`
        own = [c for c in evidence.callbacks if c.name not in PART_OF_KERAS and c not in told]
        heavy = [callback for callback in own if callback.batch_s >= HEAVY * real]
        light = [callback for callback in own if callback.batch_s >= LIGHT * real]
        costly = sorted(heavy or light, key=lambda callback: -callback.batch_s)
        if not costly:
            return None
        every = [place for callback in costly for place in _places(callback, evidence)]
        places = [place for index, place in enumerate(every) if place not in every[:index]]
        first = costly[0]
        place = f" ({at(first.where)})" if first.where else ""
        parts = [  # a callback's mean is of other steps as well, slower ones perhaps
            f"{callback.name}{_settings(callback)} takes {ms(min(real, callback.batch_s))}"
            for callback in costly
        ]
        waits = " Some of that may be waiting for the GPU to end the step."
        return Cause(
            title=f"{first.name}{place} takes {percent(min(1.0, first.batch_s / real))} "
            "of every step",
            text=f"Of each step of {ms(real)}, {', '.join(parts)}."
            f"{waits if evidence.device.kind == 'GPU' else ''}",
            saves=Saving("what they take", sum(callback.batch_s for callback in costly)),
            where=tuple(site for site, _ in places),
            advice="Save once per epoch, with no {batch} in the file name."
            if first.name == "ModelCheckpoint"
            else "",
            snippet=_snippet(first),
            sure=bool(heavy),
            rewritable=any(_writable(site, edit) for site, edit in places),
            data={
                "edits": [edit for _, edit in places],
                "callbacks": [callback.name for callback in costly],
            },
        )

    def as_written(self, script: Script, finding: Finding) -> Finding:
        """Have a method work in an epoch's last batch, where only that is read: nothing changes."""
        edits = [
            {"last": True}
            if "every" in edit and refusal(script, partial(work_last, site=site)) is None
            else edit
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


def _places(callback: CallbackCost, evidence: Evidence) -> list[Place]:
    """Where a callback was built, and its own methods that take the time; with the edits."""
    places: list[Place] = []
    if callback.where is not None:
        places.append((callback.where, _edits(callback)))
    if evidence.loop.steps_per_execution > 1:  # the batches told of may skip every 100th
        return places
    least = HEAVY * evidence.times.real
    methods = callback.methods.items()
    slow = [site for name, site in methods if callback.hooks.get(name, least) >= least]
    heads = dict.fromkeys(slow or callback.methods.values())
    return places + [(site, {"every": EVERY}) for site in heads]


def _edits(callback: CallbackCost) -> dict[str, Any]:
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


def _writable(site: Site, edit: dict[str, Any]) -> bool:
    """Whether there is an edit, and its place is known: a method's head is its line."""
    return bool(edit) and (site.exact or "every" in edit or "last" in edit)


def _settings(callback: CallbackCost) -> str:
    shown = [
        f"{name}={callback.arguments[name]!r}"
        for name in POSITIONS
        if callback.arguments.get(name) not in (None, "epoch", 0)
    ]
    return f" ({', '.join(shown)})" if shown else ""


def _snippet(callback: CallbackCost) -> str:
    saver = {"save_freq": EPOCH} if callback.name == "ModelCheckpoint" else {}
    edits = _edits(callback) or saver
    if edits:
        settings = ", ".join(f"{name}={value}" for name, value in edits.items())
        return f"keras.callbacks.{callback.name}(..., {settings})"
    method = next(iter(callback.methods), "on_train_batch_end")
    return f"def {method}(self, batch, logs=None):\n    if batch % {EVERY}:\n        return"


# ------------------------------------------------------------------- edits

COMMENT = "# trainperf: works in every {}th batch only, as it takes long against a step"

LAST = "# trainperf: only what the last batch of an epoch leaves is read"


def _edit(script: Script, site: Site, edit: dict[str, Any]) -> None:
    """Make one callback act less often, as its edit says."""
    if "last" in edit:
        work_last(script, site)
    elif "every" in edit:
        _guard(script, site, edit["every"])
    elif "{batch" in script.expression(site):
        raise CannotRewrite("the file name has the batch in it")
    else:
        for name, value in edit.items():
            script.set_keyword(site, name, value, POSITIONS[name])


def work_last(script: Script, site: Site) -> None:
    """Have the method whose head is at `site` work in the last batch of an epoch only.

    Where Keras does not know how many batches an epoch has, it works in each as before. Raises
    `CannotRewrite` where more of its work is read than what the last batch leaves.
    """
    method = script.definition(site)
    if more := _read_earlier(script.source(site.file).module, method):
        raise CannotRewrite(f"{method.name}: {more}")
    itself, batch, *_ = parameters(method)
    steps = f'{itself}.params["steps"]'
    script.insert_first(site, f"{LAST}\nif {steps} and {batch} + 1 < {steps}:\n    return")


def _guard(script: Script, site: Site, every: int) -> None:
    """Have a method return at once but in every so many batches, behind what keeps count."""
    method = script.definition(site)
    if more := does_more(script.source(site.file).module, method):
        raise CannotRewrite(f"{method.name} does more than observe: {more}")
    guard = f"{COMMENT.format(every)}\nif {parameters(method)[1]} % {every}:\n    return"
    script.insert_first(site, guard, after=_counting(without_docstring(method)))


def does_more(module: Module, method: Function) -> str:
    """Say what a method does beside observing, behind what keeps count; '' if nothing is seen."""
    if method.decorator_list or len(parameters(method)) < 2:
        return "it is no plain method, or does not name the batch"
    body = without_docstring(method)
    rest = body[_counting(body) :]
    if not rest:
        return "it only keeps count"
    for node in walk(body):
        text = isinstance(node, ast.BinOp) and isinstance(node.left, ast.Constant | ast.JoinedStr)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and not text:
            return f"it chooses its batches itself: {ast.unparse(node)}"
    return _changes(module, rest)


# ------------------------------------------------------------------- what a method does

ENDS = ("on_batch_end", "on_train_batch_end")

READS_LATE = ("on_epoch_end", "on_train_end")
"""Methods that are called when an epoch, or all of them, have ended."""

PLAIN = frozenset({"float", "int", "len", "get", "item", "numpy"})
"""Functions and methods that cost nothing, as a counter or a list of losses needs them."""

SHOWS = re.compile(r"save|dump|write|plot|draw|show|print|log|summary", re.IGNORECASE)
"""Names of functions that may be given the model and leave it as it is."""

MODELS = {"model", "self.model", "self.model.weights", "self.model.optimizer"}


def _read_earlier(module: Module, method: Function) -> str:
    """Say what of a method's work may be seen before its epoch ends; '' if nothing.

    Its attributes may be set, each anew in every batch, and read where an epoch has ended.
    """
    if method.name not in ENDS or method.decorator_list or len(parameters(method)) < 2:
        return "it is no plain method"
    itself, *given = parameters(method)
    body = without_docstring(method)
    if any(names_in(statement) & set(given) for statement in body):
        return "it uses the batch's number or logs"
    kept = {
        target.attr
        for statement in body
        if isinstance(statement, ast.Assign)
        for target in assigned(statement)
        if isinstance(target, ast.Attribute) and dotted(target) == f"{itself}.{target.attr}"
    }
    if not kept:
        return "it keeps nothing"
    if more := _changes(module, body, {f"{itself}.{name}" for name in kept}):
        return f"it does more than observe: {more}"
    for effect in effects(module, body):
        shows = isinstance(effect.node, ast.Call) and SHOWS.search(called(effect.node))
        if shows or (effect.kind in ("draws", "writes") and not effect.own):
            return f"it may draw random numbers, or writes: {effect.text}"
    for node in module.nodes:
        if isinstance(node, ast.Attribute) and node.attr in kept and isinstance(node.ctx, ast.Load):
            around = list(module.around(node))
            late = any(isinstance(n, Function) and n.name in READS_LATE for n in around)
            if any(isinstance(n, ast.ClassDef) for n in around) and not late:
                return f"{node.attr} is read in every batch, or elsewhere"
    return ""


def _changes(module: Module, statements: Sequence[ast.stmt], kept: Collection[str] = ()) -> str:
    """Say what some statements change beside the attributes `kept`; '' if nothing."""
    for effect in effects(module, statements):
        name = effect.source.removesuffix("()")
        if effect.kind in ("sets", "fills") and not effect.own:
            if not any(re.match(rf"{re.escape(its)}(\.|\[|$)", name) for its in kept):
                place = f", in {effect.within}()" if effect.within else ""
                return f"it changes {name}{place} in every batch"
        elif effect.kind in ("ends", "steers"):
            return f"it has {effect.text}"
        elif effect.kind in ("unknown", "asks", "draws"):
            given = {dotted(value) for value in effect.given}
            if MODELS & given and not SHOWS.search(effect.source.rpartition(".")[2]):
                return f"it gives the model to {effect.text}"
    return ""


def _counting(body: Sequence[ast.stmt]) -> int:
    """How many statements that keep count a body begins with, with the names they need."""
    counting = list(takewhile(_keeps_count, body))
    while counting and stored(counting[-1:]):
        counting.pop()
    return len(counting)


def _keeps_count(statement: ast.stmt) -> bool:
    """Whether a statement only counts, collects (`self.seen += 1`), or names something for that."""
    calls = [node for node in ast.walk(statement) if isinstance(node, ast.Call)]
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        adds = calls.pop(0)
        if called(adds) not in COLLECTS or root(adds.func) != "self":
            return False
    elif not isinstance(statement, ast.Assign | ast.AugAssign):
        return False
    deep = any(ast.unparse(target).count(".") > 1 for target in assigned(statement))
    return not deep and all(called(call) in PLAIN for call in calls)
