"""The cases of `keras_jit_compile`."""

from __future__ import annotations

from dataclasses import replace

from fixes.cases.common.cases import SITE, evidence, probe
from rewriting import Example
from trainperf.model import (
    Framework,
    Loop,
    Missing,
    ModelFacts,
)

MODEL = ModelFacts(
    "model",
    "Functional",
    jit_requested="auto",
    jit=False,
    jit_blocker='jit_compile="auto" leaves XLA off where there is no GPU',
    compile_where=SITE,
)

FASTER = {"jit_compile": probe(1.6, one_off_s=4.0)}

LSTM_BLOCKS = replace(
    MODEL, jit_blocker="the layer lstm does not support XLA", jit_blocking_layers=("lstm",)
)

silent = [
    evidence(),
    evidence(model=replace(MODEL, jit=True), probes=FASTER),
    evidence(model=replace(MODEL, jit=None), probes=FASTER),
    evidence(model=MODEL, probes={"jit_compile": probe(0.85, one_off_s=4.0)}),
    # the interval reaches down to no gain
    evidence(model=MODEL, probes={"jit_compile": probe(1.2, spread=0.15)}),
    # input-bound
    evidence(model=MODEL, resident=0.010, input=0.098, probes=FASTER),
    # the run is over before the compilation has paid
    evidence(
        model=MODEL,
        loop=Loop("fit", where=SITE, epochs=1, epoch_steps=100),
        probes={"jit_compile": probe(1.6, one_off_s=40.0)},
    ),
    # run_eagerly excludes XLA, and has a finding of its own
    evidence(model=replace(MODEL, run_eagerly=True), probes=FASTER),
]

fires = [
    evidence(model=MODEL, probes=FASTER),
    evidence(model=replace(MODEL, jit_requested=False, jit_blocker=""), probes=FASTER),
    evidence(model=LSTM_BLOCKS, probes=FASTER),
]

tries_not = [
    evidence(),
    evidence(model=replace(MODEL, jit=True)),
    evidence(model=replace(MODEL, run_eagerly=True)),
    # Keras refuses
    evidence(model=LSTM_BLOCKS),
    evidence(model=replace(MODEL, compile_where=None)),
    # the run is over before the compilation has paid
    evidence(
        model=MODEL,
        loop=Loop("fit", where=SITE, epochs=1, epoch_steps=100),
        probes={"jit_compile": probe(1.6, one_off_s=40.0)},
    ),
    # whatever the step takes, the input takes as long
    evidence(model=MODEL, resident=0.010, input=0.100),
]

tries = [
    evidence(model=MODEL),
    evidence(model=MODEL, framework=Framework("torch", "2.13.0", keras="3.15.1")),
    evidence(model=MODEL, resident=None, input=None),
    evidence(model=MODEL, real=None, resident=None, input=None),
    evidence(model=MODEL, probes={"jit_compile": Missing("no time was left")}),
    evidence(model=MODEL, probes={"jit_compile": probe(0.85, one_off_s=4.0)}),
    evidence(model=MODEL, probes={"jit_compile": probe(1.2, spread=0.15)}),
]

examples = [
    Example(
        before='▸model.compile(optimizer="adam", loss="mse")◂\n',
        after='model.compile(optimizer="adam", loss="mse", jit_compile=True)\n',
    ),
    Example(
        before='▸model.compile("adam", "mse", jit_compile=False)◂\n',
        after='model.compile("adam", "mse", jit_compile=True)\n',
    ),
]
