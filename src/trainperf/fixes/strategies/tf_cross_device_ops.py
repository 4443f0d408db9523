"""Gradients that replicas exchange by other means than the fastest."""

from __future__ import annotations

from trainperf.fixes import Fix
from trainperf.fixes.common.words import worth
from trainperf.fixes.ranks._exchange import (
    AT_MOST_ALL,
    WORTH_CHANGING,
    bound_without,
    exchange_said,
    exchange_share,
)
from trainperf.model import Equivalence, Evidence, Finding, Strategy

COLLECTIVE = "CollectiveAllReduce"
"""TensorFlow's own choice (2.21); over NCCL where all devices are GPUs."""

FAST = ("NcclAllReduce", COLLECTIVE)


class CrossDeviceOps(Fix):
    """Exchange gradients by the fastest `cross_device_ops` of these devices.

    ## Why it is slow
    `ReductionToOneDevice` gathers all gradients on one device and sends the sums back;
    `HierarchicalCopyAllReduce` copies them along the links of one machine of its time.
    NCCL knows the links between GPUs and uses all of them at once. On devices of a CPU
    TensorFlow's own choice, a collective, packs small gradients together.

    ## What changes
    `cross_device_ops` of the strategy: NCCL on GPUs, TensorFlow's own choice elsewhere.
    The sums are the same; they are added up in another order, so the last digits differ.

    ## When not to
    - NCCL is for NVIDIA GPUs under Linux only.
    - When it was set because NCCL hangs or fails on this machine.
    """

    category = "sync"
    equivalence = Equivalence.NUMERICS
    without_edit = "why other means of exchange were set is not in the source"

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find a `MirroredStrategy` whose exchange takes a share and could be made otherwise."""
        found = _slow(evidence)
        if found is None or exchange_share(evidence) < WORTH_CHANGING:
            return None
        bound = bound_without(evidence)
        if not worth(evidence, bound):
            return None
        gpus = evidence.device.kind == "GPU"
        better = "tf.distribute.NcclAllReduce()" if gpus else "None"
        return self.finding(
            title=f"{found.cross_device_ops} exchanges the gradients",
            text=f"{exchange_said(evidence)}; {found.replicas} "
            f"{'GPUs' if gpus else 'devices of the CPU'} exchange them by the "
            f"{found.cross_device_ops} that the script asks for.",
            bound=bound,
            bound_basis=AT_MOST_ALL,
            where=(found.where,) if found.where else (),
            advice="Exchange gradients by NCCL."
            if gpus
            else "Leave cross_device_ops out: TensorFlow's own choice suits these devices.",
            snippet=f"strategy = tf.distribute.MirroredStrategy(cross_device_ops={better})",
        )


def _slow(evidence: Evidence) -> Strategy | None:
    """The strategy of several replicas that is told to exchange by other than the fastest."""
    found = evidence.strategy
    if found is None or found.cls != "MirroredStrategy" or found.replicas < 2:
        return None
    if not found.cross_device_ops_given or found.cross_device_ops.partition(" ")[0] in FAST:
        return None
    return found
