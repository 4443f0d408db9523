"""The cases of `torch_shm`."""

from __future__ import annotations

from fixes.cases.common.cases import machine
from fixes.cases.common.torch_cases import LOADER, torch_evidence
from fixes.cases.dataloader._input_cases import WITH_WORKERS, starved
from trainperf.fixes.common.words import GIB, MIB
from trainperf.model import Loop

SMALL = machine(shm_total=64 * MIB, shm_free=24 * MIB)

WIDE = machine(shm_total=16 * GIB, shm_free=15 * GIB)

silent = [
    torch_evidence(),
    # room enough
    starved(WITH_WORKERS, machine=WIDE),
    starved(machine=WIDE),
    # neither workers nor a reason for any
    torch_evidence(machine=machine(shm_total=64 * MIB, shm_free=1 * MIB)),
    # how large it is, or a batch, is not known
    starved(WITH_WORKERS, machine=machine()),
    starved(WITH_WORKERS, machine=SMALL, loop=Loop("iterator", input_kind="DataLoader")),
    starved(LOADER, machine=machine(shm_total=64 * MIB, shm_free=40 * MIB)),
]

fires = [
    starved(WITH_WORKERS, machine=SMALL),
    torch_evidence(
        loader=WITH_WORKERS,
        machine=SMALL,
        loop=Loop("iterator", batch_bytes=4 * MIB, input_kind="DataLoader"),
    ),
    # not even one worker
    starved(machine=machine(shm_total=64 * MIB, shm_free=1 * MIB)),
]
