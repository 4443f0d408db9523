"""A Python generator that feeds the pipeline."""

from __future__ import annotations

from trainperf.fixes import Fix
from trainperf.fixes.common.cases import SITE, stage
from trainperf.fixes.common.pipeline import (
    REAL_SHARE,
    function_name,
    opening,
    pipeline_seconds,
    share,
)
from trainperf.fixes.common.pipeline import cores as usable_cores
from trainperf.fixes.common.words import at, ms, percent, worth
from trainperf.fixes.tf_data._input_cases import fed, starved
from trainperf.model import (
    Equivalence,
    Evidence,
    Finding,
    Function,
    FunctionCost,
    Loop,
    Site,
    Stage,
    is_taken,
)

CALLS = ("from_generator", "generator")
"""The user's own `from_generator`, and what Keras makes of a generator given to `fit`."""

SAMPLES = Function("samples", "data.py", 30)


class Generator(Fix):
    """Let TensorFlow read the data in place of a Python generator.

    ## Why it is slow
    `from_generator` calls Python for one element after the other.
    Python runs on one core at a time, and shares it with the training loop.
    `num_parallel_calls` cannot help a generator: its next item needs the one before.

    ## What changes
    The generator yields only what is cheap, such as file names or indices, or becomes
    `from_tensor_slices`. Reading and decoding go into a `map` on several cores.
    Where the work has to stay in Python, a Keras `PyDataset` runs it in worker processes.

    ## When not to
    When items really depend on each other, as with a stream from a socket.
    When the generator only hands out arrays it already has and still is not the slow part.
    """

    category = "input"
    equivalence = Equivalence.NUMERICS

    silent = [
        fed(stage("from_generator", 0.079, function=SAMPLES)),
        starved(stage("from_generator", 0.004, function=SAMPLES), stage("map", 0.096)),
        starved(stage("from_generator", None, function=SAMPLES)),
        starved(stage("from_tensor_slices", 0.01), stage("map", 0.09)),
        # Keras feeds a PyDataset through a generator of its own
        starved(
            stage("from_generator", 0.09, where=None, by_user=False),
            loop=Loop("fit", where=SITE, input_kind="PyDataset"),
        ),
    ]
    fires = [
        starved(stage("from_generator", 0.085, function=SAMPLES), stage("batch", 0.015)),
        starved(
            stage("from_generator", 0.09, function=SAMPLES),
            functions=(FunctionCost("decode", "data.py", 41, 0.62, "worker", 300, "PIL"),),
        ),
        # a generator given to fit
        starved(
            stage("generator", 0.09, where=None, by_user=False),
            loop=Loop("fit", where=SITE, input_kind="generator"),
        ),
    ]

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find a generator that takes a real share of an input the model waits for."""
        if not evidence.input_bound:
            return None
        found = [stage for stage in evidence.stages if _generator(evidence, stage)]
        if not found or share(evidence, found[0]) < REAL_SHARE:
            return None
        stage = found[0]
        bound = evidence.bound_if_input_saves(stage.seconds_per_step)
        if not worth(evidence, bound):
            return None
        where = stage.where or evidence.loop.where
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
        return self.finding(
            title="A Python generator feeds the model",
            text=text,
            bound=bound,
            bound_basis="the generator costs nothing",
            where=(where,) if where else (),
            advice=(
                "Give tf.data the list of items and do the work on each in `map`; "
                "or use a `PyDataset` with workers."
            ),
            snippet=_snippet(evidence, stage),
        )


def _generator(evidence: Evidence, stage: Stage) -> bool:
    if not is_taken(stage.seconds_per_step_):
        return False
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
