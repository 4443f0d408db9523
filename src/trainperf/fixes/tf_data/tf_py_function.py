"""Python called from inside a tf.data pipeline."""

from __future__ import annotations

from trainperf.errors import CannotRewrite
from trainperf.fixes import Fix
from trainperf.fixes.common.pipeline import (
    costly,
    function_name,
    input_at_most,
    known,
    opening,
    pipeline_seconds,
    sites,
    to_try,
)
from trainperf.fixes.common.words import at, ms, percent, worth
from trainperf.fixes.tf_data.edits.mapped import mapped
from trainperf.fixes.tf_data.tf_map_parallel import choices, run_in_parallel, runs_serially
from trainperf.model import Equivalence, Evidence, Finding, Site, Stage
from trainperf.rewrite import Script
from trainperf.source.bodies import function_of, python_op
from trainperf.source.iterations import arguments
from trainperf.source.mutations import changes_shared
from trainperf.source.scopes import FUNCTIONS


class PyFunction(Fix):
    """Run `tf.py_function` for several elements at once, or replace it by TensorFlow ops.

    ## Why it is slow
    `tf.py_function` and `tf.numpy_function` call back into Python, under its lock.
    However many calls `map` allows, one runs Python at a time, and the training loop's own
    Python waits for it too.

    ## What changes
    `num_parallel_calls` is added where a `map` has none. Reading files, Pillow, OpenCV and large
    NumPy calls let go of the lock, and run beside each other then.
    What remains goes away where the function is written with TensorFlow ops (`tf.io`,
    `tf.image`, `tf.strings`). These round differently, as decoders and resizers do.

    ## When not to
    When the function keeps something from one call to the next, or is not made for threads.
    When no TensorFlow op does it: make the data once, write it as TFRecords, read those.
    """

    category = "input"
    equivalence = Equivalence.NUMERICS

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
        return self._finding(evidence, found, text, bound)

    def possible(self, evidence: Evidence) -> Finding | None:
        """Try serial maps with Python in parallel that were not timed."""
        found = to_try(evidence, lambda stage: stage.python and runs_serially(stage))
        if not found:
            return None
        text = f"{opening(found[0])} is Python, and runs for one element after the other."
        return self._finding(evidence, found, text, known(input_at_most(evidence)))

    def _finding(
        self, evidence: Evidence, found: tuple[Stage, ...], text: str, bound: float | None
    ) -> Finding:
        serial = sites(one for one in found if runs_serially(one))
        return self.finding(
            title="Python runs inside the pipeline",
            text=text,
            bound=bound,
            bound_basis="the Python stages cost nothing",
            where=serial or sites(found),
            advice="Write the function with TensorFlow ops, or prepare its results once.",
            snippet=_snippet(found[0]),
            data=choices(evidence) if serial else {},
            rewritable=bool(serial) and all(site.exact for site in serial),
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Give each serial map with Python in it `num_parallel_calls`."""
        for site in finding.where:
            _check(script, site)
        run_in_parallel(script, finding.where, finding.data)


def _check(script: Script, site: Site) -> None:
    """Refuse Python of the file that keeps something from one element to the next."""
    module, function = mapped(script, site)
    called = None if function is None else python_op(module, function)
    inner = function_of(module, called.args[0]) if called and called.args else None
    if isinstance(inner, FUNCTIONS):
        changed = changes_shared(module, inner.body, arguments(inner))
        if changed:
            raise CannotRewrite(f"the elements are not made apart: {changed}")


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
