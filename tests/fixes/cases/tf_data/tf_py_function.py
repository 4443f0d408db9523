"""The cases of `tf_py_function`."""

from __future__ import annotations

from fixes.cases.common.cases import machine, stage
from fixes.cases.tf_data._input_cases import LOAD, fed, starved
from rewriting import Example
from trainperf.model import FunctionCost

METHOD = """\
import tensorflow as tf


class Files:
    def read(self, path):
        self.last[path] = np.load(path)
        return self.last[path]

    def made(self):
        return ▸self.paths.map(lambda p: tf.numpy_function(self.read, [p], tf.float32))◂
"""

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

tries_not = [
    # no input could matter
    starved(stage("map", 0.09, python=True, function=LOAD), resident=0.1),
    starved(stage("map", 0.09, python=True, function=LOAD), input=0.001),
    # parallel already, or no Python
    starved(stage("map", None, python=True, arguments={"num_parallel_calls": -1})),
    starved(stage("map", None, function=LOAD)),
    # another stage costs
    starved(stage("map", 0.003, python=True, function=LOAD), stage("batch", 0.09)),
]

tries = [
    # what waits for files lets go of Python's lock, on one core as well
    starved(stage("map", None, python=True, function=LOAD), machine=machine(cores=1)),
    starved(stage("map", 0.09, python=True, function=LOAD), resident=None),
    starved(stage("map", None, python=True, function=LOAD), resident=None, input=None),
]

examples = [
    Example(
        before="import tensorflow as tf\n\nds = ▸files.map(load)◂.batch(32)\n",
        after="import tensorflow as tf\n\n"
        "ds = files.map(load, num_parallel_calls=tf.data.AUTOTUNE).batch(32)\n",
    ),
    Example.untouched(
        "import tensorflow as tf\n\n\ndef read(path):\n    seen.append(path)\n"
        "    return np.load(path)\n\n\ndef load(path):\n"
        "    return tf.numpy_function(read, [path], tf.float32)\n\n\n"
        "ds = ▸files.map(load)◂.batch(32)\n"
    ),
    Example.untouched(METHOD),
    Example.untouched("import tensorflow as tf\n\nds = ▸files.map(**how)◂\n"),
]
