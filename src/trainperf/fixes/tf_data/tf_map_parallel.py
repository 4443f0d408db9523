"""A serial `Dataset.map`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainperf.fixes import Example, Fix
from trainperf.fixes.common.cases import machine, stage
from trainperf.fixes.common.pipeline import (
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
    waits,
)
from trainperf.fixes.common.words import ms, worth
from trainperf.fixes.tf_data._input_cases import LOAD, fed, starved
from trainperf.fixes.tf_data.edits.parallel_calls import (
    WAITING_CALLS,
    choices,
    run_in_parallel,
    runs_serially,
)
from trainperf.model import Equivalence, Evidence, Finding, Function, PhaseUse, Stage

if TYPE_CHECKING:
    from trainperf.rewrite import Script


IDLE = (PhaseUse("input", 20, cpu_cores=0.1),)


class MapParallel(Fix):
    """Run `Dataset.map` on several cores.

    ## Why it is slow
    Without `num_parallel_calls` the function runs for one element after the other.
    The pipeline uses one core; the others and the model wait.
    TensorFlow 2.13 and later parallelise a `map` by themselves, but not one whose
    function holds state: random ops, tables, variables.

    ## What changes
    `num_parallel_calls=tf.data.AUTOTUNE` is added: tf.data chooses how many run at once.
    Elements still come out in order. Where the input hardly uses a core while it is waited
    for, 16 at once on 16 threads are tried as well: by itself tf.data has one for each core.
    Random ops in the function are drawn in another order, so augmented samples differ
    from those of the same seed before.

    ## When not to
    When the function is Python (`tf.py_function`): `tf_py_function` is about that.
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
        starved(stage("map", None, function=LOAD), resident=0.1),
        starved(stage("map", None, function=LOAD), input=0.001),
        # Python's lock
        starved(stage("map", 0.09, function=LOAD, python=True)),
        # parallel already
        starved(stage("map", None, function=LOAD, arguments={"num_parallel_calls": -1})),
        starved(stage("map", None, function=LOAD, parallelised_by_default=True)),
        # another stage costs
        starved(stage("map", 0.005, function=LOAD, python=True), stage("batch", 0.095)),
        # a number was chosen
        starved(stage("map", 0.09, function=LOAD, arguments={"num_parallel_calls": 4}), use=IDLE),
        # one core, and nothing that would wait
        starved(stage("map", None, function=LOAD), machine=machine(cores=1.5)),
        starved(stage("map", None, where=None, by_user=False)),
    ]
    tries = [
        # it waits, and runs on as many threads as there are cores
        starved(stage("map", 0.09, function=LOAD, arguments={"num_parallel_calls": -1}), use=IDLE),
        # not timed
        starved(stage("map", None, function=LOAD)),
        starved(stage("map", 0.09, function=LOAD), resident=None),
        starved(stage("map", None, function=LOAD), real=None, resident=None, input=None),
    ]
    examples = [
        Example(
            before="""\
import tensorflow as tf


def data(files):
    return ▸▸files.map(load, tf.data.AUTOTUNE)◂.map(resize)◂.batch(32)
""",
            after="""\
import tensorflow as tf


def data(files):
    waiting = tf.data.Options()
    waiting.threading.private_threadpool_size = 16
    return files.map(load, 16).map(resize, num_parallel_calls=16).with_options(waiting).batch(32)
""",
            data={"calls": 16},
        ),
        Example(
            before="import tensorflow as tf\n\nwaiting = 3\nds = ▸files.map(load)◂\n",
            after="import tensorflow as tf\n\nwaiting = 3\nwaiting_2 = tf.data.Options()\n"
            "waiting_2.threading.private_threadpool_size = 16\n"
            "ds = files.map(load, num_parallel_calls=16).with_options(waiting_2)\n",
            data={"calls": 16},
        ),
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
        Example.untouched("import tensorflow as tf\n\nds = ▸files.map(*how)◂\n"),
    ]

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find maps that run one call at a time while the model waits for them."""
        width = cores(evidence)
        serial = costly(evidence, lambda stage: runs_serially(stage) and not stage.python)
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
        if waits(evidence):
            bound = evidence.bound_if_input_saves(saved_on(max(width, WAITING_CALLS), seconds))
        return self._finding(serial, text, bound, basis, choices(evidence))

    def possible(self, evidence: Evidence) -> Finding | None:
        """Try serial maps in parallel that were not timed, and more calls of others.

        The others are those that wait, and that tf.data gives as many calls as cores.
        """
        alone = cores(evidence) < 2  # more calls at once only help what waits
        serial = to_try(
            evidence, lambda stage: runs_serially(stage) and not stage.python and not alone
        )
        found = serial
        if not serial and waits(evidence):
            found = to_try(evidence, _tuned)
        if not found:
            return None
        how = "runs for one element after the other" if serial else "waits, on as many threads"
        text = f"{opening(found[0])} {how}{'' if serial else ' as there are cores'}."
        most, basis = known(input_at_most(evidence)), upper(evidence, "the maps cost nothing")
        data = choices(evidence) if serial else {"calls": WAITING_CALLS}
        return self._finding(found, text, most, basis, data)

    def _finding(
        self,
        serial: tuple[Stage, ...],
        text: str,
        bound: float | None,
        basis: str,
        data: dict[str, Any],
    ) -> Finding:
        dearest = serial[0]
        other_order = any(stage.stateful_random for stage in serial)
        return self.finding(
            title="A `map` runs on few cores" if "calls" in data else "A `map` runs on one core",
            text=text,
            bound=bound,
            bound_basis=basis,
            where=sites(serial),
            advice="Give `map` `num_parallel_calls=tf.data.AUTOTUNE`"
            + (", or more calls, and threads for them." if data else "."),
            snippet=_snippet(dearest),
            equivalence=Equivalence.NUMERICS if other_order else Equivalence.EXACT,
            data=data,
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Give each map `num_parallel_calls`: AUTOTUNE, or the number in the data."""
        run_in_parallel(script, finding.where, finding.data)


def _tuned(stage: Stage) -> bool:
    """Whether tf.data chooses how many calls there are."""
    tuned = stage.arguments.get("num_parallel_calls") == -1 or stage.parallelised_by_default
    return stage.op == "map" and tuned and not stage.python


def _snippet(stage: Stage) -> str:
    name = stage.function.name if stage.function else ""
    if not name.isidentifier():
        return "dataset = dataset.map(function, num_parallel_calls=tf.data.AUTOTUNE)"
    return f"dataset = dataset.map({name}, num_parallel_calls=tf.data.AUTOTUNE)"
