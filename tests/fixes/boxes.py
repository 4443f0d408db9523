"""What only a box with a GPU, of AWS or of a cluster has: values that lines of cases name."""

from typing import Any

from trainperf.model import CudaDevice, Device, Operator, Trace


def _gpu(name: str, capability: str | None = None) -> Device:
    return Device("GPU", name, 1, (CudaDevice(0, name, index=0, compute_capability=capability),))


GPU = _gpu("NVIDIA A10G")
"""One of which CUDA did not tell what it can."""
A10G = _gpu("NVIDIA A10G", "8.6")
A100 = _gpu("NVIDIA A100-SXM4-40GB", "8.0")
T4 = _gpu("Tesla T4", "7.5")
V100 = _gpu("Tesla V100-SXM2-16GB", "7.0")
P100 = _gpu("Tesla P100-PCIE-16GB", "6.0")
NEWER = _gpu("NVIDIA X1", "9.9")


def _gpus(*used: bool, **fields: Any) -> Device:
    cards = tuple(
        CudaDevice(number, GPU.name, used=mine, **{"index": number, **fields})
        for number, mine in enumerate(used)
    )
    return Device("GPU", GPU.name, sum(used), cards)


TWO_GPUS = _gpus(True, True)
TWO_OF_FOUR = _gpus(True, True, False, False)
ONE_OF_TWO = _gpus(True, False)
ONE_OF_FOUR = _gpus(True, False, False, False)
LAST_OF_EIGHT = _gpus(*[False] * 7, True, index=None)
"""Where NVML is missing, so that nobody knows which cards they are."""
SLICES = _gpus(True, False, mig=True)
"""Of one card: a process can have one."""

CUDA_TRACE = Trace("cuda", 3, (Operator("aten::addmm", 24, 0.09),), 0.0, 120, gap_s=0.0)
"""A pass whose kernels, all of them matrix products, take 90 ms."""
