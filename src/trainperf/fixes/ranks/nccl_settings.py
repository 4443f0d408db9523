"""Variables that switch off the quick ways between GPUs."""

from __future__ import annotations

from trainperf.fixes import Fix
from trainperf.fixes.ranks._exchange import priced, uses_nccl, variables
from trainperf.model import Equivalence, Evidence, Finding

WITHIN = {
    "NCCL_P2P_DISABLE": "GPUs of one host do not copy to each other directly",
    "NCCL_SHM_DISABLE": "ranks of one host do not exchange through shared memory",
}
BETWEEN = {"NCCL_IB_DISABLE": "hosts do not use InfiniBand or RoCE"}
DEBUG = "NCCL_DEBUG"
CALM = "WARN"


class NcclSettings(Fix):
    """Let NCCL use the direct ways between GPUs that variables switch off.

    ## Why it is slow
    `NCCL_P2P_DISABLE`, `NCCL_SHM_DISABLE` and `NCCL_IB_DISABLE` take NVLink, PCIe, shared
    memory or InfiniBand away from NCCL. What is left is slower, down to sockets.
    `NCCL_DEBUG=TRACE` writes lines for every call. They are often left over from looking
    for a fault.

    ## What changes
    The switches are 0 for the command, and the log only warns. The sums may be made in
    another order.

    ## When not to
    - On machines where the direct way hangs or gives wrong numbers (some virtual
      machines, some boards with an IOMMU): there the switch is the repair.
    - A script that sets the variables itself must be changed there.
    """

    category = "sync"
    equivalence = Equivalence.ENVIRONMENT
    framework = "any"

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find switches that are on where they matter, and a log of every call."""
        if not uses_nccl(evidence):
            return None
        given = variables(evidence)
        ways = WITHIN | (BETWEEN if evidence.parallel.hosts > 1 else {})
        off = [name for name in ways if _on(given.get(name, ""))]
        traced = given.get(DEBUG, "").upper() == "TRACE"
        bound, basis, cost, worthy = priced(evidence)
        if not worthy or not (off or traced):
            return None
        said = [f"With {name}={given[name]}, {ways[name]}." for name in off]
        if traced:
            said.append(f"{DEBUG}=TRACE writes a line for every call.")
        names = [*off, *([DEBUG] if traced else [])]
        setting = dict.fromkeys(off, "0") | ({DEBUG: CALM} if traced else {})
        return self.finding(
            title=f"{names[0]} is set" if len(names) == 1 else f"{' and '.join(names)} are set",
            text=" ".join(said) + cost,
            bound=bound,
            bound_basis=basis,
            advice=f"Unset {' and '.join(names)}, unless this machine needs it.",
            snippet="\n".join(f"unset {name}" for name in names),
            data={"variables": setting},
        )

    def environment(self, finding: Finding) -> dict[str, str]:
        """Switch the direct ways on again."""
        return {str(name): str(value) for name, value in finding.data["variables"].items()}


def _on(value: str) -> bool:
    """Whether a switch of NCCL is on: any number but 0."""
    return value.lstrip("+-").isdigit() and int(value) != 0
