"""The cases of `tf_jit_compile`."""

from __future__ import annotations

from dataclasses import replace

from fixes.cases.common.cases import SITE, evidence, probe
from rewriting import Example
from trainperf.model import Loop, Missing, StepFunction

LOOP = Loop("iterator", where=SITE, batch_size=32, input_kind="tf.data")

STEP = StepFunction("train_step", compiled=True, where=SITE, jit=False)

FASTER = {"jit_compile": probe(1.6, one_off_s=4.0)}

silent = [
    evidence(),
    evidence(step_function=replace(STEP, jit=True), loop=LOOP, probes=FASTER),
    evidence(step_function=replace(STEP, compiled=False), loop=LOOP, probes=FASTER),
    evidence(step_function=STEP, loop=LOOP, probes={"jit_compile": probe(0.9)}),
    # the interval reaches down to no gain
    evidence(step_function=STEP, loop=LOOP, probes={"jit_compile": probe(1.2, spread=0.15)}),
    # input-bound
    evidence(step_function=STEP, loop=LOOP, resident=0.010, input=0.098, probes=FASTER),
    # nothing was probed
    evidence(step_function=STEP, loop=LOOP),
]

fires = [
    evidence(step_function=STEP, loop=LOOP, probes=FASTER),
    evidence(step_function=replace(STEP, where=None), loop=LOOP, probes=FASTER),
]

tries_not = [
    evidence(),
    evidence(step_function=replace(STEP, jit=True), loop=LOOP),
    evidence(step_function=replace(STEP, compiled=False), loop=LOOP),
    evidence(step_function=replace(STEP, where=None), loop=LOOP),
    # a graph of several replicas
    evidence(step_function=STEP, loop=replace(LOOP, replicas=2)),
    evidence(step_function=STEP, loop=LOOP, resident=0.010, input=0.1),
]

tries = [
    evidence(step_function=STEP, loop=LOOP),
    evidence(step_function=STEP, loop=LOOP, probes={"jit_compile": probe(0.9)}),
    evidence(step_function=STEP, loop=LOOP, probes={"jit_compile": Missing("no time")}),
]

examples = [
    # not the decorator of TensorFlow
    Example.untouched("import tensorflow as tf\n\n\n▸@compiled\ndef train_step(x):\n    pass◂\n"),
    # chosen by hand
    Example.untouched(
        "import tensorflow as tf\n\n\n"
        "▸@tf.function(jit_compile=xla)\ndef train_step(x):\n    pass◂\n"
    ),
    Example(
        before="import tensorflow as tf\n\n\n▸@tf.function\ndef train_step(x):\n    pass◂\n",
        after="import tensorflow as tf\n\n\n"
        "@tf.function(jit_compile=True)\ndef train_step(x):\n    pass\n",
    ),
    Example(
        before="import tensorflow as tf\n\n\nclass Trainer:\n"
        "    ▸@tf.function(reduce_retracing=True)\n    def step(self, x):\n        pass◂\n",
        after="import tensorflow as tf\n\n\nclass Trainer:\n"
        "    @tf.function(reduce_retracing=True, jit_compile=True)\n"
        "    def step(self, x):\n        pass\n",
    ),
    Example(
        before="import tensorflow as tf\n\n\n▸def step(x):\n    pass◂\n\n\n"
        "train_step = tf.function(step)\n",
        after="import tensorflow as tf\n\n\ndef step(x):\n    pass\n\n\n"
        "train_step = tf.function(step, jit_compile=True)\n",
    ),
]
