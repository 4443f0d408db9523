"""Debug modes of TensorFlow that were left on."""

from __future__ import annotations

import ast

from trainperf.errors import CannotRewrite
from trainperf.fixes import Fix
from trainperf.fixes.common.step import step_can_matter, step_may_matter
from trainperf.fixes.common.words import at
from trainperf.model import Equivalence, Evidence, Finding, Site
from trainperf.rewrite import Script

WHAT = {
    "numerics": "Each result of each operation is searched for NaN and infinity, in the graph "
    "as well.",
    "dump": "Each tensor, or a digest of it, is written to disk.",
    "eager_input": "tf.data runs its functions in Python, operation by operation, one element "
    "after the other.",
    "deterministic": "The fastest kernels of a GPU are ruled out, XLA is not chosen by itself, "
    "and a `map` that draws random numbers runs on one core.",
}
NAMES = {
    "numerics": "check_numerics",
    "dump": "The dump of tensors",
    "eager_input": "tf.data's debug mode",
    "deterministic": "Op determinism",
}
CALLS = {
    "numerics": "tf.debugging.enable_check_numerics()",
    "dump": "tf.debugging.experimental.enable_dump_debug_info(...)",
    "eager_input": "tf.data.experimental.enable_debug_mode()",
    "deterministic": "tf.config.experimental.enable_op_determinism()",
}


class DebugModes(Fix):
    """Turn TensorFlow's debug modes off.

    ## Why it is slow
    `enable_check_numerics` adds a check to every operation that gives numbers.
    `enable_dump_debug_info` writes tensors to disk. `tf.data`'s debug mode runs the input
    in Python. `enable_op_determinism` leaves out the fastest kernels of a GPU, the parallel
    `map` of functions that draw random numbers, and XLA.

    ## What changes
    The call that turned the mode on is taken out. Without determinism, two runs on a GPU
    differ in the last digits, and random augmentation differs from run to run.

    ## When not to
    - While you look for a NaN, or for the cause of a difference between two runs.
    - Where results must be the same bit by bit.
    """

    category = "host"
    usual = 2.0
    equivalence = Equivalence.EXACT
    framework = "tensorflow"

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find modes that are on, and slow down what the training waits for."""
        on = [mode for mode in _on(evidence) if _matters(evidence, mode)]
        return self._finding(evidence, on) if on else None

    def possible(self, evidence: Evidence) -> Finding | None:
        """Try without every mode that is on, unless nothing it slows down can matter."""
        of_the_step = ("numerics", "dump")
        matters = step_can_matter(evidence)
        on = [mode for mode in _on(evidence) if matters or mode not in of_the_step]
        return self._finding(evidence, on) if on else None

    def _finding(self, evidence: Evidence, on: list[str]) -> Finding:
        modes = evidence.facts["tf_debug_modes"]
        sites = {mode: Site(**modes[mode]) for mode in on if isinstance(modes[mode], dict)}
        names = [NAMES[mode] for mode in on]
        listed = ", ".join([names[0], *(name[0].lower() + name[1:] for name in names[1:])])
        where = tuple(sites.values())
        place = at(next(iter(where), None))
        alone = len(on) == 1
        return self.finding(
            title=f"{listed} {'is' if alone else 'are'} on" + (f" ({place})" if place else ""),
            text=" ".join(WHAT[mode] for mode in on),
            bound=None,
            bound_basis="not measured",
            where=where,
            advice=f"Take the call{'' if alone else 's'} out unless you are looking for a fault"
            + (" or need runs that repeat exactly." if "deterministic" in on else "."),
            snippet="\n".join(f"# {CALLS[mode]}" for mode in on),
            equivalence=Equivalence.NUMERICS if "deterministic" in on else None,
            rewritable=len(where) == len(on) and all(site.exact for site in where),
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Take the calls out, where each is a statement of its own."""
        for site in finding.where:
            *around, statement = script.around(site)
            if not isinstance(statement, ast.Expr) or any(map(_is_choice, around)):
                raise CannotRewrite("whether the mode is on is chosen elsewhere")
            script.remove_statement(site)


def _on(evidence: Evidence) -> list[str]:
    seen = evidence.facts.get("tf_debug_modes")
    return [mode for mode in NAMES if isinstance(seen, dict) and mode in seen]


def _matters(evidence: Evidence, mode: str) -> bool:
    """Whether what a mode slows down is a part of the step worth looking at."""
    input_counts = evidence.input_bound
    if mode == "eager_input":
        return input_counts
    if mode == "deterministic" and evidence.device.kind != "GPU":
        return input_counts
    return step_may_matter(evidence)


def _is_choice(statement: ast.stmt) -> bool:
    """Whether what stands in a statement runs or not by a choice of the user's."""
    return isinstance(statement, ast.If) and "__name__" not in ast.unparse(statement.test)
