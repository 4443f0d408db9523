"""A compiled step of a loop of the user's own that runs without XLA."""

from __future__ import annotations

import ast

from trainperf.errors import CannotRewrite
from trainperf.fixes import Fix
from trainperf.fixes.common.step import PROBE_LEAST, bound_by, left_by, step_can_matter
from trainperf.fixes.common.words import at, ms, times, worth
from trainperf.model import Equivalence, Evidence, Finding, Site, StepFunction
from trainperf.rewrite import Script
from trainperf.source.statements import dotted


class CompileStepWithXla(Fix):
    """Compile the `tf.function` of a training step with XLA: `jit_compile=True`.

    ## Why it is slow
    A `tf.function` runs each operation of its graph as a kernel of its own, which reads its
    input from memory and writes its result back. XLA fuses them.

    ## What changes
    The function is compiled as a whole for each shape of its arguments, which takes seconds
    to minutes once. The mathematics is the same, rounding differs.

    ## When not to
    - Batches of changing shape are compiled anew for each shape.
    - Operations that XLA does not know (strings, lookups, `tf.py_function`, iterators) make the
      first call fail.
    - Runs too short to earn the compilation back.
    """

    category = "model"
    usual = 1.2
    probed_by = "jit_compile"
    compiles = True
    equivalence = Equivalence.NUMERICS

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find a compiled step that ran faster with XLA."""
        step = _without_xla(evidence)
        if step is None:
            return None
        probe = evidence.probe("jit_compile")
        bound = bound_by(evidence, probe)
        if probe.low < PROBE_LEAST or not worth(evidence, bound):
            return None
        return self._finding(
            step,
            f"Compiled with XLA, the same step ran {times(probe.ratio)} as fast in this run "
            f"({ms(probe.base_s)} → {ms(probe.candidate_s)}). Compiling took "
            f"{ms(probe.one_off_s)}, once.",
            bound,
            "measured by a probe of the step in this run",
        )

    def possible(self, evidence: Evidence) -> Finding | None:
        """Try a compiled step with XLA, whatever a probe said."""
        step = _without_xla(evidence)
        if step is None or not step_can_matter(evidence):
            return None
        text = "Each operation of its graph runs as a kernel of its own."
        return self._finding(step, text, *left_by(evidence, "jit_compile"))

    def _finding(self, step: StepFunction, text: str, bound: float | None, basis: str) -> Finding:
        name = step.name or "train_step"
        place = f" ({at(step.where)})" if step.where else ""
        return self.finding(
            title=f"`{name}`{place} is compiled without XLA",
            text=text,
            bound=bound,
            bound_basis=basis,
            where=(step.where,) if step.where else (),
            advice="Give tf.function jit_compile=True.",
            snippet=f"@tf.function(jit_compile=True)\ndef {name}(...):",
            rewritable=step.where is not None,
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Give the decorator the keyword, or the call of `tf.function` that takes the function."""
        site = finding.where[0]
        tensorflow = script.module_name(site.file, "tensorflow", site)
        function = script.definition(site)
        wanted = f"{tensorflow}.function"
        if function.decorator_list:
            script.set_decorator_keyword(site, wanted, "jit_compile", "True")
            return
        calls = [
            node
            for node in ast.walk(script.module(site.file))
            if isinstance(node, ast.Call)
            and dotted(node.func) == wanted
            and node.args
            and dotted(node.args[0]).rpartition(".")[2] == function.name
        ]
        if len(calls) != 1:
            raise CannotRewrite(f"where {function.name} is compiled is not seen")
        (call,) = calls
        if any(each.arg in ("jit_compile", None) for each in call.keywords):
            raise CannotRewrite("jit_compile is chosen by hand")
        end_line, end_col = call.end_lineno or 0, call.end_col_offset or 0
        place = Site(site.file, call.lineno, site.function, call.col_offset, end_line, end_col)
        script.set_keyword(place, "jit_compile", "True")


def _without_xla(evidence: Evidence) -> StepFunction | None:
    """The compiled step of the user's own loop, if XLA is off and may be turned on."""
    step = evidence.step_function
    if step is None or not step.compiled or step.jit is not False or evidence.loop.replicas > 1:
        return None
    return step
