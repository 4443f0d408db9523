"""The cases of `keras_steps_per_execution`."""

from __future__ import annotations

from dataclasses import replace

from fixes.cases.common.cases import SITE, evidence, probe
from rewriting import Example
from trainperf.model import (
    CallbackCost,
    Framework,
    Loop,
    Missing,
    ModelFacts,
)

MODEL = ModelFacts("model", "Functional", compile_where=SITE)

LOOP = Loop("fit", where=SITE, batch_size=32, epochs=10, epoch_steps=1000, input_kind="tf.data")

TINY = {"steps_per_execution": probe(1.8)}

silent = [
    evidence(),
    evidence(model=MODEL, host=None, probes=TINY),
    evidence(model=MODEL, probes={"steps_per_execution": probe(1.02)}),
    # the interval reaches down to no gain
    evidence(model=MODEL, probes={"steps_per_execution": probe(1.25, spread=0.2)}),
    # set already
    evidence(model=MODEL, loop=replace(LOOP, steps_per_execution=8), probes=TINY),
    # not driven by Keras
    evidence(model=MODEL, loop=replace(LOOP, kind="call"), probes=TINY),
    # the step is short, but the input is not
    evidence(model=MODEL, real=0.010, resident=0.002, input=0.0098, probes=TINY),
    # debugging mode has a finding of its own
    evidence(model=replace(MODEL, run_eagerly=True), probes=TINY),
    # an epoch of a single step cannot be run several at a time
    evidence(model=MODEL, loop=replace(LOOP, epoch_steps=1), probes=TINY),
]

fires = [
    evidence(model=MODEL, real=0.002, resident=0.0019, input=0.0003, host=0.0004, probes=TINY),
    # the compiled step gains nothing, but Keras spends a third of it in Python
    evidence(
        model=MODEL,
        real=0.0012,
        resident=0.0012,
        input=0.0003,
        host=0.0004,
        probes={"steps_per_execution": probe(1.0)},
    ),
    evidence(
        model=MODEL,
        real=0.002,
        resident=0.0019,
        input=0.0003,
        host=0.0004,
        loop=replace(LOOP, epoch_steps=10),
        callbacks=(CallbackCost("LossLog", 20e-6, 30, where=SITE),),
        probes=TINY,
    ),
]

tries_not = [
    evidence(),
    # Keras refuses it there
    evidence(model=MODEL, framework=Framework("torch", "2.13.0", keras="3.15.1")),
    evidence(model=MODEL, loop=replace(LOOP, steps_per_execution=8)),
    evidence(model=MODEL, loop=replace(LOOP, kind="call")),
    evidence(model=replace(MODEL, run_eagerly=True)),
    evidence(model=MODEL, loop=replace(LOOP, epoch_steps=1)),
    evidence(model=MODEL, real=0.010, resident=0.002, input=0.010),
]

tries = [
    evidence(model=MODEL),
    evidence(model=MODEL, framework=Framework("jax", "0.10.2", keras="3.15.1"), probes={}),
    evidence(model=MODEL, real=0.004, resident=0.004, input=0.0003, probes={}),
    evidence(model=MODEL, real=0.004, resident=None, input=None, host=None),
    evidence(model=MODEL, host=None, probes=TINY),
    evidence(model=MODEL, probes={"steps_per_execution": Missing("no time was left")}),
    evidence(model=MODEL, probes={"steps_per_execution": probe(0.9)}),
]

examples = [
    Example(
        before="""\
model = build()
▸model.compile(optimizer="adam", loss="mse")◂
""",
        after="""\
model = build()
model.compile(optimizer="adam", loss="mse", steps_per_execution=16)
""",
        data={"steps": 16},
    ),
    Example(
        before="""\
▸model.compile(
    optimizer="adam",
    loss="mse",
    steps_per_execution=1,
)◂
""",
        after="""\
model.compile(
    optimizer="adam",
    loss="mse",
    steps_per_execution=10,
)
""",
        data={"steps": 10},
    ),
    Example(
        before="""\
how = {"optimizer": "adam", "loss": "mse"}
▸model.compile(**how)◂
""",
        after="""\
how = {"optimizer": "adam", "loss": "mse", "steps_per_execution": 16}
model.compile(**how)
""",
        data={"steps": 16, "arguments": {"steps_per_execution": 1}},
    ),
]
