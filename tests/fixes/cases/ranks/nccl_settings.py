"""The cases of `nccl_settings`."""

from __future__ import annotations

from fixes.cases.ranks._nccl import with_variables
from fixes.cases.ranks._parallel_cases import SLOW, exchange, parallel_evidence, strategy

OFF = {"NCCL_P2P_DISABLE": "1"}

silent = [
    parallel_evidence(),
    parallel_evidence(parallel_=None),
    with_variables({}),
    with_variables(None),
    # switches that are off
    with_variables({"NCCL_P2P_DISABLE": "0", "NCCL_DEBUG": "WARN"}),
    # one host has no use for InfiniBand
    with_variables({"NCCL_IB_DISABLE": "1"}),
    # another backend
    with_variables(OFF, parallel={"exchange": SLOW}),
    # the exchange costs nothing
    with_variables(OFF, parallel={"exchange": exchange(0.001, backend="nccl")}),
]

fires = [
    with_variables(OFF),
    with_variables({"NCCL_SHM_DISABLE": "1", "NCCL_DEBUG": "TRACE"}),
    with_variables({"NCCL_IB_DISABLE": "1"}, parallel={"hosts": 2}),
    with_variables({"NCCL_DEBUG": "trace"}),
    # what the exchange costs was not measured
    with_variables(OFF, parallel={"exchange": exchange(None, backend="nccl")}),
    parallel_evidence(
        "tensorflow",
        strategy=strategy(cross_device_ops="NcclAllReduce"),
        parallel={"exchange": exchange(0.04, method="MirroredStrategy", backend="NcclAllReduce")},
        facts={"nccl_environment": OFF},
    ),
]
