"""The cases of `keras_mixed_precision`."""

from __future__ import annotations

from dataclasses import replace

from fixes.cases.common.cases import GPU, SITE, by_cuda, evidence, machine
from rewriting import Example
from trainperf.model import (
    Gpu,
    Loop,
    ModelFacts,
    PhaseUse,
    StepFunction,
)

A10G = machine(gpus=(Gpu(0, "NVIDIA A10G", compute_capability="8.6"),))

V100 = machine(gpus=(Gpu(0, "Tesla V100-SXM2-16GB", compute_capability="7.0"),))

P100 = machine(gpus=(Gpu(0, "Tesla P100-PCIE-16GB", compute_capability="6.0"),))

MODEL = ModelFacts(
    "model", "Functional", policy="float32", compute_layers={"Conv2D": 20}, compile_where=SITE
)

STEP = StepFunction("train_step", compiled=True, where=SITE)


def _busy(percent: float) -> tuple[PhaseUse, ...]:
    return (PhaseUse("resident", 20, gpu=({"index": 0, "sm_active": percent / 100},)),)


silent = [
    evidence(),
    # no GPU used, though one is there
    evidence(machine=A10G, model=MODEL),
    # mixed precision already
    evidence(device=GPU, machine=A10G, model=replace(MODEL, policy="mixed_bfloat16")),
    # no tensor cores
    evidence(device=GPU, machine=P100, model=MODEL),
    evidence(device=by_cuda("Tesla P100-PCIE-16GB", "6.0"), model=MODEL),
    # nothing for tensor cores to do
    evidence(device=GPU, machine=A10G, model=replace(MODEL, compute_layers={"Embedding": 1})),
    # the GPU waits for its kernels to be started
    evidence(device=GPU, machine=A10G, model=MODEL, use=_busy(30)),
    # input-bound: a faster step only waits longer
    evidence(device=GPU, machine=A10G, model=MODEL, resident=0.020, input=0.098),
    # the policy is not known
    evidence(device=GPU, machine=A10G, model=replace(MODEL, policy="")),
]

fires = [
    evidence(device=GPU, machine=A10G, model=MODEL),
    evidence(device=by_cuda("NVIDIA A10G", "8.6"), model=MODEL),
    evidence(device=GPU, machine=A10G, model=MODEL, use=_busy(96)),
    evidence(device=GPU, machine=V100, model=MODEL),
    evidence(
        device=GPU,
        machine=V100,
        model=MODEL,
        loop=Loop("iterator", where=SITE),
        step_function=STEP,
    ),
]

tries_not = [
    evidence(),
    evidence(model=replace(MODEL, policy="mixed_bfloat16")),
    evidence(model=replace(MODEL, policy="")),
    evidence(model=replace(MODEL, compute_layers={"Embedding": 1})),
    evidence(device=GPU, machine=P100, model=MODEL),
    # the input takes as long as the step
    evidence(model=MODEL, resident=0.020, input=0.1),
    # the loop would have to scale the loss
    evidence(device=GPU, machine=V100, model=MODEL, loop=Loop("iterator", where=SITE)),
    evidence(model=replace(MODEL, compile_where=None), loop=Loop("iterator")),
]

tries = [
    # a CPU: some multiply bfloat16 faster
    evidence(model=MODEL),
    evidence(model=MODEL, real=None, resident=None, input=None),
    evidence(model=MODEL, loop=Loop("iterator", where=SITE)),
    evidence(device=GPU, machine=A10G, model=MODEL, use=_busy(30)),
    evidence(device=GPU, machine=A10G, model=MODEL, resident=None, input=None),
]

examples = [
    Example(
        before="""\
import keras
import numpy as np

model = build()
▸model.compile(optimizer="adam", loss="mse")◂
""",
        after="""\
import keras
import numpy as np

keras.mixed_precision.set_global_policy("mixed_bfloat16")

model = build()
model.compile(optimizer="adam", loss="mse")
""",
        data={"policy": "mixed_bfloat16", "module": "keras"},
    ),
    Example(
        before="""\
from tensorflow import keras
from tensorflow.keras import layers

model = build()
▸model.compile(optimizer="adam", loss="mse")◂
""",
        after="""\
from tensorflow import keras
from tensorflow.keras import layers

keras.mixed_precision.set_global_policy("mixed_float16")

model = build()
model.compile(optimizer="adam", loss="mse")
""",
        data={"policy": "mixed_float16", "module": "keras"},
    ),
    Example(
        before="""\
import tensorflow as tf

model = build()
▸model.compile(optimizer="adam", loss="mse")◂
""",
        after="""\
import tensorflow as tf

tf.keras.mixed_precision.set_global_policy("mixed_bfloat16")

model = build()
model.compile(optimizer="adam", loss="mse")
""",
        data={"policy": "mixed_bfloat16", "module": "keras"},
    ),
]
