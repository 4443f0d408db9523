"""A Python generator that feeds the pipeline."""

from __future__ import annotations

from typing import Any

from trainperf.fixes import Fix
from trainperf.fixes.common.pipeline import (
    REAL_SHARE,
    function_name,
    input_at_most,
    known,
    opening,
    pipeline_seconds,
    share,
    waits,
)
from trainperf.fixes.common.pipeline import cores as usable_cores
from trainperf.fixes.common.words import SMALLEST_GAIN, at, ms, percent, worth
from trainperf.fixes.tf_data.edits.generators import make_items_in_parallel
from trainperf.model import Equivalence, Evidence, Finding, FunctionCost, Site, Stage, is_taken
from trainperf.rewrite import Script

CALLS = ("from_generator", "generator")
"""The user's own `from_generator`, and what Keras makes of a generator given to `fit`."""


WAITING_CALLS = 16
"""Items made at once where the input waits for storage: threads cost nothing then."""

COPIES = 4
"""Copies of arrays for which there has to be memory: two are made of them, beside the rest."""

FEWEST_CALLS = 2
"""On one core, too, one item can be read while another is decoded."""


class Generator(Fix):
    """Make the items of a Python generator in several threads, or let TensorFlow read them.

    ## Why it is slow
    A generator makes one element after the other, on one core, and shares Python with
    the training loop. `num_parallel_calls` cannot help: its next item needs the one before.

    ## What changes
    The body of the generator's loop becomes a function of one item, which threads run ahead
    for the next ones; items come out in the same order. Reading files, Pillow, OpenCV and
    NumPy let other threads run; for Python's own work, `map` TensorFlow ops over file names.
    A generator that only yields rows of arrays becomes `from_tensor_slices` of the arrays.
    Where items draw random numbers, threads draw them in another order.

    ## When not to
    When an item depends on the one before: such a loop is left alone where that can be seen.
    When what the loop calls is not made for threads: one database cursor, one open file.
    """

    category = "input"
    equivalence = Equivalence.NUMERICS
    usual = 1.3

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find a generator that takes a real share of an input the model waits for."""
        if not evidence.input_bound:
            return None
        stage = next((one for one in evidence.stages if _generator(evidence, one)), None)
        if stage is None or not is_taken(stage.seconds_per_step_):
            return None
        if share(evidence, stage) < REAL_SHARE:
            return None
        bound = evidence.bound_if_input_saves(stage.seconds_per_step)
        if not worth(evidence, bound):
            return None
        text = (
            f"{opening(stage) if stage.by_user else 'The generator'} makes each step's samples in "
            f"Python, one after the other: {ms(stage.seconds_per_step)} of the "
            f"{ms(pipeline_seconds(evidence))} the input takes."
        )
        hottest = _hottest(evidence)
        if hottest is not None:
            place = at(Site(hottest.file, hottest.line))
            text += (
                f" {percent(hottest.share)} of that thread's time is in `{hottest.name}` ({place})."
            )
        return self._finding(evidence, stage, text, bound)

    def possible(self, evidence: Evidence) -> Finding | None:
        """Try threads for a generator that was not timed, or that may cost all the same."""
        most = input_at_most(evidence)
        stage = next((one for one in evidence.stages if _generator(evidence, one)), None)
        if stage is None or most <= 1 + SMALLEST_GAIN:
            return None
        if is_taken(stage.seconds_per_step_) and share(evidence, stage) < REAL_SHARE:
            return None
        name = opening(stage) if stage.by_user else "The generator"
        text = f"{name} makes samples in Python, one after the other."
        return self._finding(evidence, stage, text, known(most))

    def _finding(self, evidence: Evidence, stage: Stage, text: str, bound: float | None) -> Finding:
        where = stage.where or evidence.loop.where
        return self.finding(
            title="A Python generator feeds the model",
            text=text,
            bound=bound,
            bound_basis="the generator costs nothing",
            where=(where,) if where else (),
            advice=(
                "Make its items in several threads; or give tf.data the list of items and do "
                "the work on each in `map`, or use a `PyDataset` with workers."
            ),
            snippet=_snippet(evidence, stage),
            data=_data(evidence, stage),
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Turn the body of the generator's loop into a function that threads call."""
        for site in finding.where:
            make_items_in_parallel(script, site, finding.data)


def _data(evidence: Evidence, stage: Stage) -> dict[str, Any]:
    """How many items are made at once, and where the generator is defined if that was seen."""
    width = max(FEWEST_CALLS, usable_cores(evidence))
    data: dict[str, Any] = {"calls": max(width, WAITING_CALLS) if waits(evidence) else width}
    if stage.function is not None and stage.function.line:
        data["generator"] = [stage.function.file, stage.function.line]
    steps, size = evidence.loop.epoch_steps, stage.element_bytes
    if steps and size and stage.elements_per_step:
        held = COPIES * steps * stage.elements_per_step * size
        data["fits"] = held < evidence.machine.memory_available
    return data


def _generator(evidence: Evidence, stage: Stage) -> bool:
    given_to_fit = stage.op == "generator" or evidence.loop.input_kind == "generator"
    return stage.op in CALLS and (stage.by_user or given_to_fit)


def _hottest(evidence: Evidence) -> FunctionCost | None:
    """The user's function the feeding threads were found in most often."""
    feeding = [each for each in evidence.functions if each.thread == "worker"]
    return max(feeding, key=lambda each: each.share, default=None)


def _snippet(evidence: Evidence, stage: Stage) -> str:
    name = function_name(stage, "the generator")
    workers = max(2, usable_cores(evidence))
    return f"""\
# In place of {name}: tf.data walks over file names or indices ...
dataset = tf.data.Dataset.from_tensor_slices((paths, labels))
dataset = dataset.shuffle(len(paths))


# ... and TensorFlow does the work on each, on all cores.
def load(path, label):
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    return tf.image.resize(image, (height, width)), label


dataset = dataset.map(load, num_parallel_calls=tf.data.AUTOTUNE)
dataset = dataset.batch(batch_size)


# Or, where it has to stay Python: batches made by worker processes.
class Batches(keras.utils.PyDataset):
    def __len__(self):
        return len(paths) // batch_size

    def __getitem__(self, index):
        part = slice(index * batch_size, (index + 1) * batch_size)
        return load_arrays(paths[part]), labels[part]


train_data = Batches(workers={workers}, use_multiprocessing=True)
model.fit(train_data)
"""
