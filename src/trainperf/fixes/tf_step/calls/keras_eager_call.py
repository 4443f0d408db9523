"""A Keras model called eagerly in a Python loop, for one small batch at a time."""

from __future__ import annotations

import ast
from functools import partial
from typing import TYPE_CHECKING

from trainperf.errors import CannotRewrite
from trainperf.fixes import Fix
from trainperf.fixes.common.words import make_those_that_can_be
from trainperf.fixes.tf_step.calls._array_uses import ArrayUses
from trainperf.fixes.tf_step.calls._model_calls import ModelCalls
from trainperf.model import Equivalence, Evidence, Finding, Site
from trainperf.model.outside import CALLED_EAGERLY
from trainperf.source.arguments import argument, starred

if TYPE_CHECKING:
    from trainperf.rewrite import Script

SNIPPET = "q = model.predict_on_batch(x)  # an array, instead of model(x, training=False)"


class EagerCall(Fix):
    """Use `predict_on_batch` instead of calling a model eagerly in a Python loop.

    ## Why it is slow
    `model(x)` outside of a compiled function runs each layer, and each operation of it, from
    Python: 1.7 ms for a model of three dense layers, whose arithmetic is next to nothing.
    `predict_on_batch` calls one compiled function instead: 0.4 ms (Keras 3.15).

    ## What changes
    The result is a NumPy array and no tensor: `.numpy()` goes, and calls whose results are used
    otherwise than an array can be are left alone. The mathematics is the same, as of a call
    with `training=False`; rounding may differ. Inputs that do not depend on one another are
    better given to one call, several at a time.

    ## When not to
    - Within a `GradientTape`, whose gradients need the call; and with `training=True`.
    - Where the layers of the model are replaced, or do something in Python in each call: the
      compiled function keeps what they were when it was traced.
    - For inputs of ever new shapes, and models made anew: the function is traced for each.
    - On a GPU, where the result goes into further tensor operations: it need not come to the host.
    """

    category = "host"
    concerns = "outside"
    equivalence = Equivalence.NUMERICS
    counted = True

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find many short calls of models where each turn spends its time in them."""
        calls = ModelCalls.of(evidence, CALLED_EAGERLY)
        if calls is None:
            return None
        return self.finding(
            title=f"A model called eagerly in a Python loop takes {calls.share} of the time",
            text=f"Models are called eagerly, outside of gradient tapes, {calls.said()}. "
            f"Each runs its layers one by one from Python.{calls.timed()}",
            bound=calls.bound,
            bound_basis=calls.basis,
            where=calls.where,
            advice="Call `predict_on_batch`, or a `tf.function` of the model. Where inputs do not "
            "depend on one another, give it several at a time.",
            snippet=SNIPPET,
            rewritable=None if any(rows is not None for rows in calls.rows) else False,
            data=calls.data(),
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Call `predict_on_batch`, where its array does as well; as many as can be."""
        calls = zip(finding.where, finding.data["rows"], strict=True)
        make_those_that_can_be(
            script, (partial(_on_batch, site=site, rows=rows) for site, rows in calls)
        )


def _on_batch(script: Script, site: Site, rows: int | None) -> None:
    """Have the call at `site` be one of `predict_on_batch`, and its uses take an array."""
    call = script.call(site)
    if rows is None:
        raise CannotRewrite(
            "it was not seen that the model is Keras's own throughout, stays the same, and is "
            "called here outside of tapes and compiled functions alone"
        )
    if not isinstance(call.func, ast.Name | ast.Attribute | ast.Subscript):
        raise CannotRewrite("it is not called by a name of the model")
    if isinstance(call.func, ast.Attribute) and call.func.attr == "__call__":
        raise CannotRewrite("it is not called by a name of the model")
    training = argument(call, "training")
    if starred(call) or len(call.args) != 1 or len(call.keywords) > (training is not None):
        raise CannotRewrite("it is told more than its input")
    if training is not None and not _is_off(training):
        raise CannotRewrite("`training` may be true")
    source = script.source(site.file)
    uses = ArrayUses(source.module)
    uses.follow(call)
    script.replace_node(site.file, call.func, f"{source.text_of(call.func)}.predict_on_batch")
    if training is not None:
        script.remove_keyword(site, "training")
    for each in uses.dropped:
        script.drop_call(script.site_of(site, each))
    for each in uses.copied:
        script.rename_call(script.site_of(site, each), "copy")


def _is_off(training: ast.expr) -> bool:
    return isinstance(training, ast.Constant) and training.value in (False, None)
