"""The cases of `torch_launch_blocking`."""

from __future__ import annotations

from fixes.cases.common.cases import GPU
from fixes.cases.common.torch_cases import torch_evidence
from trainperf.model import Missing

BLOCKED = {"launch_blocking": True}

silent = [
    torch_evidence(),
    torch_evidence(device=GPU),
    # nothing is launched
    torch_evidence(flags=BLOCKED),
    # input-bound
    torch_evidence(device=GPU, flags=BLOCKED, resident=0.01, input=0.099),
]

fires = [
    torch_evidence(device=GPU, flags=BLOCKED),
    torch_evidence(device=GPU, flags=BLOCKED, split=Missing("not timed")),
]
