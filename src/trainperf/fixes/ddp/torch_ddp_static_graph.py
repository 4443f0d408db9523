"""A graph that DDP searches for unused parameters in each step, though it never changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainperf.fixes import Fix
from trainperf.fixes.common.words import worth
from trainperf.fixes.ddp._edits import ddp_seen, set_ddp
from trainperf.fixes.ranks._exchange import (
    AT_MOST_ALL,
    all_exact,
    bound_if_hidden,
    ddp_sites,
    ddps_with,
    exchange_said,
    exchanged_said,
    to_try_on_exchange,
)
from trainperf.model import Ddp, Equivalence, Evidence, Finding

if TYPE_CHECKING:
    from trainperf.rewrite import Script


class StaticGraph(Fix):
    """Tell DDP that the graph stays the same: `static_graph=True`.

    ## Why it is slow
    With `find_unused_parameters=True`, DDP walks over the whole autograd graph before
    each backward, and exchanges a map of what was used. In a model that uses the same
    parameters in every step, it finds the same each time.

    ## What changes
    DDP looks once, in the first step, and keeps what it found. The numbers are the same.

    ## When not to
    - When which parameters are used depends on the data, the step or random choices:
      layers that are dropped, experts that are chosen, losses that come in later.
    - With `no_sync()` in the first step.
    """

    category = "sync"
    equivalence = Equivalence.EXACT
    framework = "torch"

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find DDP models that search a graph of which PyTorch itself says it is static."""
        found = _static(evidence)
        if not found:
            return None
        bound = bound_if_hidden(evidence)
        if not worth(evidence, bound):
            return None
        return self._finding(evidence, found, exchange_said(evidence), bound, AT_MOST_ALL)

    def possible(self, evidence: Evidence) -> Finding | None:
        """Try it wherever DDP searches a graph that is static."""
        found = _static(evidence)
        if not found:
            return None
        return self._finding(
            evidence, found, exchanged_said(evidence), *to_try_on_exchange(evidence)
        )

    def _finding(
        self,
        evidence: Evidence,
        found: tuple[Ddp, ...],
        said: str,
        bound: float | None,
        basis: str,
    ) -> Finding:
        unused = sum(one.unused or 0 for one in found)
        which = f" for {unused} unused parameter{'s' if unused > 1 else ''}" if unused else ""
        return self.finding(
            title="DDP searches a graph that never changes in each step",
            text=f"`find_unused_parameters=True` makes DDP walk over the graph{which} before "
            f"each backward; in this run it used the same parameters every time. "
            f"{said}, with the search in it.",
            bound=bound,
            bound_basis=basis,
            where=ddp_sites(found),
            advice="Give DistributedDataParallel static_graph=True.",
            snippet="model = DistributedDataParallel(model, static_graph=True)",
            data=ddp_seen(evidence, found),
            rewritable=all_exact(found),
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Set the keyword in each call."""
        for site in finding.where:
            set_ddp(script, site, "static_graph", "True", finding.data)


def _static(evidence: Evidence) -> tuple[Ddp, ...]:
    """The DDP models that search a graph which is the same in each step."""
    return tuple(
        one
        for one in ddps_with(evidence, "find_unused_parameters", True)
        if one.settings.get("static_graph") is False
        and one.graph_is_static is True
        and one.unused != 0
    )
