"""The cases of `tf_function`."""

from __future__ import annotations

from fixes.cases.common.cases import SITE, evidence, probe
from fixes.cases.tf_step._function_examples import EXAMPLES
from trainperf.model import Loop, Missing, StepFunction

LOOP = Loop("iterator", where=SITE, batch_size=32, input_kind="tf.data")

EAGER = StepFunction("train_step", compiled=False, where=SITE)

TAPE_IN_LOOP = StepFunction("main", compiled=False, tape_where=SITE)

silent = [
    evidence(),
    evidence(step_function=StepFunction("train_step", compiled=True, where=SITE), loop=LOOP),
    # compiling was tried and gives nothing
    evidence(step_function=EAGER, loop=LOOP, probes={"compiled": probe(1.01)}),
    # the interval of the probe reaches down to no gain
    evidence(step_function=EAGER, loop=LOOP, probes={"compiled": probe(1.30, spread=0.25)}),
    # the input takes nearly all of the step
    evidence(
        step_function=EAGER,
        loop=LOOP,
        resident=0.004,
        input=0.098,
        probes={"compiled": probe(3.0)},
    ),
    evidence(facts={"functions_run_eagerly": False}),
    # the same, and compiling was not tried
    evidence(step_function=EAGER, loop=LOOP, resident=0.004, input=0.098),
]

fires = [
    evidence(step_function=EAGER, loop=LOOP, probes={"compiled": probe(4.0)}),
    evidence(step_function=TAPE_IN_LOOP, loop=LOOP, probes={"compiled": probe(2.0)}),
    # compiled in the source, and all of it switched off for debugging
    evidence(facts={"functions_run_eagerly": True}),
    # compiling could not be tried: said, without a bound
    evidence(
        step_function=TAPE_IN_LOOP,
        loop=LOOP,
        probes={"compiled": Missing("the step is not a function of its own")},
    ),
    evidence(
        step_function=EAGER,
        loop=LOOP,
        resident=None,
        input=None,
        probes={"compiled": probe(4.0)},
    ),
]

tries_not = [
    evidence(),
    evidence(step_function=StepFunction("train_step", compiled=True, where=SITE), loop=LOOP),
    evidence(step_function=EAGER, loop=LOOP, resident=0.004, input=0.1),
    # the mode that switches functions off has no edit
    evidence(facts={"functions_run_eagerly": True}),
]

tries = [
    evidence(step_function=EAGER, loop=LOOP, probes={"compiled": probe(1.01)}),
    evidence(step_function=EAGER, loop=LOOP, probes={"compiled": probe(1.30, spread=0.25)}),
    evidence(step_function=EAGER, loop=LOOP, resident=0.092, input=0.096),
    evidence(step_function=TAPE_IN_LOOP, loop=LOOP, probes={"compiled": probe(1.01)}),
]

examples = EXAMPLES
