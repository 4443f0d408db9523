"""The cases of `gpu_build`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fixes.cases.common.cases import CPU, evidence, machine
from fixes.cases.common.torch_cases import torch_evidence
from fixes.cases.gpu._cases import A10G, on_gpu
from trainperf.model import Framework

TORCH = Framework("torch", "2.13.0", built_with_cuda=True)

TORCH_CPU = replace(TORCH, built_with_cuda=False)

BESIDE_A_GPU: dict[str, Any] = {
    "machine": machine(gpus=(A10G,), driver_cuda="12.4"),
    "device": CPU,
}

NOT_STARTED = "Unexpected error from cudaGetDeviceCount(). Error 802: system not yet initialized"


def _built(cuda: str, *capabilities: str) -> dict[str, Any]:
    return {"gpu_build": {"cuda": cuda, "capabilities": list(capabilities)}}


silent = [
    # no GPU there
    torch_evidence(framework=TORCH_CPU),
    # the build fits, and the script takes the CPU
    torch_evidence(framework=TORCH, facts=_built("12.4", "sm_80", "sm_86"), **BESIDE_A_GPU),
    torch_evidence(framework=TORCH, facts=_built("12.8", "sm_80"), **BESIDE_A_GPU),
    # not known
    torch_evidence(framework=Framework("torch", "2.13.0"), **BESIDE_A_GPU),
    torch_evidence(framework=TORCH, **BESIDE_A_GPU),
    # CUDA did not start, and there is no GPU
    torch_evidence(framework=TORCH, facts={"cuda_failed": NOT_STARTED}),
    # TensorFlow's has a fix of its own
    evidence(framework=Framework("tensorflow", "2.21.0", built_with_cuda=False)),
    # machine code for this card, or an older one of its generation
    on_gpu(facts=_built("12.4", "sm_80", "sm_86")),
    on_gpu(facts=_built("12.4", "sm_80")),
    on_gpu(facts=_built("12.4", "compute_80"), gpu={"compute_capability": None}),
]

fires = [
    torch_evidence(framework=TORCH_CPU, **BESIDE_A_GPU),
    torch_evidence(framework=TORCH, facts=_built("13.0", "sm_86"), **BESIDE_A_GPU),
    # a driver that is there, and does not start
    torch_evidence(framework=TORCH, facts={"cuda_failed": NOT_STARTED}, **BESIDE_A_GPU),
    # compiled at the first start
    on_gpu(facts=_built("12.4", "sm_75", "compute_80")),
]
