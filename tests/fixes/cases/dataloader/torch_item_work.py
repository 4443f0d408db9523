"""The cases of `torch_item_work`."""

from __future__ import annotations

from dataclasses import replace

from fixes.cases.common.cases import stage
from fixes.cases.common.torch_cases import LOADER, torch_evidence
from fixes.cases.dataloader._input_cases import LOOP, WITH_WORKERS, made, starved
from fixes.cases.dataloader.examples.keeping import EXAMPLES
from trainperf.model import (
    FunctionCost,
    Missing,
    Stage,
)

FUNCTIONS = (
    FunctionCost("resize", "data.py", 44, 0.55, "main", 220, "resize (PIL)"),
    FunctionCost("__getitem__", "data.py", 31, 0.12, "main", 48),
    FunctionCost("main", "train.py", 21, 0.20, "main", 80),
)

REPEATED = replace(LOADER, repeats=True)


def _sized(seconds: float | None) -> tuple[Stage, ...]:
    return (stage("dataset item", seconds, element_bytes=150_000, cardinality=10_000),)


SIZED = _sized(0.07)

examples = EXAMPLES

silent = [
    # the step hides it
    torch_evidence(stages_=made()),
    torch_evidence(stages_=made(), functions=FUNCTIONS, real=0.1, resident=0.098, input=0.09),
    # neither items nor collate were timed
    starved(stages=Missing("not timed")),
    starved(stages=made(None, None)),
    # collating takes longer
    starved(stages=made(0.005, 0.075), functions=FUNCTIONS[1:]),
    # the workers' start, not their work, is what it waits for
    starved(stages=made(0.001, 0.001), input=0.080),
    starved(resident=None),
    # what repeats, and could be kept, is hidden by the step
    torch_evidence(loader=replace(LOADER, repeats=True), stages_=SIZED),
]

fires = [
    starved(),
    starved(functions=FUNCTIONS),
    starved(WITH_WORKERS, stages=made(0.300)),
    starved(replace(LOADER, item=None, dataset="")),
    # the same in every epoch, of a known size
    starved(replace(LOADER, repeats=True), stages=SIZED),
]

tries_not = [
    # the step hides it, whatever the noise
    starved(REPEATED, stages=SIZED, real=0.100, resident=0.102, input=0.003),
    # of no known size, or not to be kept
    starved(replace(LOADER, repeats=True), resident=None),
    starved(replace(LOADER, item=None), stages=SIZED, resident=None),
    # one epoch; next to nothing; collating takes longer
    starved(REPEATED, stages=SIZED, resident=None, loop=replace(LOOP, epochs=1)),
    starved(REPEATED, stages=_sized(0.0004), resident=None),
    starved(REPEATED, stages=(*SIZED, stage("collate", 0.08)), resident=None),
]

tries = [
    starved(REPEATED, stages=SIZED, resident=None),
    starved(stages=SIZED, resident=None),
    starved(REPEATED, stages=_sized(None), real=None, resident=None, input=None),
    starved(REPEATED, stages=SIZED, real=0.100, resident=0.097, input=0.020),
]
