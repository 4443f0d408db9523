"""Fixes whose cause no recorded run shows yet, and what it would take to show it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

NEEDED = {
    "a GPU": "gpu_build gpu_shared gpu_throttled torch_checkpointing "
    "torch_cudnn_benchmark torch_hidden_waits torch_launch_blocking torch_matmul_precision "
    "torch_pin_memory torch_transfers",
    "several GPUs": "nccl_settings one_gpu_of_many torch_data_parallel",
    "an instance of AWS": "instance_cores",
    "data in S3": "s3_request_latency",
    "a slow disk": "storage_small_files storage_throughput",
    "a container with limits": "cpu_quota",
    "a script that has it": "parallel_not_worth",
}
UNSEEN: Mapping[str, str] = MappingProxyType(
    {id_: needed for needed, ids in NEEDED.items() for id_ in ids.split()}
)
"""What recording a run with the cause of a fix takes, by its id; all others were seen."""


def sentence(id_: str) -> str:
    """Say that a fix was not seen in a real run yet; "" where it was."""
    return f"not seen in a real run yet: it takes {UNSEEN[id_]}" if id_ in UNSEEN else ""
