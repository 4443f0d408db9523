"""Windows of a time series that are gathered one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainperf.fixes import Fix
from trainperf.fixes.common.pipeline import (
    costly,
    input_at_most,
    known,
    opening,
    pipeline_seconds,
    sites,
    to_try,
    upper,
)
from trainperf.fixes.common.words import ms, worth
from trainperf.fixes.tf_data.edits.windows import (
    UTILITY,
    gather_by_batch,
)
from trainperf.model import Equivalence, Evidence, Finding, Stage

if TYPE_CHECKING:
    from trainperf.rewrite import Script

FEWEST = 16
"""Windows of a batch below which there is little to put together."""


class Windows(Fix):
    """Gather the windows of a time series batch by batch.

    ## Why it is slow
    Keras's `timeseries_dataset_from_array` calls two small functions for every window, two more
    for its target, and copies the window once more into its batch: 1,024 calls for a batch
    of 256. They often take longer than copying the numbers.

    ## What changes
    A function in the script takes the same arguments: it batches the start positions and gathers
    all windows of a batch at once, in parallel for several batches, and prefetches them.
    Batches, their order (shuffled or not, by the same random numbers), the last batch, shapes
    and types stay the same. Calls in the same file that make batches of the same form go along.

    ## When not to
    When windows are so large (thousands of steps, pictures) that copying them is all the work.
    When memory is short: whole batches are prefetched, not single windows.
    """

    category = "input"
    usual = 1.4
    equivalence = Equivalence.EXACT

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find windows that Keras gathers one by one while the model waits."""
        found = costly(evidence, _batched)
        seconds = sum(stage.seconds_per_step for stage in found)
        bound = evidence.bound_if_input_saves(seconds)
        if not found or not worth(evidence, bound):
            return None
        text = (
            f"{opening(found[0])} gathers {_windows(found[0])} windows a batch one by one: "
            f"{ms(seconds)} of the {ms(pipeline_seconds(evidence))} the pipeline needs for a step."
        )
        return self._finding(evidence, found, text, bound)

    def possible(self, evidence: Evidence) -> Finding | None:
        """Try windows gathered by the batch where their cost was not timed, or is not certain."""
        found = to_try(evidence, _batched)
        if not found:
            return None
        text = f"{opening(found[0])} gathers {_windows(found[0])} windows a batch one by one."
        return self._finding(evidence, found, text, known(input_at_most(evidence)))

    def _finding(
        self, evidence: Evidence, found: tuple[Stage, ...], text: str, bound: float | None
    ) -> Finding:
        return self.finding(
            title="Windows of a time series are gathered one by one",
            text=text,
            bound=bound,
            bound_basis=upper(evidence, "gathering windows costs nothing"),
            where=sites(found),
            advice="Batch the start positions of the windows, and gather a batch at once.",
            snippet=(
                "starts = tf.data.Dataset.range(count).batch(batch_size)\n"
                "steps = tf.range(0, sequence_length * sampling_rate, sampling_rate, tf.int64)\n"
                "dataset = starts.map(\n"
                "    lambda at: (tf.gather(data, at[:, None] + steps), tf.gather(targets, at)),\n"
                "    num_parallel_calls=tf.data.AUTOTUNE,\n"
                ").prefetch(tf.data.AUTOTUNE)"
            ),
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Call a function that gathers whole batches, in place of Keras's."""
        gather_by_batch(script, finding.where)


def _batched(stage: Stage) -> bool:
    return stage.op == UTILITY and _windows(stage) >= FEWEST


def _windows(stage: Stage) -> int:
    """How many windows the utility puts in a batch; 0 where it makes single ones."""
    size = stage.arguments.get("batch_size")
    return size if isinstance(size, int) else 0
