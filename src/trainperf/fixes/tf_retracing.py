"""A training function that is traced again and again."""

from __future__ import annotations

from trainperf.fixes import Fix
from trainperf.fixes._cases import SITE, evidence
from trainperf.fixes._step import bound_if_saved
from trainperf.fixes._words import at, ms, percent, worth
from trainperf.model import Equivalence, Evidence, Finding, Retracing, is_taken

RECURRING = 3
"""Tracings after the first from which they recur.

One more is normal (the smaller last batch), two happen with a smaller last batch in
validation as well.
"""


EVERY_STEP = 0.9
"""Tracings per step from which no step was seen without: what one takes is not known."""


def _retracing(count: int, seconds: float, cause: str = "shape of x") -> Retracing:
    return Retracing("train_step", count, 60, seconds, cause, SITE)


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
    """

    category = "host"
    equivalence = Equivalence.NUMERICS

    silent = [
        evidence(),
        # the smaller last batch
        evidence(retracing=_retracing(1, 0.9)),
        # the last batch, and that of validation
        evidence(retracing=_retracing(2, 2.0)),
        # recurring, but cheap
        evidence(retracing=_retracing(4, 0.02)),
        evidence(real=None, retracing=_retracing(20, 3.0)),
        # one trace per bucket of lengths, all before the steps were timed
        evidence(retracing=_retracing(8, 3.0)),
        evidence(retracing=_retracing(8, 12.0)),
    ]
    fires = [
        evidence(resident=0.045, retracing=_retracing(20, 3.0)),
        # a number that changes is traced anew with a replayed batch as well
        evidence(retracing=_retracing(60, 4.0, "a Python int among the arguments changes")),
        evidence(resident=0.045, retracing=Retracing("train_function", 12, 60, 3.0)),
    ]

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find recurring traces whose time, spread over the steps, stands out."""
        seen = evidence.retracing
        if seen is None or seen.count < RECURRING or seen.steps <= 0:
            return None
        per_step = seen.seconds / seen.steps
        real = evidence.times.real
        if per_step >= real:  # they fell into the warm-up, and had ended when steps were timed
            return None
        bound = bound_if_saved(evidence, per_step)
        if "python" not in seen.cause.lower() and is_taken(evidence.times.resident_):
            # One batch replayed has one shape, so the resident step has no tracings.
            bound = min(bound, max(1.0, real / evidence.times.resident))
        if not worth(evidence, bound):
            return None
        place = f" ({at(seen.where)})" if seen.where else ""
        cause = f" What changed: {seen.cause}." if seen.cause else ""
        share = per_step / real
        known = seen.count < EVERY_STEP * seen.steps
        if not known:
            cause += " The first run of each new graph costs more on top: TensorFlow optimises it."
        advice, snippet, equivalence = _advice(seen)
        return self.finding(
            title=f"`{seen.function}`{place} is traced again and again",
            text=f"{seen.count} tracings in {seen.steps} steps took {ms(seen.seconds)}: "
            f"{ms(per_step)} of each step on average ({percent(share)}).{cause}",
            bound=bound if known else None,
            bound_basis="the time of the tracings seen; those that end by themselves included"
            if known
            else "no step ran without tracing; more than the tracings take",
            where=(seen.where,) if seen.where else (),
            advice=advice,
            snippet=snippet,
            equivalence=equivalence,
        )


def _advice(seen: Retracing) -> tuple[str, str, Equivalence]:
    """What to do, in words and code, and what that may change, by what changed."""
    cause = seen.cause.lower()
    if "python" in cause:
        return (
            "Pass numbers that change as tensors: each new Python value is traced anew.",
            f"{seen.function}(..., tf.constant(value))",
            Equivalence.EXACT,
        )
    if "dtype" in cause or "type of" in cause:
        return (
            "Cast the inputs to one dtype before the call.",
            "x = tf.cast(x, tf.float32)",
            Equivalence.NUMERICS,
        )
    if seen.where is not None:
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
