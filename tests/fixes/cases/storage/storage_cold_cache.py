"""The cases of `storage_cold_cache`."""

from __future__ import annotations

from dataclasses import replace

from fixes.cases.common.cases import machine
from fixes.cases.storage._storage import LOOP, reads, storing
from trainperf.fixes.common.words import GIB, MIB
from trainperf.model import Loop

BIG = reads(total_bytes=20 * GIB)

silent = [
    # too little to notice
    storing(reads(total_bytes=1 * GIB), loop=replace(LOOP, epoch_steps=51)),
    # fast enough for the step
    storing(reads(total_bytes=20 * GIB, needed_bytes_s=90.0 * MIB)),
    # hardly slower than memory
    storing(reads(total_bytes=20 * GIB, warm_bytes_s=250.0 * MIB)),
    # it will not stay in memory
    storing(reads(total_bytes=900 * GIB)),
    # more than what was seen so far
    storing(replace(BIG, bytes_per_step=GIB)),
    storing(replace(BIG, at_least=True), loop=Loop("fit", epochs=1, batch_size=32)),
    # the first of many epochs
    storing(BIG, loop=Loop("fit", epochs=100, batch_size=32)),
    storing(BIG, machine=machine(available=16 * GIB)),
    # not measured
    storing(reads(total_bytes=20 * GIB, cold_bytes_s=None, cold_parallel_bytes_s=None)),
    storing(reads(total_bytes=20 * GIB, needed_bytes_s=None)),
]

fires = [
    storing(BIG),
    storing(BIG, loop=Loop("fit", epochs=1, batch_size=32)),
    # all was in memory while it was timed
    storing(reads(total_bytes=20 * GIB, stored_per_step=0.0), bound=False),
]
