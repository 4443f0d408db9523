"""The cases of `tf_strategy_scope`."""

from __future__ import annotations

from dataclasses import replace

from fixes.cases.common.cases import OTHER_SITE, SITE
from fixes.cases.ranks._parallel_cases import parallel_evidence, strategy
from trainperf.model import Loop, ModelFacts, Site

SINGLE = Loop("fit", where=SITE, batch_size=64, epochs=10, epoch_steps=1000, input_kind="tf.data")

OUTSIDE = strategy(models_outside=(SITE,), scopes=0)

silent = [
    parallel_evidence("tensorflow"),
    # another model was built outside; the one that trains was not
    parallel_evidence("tensorflow", strategy=OUTSIDE),
    # one device: the scope would change nothing
    parallel_evidence(
        "tensorflow",
        strategy=replace(OUTSIDE, replicas=1),
        parallel={"replicas": 1},
        loop=SINGLE,
    ),
    # input-bound: more devices would wait as well
    parallel_evidence(
        "tensorflow",
        strategy=OUTSIDE,
        parallel={"replicas": 1},
        loop=SINGLE,
        resident=0.010,
        input=0.099,
    ),
    # a loop of the user's own may use the strategy by `strategy.run`
    parallel_evidence(
        "tensorflow",
        strategy=OUTSIDE,
        parallel={"replicas": 1},
        loop=replace(SINGLE, kind="iterator"),
    ),
]

fires = [
    parallel_evidence(
        "tensorflow",
        strategy=OUTSIDE,
        parallel={"replicas": 1},
        loop=SINGLE,
        model=ModelFacts("model", "Sequential", compile_where=OTHER_SITE),
    ),
    parallel_evidence(
        "tensorflow",
        strategy=replace(OUTSIDE, replicas=4, scopes=1, where=OTHER_SITE),
        parallel={"replicas": 1},
        loop=SINGLE,
    ),
    # the model is built where no edit can reach
    parallel_evidence(
        "tensorflow",
        strategy=strategy(models_outside=(Site("train.py", 12),)),
        parallel={"replicas": 1},
        loop=SINGLE,
    ),
]
