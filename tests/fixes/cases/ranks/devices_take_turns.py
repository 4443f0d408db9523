"""The cases of `devices_take_turns`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fixes.cases.common.cases import evidence
from fixes.cases.common.torch_cases import torch_evidence, traced
from fixes.cases.ranks._parallel_cases import on_gpus, parallel_evidence
from trainperf.model import PhaseUse


def _busy(*percents: float | None) -> tuple[PhaseUse, ...]:
    gpus = tuple({"index": index, "utilization_percent": one} for index, one in enumerate(percents))
    return (PhaseUse("resident", 20, gpu=gpus), PhaseUse("real", 20, gpu=gpus))


def _turns(*seconds: float, together: float = 0.0) -> dict[str, Any]:
    """A trace in which each GPU was busy for so long in a step of 98 ms."""
    return {"trace": replace(traced(0.5), device_s=seconds, together_s=together)}


PLACED: dict[str, Any] = {"model_devices": {"model": "Net", "devices": {"cuda:0": 9, "cuda:1": 9}}}

BY_TF: dict[str, Any] = {"devices_used": ["GPU:0", "GPU:1"]}

silent = [
    # nothing was placed by hand, or all on one device
    torch_evidence(use=_busy(50, 48), **on_gpus()),
    torch_evidence(
        use=_busy(50, 48),
        facts={"model_devices": {"model": "Net", "devices": {"cuda:0": 9}}},
        **on_gpus(),
    ),
    # both compute at once
    torch_evidence(use=_busy(85, 80), facts=PLACED, **on_gpus()),
    # both wait for the host
    torch_evidence(use=_busy(20, 25), facts=PLACED, **on_gpus()),
    # the second holds next to nothing
    torch_evidence(use=_busy(95, 4), facts=PLACED, **on_gpus()),
    # whatever NVML's windows say, they were traced at work at once, or hardly at all
    torch_evidence(
        use=_busy(50, 48), torch=_turns(0.06, 0.05, together=0.04), facts=PLACED, **on_gpus()
    ),
    torch_evidence(use=_busy(50, 48), torch=_turns(0.01, 0.01), facts=PLACED, **on_gpus()),
    # how busy they are is not known
    torch_evidence(facts=PLACED, **on_gpus()),
    torch_evidence(use=_busy(50, None), facts=PLACED, **on_gpus()),
    # weights on the host beside one GPU
    torch_evidence(
        use=_busy(90),
        facts={"model_devices": {"model": "Net", "devices": {"cuda:0": 9, "cpu": 9}}},
        **on_gpus(),
    ),
    # devices of a CPU
    parallel_evidence("tensorflow", facts={"devices_used": ["CPU:0", "CPU:1"]}),
    # replicas of a strategy
    parallel_evidence("tensorflow", facts=BY_TF, use=_busy(50, 48), **on_gpus()),
    # input-bound
    torch_evidence(use=_busy(50, 48), facts=PLACED, resident=0.010, input=0.099, **on_gpus()),
]

fires = [
    torch_evidence(torch=_turns(0.048, 0.045), facts=PLACED, **on_gpus()),
    torch_evidence(use=_busy(90, 88), torch=_turns(0.05, 0.04), facts=PLACED, **on_gpus()),
    torch_evidence(use=_busy(50, 48), facts=PLACED, **on_gpus()),
    torch_evidence(use=_busy(60, 30), facts=PLACED, resident=None, **on_gpus()),
    evidence(facts=BY_TF, use=_busy(52, 46), **on_gpus()),
]
