"""The cases of `tf_generator`."""

from __future__ import annotations

from fixes.cases.common.cases import SITE, stage
from fixes.cases.tf_data._input_cases import fed, starved
from fixes.cases.tf_data.examples.generators import EXAMPLES
from trainperf.model import (
    Function,
    FunctionCost,
    Loop,
    PhaseUse,
)

SAMPLES = Function("samples", "data.py", 30)

IDLE = (PhaseUse("input", 20, cpu_cores=0.1),)

silent = [
    fed(stage("from_generator", 0.079, function=SAMPLES)),
    starved(stage("from_generator", 0.004, function=SAMPLES), stage("map", 0.096)),
    starved(stage("from_generator", None, function=SAMPLES)),
    starved(stage("from_tensor_slices", 0.01), stage("map", 0.09)),
    # Keras feeds a PyDataset through a generator of its own
    starved(
        stage("from_generator", 0.09, where=None, by_user=False),
        loop=Loop("fit", where=SITE, input_kind="PyDataset"),
    ),
]

fires = [
    starved(stage("from_generator", 0.085, function=SAMPLES), stage("batch", 0.015)),
    starved(
        stage("from_generator", 0.09, function=SAMPLES),
        functions=(FunctionCost("decode", "data.py", 41, 0.62, "worker", 300, "PIL"),),
    ),
    # a generator given to fit
    starved(
        stage("generator", 0.09, where=None, by_user=False),
        loop=Loop("fit", where=SITE, input_kind="generator"),
    ),
]

tries_not = [
    # no input could matter
    starved(stage("from_generator", None, function=SAMPLES), resident=0.1),
    starved(stage("from_generator", 0.09, function=SAMPLES), input=0.001),
    # another stage costs
    starved(stage("from_generator", 0.004, function=SAMPLES), stage("map", 0.096)),
    starved(stage("from_tensor_slices", None), stage("map", None)),
    starved(
        stage("from_generator", None, where=None, by_user=False),
        loop=Loop("fit", where=SITE, input_kind="PyDataset"),
    ),
]

tries = [
    starved(stage("from_generator", None, function=SAMPLES), stage("batch", None)),
    starved(stage("from_generator", 0.09, function=SAMPLES), resident=None),
    starved(
        stage("generator", None, where=None, by_user=False),
        loop=Loop("fit", where=SITE, input_kind="generator"),
        use=IDLE,
    ),
]

examples = EXAMPLES
