"""Variables that keep NCCL from the quickest way between GPUs or hosts."""

from __future__ import annotations

from collections.abc import Mapping

from trainperf.errors import NotMeasured
from trainperf.fixes import Fix
from trainperf.fixes.cause import Cause
from trainperf.fixes.ranks._exchange import exchange, exchange_said, price_without
from trainperf.model import Equivalence, Evidence, Finding

WITHIN = {
    "NCCL_P2P_DISABLE": "GPUs of one host do not copy to each other directly",
    "NCCL_SHM_DISABLE": "ranks of one host do not exchange through shared memory",
}
BETWEEN = {"NCCL_IB_DISABLE": "hosts do not use InfiniBand or RoCE"}

SLOW_PROVIDERS = ("tcp", "sockets", "udp")
"""Providers of libfabric that go through the kernel's sockets; EFA's is `efa`."""

VIRTUAL = ("lo", "docker", "veth", "virbr")
"""Starts of the names of network interfaces that do not lead to another host."""


class NcclSettings(Fix):
    """Let NCCL use the direct ways between GPUs that variables switch off.

    ## Why it is slow
    `NCCL_P2P_DISABLE`, `NCCL_SHM_DISABLE` and `NCCL_IB_DISABLE` take NVLink, PCIe, shared
    memory or InfiniBand away from NCCL, down to sockets. `NCCL_DEBUG=TRACE` writes lines for
    every call. They are often left over from looking for a fault.

    ## What changes
    The switches are 0, and the log only warns. The sums may be made in another order.

    ## When not to
    - On machines where the direct way hangs or gives wrong numbers (some virtual
      machines, some boards with an IOMMU): there the switch is the repair.
    - A script that sets the variables itself must be changed there.
    """

    category = "sync"
    equivalence = Equivalence.ENVIRONMENT
    framework = "any"

    def look(self, evidence: Evidence) -> Cause | None:
        """Find switches that are on where they matter, and a log of every call."""
        given = _variables(evidence)
        ways = WITHIN | (BETWEEN if evidence.parallel.hosts > 1 else {})
        off = {name: way for name, way in ways.items() if _on(given.get(name, ""))}
        traced = given.get("NCCL_DEBUG", "").upper() == "TRACE"
        found = off | ({"NCCL_DEBUG": "a line is written for every call"} if traced else {})
        setting = dict.fromkeys(off, "0") | ({"NCCL_DEBUG": "WARN"} if traced else {})
        return _held_back(evidence, found, "unless this machine needs it.", setting)

    def environment(self, finding: Finding) -> dict[str, str]:
        """Switch the direct ways on again."""
        return {str(name): str(value) for name, value in finding.data["variables"].items()}


class NcclTransport(Fix):
    """Let NCCL choose its own way between hosts and GPUs.

    ## Why it is slow
    `NCCL_NET=Socket`, `FI_PROVIDER=tcp` and their like send gradients through the
    kernel's sockets, though there may be EFA or InfiniBand. `NCCL_P2P_LEVEL=LOC` forbids
    GPUs to copy to each other. `NCCL_SOCKET_IFNAME` may name the wrong interface.

    ## What changes
    NCCL takes the quickest way it finds. The sums may be made in another order.

    ## When not to
    - Where the quick way is not installed (EFA needs the aws-ofi-nccl plugin): NCCL then
      takes sockets anyway, or stops.
    - Where an administrator sets them because another way fails.
    """

    category = "sync"
    equivalence = Equivalence.ENVIRONMENT
    framework = "any"

    def look(self, evidence: Evidence) -> Cause | None:
        """Find variables that name a slow way, where several hosts or GPUs would take it."""
        found = _slow(_variables(evidence), evidence.parallel.hosts > 1)
        return _held_back(evidence, found, "and look at what NCCL_DEBUG=INFO says it takes.")


def _variables(evidence: Evidence) -> dict[str, str]:
    """NCCL_* and FI_* of the training process; raises `NotMeasured` where NCCL exchanges nothing.

    They are the fact `nccl_environment`.
    """
    given = evidence.fact("nccl_environment")
    if "nccl" not in exchange(evidence).backend.lower() or not isinstance(given, dict):
        raise NotMeasured("NCCL exchanges nothing, or its variables are not known")
    return {str(name): str(value).strip() for name, value in given.items()}


def _held_back(
    evidence: Evidence,
    found: Mapping[str, str],
    then: str,
    setting: Mapping[str, str] | None = None,
) -> Cause | None:
    """The cause of these variables, each with what it does; `then` ends the advice."""
    if not found:
        return None
    given, names = _variables(evidence), " and ".join(found)
    effects = " ".join(f"{name}={given[name]}: {effect}." for name, effect in found.items())
    return Cause(
        title=f"NCCL is held back by {names}",
        text=f"{effects} {exchange_said(evidence)}.",
        saves=price_without(evidence, "no time spent on the exchange of gradients"),
        advice=f"Unset {names}, {then}",
        snippet="\n".join(f"unset {name}" for name in found),
        data={"variables": setting} if setting else {},
    )


def _on(value: str) -> bool:
    """Whether a switch of NCCL is on: any number but 0."""
    return value.lstrip("+-").isdigit() and int(value) != 0


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
