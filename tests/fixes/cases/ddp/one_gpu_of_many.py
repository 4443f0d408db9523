"""The cases of `one_gpu_of_many`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fixes.cases.common.cases import CPU, GPU, evidence, machine
from fixes.cases.common.torch_cases import torch_evidence
from fixes.cases.ranks._parallel_cases import job, on_gpus, parallel_evidence
from trainperf.model import CudaDevice, Gpu, PhaseUse


def _gpus(count: int = 4, used: int = 1) -> dict[str, Any]:
    """A process that sees so many GPUs and trains on the first ones of them."""
    cards = tuple(Gpu(index, GPU.name) for index in range(count))
    return {"device": replace(GPU, count=used), "machine": machine(gpus=cards)}


def _cuda(count: int, used: int = 0, **fields: Any) -> dict[str, Any]:
    """The same where NVML is missing: CUDA alone tells of GPUs."""
    shown = tuple(
        CudaDevice(number, GPU.name, used=number == used, **fields) for number in range(count)
    )
    return {"device": replace(GPU, gpus=shown)}


def _busy(*percents: float | None) -> tuple[PhaseUse, ...]:
    return (
        PhaseUse(
            "real",
            20,
            gpu=tuple(
                {"index": index, "utilization_percent": one} for index, one in enumerate(percents)
            ),
        ),
    )


silent = [
    evidence(),
    torch_evidence(),
    # one GPU, or one that is shown
    torch_evidence(device=GPU),
    torch_evidence(**_cuda(1)),
    # several are used
    parallel_evidence(**on_gpus(4)),
    torch_evidence(**_gpus(2, used=2)),
    torch_evidence(**_gpus(4, used=2), use=_busy(90.0, 70.0, 0.0, 0.0)),
    torch_evidence(**_gpus(2), facts={"model_devices": {"devices": {"cuda:0": 1}}}),
    # a rank of a job, each of which sees all and uses its own
    torch_evidence(**_gpus(8), parallel_=job()),
    # all but one are in use by others
    torch_evidence(**_gpus(4), use=_busy(90.0, 99.0, 99.0, 99.0)),
    # the input could not feed two
    torch_evidence(**_gpus(4), input=0.099),
    # GPUs are seen, and the training computes on the CPU
    torch_evidence(machine=_gpus()["machine"]),
    torch_evidence(
        device=replace(CPU, gpus=tuple(CudaDevice(n, GPU.name, used=False) for n in range(8)))
    ),
    # slices of one card: a process can have one
    torch_evidence(**_cuda(2, mig=True)),
    # nothing was timed
    torch_evidence(**_gpus(), real=None),
]

fires = [
    torch_evidence(**_gpus()),
    # a p4d that trains on one GPU of eight, without NVML, on the last one
    torch_evidence(**_cuda(8)),
    torch_evidence(**_cuda(8, used=7)),
    torch_evidence(**_gpus(), use=_busy(80.0, 0.0, 0.0, 0.0)),
    torch_evidence(**_gpus(8), use=_busy(80.0, 0.0, 97.0, 0.0, 0.0, 0.0, 0.0, 0.0)),
    # how busy one of the others is was not told
    torch_evidence(**_gpus(2), use=_busy(80.0, None)),
    torch_evidence(**_gpus(8), input=0.050),
    evidence(**_gpus(2)),
    evidence(**_gpus(2), input=None),
]
