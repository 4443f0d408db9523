"""The cases of `torch_transfers`."""

from __future__ import annotations

from dataclasses import replace

from fixes.cases.common.cases import GPU, SITE
from fixes.cases.common.torch_cases import LOADER, split, torch_evidence
from fixes.cases.torch_step._copies import EXAMPLES
from trainperf.model import Missing, StepPart

PINNED = replace(LOADER, pin_memory=True)


def _copies(seconds: float, calls: float) -> tuple[StepPart, ...]:
    return (
        *split(forward=0.03, backward=0.04, rest=0.005),
        StepPart("transfer", seconds, calls, SITE),
    )


examples = EXAMPLES

silent = [
    torch_evidence(device=GPU),
    # no GPU
    torch_evidence(split=_copies(0.02, 9)),
    # a small share
    torch_evidence(device=GPU, split=_copies(0.004, 9)),
    # on a stream beside the step, which never waits for them
    torch_evidence(device=GPU, split=_copies(0.0001, 1), loader=PINNED),
    # a batch out of pageable memory: `torch_pin_memory` speaks of that
    torch_evidence(device=GPU, split=_copies(0.02, 2)),
    torch_evidence(device=GPU, split=Missing("not timed")),
    # input-bound
    torch_evidence(device=GPU, split=_copies(0.02, 9), resident=0.05, input=0.099),
]

fires = [
    torch_evidence(device=GPU, split=_copies(0.02, 9)),
    torch_evidence(device=GPU, split=_copies(0.02, 2), loader=PINNED),
    torch_evidence(device=GPU, split=_copies(0.02, 1), loader=None, resident=None, input=None),
]
