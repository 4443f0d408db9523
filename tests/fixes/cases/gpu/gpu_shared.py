"""The cases of `gpu_shared`."""

from __future__ import annotations

from fixes.cases.gpu._cases import on_gpu
from fixes.cases.ranks._parallel_cases import job

TAKEN = {"other_processes": 1, "busy_before": 0.6}

silent = [
    on_gpu(),
    # it is open elsewhere, but idle
    on_gpu(gpu={"other_processes": 2, "busy_before": 0.0}),
    # the driver does not say who, or how busy it was
    on_gpu(gpu={"other_processes": None, "busy_before": 0.6}),
    on_gpu(gpu={"other_processes": 1, "busy_before": None}),
    # waiting for data is what costs
    on_gpu(gpu=TAKEN, resident=0.004, input=0.099),
    on_gpu(gpu=TAKEN, real=None),
    # another rank of the same job may have been the first to start
    on_gpu(gpu=TAKEN, parallel_=job()),
]

fires = [
    on_gpu(gpu=TAKEN),
    on_gpu(gpu={"other_processes": 3, "busy_before": 1.0}),
]
