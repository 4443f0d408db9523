"""A training function that is traced again and again."""

from __future__ import annotations

import ast
from typing import Any

from trainperf.errors import CannotRewrite
from trainperf.fixes import Fix
from trainperf.fixes.common.step import at_most, bound_if_saved, step_can_matter
from trainperf.fixes.common.words import at, ms, percent, worth
from trainperf.fixes.tf_step._traced_bodies import (
    BOUNDS,
    acts_once,
    becomes_float,
    bounds,
    may_overflow,
    needs_number,
    needs_shape,
)
from trainperf.model import Equivalence, Evidence, Finding, Retracing, is_taken
from trainperf.rewrite import Script
from trainperf.source.statements import Function

RECURRING = 3
"""Tracings after the first from which they recur.

One more is normal (the smaller last batch), two happen with a smaller last batch in
validation as well.
"""


EVERY_STEP = 0.9
"""Tracings per step from which no step was seen without: what one takes is not known."""


class StopRetracing(Fix):
    """Stop the training function from being traced again.

    ## Why it is slow
    A `tf.function` is traced for each new combination of shapes, types and Python
    values of its arguments. Each trace runs the Python code again, builds a new graph
    and costs as much as hundreds of steps.

    ## What changes
    Tensors in place of Python numbers, one signature for all shapes, or batches of one
    shape: then one trace serves every call. The numbers stay the same, except that
    `drop_remainder=True` leaves the smaller last batch of an epoch out.

    ## When not to
    - A few traces at the start (one per bucket of lengths) are the price of less
      padding, and end by themselves.
    - XLA needs fixed shapes: there, pad to a few lengths instead of relaxing them.
    - A number that Python itself needs, in `range`, an index or an `if`, stays one; `min` and
      `max` of it become `tf.minimum` and `tf.maximum`.
    - What Python does while tracing (`print`, counters, lists) was done in every step,
      and is done once after this: no edit is written for such a function.
    """

    category = "host"
    usual = 3.0
    counted = True
    equivalence = Equivalence.NUMERICS
    lasting = False  # a shape or a number may stop changing

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find recurring traces whose time, spread over the steps, stands out."""
        seen = evidence.retracing
        if seen is None or seen.count < RECURRING or seen.steps <= 0:
            return None
        per_step, real = evidence.tracing_s, evidence.times.real
        bound = bound_if_saved(evidence, per_step)
        # One batch replayed has one shape, so the resident step has no tracings.
        without = "python" not in seen.cause.lower() and is_taken(evidence.times.resident_)
        if without:
            bound = min(bound, max(1.0, real / evidence.times.resident))
        if not worth(evidence, bound):
            return None
        place = f" ({at(seen.where)})" if seen.where else ""
        cause = f" What changed: {seen.cause}." if seen.cause else ""
        share = per_step / real
        known = without or seen.count < EVERY_STEP * seen.steps
        advice, snippet, equivalence = _advice(seen)
        return self.finding(
            title=f"`{seen.function}`{place} is traced again and again",
            text=f"{seen.count} tracings in {seen.steps} steps, and the first runs of the new "
            f"graphs, took {ms(seen.seconds)}: {ms(per_step)} of a timed step on average "
            f"({percent(share)}).{cause}",
            bound=bound if known else None,
            bound_basis="the time of the tracings seen; those that end by themselves included"
            if known
            else "no step ran without tracing; more than the tracings take",
            advice=advice,
            snippet=snippet,
            equivalence=equivalence,
            **_edit(seen),
        )

    def possible(self, evidence: Evidence) -> Finding | None:
        """Try it on whatever was traced more than once again, whenever and for how long."""
        seen = evidence.retracing
        if seen is None or seen.count < 2 or seen.steps <= 0 or not step_can_matter(evidence):
            return None
        place = f" ({at(seen.where)})" if seen.where else ""
        advice, snippet, equivalence = _advice(seen)
        return self.finding(
            title=f"`{seen.function}`{place} was traced {1 + seen.count} times",
            text=f"{seen.count} tracings after the first took {ms(seen.seconds)} in all."
            + (f" What changed: {seen.cause}." if seen.cause else ""),
            bound=at_most(evidence),
            bound_basis="a step that costs nothing: what a trace costs a step is not known",
            advice=advice,
            snippet=snippet,
            equivalence=equivalence,
            **_edit(seen),
        )

    def lasts(self, finding: Finding) -> bool:
        """Only where a number made each step a new one, as a count of steps does."""
        return bool(finding.data.get("numbers") and finding.data.get("each_step"))

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Turn the numbers into tensors where they are given, or relax the decorator."""
        head = finding.where[0]
        function = script.definition(head)
        reasons = [acts_once(function)]
        numbers = finding.data.get("numbers", [])
        for number in numbers:
            reasons.append(needs_number(function, number["parameter"]))
            if _dtype(function, number) == "int32":
                reasons.append(may_overflow(function, number["parameter"]))
        if not numbers:
            reasons.append(needs_shape(function))
        for reason in filter(None, reasons):
            raise CannotRewrite(f"{function.name} needs it as it is: {reason}")
        for number in numbers:
            site = finding.where[number["site"]]
            tensorflow = script.module_name(site.file, "tensorflow", site)
            template = f"{tensorflow}.constant({{}}, {tensorflow}.{_dtype(function, number)})"
            script.wrap_argument(site, number["argument"], template)
        parameters = {number["parameter"] for number in numbers}
        calls = {id(c): c for each in sorted(parameters) for c in bounds(function, each)}
        for call in calls.values():
            tensorflow = script.module_name(head.file, "tensorflow", head)
            name = BOUNDS[ast.unparse(call.func)]
            script.replace_node(head.file, call.func, f"{tensorflow}.{name}")
        if not numbers:
            tensorflow = script.module_name(head.file, "tensorflow", head)
            decorator = f"{tensorflow}.function"
            script.set_decorator_keyword(head, decorator, "reduce_retracing", "True")


def _dtype(function: Function, number: dict[str, Any]) -> str:
    """The dtype that goes together with what the function reckons the number with."""
    floats = number["dtype"] == "int32" and becomes_float(function, number["parameter"])
    return "float32" if floats else str(number["dtype"])


def _edit(seen: Retracing) -> dict[str, Any]:
    """The places and what is to be done there, as far as what ran tells."""
    if seen.where is None:
        return {"rewritable": False}
    if not seen.numbers:
        relaxes = "shape" in seen.cause.lower() and not seen.relaxed and not seen.jit
        return {"where": (seen.where,), "rewritable": relaxes}
    calls = list(dict.fromkeys(number.where for number in seen.numbers))
    numbers = [
        {
            "site": 1 + calls.index(each.where),
            "argument": each.argument,
            "parameter": each.parameter,
            "dtype": each.dtype,
        }
        for each in seen.numbers
    ]
    known = all(each.parameter and each.dtype and each.where.exact for each in seen.numbers)
    data = {"numbers": numbers, "each_step": seen.count >= EVERY_STEP * seen.steps}
    return {"where": (seen.where, *calls), "data": data, "rewritable": known}


def _advice(seen: Retracing) -> tuple[str, str, Equivalence]:
    """Say what to do, in words and code, and what that may change, by the cause of retracing."""
    cause = seen.cause.lower()
    if "python" in cause:
        return (
            "Pass numbers that change as tensors: each new Python value is traced anew.",
            f"{seen.function}(..., {_constant(seen)})",
            Equivalence.NUMERICS,
        )
    if "dtype" in cause or "type of" in cause:
        return (
            "Cast the inputs to one dtype before the call.",
            "x = tf.cast(x, tf.float32)",
            Equivalence.NUMERICS,
        )
    if seen.where is not None and not seen.relaxed and not seen.jit:
        return (
            "Let one trace serve all shapes.",
            f"@tf.function(reduce_retracing=True)\ndef {seen.function}(...):",
            Equivalence.NUMERICS,
        )
    return (
        "Make batches of one shape: drop the smaller last batch, pad sequences to a few lengths.",
        "dataset = dataset.batch(batch_size, drop_remainder=True)",
        Equivalence.SEMANTICS,
    )


def _constant(seen: Retracing) -> str:
    for number in seen.numbers:
        if number.parameter and number.dtype:
            return f"tf.constant({number.parameter}, tf.{number.dtype})"
    return "tf.constant(value)"
