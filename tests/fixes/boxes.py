"""What only a box with a GPU, of AWS or of a cluster has: values that lines of cases name."""

from typing import Any

from trainperf.fixes.common.words import GIB
from trainperf.fixes.host._instance_types import instance_type
from trainperf.model import CudaDevice, Device, Gpu, Instance, Machine, Operator, Trace


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


def instance(name: str = "g5.xlarge", hosts: int = 1, prices: Any = (), **fields: Any) -> Machine:
    """An instance of AWS of which a job may use all there is."""
    kind = instance_type(name)
    cores, memory = (kind.vcpus, kind.memory) if kind else (4, 16 * GIB)
    service: Any = "sagemaker" if name.startswith("ml.") else "ec2"
    own: dict[str, Any] = {
        "hostname": "box",
        "os": "Linux 6.1",
        "python": "3.12.3",
        "cpu_model": "a CPU",
        "visible_cores": cores,
        "affinity_cores": cores,
        "quota_cores": None,
        "cores": cores,
        "memory_total": memory,
        "memory_limit": memory,
        "memory_available": memory // 2,
        "gpus": tuple(Gpu(index, "A10G") for index in range(kind.gpus if kind else 1)),
        "instance": Instance(service, name, kind, "eu-west-1", prices=prices, hosts=hosts),
    }
    return Machine(**(own | fields))


G5_XLARGE = instance("g5.xlarge")
PRICED = instance("g5.xlarge", prices=(("g5.2xlarge", 1.2), ("g5.4xlarge", 1.6), ("g5.xlarge", 1)))
G5_2XLARGE = instance("g5.2xlarge")
G5_8XLARGE = instance("g5.8xlarge")
G5_12XLARGE = instance("g5.12xlarge")
G5_16XLARGE = instance("g5.16xlarge")
ML_G5_XLARGE = instance("ml.g5.xlarge")
ML_P5_4XLARGE = instance("ml.p5.4xlarge")
PAIR = instance("ml.g5.xlarge", hosts=2)
UNKNOWN_TYPE = instance("x9.large")
HALF = instance("g5.xlarge", cores=2, memory_limit=4 * GIB)
"""A container that may use half of an instance's cores, and a quarter of its memory."""

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
