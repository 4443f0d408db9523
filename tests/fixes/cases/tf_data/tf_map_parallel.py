"""The cases of `tf_map_parallel`."""

from __future__ import annotations

from fixes.cases.common.cases import machine, stage
from fixes.cases.tf_data._input_cases import LOAD, fed, starved
from rewriting import Example
from trainperf.model import Function, PhaseUse

IDLE = (PhaseUse("input", 20, cpu_cores=0.1),)

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
    starved(stage("map", 0.05, function=Function("<lambda>", "train.py", 12)), stage("map", 0.04)),
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
            "import tensorflow as tf\n\nds = files.map(load, num_parallel_calls=tf.data.AUTOTUNE)\n"
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
