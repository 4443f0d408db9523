"""A loop that makes its own batches while the model waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainperf.fixes import Fix
from trainperf.fixes.common.pipeline import cores
from trainperf.fixes.common.words import at, ms, percent, worth
from trainperf.fixes.tf_data.edits.batching import make_batches_ahead
from trainperf.model import Equivalence, Evidence, Finding, FunctionCost, Site, is_taken

if TYPE_CHECKING:
    from trainperf.rewrite import Script

REAL_SHARE = 0.10
"""The share of a step below which a function is not worth moving, as for pipeline stages."""

ENOUGH = 30
"""Stack samples of a function below which its share is a guess."""

TRAINING = {
    "fit", "train_on_batch", "test_on_batch", "predict_on_batch", "evaluate", "predict",
    "gradient", "apply_gradients", "apply", "minimize", "__call__", "error_handler",
    "op_dispatch_handler", "numpy", "_numpy", "__array__", "__float__", "block_on",
}  # fmt: skip
"""A function mostly found in these is the training itself, not the making of a batch.
`error_handler` and `op_dispatch_handler` are what Keras and TensorFlow wrap calls in;
`numpy` waits for a result."""


class NumpyBatching(Fix):
    """Make the next batch while the model computes, in a thread.

    ## Why it is slow
    The loop makes each batch in Python and NumPy between two steps.
    The model waits for it, and then Python waits for the model.

    ## What changes
    What makes a batch moves into a generator, which a thread runs up to four batches ahead
    of the step. Batches stay the same, in the same order. Where each is made by itself, as many
    threads as there are cores are tried as well; these draw random numbers in another order.
    In a `tf.data.Dataset`, as TensorFlow ops in a `map`, it also runs on several cores.

    ## When not to
    When the next batch depends on the result of this one, as in reinforcement learning.
    When the rest of the loop draws random numbers from the same generator: in another order.
    """

    category = "input"
    equivalence = Equivalence.NUMERICS

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find a function of the user's that makes batches between the steps."""
        if evidence.loop.kind != "call":
            return None
        making = [each for each in evidence.functions if _makes_batches(each)]
        if not making:
            return None
        function = max(making, key=lambda each: each.share)
        share = min(1.0, sum(each.share for each in making))
        saved = share * evidence.times.real
        if is_taken(evidence.times.resident_):
            bound = evidence.bound_if_input_saves(saved)
        else:
            bound = evidence.bound_if_step_saves(saved)
        if not worth(evidence, bound):
            return None
        named = not function.name.startswith("<")
        name = f"`{function.name}`" if named else "The loop's own code"
        beneath = f", most of it in `{function.calls_into}`" if function.calls_into else ""
        others = f"; with what else makes batches, {percent(share)}" if len(making) > 1 else ""
        making_at = Site(function.file, function.line, function.name)
        step, width = evidence.loop.where, cores(evidence)
        return self.finding(
            title="The model waits while the loop makes its batch",
            text=(
                f"{name} ({_place(function)}) takes {percent(function.share)} of each "
                f"{ms(evidence.times.real)} step{beneath}{others}. The model waits for it."
            ),
            bound=bound,
            bound_basis="making batches fully overlapped with the step",
            where=(step,) if step is not None and step.exact else (making_at,),
            advice="Make batches ahead of the step: in a thread, or a `tf.data.Dataset`.",
            snippet=_snippet(making),
            data={} if width < 2 else {"variants": [{"calls": 1}, {"calls": width}]},
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Let a thread make the batches of the loop around the step."""
        for site in finding.where:
            make_batches_ahead(script, site, finding.data.get("calls", 1))


def _makes_batches(function: FunctionCost) -> bool:
    seen = function.samples >= ENOUGH and function.share >= REAL_SHARE
    return function.thread == "main" and seen and function.calls_into not in TRAINING


def _place(function: FunctionCost) -> str:
    return at(Site(function.file, function.line))


def _snippet(making: list[FunctionCost]) -> str:
    names = [each.name for each in making if each.name.isidentifier()]
    name = next((each for each in names if "batch" in each.lower()), "make_batch")
    return f"""\
def batches():
    while True:
        # what your loop calls for a batch, with its arguments
        yield tuple({name}())


like = tuple(tf.TensorSpec(a.shape, a.dtype) for a in next(batches()))
dataset = tf.data.Dataset.from_generator(batches, output_signature=like)
dataset = dataset.prefetch(tf.data.AUTOTUNE)  # while the model computes

for batch in dataset.take(steps):
    model.train_on_batch(*batch)
"""
