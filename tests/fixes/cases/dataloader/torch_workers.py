"""The cases of `torch_workers`."""

from __future__ import annotations

from dataclasses import replace

from fixes.cases.common.cases import machine
from fixes.cases.common.torch_cases import LOADER, torch_evidence
from fixes.cases.dataloader._input_cases import LOOP, WITH_WORKERS, drained, made, starved
from fixes.cases.dataloader._workers_examples import EXAMPLES
from trainperf.fixes.common.words import MIB
from trainperf.model import (
    FunctionCost,
    Missing,
    StartUp,
)

ITEMS = FunctionCost("Images.__getitem__", "data.py", 30, 0.47, "main", 94, "open")

silent = [
    # the step hides the input
    torch_evidence(),
    starved(real=0.100, resident=0.097, input=0.003),
    # one core, or one for each training process
    starved(machine=machine(cores=1.5)),
    starved(facts={"local_world_size": 8}),
    # workers that could keep up: bursts, not their number
    starved(WITH_WORKERS, real=0.030, input=0.012),
    # as many workers as cores, or more, and they compute
    starved(replace(WITH_WORKERS, workers=8)),
    starved(replace(WITH_WORKERS, workers=64)),
    starved(replace(WITH_WORKERS, workers=8), use=drained(7.2)),
    # one core, and it computes; whether it does was hardly looked at
    starved(machine=machine(cores=1), use=drained(0.95)),
    starved(machine=machine(cores=1), use=drained(0.05, samples=2)),
    # they wait, and are as many as may wait
    starved(replace(WITH_WORKERS, workers=32), use=drained(0.5), stages=made(2.0)),
    # nothing was timed
    starved(input=None, stages=Missing("not timed")),
    starved(resident=None),
    starved(WITH_WORKERS, stages=made(None)),
    # no DataLoader
    starved(replace(LOADER, role="evaluation")),
]

fires = [
    starved(),
    starved(machine=machine(cores=2)),
    starved(machine=machine(cores=64), facts={"local_world_size": "8"}),
    starved(stages=Missing("not timed")),
    starved(replace(LOADER, random=True)),
    starved(replace(LOADER, random=None, shared_state=None)),
    starved(replace(LOADER, shared_state="`self.file` is an open file"), startup=StartUp(5.0)),
    starved(replace(LOADER, iterable=True, sharded=False)),
    starved(replace(LOADER, iterable=True, sharded=True)),
    starved(replace(LOADER, iterable=True)),  # whether each worker takes a part is not known
    starved(replace(WITH_WORKERS, workers=2), stages=made(0.150), input=0.085),
    # they wait for storage: on two cores, on one, with as many workers as cores
    starved(machine=machine(cores=2), use=drained(0.05), stages=made(0.400)),
    starved(machine=machine(cores=1), use=drained(0.05)),
    starved(
        replace(WITH_WORKERS, workers=2),
        machine=machine(cores=2),
        use=drained(0.1),
        stages=made(0.150),
        input=0.085,
    ),
    # /dev/shm holds a few batches only
    starved(machine=machine(cores=16, shm_free=24 * MIB), loop=LOOP),
]

tries_not = [
    # the step hides the input, whatever the noise
    starved(real=0.100, resident=0.102, input=0.003),
    # one core, or one for each training process
    starved(resident=None, machine=machine(cores=1.5)),
    starved(resident=None, facts={"local_world_size": 8}),
    # as many workers as cores
    starved(replace(WITH_WORKERS, workers=8), resident=None),
    # workers cannot take the dataset over
    starved(replace(LOADER, shared_state="`self.file` is an open file"), resident=None),
    starved(replace(LOADER, iterable=True, sharded=False), resident=None),
    # built where no edit can reach, or no loader at all
    starved(replace(LOADER, where=None), resident=None),
    starved(replace(LOADER, iterable=True), resident=None),
    starved(replace(LOADER, role="evaluation"), resident=None),
]

tries = [
    starved(resident=None),
    starved(input=None, stages=Missing("not timed")),
    starved(real=None, resident=None, input=None, functions=(ITEMS,)),
    # waiting that is no more than the noise
    starved(real=0.100, resident=0.097, input=0.020),
    starved(replace(WITH_WORKERS, workers=2), resident=None),
    starved(replace(LOADER, random=None, shared_state=None), resident=None),
    starved(WITH_WORKERS, stages=made(None)),
]

examples = EXAMPLES
