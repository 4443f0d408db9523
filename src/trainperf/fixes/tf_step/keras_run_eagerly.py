"""A Keras model that is told to run eagerly."""

from __future__ import annotations

from trainperf.fixes import Fix
from trainperf.fixes.common.keras_source import compile_seen, set_compile
from trainperf.fixes.common.step import (
    PROBE_LEAST,
    bound_by,
    left_by,
    step_can_matter,
    step_may_matter,
)
from trainperf.fixes.common.words import at, ms, times, worth
from trainperf.model import Equivalence, Evidence, Finding, Missing
from trainperf.rewrite import Script


class RunAsGraph(Fix):
    """Take `run_eagerly=True` out of `compile`.

    ## Why it is slow
    `run_eagerly=True` is meant for debugging. Keras then runs `train_step` in Python,
    operation by operation, instead of as one compiled graph, and XLA is off.

    ## What changes
    `fit` traces the step once and runs the graph. The mathematics is the same;
    rounding and the stream of random numbers may differ.

    ## When not to
    - A `train_step` or layer that uses `.numpy()`, NumPy or Python lists on tensors
      needs eager mode. Rewrite that part in TensorFlow operations first.
    - While debugging: breakpoints and `print` inside layers work only eagerly.
    """

    category = "host"
    framework = "keras"
    usual = 5.0
    probed_by = "compiled"
    equivalence = Equivalence.NUMERICS

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find a model with `run_eagerly`, unless compiling it was tried in vain."""
        if not _matters(evidence):
            return None
        taken = evidence.probes.get("compiled", Missing("compiling the step was not tried"))
        bound: float | None = None
        if isinstance(taken, Missing):
            if not step_may_matter(evidence):
                return None
            text = "It is for debugging."
            basis = f"not measured: {taken.reason}"
        else:
            bound = bound_by(evidence, taken)
            if taken.low < PROBE_LEAST or not worth(evidence, bound):
                return None
            text = (
                f"As a graph, the same step ran {times(taken.ratio)} as fast in this run "
                f"({ms(taken.base_s)} → {ms(taken.candidate_s)})."
            )
            basis = "measured by a probe of the step in this run"
        return self._finding(evidence, text, bound, basis)

    def possible(self, evidence: Evidence) -> Finding | None:
        """Try a model with `run_eagerly` as a graph, whatever a probe said."""
        if not _matters(evidence) or not step_can_matter(evidence):
            return None
        text = "It is for debugging."
        return self._finding(evidence, text, *left_by(evidence, "compiled"))

    def _finding(self, evidence: Evidence, text: str, bound: float | None, basis: str) -> Finding:
        model = evidence.model
        where = model.compile_where
        place = f" ({at(where)})" if where else ""
        return self.finding(
            title=f"The model is compiled with run_eagerly=True{place}",
            text=f"Keras runs the step in Python, operation by operation. {text}",
            bound=bound,
            bound_basis=basis,
            where=(where,) if where else (),
            advice="Leave run_eagerly out of compile, and out of every assignment to the model.",
            snippet="model.compile(..., run_eagerly=False)",
            data=compile_seen(evidence),
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Remove the keyword from the call of `compile`, or have it off where it comes from."""
        site = finding.where[0]
        if script.call_keywords(site).get("run_eagerly") == "True":
            script.remove_keyword(site, "run_eagerly")
        else:
            set_compile(script, finding, "run_eagerly", "False")


def _matters(evidence: Evidence) -> bool:
    """Whether the model runs eagerly for that word alone.

    Keras 2 says it as well where all functions run eagerly, which `tf_function` tells.
    """
    on = evidence.model.run_eagerly and not evidence.facts.get("functions_run_eagerly")
    return on and evidence.framework.name != "torch"
