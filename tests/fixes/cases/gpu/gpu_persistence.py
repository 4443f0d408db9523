"""The cases of `gpu_persistence`."""

from __future__ import annotations

from fixes.cases.gpu._cases import on_gpu

silent = [
    on_gpu(),
    # the driver does not say
    on_gpu(gpu={"persistence": None}),
    # another program keeps the driver loaded
    on_gpu(gpu={"persistence": False, "other_processes": 1}),
]

fires = [on_gpu(gpu={"persistence": False})]
