"""The cases of `torch_hidden_waits`."""

from __future__ import annotations

from fixes.cases.common.cases import GPU
from fixes.cases.common.torch_cases import torch_evidence, traced
from trainperf.model import PhaseUse, Site
from trainperf.model.torch.step import DeviceWait

MASK = DeviceWait(Site("net.py", 44, "forward"), 12.0)

MADE = DeviceWait(Site("train.py", 25, "main"), 1.0)

SELDOM = PhaseUse("resident", 20, gpu=({"index": 0, "utilization_percent": 20.0},))

silent = [
    torch_evidence(),
    # nothing waits
    torch_evidence(device=GPU, torch={"trace": traced(0.40)}),
    # there is no GPU
    torch_evidence(torch={"waits": (MASK,)}),
    # NVML says that it is seldom busy: the mean of a window longer than a block
    torch_evidence(device=GPU, use=(SELDOM,), torch={"waits": (MASK,)}),
    # the GPU is busy all the time, or nobody knows
    torch_evidence(device=GPU, torch={"trace": traced(0.98), "waits": (MASK, MADE)}),
    torch_evidence(device=GPU, torch={"waits": (MASK,)}),
    # seldom
    torch_evidence(
        device=GPU, torch={"trace": traced(0.40), "waits": (DeviceWait(MADE.where, 0.05),)}
    ),
    # input-bound: the loop cannot be faster than its input
    torch_evidence(device=GPU, torch={"trace": traced(0.40), "waits": (MASK,)}, input=0.099),
    torch_evidence(device=GPU, torch={"trace": traced(0.40), "waits": (MASK,)}, real=None),
]

fires = [
    torch_evidence(device=GPU, torch={"trace": traced(0.40), "waits": (MASK,)}),
    torch_evidence(device=GPU, torch={"trace": traced(0.60), "waits": (MASK, MADE)}),
    torch_evidence(device=GPU, torch={"trace": traced(0.60), "waits": (DeviceWait(None, 3.0),)}),
]
