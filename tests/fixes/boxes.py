"""What only a box with a GPU, of AWS or of a cluster has: values that lines of cases name."""

from trainperf.model import CudaDevice, Device, Gpu, Machine, Operator, Trace


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

CUDA_TRACE = Trace("cuda", 3, (Operator("aten::addmm", 24, 0.09),), 0.0, 120, gap_s=0.0)
"""A pass whose kernels, all of them matrix products, take 90 ms."""

CARDS = (
    Gpu(
        0,
        "NVIDIA A10G",
        memory_total=24 * 1024**3,
        compute_capability="8.6",
        max_sm_clock_mhz=1710,
        pcie_generation=4,
        pcie_width=16,
        persistence=True,
        ecc_errors=0,
        mig=False,
        other_processes=0,
    ),
)
"""What the driver tells of one that is well."""
GPU_BOX = Machine(
    "box",
    "Linux 6.1",
    "3.12.3",
    "a CPU",
    8,
    8,
    None,
    8.0,
    2**35,
    2**35,
    2**34,
    gpus=CARDS,
    driver_cuda="12.4",
)
