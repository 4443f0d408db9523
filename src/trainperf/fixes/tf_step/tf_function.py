"""An eager training step in a loop of the user's own."""

from __future__ import annotations

from trainperf.fixes import Fix
from trainperf.fixes.common.step import (
    PROBE_LEAST,
    bound_by,
    left_by,
    step_can_matter,
    step_may_matter,
)
from trainperf.fixes.common.words import at, ms, times, worth
from trainperf.fixes.tf_step._inline_step import compile_inline
from trainperf.model import Equivalence, Evidence, Finding, Missing, StepFunction
from trainperf.rewrite import Script


class CompileStep(Fix):
    """Compile the training step of a custom loop with `@tf.function`.

    ## Why it is slow
    Without `tf.function`, Python starts every operation of the step one by one:
    forward, backward and the update of each weight. For small and middle-sized models
    this costs more than the arithmetic, and a GPU waits between the operations.

    ## What changes
    The step is traced once into a graph, and each call runs that graph. The
    mathematics is the same; rounding and the stream of random numbers may differ.
    A step that stands in the body of the loop becomes a function ahead of it, as far as it
    does nothing in Python.

    ## When not to
    - The step must not depend on Python side effects: `print`, `.numpy()`, counters
      and lists are seen only while tracing. Use `tf.print` and `tf.Variable`.
    - Python numbers among the arguments cause a new trace for each value. Pass tensors.
    - Keep what makes variables (a new optimizer, a new layer) out of the step.
    """

    category = "host"
    usual = 5.0
    probed_by = "compiled"
    equivalence = Equivalence.NUMERICS

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find an eager step that ran faster compiled, or could not be compiled here."""
        if evidence.facts.get("functions_run_eagerly"):
            return self._switched_off(evidence)
        step = evidence.step_function
        if step is None or step.compiled:
            return None
        taken = evidence.probes.get("compiled", Missing("compiling the step was not tried"))
        if isinstance(taken, Missing):
            return self._unpriced(evidence, step, taken.reason)
        bound = bound_by(evidence, taken)
        if taken.low < PROBE_LEAST or not worth(evidence, bound):
            return None
        return self._finding(
            step,
            f"Compiled with tf.function, the same step ran {times(taken.ratio)} as fast in this "
            f"run ({ms(taken.base_s)} → {ms(taken.candidate_s)})."
            + (f" Tracing it took {ms(taken.one_off_s)}, once." if taken.one_off_s else ""),
            bound,
            "measured by a probe of the step in this run",
        )

    def possible(self, evidence: Evidence) -> Finding | None:
        """Try an eager step compiled, whatever a probe said."""
        step = evidence.step_function
        off = evidence.facts.get("functions_run_eagerly")
        if step is None or step.compiled or off or not step_can_matter(evidence):
            return None
        text = "Python starts each operation of the step one by one."
        return self._finding(step, text, *left_by(evidence, "compiled"))

    def _switched_off(self, evidence: Evidence) -> Finding | None:
        if not step_may_matter(evidence):
            return None
        return self.finding(
            title="tf.config.run_functions_eagerly(True) turns every tf.function off",
            text="The functions that the script compiles, and Keras's own, run operation by "
            "operation.",
            bound=None,
            bound_basis="not measured",
            advice="Take tf.config.run_functions_eagerly(True) out: it is meant for debugging.",
            snippet="tf.config.run_functions_eagerly(False)",
        )

    def _unpriced(self, evidence: Evidence, step: StepFunction, reason: str) -> Finding | None:
        if not step_may_matter(evidence):
            return None
        return self._finding(
            step,
            "Python starts each operation of the step one by one.",
            None,
            f"not measured: {reason}",
        )

    def _finding(self, step: StepFunction, text: str, bound: float | None, basis: str) -> Finding:
        name = step.name or "the training step"
        if step.where is not None:
            title = f"`{name}` ({at(step.where)}) runs eagerly, operation by operation"
            return self.finding(
                title=title,
                text=text,
                bound=bound,
                bound_basis=basis,
                where=(step.where,),
                advice=f"Put @tf.function above `def {name}`.",
                snippet=f"@tf.function\ndef {name}(...):",
                rewritable=True,
            )
        place = f" at {at(step.tape_where)}" if step.tape_where else ""
        return self.finding(
            title=f"The training step{place} runs eagerly, operation by operation",
            text=text,
            bound=bound,
            bound_basis=basis,
            where=(step.tape_where,) if step.tape_where else (),
            advice="Move the tape and the update into a function of their own, compiled.",
            snippet=MOVED,
            data={"inline": True},
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Decorate the step function; make one of a step that is none."""
        site = finding.where[0]
        if finding.data.get("inline"):
            compile_inline(script, site)
            return
        tensorflow = script.module_name(site.file, "tensorflow")
        script.decorate(site, f"{tensorflow}.function")


MOVED = """\
@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = loss_fn(y, model(x, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss

for x, y in dataset:
    loss = train_step(x, y)"""
