"""The cases of `gpu_unused`."""

from __future__ import annotations

from dataclasses import replace

from fixes.cases.common.cases import GPU, evidence, machine
from trainperf.model import Framework, Gpu

WITH_GPU = machine(gpus=(Gpu(0, "NVIDIA A10G"), Gpu(1, "NVIDIA A10G")))

CPU_BUILD = Framework("tensorflow", "2.21.0", keras="3.15.1", built_with_cuda=False)

CUDA_BUILD = replace(CPU_BUILD, built_with_cuda=True)

silent = [
    # the run ended before TensorFlow said which devices it has
    evidence(machine=WITH_GPU),
    # no GPU there
    evidence(),
    evidence(framework=CPU_BUILD),
    # there, and used
    evidence(machine=WITH_GPU, device=GPU),
    evidence(machine=WITH_GPU, device=GPU, framework=CUDA_BUILD),
]

fires = [
    evidence(machine=WITH_GPU, framework=CPU_BUILD),
    evidence(machine=WITH_GPU, framework=CUDA_BUILD),
    evidence(machine=WITH_GPU, framework=CUDA_BUILD, facts={"cuda_visible_devices": "-1"}),
]
