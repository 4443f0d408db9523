"""The cases of `nccl_transport`."""

from __future__ import annotations

from fixes.cases.ranks._nccl import with_variables
from fixes.cases.ranks._parallel_cases import SLOW, exchange, parallel_evidence

TWO_HOSTS = {"hosts": 2}

silent = [
    parallel_evidence(),
    parallel_evidence(parallel_=None),
    with_variables({}, parallel=TWO_HOSTS),
    with_variables(None, parallel=TWO_HOSTS),
    # one host does not use the network
    with_variables({"NCCL_NET": "Socket", "FI_PROVIDER": "tcp", "NCCL_SOCKET_IFNAME": "lo"}),
    # ways that are quick
    with_variables(
        {"NCCL_NET": "AWS Libfabric", "FI_PROVIDER": "efa", "NCCL_SOCKET_IFNAME": "eth0"},
        parallel=TWO_HOSTS,
    ),
    # all interfaces but these
    with_variables({"NCCL_SOCKET_IFNAME": "^lo,docker0"}, parallel=TWO_HOSTS),
    # another backend, or an exchange that costs nothing
    with_variables({"NCCL_P2P_LEVEL": "LOC"}, parallel={"exchange": SLOW}),
    with_variables(
        {"NCCL_P2P_LEVEL": "LOC"}, parallel={"exchange": exchange(0.001, backend="nccl")}
    ),
]

fires = [
    with_variables({"NCCL_P2P_LEVEL": "LOC"}),
    with_variables({"NCCL_NET": "socket"}, parallel=TWO_HOSTS),
    with_variables({"FI_PROVIDER": "tcp;ofi_rxm"}, parallel=TWO_HOSTS),
    with_variables({"NCCL_SOCKET_IFNAME": "=lo", "FI_PROVIDER": "sockets"}, parallel=TWO_HOSTS),
]
