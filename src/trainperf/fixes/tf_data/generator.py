"""A Python generator that feeds the pipeline."""

from __future__ import annotations

from typing import Any

from trainperf.fixes import Fix
from trainperf.fixes.cause import Cause, Saving
from trainperf.fixes.common.pipeline import (
    cores,
    function_name,
    is_dear,
    opening,
    takes,
    waits,
    worker_said,
)
from trainperf.fixes.tf_data._apart import make_apart
from trainperf.fixes.tf_data._mapped import generator_at
from trainperf.model import Equivalence, Evidence, Finding, Stage, is_taken
from trainperf.rewrite import Script

CALLS = ("from_generator", "generator")
"""The user's own `from_generator`, and what Keras makes of a generator given to `fit`."""

WAITING_CALLS = 16
"""Items made at once where the input waits for storage: threads cost nothing then."""

FEWEST_CALLS = 2
"""On one core, too, one item can be read while another is decoded."""


class TfGenerator(Fix):
    """Make the items of a Python generator in several threads, or let TensorFlow read them.

    ## Why it is slow
    A generator makes one element after the other, on one core, and shares Python with the
    training loop. `num_parallel_calls` cannot help: its next item needs the one before.

    ## What changes
    The body of the generator's loop becomes a function of one item, which threads run ahead for
    the next ones, in order; reading files, Pillow, OpenCV and NumPy let other threads run.
    Threads draw random numbers in another order.

    ## When not to
    When an item depends on the one before: such a loop is left alone where that can be seen.
    When what the loop calls is not made for threads: one database cursor, one open file.
    When it only yields rows of arrays: `tf.data.Dataset.from_tensor_slices` is for these.
    """

    category = "input"
    equivalence = Equivalence.NUMERICS
    usual = 1.3

    def look(self, evidence: Evidence) -> Cause | None:
        """Find a generator that takes a real share of the input, or was not timed."""
        stage = next((stage for stage in evidence.stages if _generates(evidence, stage)), None)
        if stage is None:
            return None
        dear = is_dear(evidence, stage)
        if is_taken(stage.seconds_per_step_) and not dear:
            return None
        where = stage.where or evidence.loop.where
        width = max(FEWEST_CALLS, cores(evidence))
        data: dict[str, Any] = {"calls": max(width, WAITING_CALLS) if waits(evidence) else width}
        if stage.function is not None and stage.function.line:
            data["generator"] = [stage.function.file, stage.function.line]
        name = opening(stage) if stage.by_user else "The generator"
        return Cause(
            title="A Python generator feeds the model",
            text=f"{name} makes samples in Python, one after the other{takes(evidence, [stage])}."
            f"{worker_said(evidence)}",
            saves=Saving("the generator costs nothing", lambda: stage.seconds_per_step, of="input"),
            where=(where,) if where else (),
            advice="Make its items in several threads; or give tf.data the list of items and do "
            "the work on each in `map`, or use a `PyDataset` with workers.",
            snippet=SNIPPET.format(name=function_name(stage, "the generator")),
            sure=dear,
            data=data,
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Turn the body of the generator's loop into a function that threads call."""
        for site in finding.where:
            head = generator_at(script, site, finding.data.get("generator"))
            make_apart(script, head, finding.data["calls"])


def _generates(evidence: Evidence, stage: Stage) -> bool:
    given_to_fit = stage.op == "generator" or evidence.loop.input_kind == "generator"
    return stage.op in CALLS and (stage.by_user or given_to_fit)


SNIPPET = """\
# In place of {name}: tf.data walks over file names, TensorFlow works on each, on all cores.
def load(path, label):
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    return tf.image.resize(image, (height, width)), label


dataset = tf.data.Dataset.from_tensor_slices((paths, labels)).shuffle(len(paths))
dataset = dataset.map(load, num_parallel_calls=tf.data.AUTOTUNE).batch(batch_size)
"""
