"""Python called from inside a tf.data pipeline."""

from __future__ import annotations

from trainperf.fixes import Fix
from trainperf.fixes.common.cases import stage
from trainperf.fixes.common.pipeline import costly, function_name, opening, pipeline_seconds, sites
from trainperf.fixes.common.words import at, ms, percent, worth
from trainperf.fixes.tf_data._input_cases import LOAD, fed, starved
from trainperf.model import Equivalence, Evidence, Finding, FunctionCost, Site, Stage


class PyFunction(Fix):
    """Replace `tf.py_function` by TensorFlow ops.

    ## Why it is slow
    `tf.py_function` and `tf.numpy_function` call back into Python, under its lock.
    However many calls `map` allows, one runs at a time, and the training loop's own
    Python waits for it too.

    ## What changes
    The function is written with TensorFlow ops (`tf.io`, `tf.image`, `tf.strings`), which
    run without the lock on all cores.
    Results may differ a little: decoders and resizers round differently.

    ## When not to
    When the function spends its time where the lock is released (reading files, Pillow,
    OpenCV, large NumPy calls): then `num_parallel_calls` alone is worth a try first.
    When no TensorFlow op does it: make the data once, write it as TFRecords, read those.
    """

    category = "input"
    equivalence = Equivalence.NUMERICS

    silent = [
        fed(stage("map", 0.079, python=True, function=LOAD)),
        starved(stage("map", 0.09, function=LOAD)),
        starved(stage("map", 0.003, python=True, function=LOAD), stage("batch", 0.09)),
        starved(stage("map", None, python=True, function=LOAD)),
    ]
    fires = [
        starved(stage("map", 0.09, python=True, function=LOAD)),
        starved(
            stage("map", 0.06, python=True, arguments={"num_parallel_calls": -1}),
            stage("batch", 0.04),
            functions=(FunctionCost("parse", "data.py", 22, 0.7, "worker", 300),),
        ),
        starved(stage("interleave", 0.09, python=True)),
    ]

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find Python inside the pipeline that the model waits for."""
        found = costly(evidence, lambda stage: stage.python and stage.op != "from_generator")
        if not found:
            return None
        seconds = sum(stage.seconds_per_step for stage in found)
        bound = evidence.bound_if_input_saves(seconds)
        if not worth(evidence, bound):
            return None
        dearest = found[0]
        text = (
            f"{opening(dearest)} is Python inside the pipeline, one call at a time: "
            f"{ms(dearest.seconds_per_step)} of the {ms(pipeline_seconds(evidence))} "
            f"the pipeline needs for a step."
        )
        feeding = [each for each in evidence.functions if each.thread == "worker"]
        hottest = max(feeding, key=lambda each: each.share, default=None)
        if hottest is not None:
            place = at(Site(hottest.file, hottest.line))
            text += (
                f" {percent(hottest.share)} of that thread's time is in `{hottest.name}` ({place})."
            )
        return self.finding(
            title="Python runs inside the pipeline",
            text=text,
            bound=bound,
            bound_basis="the Python stages cost nothing",
            where=sites(found),
            advice="Write the function with TensorFlow ops, or prepare its results once.",
            snippet=_snippet(dearest),
        )


def _snippet(stage: Stage) -> str:
    name = function_name(stage, "load")
    lines = [
        "# TensorFlow ops run on all cores; tf.py_function runs on one",
        f"def {name}(path, label):",
        "    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)",
        "    image = tf.image.resize(image, (height, width)) / 255.0",
        "    return image, label",
        "",
        "",
        f"dataset = dataset.map({name}, num_parallel_calls=tf.data.AUTOTUNE)",
    ]
    if stage.arguments.get("num_parallel_calls") is None:
        lines += [
            "",
            "# Try first, if the function waits for files or calls Pillow or OpenCV:",
            "# your call as it is, with num_parallel_calls=tf.data.AUTOTUNE.",
        ]
    return "\n".join(lines)
