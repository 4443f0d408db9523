"""The cases of `torch_worker_threads`."""

from __future__ import annotations

from dataclasses import replace

from fixes.cases.common.cases import machine
from fixes.cases.common.torch_cases import LOADER, torch_evidence
from fixes.cases.dataloader._input_cases import WITH_WORKERS, made, starved
from fixes.cases.dataloader.examples.threads import EXAMPLES

THREADED = replace(WITH_WORKERS, item_threads=8)

silent = [
    torch_evidence(),
    torch_evidence(loader=THREADED),
    # no workers: threads are welcome
    starved(replace(LOADER, item_threads=8)),
    # one thread each
    starved(WITH_WORKERS),
    starved(replace(WITH_WORKERS, item_threads=None)),
    # cores for all of them
    starved(THREADED, machine=machine(cores=64), stages=made(0.100)),
    # the workers deliver what so many can
    starved(THREADED, stages=made(0.300), input=0.080),
    # nothing was timed
    starved(THREADED, input=None),
    starved(THREADED, stages=made(None)),
]

examples = EXAMPLES

fires = [
    starved(THREADED, stages=made(0.100)),
    starved(replace(THREADED, worker_init=True, workers=8), stages=made(0.100)),
    starved(
        replace(THREADED, workers=3, item_threads=2),
        stages=made(0.050),
        machine=machine(cores=4),
    ),
]
