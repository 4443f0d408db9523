"""A search for unused parameters in a model that uses all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainperf.fixes import Fix
from trainperf.fixes.common.words import worth
from trainperf.fixes.ddp._edits import ddp_seen, drop_ddp
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

SETTING = "find_unused_parameters"


class UnusedParameters(Fix):
    """Let DDP stop searching for unused parameters that do not exist.

    ## Why it is slow
    With `find_unused_parameters=True`, DDP walks over the whole autograd graph before
    each backward to find parameters that get no gradient, and the ranks exchange a map
    of what they found. In this model there are none.

    ## What changes
    The keyword goes. The numbers are the same.

    ## When not to
    When some steps leave parameters out: branches taken by chance or by the data, heads
    of tasks that come later. DDP then stops with an error that says so.
    """

    category = "sync"
    equivalence = Equivalence.EXACT
    framework = "torch"

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find DDP models that search although every parameter got its gradient."""
        found = _searching(evidence)
        if not found:
            return None
        bound = bound_if_hidden(evidence)
        if not worth(evidence, bound):
            return None
        return self._finding(evidence, found, exchange_said(evidence), bound, AT_MOST_ALL)

    def possible(self, evidence: Evidence) -> Finding | None:
        """Try it wherever DDP searches for nothing."""
        found = _searching(evidence)
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
        return self.finding(
            title="DDP searches for unused parameters, and there are none",
            text=f"`{SETTING}=True` makes DDP walk over the graph before each backward; all "
            f"parameters got a gradient. {said}, with the search in it.",
            bound=bound,
            bound_basis=basis,
            where=ddp_sites(found),
            advice=f"Leave {SETTING}=True out.",
            snippet=f"model = DistributedDataParallel(model, {SETTING}=False)",
            data=ddp_seen(evidence, found),
            rewritable=all_exact(found),
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Take the keyword out of each call."""
        for site in finding.where:
            drop_ddp(script, site, SETTING, finding.data)


def _searching(evidence: Evidence) -> tuple[Ddp, ...]:
    """The DDP models that search, and whose parameters all got a gradient."""
    return tuple(
        one
        for one in ddps_with(evidence, SETTING, True)
        if one.unused == 0 and one.graph_is_static is not False
    )
