"""Gradients exchanged after every micro-step, where the last of an update would do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainperf.errors import NotMeasured
from trainperf.fixes import Fix
from trainperf.fixes.common.step import bound_if_saved
from trainperf.fixes.common.words import ms, percent, worth
from trainperf.fixes.ddp._no_sync_edits import put_under_no_sync
from trainperf.fixes.ranks._exchange import (
    exchange,
    exchange_at_most,
    exchange_seconds,
    to_try_on_exchange,
)
from trainperf.model import Ddp, Equivalence, Evidence, Finding, Site

if TYPE_CHECKING:
    from trainperf.rewrite import Script

SEVERAL = 1.5
"""Backward passes per update from which gradients are added up; between, it varies."""

LEFT_OUT = "of the exchanges left out"


SNIPPET = """\
import contextlib

for i, (x, y) in enumerate(loader):
    last = (i + 1) % accumulate == 0
    with contextlib.nullcontext() if last else model.no_sync():
        loss = criterion(model(x), y) / accumulate
        loss.backward()
    if last:
        optimizer.step()
        optimizer.zero_grad()"""


class NoSync(Fix):
    """Exchange gradients once per update: `no_sync()` in all micro-steps but the last.

    ## Why it is slow
    A loop that adds up the gradients of several batches needs their sum over all ranks
    only before the update. DDP does not know that, and exchanges them after each
    backward.

    ## What changes
    Forward and backward of all batches but the last of an update run under
    `model.no_sync()`. The ranks then add up first and exchange the sum: the same
    gradients, rounded in another order.

    ## When not to
    - When something reads gradients after each batch: clipping, logging their norm.
    - With FSDP, `no_sync()` keeps whole gradients in memory.
    """

    category = "sync"
    equivalence = Equivalence.NUMERICS
    framework = "torch"

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find a DDP model that exchanges more than once per update."""
        counted = _dearest(evidence)
        if counted is None:
            return None
        dearest, micro, synced = counted
        share = (synced - 1) / synced
        cost = exchange_at_most(evidence)
        bound = bound_if_saved(evidence, share * cost)
        if not worth(evidence, bound):
            return None
        over = f" over {backend}" if (backend := exchange(evidence).backend) else ""
        text = (
            f"{_said(micro, synced)} That takes {'up to ' if _unsure(evidence) else ''}"
            f"{ms(cost)} of the {ms(evidence.times.real)} step{over}, of which one exchange per "
            f"update would save {percent(share)}."
        )
        return self._finding(evidence, dearest, text, bound, f"{percent(share)} {LEFT_OUT}")

    def possible(self, evidence: Evidence) -> Finding | None:
        """Try it wherever more than one exchange per update was counted."""
        counted = _dearest(evidence)
        if counted is None:
            return None
        dearest, micro, synced = counted
        bound, basis = to_try_on_exchange(evidence, (synced - 1) / synced)
        return self._finding(evidence, dearest, _said(micro, synced), bound, basis)

    def _finding(
        self, evidence: Evidence, ddp: Ddp, text: str, bound: float | None, basis: str
    ) -> Finding:
        where = _places(evidence, ddp)
        alone = len(_several(evidence)) == 1
        return self.finding(
            title="Gradients are exchanged after every batch, and used after several",
            text=text,
            bound=bound,
            bound_basis=basis,
            where=where,
            snippet=SNIPPET,
            rewritable=alone and len(where) >= 3 and all(site.exact for site in where),
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Put forward and backward under `no_sync()`, but in the turn that updates."""
        forward, backward, step, *wrapped = finding.where
        put_under_no_sync(script, forward, backward, step, wrapped[0] if wrapped else None)


def _several(evidence: Evidence) -> list[Ddp]:
    return [one for one in evidence.parallel.ddp if (_counted(one) or (0, 0))[1] > SEVERAL]


def _dearest(evidence: Evidence) -> tuple[Ddp, float, float] | None:
    """The DDP model that exchanges most often, with its backward passes and exchanges."""
    found = _several(evidence)
    if not found:
        return None
    dearest = max(found, key=lambda one: one.synced or 0.0)
    return dearest, *(_counted(dearest) or (1.0, 1.0))


def _said(micro: float, synced: float) -> str:
    return (
        f"Each update adds up the gradients of {micro:.3g} backward passes, and {synced:.3g} of "
        "them exchange."
    )


def _unsure(evidence: Evidence) -> bool:
    """Whether what the exchange takes does not stand out of the noise."""
    try:
        exchange_seconds(evidence)
    except NotMeasured:
        return True
    return False


def _counted(ddp: Ddp) -> tuple[float, float] | None:
    """Backward passes per update, and those with exchange, where they were counted."""
    if ddp.micro_steps is None or ddp.synced is None or ddp.micro_steps <= SEVERAL:
        return None
    return ddp.micro_steps, ddp.synced


def _places(evidence: Evidence, ddp: Ddp) -> tuple[Site, ...]:
    """Forward, backward, update and, where it can be edited, where DDP is built."""
    calls = evidence.torch.calls
    if calls is None or calls.forward is None or calls.backward is None:
        return (ddp.where,) if ddp.where is not None else ()
    step = calls.step
    if step is None:
        return calls.forward, calls.backward
    wrapped = (ddp.where,) if ddp.where is not None and ddp.where.exact else ()
    return calls.forward, calls.backward, step, *wrapped
