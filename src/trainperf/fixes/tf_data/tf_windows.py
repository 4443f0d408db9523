"""Windows of a time series that are gathered one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainperf.fixes import Example, Fix
from trainperf.fixes.common.cases import OTHER_SITE, stage
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
from trainperf.fixes.tf_data._input_cases import fed, starved
from trainperf.fixes.tf_data.edits.windows import (
    BY_BATCH,
    IN_ORDER,
    SHUFFLED,
    UTILITY,
    gather_by_batch,
)
from trainperf.model import Equivalence, Evidence, Finding, Stage

if TYPE_CHECKING:
    from trainperf.rewrite import Script

FEWEST = 16
"""Windows of a batch below which there is little to put together."""

BATCHED = {"batch_size": 256}
NAME = "batches_of_windows"
PLAIN = BY_BATCH.format(name=NAME, tf="tf", order="", starts=IN_ORDER.format(tf="tf"))
ORDERED = BY_BATCH.format(
    name=NAME,
    tf="tf",
    order="\n    shuffle=False,\n    seed=None,",
    starts=SHUFFLED.format(tf="tf", np="np"),
)


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

    silent = [
        fed(stage(UTILITY, 0.079, arguments=BATCHED)),
        # windows that the script batches, or hardly any of them
        starved(stage(UTILITY, 0.09), stage("batch", 0.01, arguments=BATCHED)),
        starved(stage(UTILITY, 0.09, arguments={"batch_size": 4})),
        # another stage costs
        starved(stage(UTILITY, 0.004, arguments=BATCHED), stage("map", 0.096)),
        starved(stage(UTILITY, None, arguments=BATCHED)),
        starved(stage("image_dataset_from_directory", 0.09, arguments=BATCHED)),
    ]
    fires = [
        starved(stage(UTILITY, 0.09, arguments=BATCHED)),
        starved(stage(UTILITY, 0.06, arguments=BATCHED), stage("map", 0.04, where=OTHER_SITE)),
    ]
    tries_not = [
        starved(stage(UTILITY, None, arguments=BATCHED), resident=0.1),
        starved(stage(UTILITY, None)),
        starved(stage(UTILITY, 0.004, arguments=BATCHED), stage("map", 0.096)),
    ]
    tries = [
        starved(stage(UTILITY, None, arguments=BATCHED)),
        starved(stage(UTILITY, 0.09, arguments=BATCHED), resident=None),
    ]
    examples = [
        Example(  # the validation's windows are of the same form; others are not
            before=f"""\
import keras
import tensorflow as tf

train = ▸keras.preprocessing.{UTILITY}(
    x, y, sequence_length=120, sampling_rate=step, batch_size=256
)◂
val = keras.utils.{UTILITY}(
    x_val, y_val, sequence_length=120, sampling_rate=step, batch_size=256
)
shown = keras.utils.{UTILITY}(x, y, sequence_length=120)
""",
            after=f"""\
import keras
import tensorflow as tf


{PLAIN}

train = {NAME}(
    x, y, sequence_length=120, sampling_rate=step, batch_size=256
)
val = {NAME}(
    x_val, y_val, sequence_length=120, sampling_rate=step, batch_size=256
)
shown = keras.utils.{UTILITY}(x, y, sequence_length=120)
""",
        ),
        Example(
            before=f"""\
import numpy as np
import tensorflow as tf


def windows(rows):
    ds = ▸tf.keras.utils.{UTILITY}(
        data=rows,
        targets=None,
        sequence_length=24,
        shuffle=True,
        batch_size=32,
        format="tf",
    )◂
    return ds.map(split)
""",
            after=f"""\
import numpy as np
import tensorflow as tf


{ORDERED}

def windows(rows):
    ds = {NAME}(
        data=rows,
        targets=None,
        sequence_length=24,
        shuffle=True,
        batch_size=32,
    )
    return ds.map(split)
""",
        ),
        Example.untouched(f"import keras\n\nds = ▸keras.utils.{UTILITY}(x, y, **how)◂\n"),
        Example.untouched(f"import keras\n\nds = ▸keras.utils.{UTILITY}(*xy, 24)◂\n"),
        Example.untouched(f"import keras\n\nds = ▸keras.utils.{UTILITY}(x, y, 9, format=kind)◂\n"),
        Example.untouched(
            f"import keras\n\nn = None\nds = ▸keras.utils.{UTILITY}(x, y, 9, batch_size=n)◂\n"
        ),
        Example.untouched(f"from helpers import {UTILITY}\n\nds = ▸{UTILITY}(x, y, 9)◂\n"),
    ]

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
