"""The cases of `torch_alloc_conf`."""

from __future__ import annotations

from typing import Any

from fixes.cases.common.cases import GPU
from fixes.cases.common.torch_cases import torch_evidence
from trainperf.fixes.common.words import GIB
from trainperf.fixes.torch_step.torch_alloc_conf import SETTING


def _memory(allocated: float, reserved: float, retries: int = 0) -> dict[str, Any]:
    return {
        "memory": {
            "allocated_peak": int(allocated * GIB),
            "reserved_peak": int(reserved * GIB),
            "total": 24 * GIB,
            "retries": retries,
            "ooms": 0,
        }
    }


silent = [
    # no GPU, no such allocator
    torch_evidence(),
    torch_evidence(torch=_memory(4, 20, retries=3)),
    # all is well
    torch_evidence(device=GPU, torch=_memory(14, 16)),
    # fragmented, but there is plenty
    torch_evidence(device=GPU, torch=_memory(0.5, 2)),
    # set already
    torch_evidence(
        device=GPU, torch=_memory(4, 20, retries=3), flags={"alloc_conf": f"a:1,{SETTING}"}
    ),
    # input-bound
    torch_evidence(device=GPU, torch=_memory(4, 20), resident=0.01, input=0.099),
]

fires = [
    torch_evidence(device=GPU, torch=_memory(20, 23, retries=12)),
    torch_evidence(device=GPU, torch=_memory(7, 20)),
    torch_evidence(
        device=GPU, torch=_memory(20, 23, 1), flags={"alloc_conf": "max_split_size_mb:64"}
    ),
]
