"""The cases of `tf_cross_device_ops`."""

from __future__ import annotations

from dataclasses import replace

from fixes.cases.ranks._parallel_cases import exchange, on_gpus, parallel_evidence, strategy
from trainperf.fixes.strategies.tf_cross_device_ops import COLLECTIVE

DEAR = {"exchange": exchange(0.040, method="MirroredStrategy", backend="ReductionToOneDevice")}

GPUS = strategy(
    devices=("GPU:0", "GPU:1"),
    cross_device_ops="HierarchicalCopyAllReduce",
    cross_device_ops_given=True,
)

GIVEN = strategy(cross_device_ops="ReductionToOneDevice", cross_device_ops_given=True)

silent = [
    # the exchange is a small part, was not timed, or none was seen
    parallel_evidence("tensorflow"),
    parallel_evidence("tensorflow", parallel={"exchange": exchange(None)}),
    parallel_evidence("tensorflow", parallel={"exchange": None}),
    # NCCL already, or TensorFlow's own choice on GPUs
    parallel_evidence(
        "tensorflow",
        parallel=DEAR,
        strategy=replace(GPUS, cross_device_ops="NcclAllReduce"),
        **on_gpus(),
    ),
    parallel_evidence(
        "tensorflow",
        parallel=DEAR,
        strategy=replace(GPUS, cross_device_ops=f"{COLLECTIVE} (NCCL)"),
        **on_gpus(),
    ),
    # TensorFlow's own choice on devices of the CPU
    parallel_evidence("tensorflow", parallel=DEAR),
    # several workers: their exchange is chosen by other options
    parallel_evidence(
        "tensorflow",
        parallel=DEAR,
        strategy=strategy(cls="MultiWorkerMirroredStrategy", workers=2),
    ),
    # one replica
    parallel_evidence("tensorflow", parallel=DEAR, strategy=strategy(replicas=1)),
]

fires = [
    parallel_evidence("tensorflow", parallel=DEAR, strategy=GPUS, **on_gpus()),
    parallel_evidence("tensorflow", parallel=DEAR, strategy=GIVEN),
    # built where no edit can reach
    parallel_evidence("tensorflow", parallel=DEAR, strategy=replace(GIVEN, where=None)),
]
