"""A serial `Dataset.map`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainperf.fixes import Example, Fix
from trainperf.fixes._cases import machine, stage
from trainperf.fixes._input_cases import LOAD, fed, starved
from trainperf.fixes._pipeline import (
    cores,
    costly,
    input_at_most,
    known,
    opening,
    pipeline_seconds,
    saved_on,
    sites,
    to_try,
    upper,
)
from trainperf.fixes._words import ms, worth
from trainperf.model import Equivalence, Evidence, Finding, Function, Stage

if TYPE_CHECKING:
    from trainperf.rewrite import Script


class MapParallel(Fix):
    """Run `Dataset.map` on several cores.

    ## Why it is slow
    Without `num_parallel_calls` the function runs for one element after the other.
    The pipeline uses one core; the others and the model wait.
    TensorFlow 2.13 and later parallelise a `map` by themselves, but not one whose
    function holds state: random ops, tables, variables.

    ## What changes
    `num_parallel_calls=tf.data.AUTOTUNE` is added: tf.data chooses how many run at once.
    Elements still come out in order.
    Random ops in the function are drawn in another order, so augmented samples differ
    from those of the same seed before.

    ## When not to
    When the function is Python (`tf.py_function`) that computes: its lock keeps it on one
    core. One that waits for files gains, so it is tried.
    When the function reads and writes a variable and the order of calls matters.
    """

    category = "input"
    usual = 1.8
    equivalence = Equivalence.EXACT

    silent = [
        # the step hides the input
        fed(stage("map", 0.079, function=LOAD)),
        # parallel already, by hand or by tf.data
        starved(stage("map", 0.09, function=LOAD, arguments={"num_parallel_calls": -1})),
        starved(stage("map", 0.09, function=LOAD, parallelised_by_default=True)),
        # Python's lock
        starved(stage("map", 0.09, function=LOAD, python=True)),
        # another stage costs
        starved(stage("map", 0.005, function=LOAD), stage("batch", 0.095)),
        # one core
        starved(stage("map", 0.09, function=LOAD), machine=machine(cores=1.5)),
        # the stage was not timed
        starved(stage("map", None, function=LOAD)),
        # Keras's own
        starved(stage("map", 0.09, where=None, by_user=False)),
    ]
    fires = [
        starved(stage("map", 0.0612, function=LOAD, stateful_random=True), real=0.07, input=0.066),
        starved(
            stage("map", 0.05, function=Function("<lambda>", "train.py", 12)), stage("map", 0.04)
        ),
    ]
    tries_not = [
        # no input could matter
        starved(stage("map", 0.09, function=LOAD, python=True), resident=0.1),
        starved(stage("map", 0.09, function=LOAD, python=True), input=0.001),
        # parallel already
        starved(stage("map", None, function=LOAD, arguments={"num_parallel_calls": -1})),
        starved(stage("map", None, function=LOAD, parallelised_by_default=True)),
        # another stage costs
        starved(stage("map", 0.005, function=LOAD, python=True), stage("batch", 0.095)),
        # one core, and nothing that would wait
        starved(stage("map", None, function=LOAD), machine=machine(cores=1.5)),
        starved(stage("map", None, where=None, by_user=False)),
    ]
    tries = [
        # what waits for files lets go of Python's lock
        starved(stage("map", 0.09, function=LOAD, python=True)),
        starved(stage("map", 0.09, function=LOAD, python=True), machine=machine(cores=1)),
        # not timed
        starved(stage("map", None, function=LOAD)),
        starved(stage("map", 0.09, function=LOAD), resident=None),
        starved(stage("map", None, function=LOAD), real=None, resident=None, input=None),
    ]
    examples = [
        Example(
            before="import tensorflow as tf\n\nds = ▸files.map(load)◂.batch(32)\n",
            after=(
                "import tensorflow as tf\n\n"
                "ds = files.map(load, num_parallel_calls=tf.data.AUTOTUNE).batch(32)\n"
            ),
        ),
        Example(
            before="import tensorflow as tf\n\nds = ▸files.map(load, num_parallel_calls=None)◂\n",
            after=(
                "import tensorflow as tf\n\n"
                "ds = files.map(load, num_parallel_calls=tf.data.AUTOTUNE)\n"
            ),
        ),
        Example(
            before="import tensorflow as tf\n\nds = ▸▸files.map(load)◂.map(augment)◂\n",
            after=(
                "import tensorflow as tf\n\n"
                "ds = files.map(load, num_parallel_calls=tf.data.AUTOTUNE)"
                ".map(augment, num_parallel_calls=tf.data.AUTOTUNE)\n"
            ),
        ),
        Example(  # arguments that cannot be seen
            before="import tensorflow as tf\n\nds = ▸files.map(*how)◂\n",
            after="import tensorflow as tf\n\nds = files.map(*how)\n",
        ),
    ]

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find maps that run one call at a time while the model waits for them."""
        width = cores(evidence)
        serial = costly(evidence, lambda stage: _serial(stage) and not stage.python)
        if not serial or width < 2:
            return None
        seconds = sum(stage.seconds_per_step for stage in serial)
        bound = evidence.bound_if_input_saves(saved_on(width, seconds))
        if not worth(evidence, bound):
            return None
        dearest = serial[0]
        text = (
            f"{opening(dearest)} runs on one core and takes {ms(dearest.seconds_per_step)} of the "
            f"{ms(pipeline_seconds(evidence))} the pipeline needs for a step; "
            f"{width} cores are there."
        )
        if len(serial) > 1:
            text += f" {len(serial)} such maps take {ms(seconds)} together."
        if any(stage.stateful_random for stage in serial):
            text += " tf.data leaves it serial because it draws random numbers."
        basis = upper(evidence, f"the serial maps spread over {width} cores")
        return self._finding(serial, text, bound, basis)

    def possible(self, evidence: Evidence) -> Finding | None:
        """Try serial maps in parallel that were not timed, or are Python."""
        alone = cores(evidence) < 2  # more calls at once only help what waits
        serial = to_try(evidence, lambda stage: _serial(stage) and (stage.python or not alone))
        if not serial:
            return None
        text = f"{opening(serial[0])} runs for one element after the other."
        return self._finding(
            serial, text, known(input_at_most(evidence)), upper(evidence, "the maps cost nothing")
        )

    def _finding(
        self, serial: tuple[Stage, ...], text: str, bound: float | None, basis: str
    ) -> Finding:
        dearest = serial[0]
        other_order = any(stage.stateful_random or stage.python for stage in serial)
        return self.finding(
            title="A `map` runs on one core",
            text=text,
            bound=bound,
            bound_basis=basis,
            where=sites(serial),
            advice="Give `map` `num_parallel_calls=tf.data.AUTOTUNE`.",
            snippet=_snippet(dearest),
            equivalence=Equivalence.NUMERICS if other_order else Equivalence.EXACT,
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Add `num_parallel_calls` to each map."""
        for site in finding.where:
            tf = script.module_name(site.file, "tensorflow")
            script.set_keyword(site, "num_parallel_calls", f"{tf}.data.AUTOTUNE", position=1)


def _serial(stage: Stage) -> bool:
    return (
        stage.op == "map"
        and stage.arguments.get("num_parallel_calls") is None
        and not stage.parallelised_by_default
    )


def _snippet(stage: Stage) -> str:
    name = stage.function.name if stage.function else ""
    if not name.isidentifier():
        return "dataset = dataset.map(function, num_parallel_calls=tf.data.AUTOTUNE)"
    return f"dataset = dataset.map({name}, num_parallel_calls=tf.data.AUTOTUNE)"
