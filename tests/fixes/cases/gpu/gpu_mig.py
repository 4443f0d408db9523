"""The cases of `gpu_mig`."""

from __future__ import annotations

from dataclasses import replace

from fixes.cases.common.cases import CPU, GPU, machine
from fixes.cases.common.torch_cases import torch_evidence
from fixes.cases.gpu._cases import A10G, on_gpu
from trainperf.fixes.common.words import GIB
from trainperf.model import CudaDevice

SLICE = CudaDevice(
    0, "NVIDIA A10G MIG 1g.6gb", index=0, memory_total=6 * GIB, mig=True, compute_capability="8.6"
)

ON_SLICE = replace(GPU, gpus=(SLICE,))

silent = [
    on_gpu(),
    # the driver does not say, or the card cannot be divided
    on_gpu(gpu={"mig": None}),
    # not used
    on_gpu(gpu={"mig": True}, device=CPU),
    # a divided card beside the one that is used
    on_gpu(machine=machine(gpus=(A10G, replace(A10G, index=1, mig=True)))),
]

fires = [
    on_gpu(gpu={"mig": True}),
    on_gpu(gpu={"mig": True}, device=ON_SLICE),
    # NVML does not answer
    torch_evidence(device=replace(GPU, gpus=(replace(SLICE, index=None),))),
]
