"""Keras models called in a Python loop for one small batch at a time: `predict`, `model(x)`."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from functools import partial

from trainperf.errors import CannotRewrite
from trainperf.fixes import Fix
from trainperf.fixes.cause import Cause, Saving, Unpriced
from trainperf.fixes.common.words import SMALLEST_GAIN, at, make_those_that_can_be, ms, percent
from trainperf.model import (
    Epoch,
    Equivalence,
    Evidence,
    Finding,
    InPlace,
    Missing,
    Outside,
    Site,
    Slices,
    Spent,
    TurnGain,
)
from trainperf.model.training import CALLED_EAGERLY
from trainperf.rewrite import Script
from trainperf.source.arguments import argument, starred

NEEDLESS = frozenset({"x", "batch_size", "verbose"})
"""Arguments of `predict` that have no meaning for one batch, and its input."""


class KerasPredictInLoop(Fix):
    """Use `predict_on_batch` instead of `predict` for one small batch at a time.

    Why slow: Each call of `predict` builds a dataset and begins a loop with callbacks and a
    progress bar: tens of milliseconds, for a model that may need one. `predict_on_batch` calls the
    same compiled function on the batch: 43 ms became 0.9 ms for a small LSTM (Keras 3.15).
    `model(x)` is no remedy, as it runs each layer from Python.
    Changes: Nothing: the same function gives the same array. Inputs that do not depend on one
    another are better given to one call, several at a time.
    When not:
    - For a whole set of data: `predict` batches it, and keeps the device busy.
    - For inputs of ever new shapes: the function is traced anew for them, as by `predict`.
    """

    concerns = "outside"
    counted = True

    def look(self, evidence: Evidence) -> Cause | None:
        """Find many short calls of `predict` where each turn spends its time in them."""
        return _cause(
            evidence,
            "predict",
            title="`model.predict` in a Python loop takes {share} of the time",
            text="`model.predict` is called {said}. Each builds a dataset of its own and "
            "begins a loop over it.",
            snippet="preds = model.predict_on_batch(x)  # instead of model.predict(x, verbose=0)",
            editable=_is_batch,
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Call `predict_on_batch`, without what only `predict` takes; as many as can be."""
        _each(script, finding, _predict_on_batch)


def _each(script: Script, finding: Finding, edit: Callable[..., None]) -> None:
    """Make an edit of each place, with the most samples that a call was given there."""
    calls = zip(finding.where, finding.data["rows"], strict=True)
    make_those_that_can_be(script, (partial(edit, site=site, rows=rows) for site, rows in calls))


def _predict_on_batch(script: Script, site: Site, rows: int | None) -> None:
    call = script.call(site)
    if not _is_batch(rows):
        raise CannotRewrite("what `predict` is given was not seen to be one small batch")
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "predict":
        raise CannotRewrite("it is not called as `predict` of a model")
    given = script.argument(site, 0, "x")
    told = {keyword.arg for keyword in call.keywords} - NEEDLESS
    if given is None or starred(call) or len(call.args) > 1 or told:
        raise CannotRewrite("`predict` is told more than its input")
    model = script.expression(script.receiver(site))
    script.replace_call(site, f"{model}.predict_on_batch({script.expression(given)})")


class KerasEagerCall(Fix):
    """Use `predict_on_batch` instead of calling a model eagerly in a Python loop.

    Why slow: `model(x)` outside of a compiled function runs each layer, and each operation of it,
    from Python: 1.7 ms for a model of three dense layers, whose arithmetic is next to nothing.
    `predict_on_batch` calls one compiled function instead: 0.4 ms (Keras 3.15).
    Changes: The result is made a tensor again, unless `.numpy()` is all that is asked of it. The
    mathematics is that of a call with `training=False`; rounding may differ. Inputs that do not
    depend on one another are better given to one call, several at a time.
    When not:
    - Within a `GradientTape`, whose gradients need the call; and with `training=True`.
    - Where the layers of the model are replaced, or do something in Python in each call: the
      compiled function keeps what they were when it was traced.
    - For inputs of ever new shapes, and models made anew: the function is traced for each.
    - On a GPU, where the result goes into further tensor operations: it need not come to the host.
    """

    concerns = "outside"
    equivalence = Equivalence.NUMERICS
    counted = True

    def look(self, evidence: Evidence) -> Cause | None:
        """Find many short calls of models where each turn spends its time in them."""
        return _cause(
            evidence,
            CALLED_EAGERLY,
            title="A model called eagerly in a Python loop takes {share} of the time",
            text="Models are called eagerly, outside of gradient tapes, {said}. Each runs "
            "its layers one by one from Python.",
            snippet="q = model.predict_on_batch(x)  # an array, "
            "instead of model(x, training=False)",
            editable=lambda rows: rows is not None,
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Call `predict_on_batch`, and make its array a tensor; as many as can be."""
        _each(script, finding, _call_on_batch)


def _call_on_batch(script: Script, site: Site, rows: int | None) -> None:
    call = script.call(site)
    if rows is None:
        raise CannotRewrite(
            "it was not seen that the model is Keras's own throughout, stays the same, and is "
            "called here outside of tapes and compiled functions alone"
        )
    named = isinstance(call.func, ast.Name | ast.Attribute | ast.Subscript)
    if not named or (isinstance(call.func, ast.Attribute) and call.func.attr == "__call__"):
        raise CannotRewrite("it is not called by a name of the model")
    training = argument(call, "training")
    if starred(call) or len(call.args) != 1 or len(call.keywords) > (training is not None):
        raise CannotRewrite("it is told more than its input")
    if training is not None:
        if not isinstance(training, ast.Constant) or training.value not in (False, None):
            raise CannotRewrite("`training` may be true")
        script.remove_keyword(site, "training")
    source = script.source(site.file)
    script.replace_node(site.file, call.func, f"{source.text_of(call.func)}.predict_on_batch")
    method = source.module.parent(call)
    if isinstance(method, ast.Attribute) and method.attr == "numpy":
        asked = source.module.parent(method)
        if isinstance(asked, ast.Call) and asked.func is method:
            script.drop_call(script.site_of(site, asked))
            return
    tf = script.module_name(site.file, "tensorflow", site)
    script.wrap_call(site, f"{tf}.nest.map_structure({tf}.convert_to_tensor, {{}})")


LEAST_CALLS = 10
"""So many calls between two of `fit` are a loop over small inputs, not a prediction of a set.
One call is such a one where it was given no more than a batch."""

LONGEST_S = 0.2
"""A call that takes longer works on more than a batch: there `predict` is the right thing."""

NOTHING = 0.01
"""The share of a turn below which its rest lies within the error of the times: no bound then."""

ONE_BATCH = 32
"""Samples that `predict` takes as one batch by default; as many are no trouble for any memory."""

ROUNDING = 1e-4
"""Results that differ by no more than this share of the largest number differ in rounding."""

FEWEST_TURNS = 24
"""A leg of a trial ends with the training: it needs so many turns for its slices."""


def _cause(
    evidence: Evidence,
    name: str,
    *,
    title: str,
    text: str,
    snippet: str,
    editable: Callable[[int | None], bool],
) -> Cause | None:
    """The cause that calls of this name are, in a loop over small inputs.

    None where they take nothing that would be felt. `editable` says of the most samples that were
    given at a place whether there may be an edit.
    """
    turn = evidence.outside
    found = [spent for spent in turn.spent if spent.name == name and _in_loop(spent, turn)]
    saved = (_saved_s(spent, spent.instead.ratio if spent.instead else None) for spent in found)
    left = turn.seconds - sum(saved)
    bound = turn.seconds / left if left > NOTHING * turn.seconds else None
    if not found or (bound is not None and bound <= 1 + SMALLEST_GAIN):
        return None
    placed = {spent.where: spent for spent in found if spent.where is not None}
    rows = [
        None if spent.instead is not None and not _same(spent.instead) else spent.rows
        for spent in placed.values()
    ]
    basis = "all that these calls take"
    if any(spent.instead for spent in found):
        basis = "what `predict_on_batch` leaves of these calls, timed in place"
    share = percent(sum(spent.seconds for spent in found) / turn.seconds)
    return Cause(
        title=title.format(share=share),
        text=f"{text.format(said=_said(found, turn))}{_timed(found)}",
        saves=Unpriced("next to nothing is left of it without these calls")
        if bound is None
        else Saving(basis, ratio=bound, of="all"),
        where=tuple(placed),
        advice="Call `predict_on_batch` on what is one batch. Where inputs do not depend on "
        "one another, give it several at a time.",
        snippet=snippet,
        rewritable=None if any(map(editable, rows)) else False,
        data={"rows": rows},
        in_place=_in_place(turn, list(placed.values())),
        slices=outside_steps(evidence),
    )


def _said(found: Sequence[Spent], turn: Outside) -> str:
    """How often, where and how long: "10 times in each step (train.py:66), 2 ms a call: …"."""
    seconds = sum(spent.seconds for spent in found)
    calls = sum(spent.calls or 0.0 for spent in found)
    places = ", ".join(dict.fromkeys(at(spent.where) for spent in found if spent.where))
    if turn.turn == "step":
        often = f"{calls:.3g} times in each step"
    else:
        after = "calls of `fit`" if turn.turn == "fit" else "epochs"
        often = f"{'' if turn.whole else 'at least '}{calls:.0f} times between two {after}"
    return (
        f"{often}{f' ({places})' if places else ''}, {ms(seconds / calls)} a call: {ms(seconds)} "
        f"beside the {ms(turn.training_s)} that the training itself takes"
    )


def _timed(found: Sequence[Spent]) -> str:
    """What was measured in place, in sentences that begin with a space; "" if nothing was."""
    known = [(spent.where, spent.instead) for spent in found if spent.instead is not None]
    return "".join(
        f" On the same inputs `predict_on_batch` took {ms(instead.instead_s)}"
        f"{f' at {at(where)}' if len(known) > 1 else ''} ({instead.pairs} pairs) and "
        f"{_gave(instead)}."
        for where, instead in known
    )


def _in_place(turn: Outside, placed: Sequence[Spent]) -> TurnGain | None:
    """What the edit gives a turn that was seen whole, by what was timed in place."""
    known = [s.instead if s.instead is not None and _same(s.instead) else None for s in placed]
    ratios = tuple(None if made is None else (made.ratio, made.low, made.high) for made in known)
    if not turn.whole or not any(ratios):
        return None
    pairs = list(zip(placed, ratios, strict=True))
    speedup, low, high = (
        turn.seconds / (turn.seconds - sum(_saved_s(s, ratio[i]) for s, ratio in pairs if ratio))
        for i in range(3)
    )
    fewest = min(made.pairs for made in known if made)
    return TurnGain(speedup, low, high, fewest, ratios)


def _is_batch(rows: int | None) -> bool:
    """Whether so many samples are one small batch; None is not known."""
    return rows is not None and rows <= ONE_BATCH


def _saved_s(spent: Spent, ratio: float | None) -> float:
    """Seconds of a turn that calls save if so many times as quick; None: if they took nothing."""
    return spent.seconds * (1 - (1 / ratio if ratio else 0.0))


def _same(made: InPlace) -> bool:
    return made.apart <= ROUNDING


def _gave(made: InPlace) -> str:
    if not _same(made):
        return f"returned others (up to {percent(made.apart)} apart), so it does not stand for them"
    rounding = f" but for rounding (at most {made.apart:.0e} apart)" if made.apart else ""
    return f"returned the same numbers{rounding}"


def _in_loop(spent: Spent, turn: Outside) -> bool:
    if not spent.calls or spent.seconds / spent.calls > LONGEST_S:
        return False
    return turn.turn == "step" or spent.calls >= LEAST_CALLS or _is_batch(spent.rows)


def outside_steps(evidence: Evidence) -> Slices:
    """Return what a repair that saves outside the steps is tried in, or in them.

    A turn of a long training is a slice; of a short one nothing can be compared.
    """
    turn, loop, length = evidence.outside, evidence.loop, evidence.length_
    if turn.turn in ("step", "evaluation", "pause"):
        return "steps"
    turns: int | None = None
    if not isinstance(length, Missing):
        turns = length.fits if turn.turn == "fit" else length.epochs
    if not turns or turns < FEWEST_TURNS or loop.steps_per_execution > 1:
        return "none"
    return Epoch(turn.steps, turn.seconds, written=True)
