"""Variables that choose a slow way between GPUs or hosts for NCCL."""

from __future__ import annotations

from collections.abc import Mapping

from trainperf.fixes import Fix
from trainperf.fixes.ranks._exchange import priced, uses_nccl, variables
from trainperf.model import Equivalence, Evidence, Finding

SLOW_PROVIDERS = ("tcp", "sockets", "udp")
"""Providers of libfabric that go through the kernel's sockets; EFA's is `efa`."""

VIRTUAL = ("lo", "docker", "veth", "virbr")
"""Starts of the names of network interfaces that do not lead to another host."""


class NcclTransport(Fix):
    """Let NCCL choose its own way between hosts and GPUs.

    ## Why it is slow
    `NCCL_NET=Socket`, `FI_PROVIDER=tcp` and their like send gradients through the
    kernel's sockets, though there may be EFA or InfiniBand. `NCCL_P2P_LEVEL=LOC` forbids
    GPUs to copy to each other. `NCCL_SOCKET_IFNAME` may name the wrong interface.

    ## What changes
    Without the variables NCCL takes the quickest way it finds. The sums may be made in
    another order.

    ## When not to
    - Where the quick way is not installed (EFA needs the aws-ofi-nccl plugin): NCCL then
      takes sockets anyway, or stops.
    - Where an administrator sets them because another way fails.
    """

    category = "sync"
    equivalence = Equivalence.ENVIRONMENT
    framework = "any"

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find variables that name a slow way, where several hosts or GPUs would take it."""
        if not uses_nccl(evidence):
            return None
        given = variables(evidence)
        reasons = _slow(given, evidence.parallel.hosts > 1)
        bound, basis, cost, worthy = priced(evidence)
        if not worthy or not reasons:
            return None
        names = list(reasons)
        return self.finding(
            title=f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'} set to a slow way",
            text=" ".join(f"{name}={given[name]}: {reasons[name]}." for name in names) + cost,
            bound=bound,
            bound_basis=basis,
            advice=f"Unset {' and '.join(names)}, and look at what NCCL_DEBUG=INFO says it takes.",
            snippet="\n".join(f"unset {name}" for name in names),
        )


def _slow(given: Mapping[str, str], hosts: bool) -> dict[str, str]:
    """The variables that choose a slow way, each with what it does."""
    found = {}
    if given.get("NCCL_P2P_LEVEL", "").upper() in ("LOC", "0"):
        found["NCCL_P2P_LEVEL"] = "GPUs of one host never copy to each other directly"
    if not hosts:
        return found
    if given.get("NCCL_NET", "").lower() == "socket":
        found["NCCL_NET"] = "hosts exchange through the kernel's sockets"
    if given.get("FI_PROVIDER", "").lower().partition(";")[0] in SLOW_PROVIDERS:
        found["FI_PROVIDER"] = "libfabric goes through the kernel's sockets, not through EFA"
    names = given.get("NCCL_SOCKET_IFNAME", "").lstrip("=")
    if names and all(name.strip("= ").startswith(VIRTUAL) for name in names.split(",")):
        found["NCCL_SOCKET_IFNAME"] = "this interface leads to no other host"
    return found
