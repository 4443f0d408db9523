"""`model.predict` in a Python loop, for one small batch at a time."""

from __future__ import annotations

import ast
from functools import partial
from typing import TYPE_CHECKING

from trainperf.errors import CannotRewrite
from trainperf.fixes import Fix
from trainperf.fixes.common.words import make_those_that_can_be
from trainperf.fixes.tf_step.calls._model_calls import ModelCalls, is_batch
from trainperf.model import Equivalence, Evidence, Finding, Site
from trainperf.source.arguments import argument, starred

if TYPE_CHECKING:
    from trainperf.rewrite import Script

NEEDLESS = frozenset({"x", "batch_size", "verbose"})
"""Arguments of `predict` that have no meaning for one batch, and its input."""

SNIPPET = "preds = model.predict_on_batch(x)  # instead of model.predict(x, verbose=0)"


class PredictInLoop(Fix):
    """Use `predict_on_batch` instead of `predict` for one small batch at a time.

    ## Why it is slow
    `predict` is made for many batches. Each call builds a dataset and an iterator, begins a
    loop with callbacks and a progress bar, and copies the result: tens of milliseconds, for a
    model that may need one. `predict_on_batch` calls the same compiled function on the batch,
    without all that: 43 ms became 0.9 ms for a small LSTM (Keras 3.15). `model(x)` is no
    remedy by itself, as it runs each layer from Python.

    ## What changes
    Nothing: the same function gives the same array. What `predict` is told about batches and
    its progress bar is left out. Inputs that do not depend on one another are better given to
    one call, several at a time.

    ## When not to
    - For a whole set of data: `predict` batches it, and keeps the device busy.
    - For inputs of ever new shapes: the function is traced anew for them, as by `predict`.
    """

    category = "host"
    concerns = "outside"
    equivalence = Equivalence.EXACT
    counted = True

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find many short calls of `predict` where each turn spends its time in them."""
        calls = ModelCalls.of(evidence, "predict")
        if calls is None:
            return None
        return self.finding(
            title=f"`model.predict` in a Python loop takes {calls.share} of the time",
            text=f"`model.predict` is called {calls.said()}. Each builds a dataset of its own and "
            f"begins a loop over it.{calls.timed()}",
            bound=calls.bound,
            bound_basis=calls.basis,
            where=calls.where,
            advice="Call `predict_on_batch` on what is one batch. Where inputs do not depend on "
            "one another, give it several at a time.",
            snippet=SNIPPET,
            rewritable=None if any(is_batch(rows) for rows in calls.rows) else False,
            data=calls.data(),
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Call `predict_on_batch`, without what only `predict` takes; as many as can be."""
        calls = zip(finding.where, finding.data["rows"], strict=True)
        make_those_that_can_be(
            script, (partial(_on_batch, site=site, rows=rows) for site, rows in calls)
        )


def _on_batch(script: Script, site: Site, rows: int | None) -> None:
    """Have the call at `site` be one of `predict_on_batch`."""
    call = script.call(site)
    if not is_batch(rows):
        raise CannotRewrite("what `predict` is given was not seen to be one small batch")
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "predict":
        raise CannotRewrite("it is not called as `predict` of a model")
    if starred(call) or len(call.args) > 1:
        raise CannotRewrite("not all of its arguments are named")
    if {each.arg for each in call.keywords} - NEEDLESS:
        raise CannotRewrite("`predict` is told more than its input")
    size = argument(call, "batch_size")
    if size is not None and not _holds(size, rows or 0):
        raise CannotRewrite("`predict` may take what it is given in several batches")
    given = script.argument(site, 0, "x")
    if given is None:
        raise CannotRewrite("`predict` is given nothing")
    model = script.expression(script.receiver(site))
    script.replace_call(site, f"{model}.predict_on_batch({script.expression(given)})")


def _holds(size: ast.expr, rows: int) -> bool:
    if not isinstance(size, ast.Constant):
        return False
    return size.value is None or (isinstance(size.value, int) and size.value >= rows)
