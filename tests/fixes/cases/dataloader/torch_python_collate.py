"""The cases of `torch_python_collate`."""

from __future__ import annotations

from dataclasses import replace

from fixes.cases.common.cases import stage
from fixes.cases.common.torch_cases import LOADER, torch_evidence
from fixes.cases.dataloader._input_cases import WITH_WORKERS, made, starved
from fixes.cases.dataloader.examples.arrays import EXAMPLES
from trainperf.model import Function, Missing, Stage

COLLATING = Function("Collate.__call__", "data.py", 52)


def _collating(seconds: float | None, **fields: object) -> tuple[Stage, ...]:
    own = stage("collate", seconds, function=COLLATING, **fields)
    return (stage("dataset item", 1e-5), own)


examples = EXAMPLES

silent = [
    torch_evidence(stages_=made()),
    # items take longer
    starved(),
    # the step hides it
    torch_evidence(stages_=_collating(0.079), real=0.1, resident=0.098, input=0.09),
    # not timed
    starved(stages=Missing("not timed")),
    starved(stages=_collating(None)),
    # the workers' start, not their work, is what it waits for
    starved(stages=_collating(0.001), input=0.080),
]

fires = [
    starved(stages=made(0.005, 0.075)),
    starved(replace(LOADER, dataset="list", item=None), stages=_collating(0.079)),
    starved(WITH_WORKERS, stages=_collating(0.300)),
]

tries_not = [
    # the step hides it, whatever the noise
    starved(stages=_collating(0.003), real=0.100, resident=0.102, input=0.003),
    # items take longer; PyTorch collates, or a library
    starved(stages=made(0.075, 0.005), resident=None),
    starved(stages=made(0.005, 0.075), resident=None),
    starved(stages=Missing("not timed"), resident=None),
    # next to nothing
    starved(stages=_collating(0.0004), resident=None),
]

tries = [
    starved(stages=_collating(0.079), resident=None),
    starved(stages=_collating(None), resident=None),
    starved(stages=_collating(0.020), real=0.100, resident=0.097, input=0.020),
    starved(WITH_WORKERS, stages=_collating(0.300), input=None),
    starved(stages=_collating(0.079), real=None, resident=None, input=None),
]
