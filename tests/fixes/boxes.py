"""What only a box with a GPU, of AWS or of a cluster has: values that lines of cases name."""

from dataclasses import replace
from typing import Any

import zoo
from trainperf.fixes.common.words import GIB, MIB
from trainperf.fixes.host.instances import instance_type
from trainperf.model import (
    CudaDevice,
    Device,
    Gpu,
    Instance,
    InstanceType,
    Machine,
    Objects,
    Operator,
    PhaseUse,
    Reads,
    Trace,
    Volume,
)


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
ONE_OF_TWO = _gpus(True, False)
ONE_OF_FOUR = _gpus(True, False, False, False)
LAST_OF_EIGHT = _gpus(*[False] * 7, True, index=None)
"""Where NVML is missing, so that nobody knows which cards they are."""
SLICES = _gpus(True, False, mig=True)
"""Of one card: a process can have one."""

CUDA_TRACE = Trace("cuda", (Operator("aten::addmm", 24, 0.09),), 0.0, 120, gap_s=0.0)
"""A pass whose kernels, all of them matrix products, take 90 ms."""


def box(**fields: Any) -> Machine:
    """The machine of a recording, two cores and no GPU, with what is named about it changed."""
    seen = {"gpu_reason": ""} if fields.get("gpus") else {}
    return replace(zoo.load("healthy").machine, **(seen | fields))


def cores(count: int, **fields: Any) -> Machine:
    """The same with so many cores, of which a job may use all."""
    return box(visible_cores=count, affinity_cores=count, cores=float(count), **fields)


def instance(name: str = "g5.xlarge", hosts: int = 1, **fields: Any) -> Machine:
    """An instance of AWS of which a job may use all there is."""
    kind = instance_type(name)
    count, memory = (kind.vcpus, kind.memory) if kind else (4, 16 * GIB)
    service: Any = "sagemaker" if name.startswith("ml.") else "ec2"
    own: dict[str, Any] = {
        "visible_cores": count,
        "affinity_cores": count,
        "cores": count,
        "memory_total": memory,
        "memory_limit": memory,
        "memory_available": memory // 2,
        "gpus": tuple(Gpu(index, "A10G") for index in range(kind.gpus if kind else 1)),
        "instance": Instance(service, name, kind, "eu-west-1", hosts=hosts),
    }
    return box(**(own | fields))


G5_XLARGE = instance("g5.xlarge")
G5_12XLARGE = instance("g5.12xlarge")
G5_16XLARGE = instance("g5.16xlarge")
ML_G5_XLARGE = instance("ml.g5.xlarge")
PAIR = instance("ml.g5.xlarge", hosts=2)
UNKNOWN_TYPE = instance("x9.large")

CARDS = (
    Gpu(
        0,
        "NVIDIA A10G",
        memory_total=24 * 1024**3,
        compute_capability="8.6",
        max_sm_clock_mhz=1710,
        ecc_errors=0,
        mig=False,
        other_processes=0,
    ),
)
"""What the driver tells of one that is well."""
GPU_BOX = cores(8, gpus=CARDS, driver_cuda="12.4")

_G5 = InstanceType("g5.xlarge", 4, 16 * GIB, gpus=1, ebs_bytes_s=437.5e6, nvme_bytes=250 * 10**9)
IN_EUROPE = Instance("ec2", "g5.xlarge", _G5, region="eu-west-1")
IN_AMERICA = Instance("ec2", "g5.xlarge", _G5, region="us-east-1")

EBS = Volume("/opt/ml/input", "ebs", "ext4", "nvme1n1", "Amazon Elastic Block Store")
NVME = Volume("/scratch", "nvme", "xfs", "nvme2n1", "Amazon EC2 NVMe Instance Storage")
EFS = Volume("/mnt/efs", "efs", "nfs4", "fs-1.efs.eu-west-1.amazonaws.com:/")
SHARDS = (
    Reads(
        EBS,
        files=64,
        opens=640,
        seconds=5.0,
        sizes=(140 * MIB, 150 * MIB, 160 * MIB),
        total_bytes=64 * 150 * MIB,
        examples=("/opt/ml/input/data/train/00001.tar",),
        cold_bytes_s=120.0 * MIB,
        cold_parallel_bytes_s=125.0 * MIB,
        cold_file_s=1.2,
        probed_bytes=64 * MIB,
        opens_per_step=0.04,
        bytes_per_step=4.0 * MIB,
        stored_per_step=3.6 * MIB,
        needed_bytes_s=400.0 * MIB,
    ),
)
"""On a gp3 volume that was given no more than its 125 MiB/s."""

OBJECTS = (
    Objects(
        "data",
        region="eu-west-1",
        prefix="train/",
        requests=3200,
        request_s=0.022,
        mean_object_bytes=120_000.0,
        body_s=0.002,
        seconds=20.0,
        concurrency=1.0,
        requests_per_step=2.0,
    ),
)
"""Small ones of S3, read one after the other."""


def busy(real: float, input: float) -> tuple[PhaseUse, ...]:
    """So many cores that work in the real phase, and with the input alone."""
    return (PhaseUse("real", 30, cpu_cores=real), PhaseUse("input", 30, cpu_cores=input))


FOUR_BUSY = busy(4.0, 4.0)
ONE_BUSY = busy(1.2, 1.1)
ALL_BUSY = busy(64.0, 64.0)
