"""Many files read one after the other."""

from __future__ import annotations

from trainperf.fixes import Fix
from trainperf.fixes.common.pipeline import (
    cores,
    costly,
    function_name,
    input_at_most,
    known,
    opening,
    pipeline_seconds,
    saved_on,
    sites,
    to_try,
    upper,
    waits,
)
from trainperf.fixes.common.words import ms, worth
from trainperf.model import Equivalence, Evidence, Finding, Stage
from trainperf.rewrite import Script


class InterleaveParallel(Fix):
    """Read the files of `Dataset.interleave` at the same time.

    ## Why it is slow
    Without `num_parallel_calls`, `interleave` takes turns between its files but reads
    one block at a time. Each wait for the disk or the network is a wait of the model.

    ## What changes
    `num_parallel_calls=tf.data.AUTOTUNE` is added: the files of a cycle are read at once.
    With a `cycle_length` in the call the order of elements stays as it was.
    Without one, tf.data chooses another cycle for the parallel form: the order changes.

    ## When not to
    When a spinning disk holds the files: it reads one after the other faster.
    When memory is short: each open file holds a buffer.
    """

    category = "input"
    usual = 1.3
    equivalence = Equivalence.EXACT

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find interleaves that read one file at a time while the model waits."""
        serial = costly(evidence, lambda stage: _serial(stage) and not stage.python)
        if not serial:
            return None
        dearest = serial[0]
        width = _width(evidence, dearest)
        bound = evidence.bound_if_input_saves(saved_on(width, dearest.seconds_per_step))
        if not worth(evidence, bound):
            return None
        text = (
            f"{opening(dearest)} reads one file at a time and takes "
            f"{ms(dearest.seconds_per_step)} of the {ms(pipeline_seconds(evidence))} "
            f"the pipeline needs for a step."
        )
        basis = upper(evidence, f"{width} files read at once")
        return self._finding(dearest, width, text, bound, basis)

    def possible(self, evidence: Evidence) -> Finding | None:
        """Try files read at once where that was not timed, or one core may wait for them."""
        found = to_try(evidence, lambda stage: _serial(stage) and _cycle(stage) != 1)
        if not found:
            return None
        most = known(input_at_most(evidence))
        width = _cycle(found[0]) or cores(evidence)
        text = f"{opening(found[0])} reads one file at a time."
        return self._finding(found[0], width, text, most, upper(evidence, "reading costs nothing"))

    def _finding(
        self, dearest: Stage, width: int, text: str, bound: float | None, basis: str
    ) -> Finding:
        changes = dearest.stateful_random or dearest.python
        in_order = _cycle(dearest) is not None and not changes
        return self.finding(
            title="Files are read one at a time",
            text=text,
            bound=bound,
            bound_basis=basis,
            where=sites((dearest,)),
            advice="Give `interleave` `num_parallel_calls=tf.data.AUTOTUNE`.",
            snippet=(
                "dataset = files.interleave(\n"
                f"    {function_name(dearest, 'tf.data.TFRecordDataset')},\n"
                f"    cycle_length={_cycle(dearest) or width},\n"
                "    num_parallel_calls=tf.data.AUTOTUNE,\n"
                ")"
            ),
            equivalence=Equivalence.EXACT if in_order else Equivalence.NUMERICS,
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Add `num_parallel_calls` to the interleave."""
        for site in finding.where:
            tf = script.module_name(site.file, "tensorflow")
            script.set_keyword(site, "num_parallel_calls", f"{tf}.data.AUTOTUNE", position=3)


def _serial(stage: Stage) -> bool:
    return (
        stage.op == "interleave"
        and stage.arguments.get("num_parallel_calls") is None
        and not stage.parallelised_by_default
    )


def _cycle(stage: Stage) -> int | None:
    """The cycle length given in the call; None where tf.data chooses it."""
    given = stage.arguments.get("cycle_length")
    return given if isinstance(given, int) and given > 0 else None


def _width(evidence: Evidence, stage: Stage) -> int:
    """How many files can be read at once: the cycle, capped by the cores if they are busy."""
    cycle = _cycle(stage)
    if cycle is None:
        return cores(evidence)
    return cycle if waits(evidence) else min(cycle, cores(evidence))
