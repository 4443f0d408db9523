"""The cases of `memory_pressure`."""

from __future__ import annotations

from fixes.cases.common.cases import evidence, stage
from fixes.cases.host._memory_signs import short
from trainperf.fixes.common.words import GIB
from trainperf.model import ContainerUse, Missing

silent = [
    evidence(),
    evidence(container=ContainerUse(20.0)),
    evidence(container=short()),
    # the limit was hit by page cache alone, which can go
    evidence(container=short(memory_events=(("max", 500), ("oom_kill", 0)))),
    # a little
    evidence(container=short(memory_pressure=0.01, swapped_in=5_000_000)),
    evidence(container=short(memory_peak=7 * GIB)),
    # pages come back that were put away before
    evidence(container=short(swapped_in=2 * GIB)),
    # pages were written to swap, and never needed again
    evidence(container=short(swapped_out=10 * GIB)),
]

fires = [
    evidence(container=short(memory_pressure=0.3)),
    evidence(container=short(swapped_in=2 * GIB, swapped_out=GIB), stages_=Missing("not timed")),
    evidence(container=short(memory_events=(("max", 9), ("oom", 1), ("oom_kill", 1)))),
    evidence(container=short(memory_peak=int(7.9 * GIB)), stages_=(stage("ShuffleDatasetV3"),)),
    evidence(
        container=short(memory_limit=None, memory_peak=None, swapped_in=GIB, swapped_out=None)
    ),
]
