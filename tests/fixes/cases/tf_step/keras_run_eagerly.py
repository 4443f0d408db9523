"""The cases of `keras_run_eagerly`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fixes.cases.common.cases import SITE, evidence, probe
from rewriting import Example
from trainperf.model import Framework, Missing, ModelFacts


def _model(**fields: Any) -> ModelFacts:
    fields.setdefault("run_eagerly", True)
    return ModelFacts("model", "Functional", compile_where=SITE, **fields)


TORCH = Framework("torch", "2.13.0", keras="3.15.1")

silent = [
    evidence(),
    evidence(model=_model(run_eagerly=False), probes={"compiled": probe(3.0)}),
    evidence(model=_model(), probes={"compiled": probe(1.01)}),
    evidence(model=_model(), probes={"compiled": probe(1.30, spread=0.25)}),
    # the input takes nearly all of the step
    evidence(model=_model(), resident=0.004, input=0.098, probes={"compiled": probe(3.0)}),
    # every tf.function is switched off: another finding
    evidence(model=_model(), facts={"functions_run_eagerly": True}),
    evidence(models=()),
    evidence(model=_model(), framework=TORCH),  # Keras's step is eager there in any case
]

fires = [
    evidence(model=_model(), framework=replace(TORCH, name="jax")),
    evidence(model=_model(), probes={"compiled": probe(3.0)}),
    # what it would give could not be measured: said, without a bound
    evidence(model=_model(), probes={"compiled": Missing("tracing it failed")}),
    evidence(model=_model()),
]

tries_not = [
    evidence(),
    evidence(model=_model(run_eagerly=False)),
    evidence(model=_model(), facts={"functions_run_eagerly": True}),
    evidence(model=_model(), framework=TORCH),
    evidence(model=_model(), resident=0.010, input=0.100),
]

tries = [
    evidence(model=_model(), probes={"compiled": probe(1.01)}),
    evidence(model=_model(), probes={"compiled": probe(1.30, spread=0.25)}),
]

examples = [
    Example(
        before="""\
import keras

model = build()
▸model.compile(optimizer="adam", loss="mse", run_eagerly=True)◂
model.fit(dataset)
""",
        after="""\
import keras

model = build()
model.compile(optimizer="adam", loss="mse")
model.fit(dataset)
""",
    ),
]
