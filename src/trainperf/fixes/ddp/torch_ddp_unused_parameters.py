"""A search for unused parameters in a model that uses all of them."""

from __future__ import annotations

from typing import Any

from trainperf.fixes.ddp._edits import DdpSetting, drop_ddp
from trainperf.fixes.ranks._exchange import ddps_with
from trainperf.model import Ddp, Equivalence, Evidence, Finding
from trainperf.rewrite import Script

SETTING = "find_unused_parameters"


class UnusedParameters(DdpSetting):
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

    equivalence = Equivalence.EXACT

    def models(self, evidence: Evidence) -> tuple[Ddp, ...]:
        """Return those that search, and whose parameters all got a gradient."""
        return tuple(
            one
            for one in ddps_with(evidence, SETTING, True)
            if one.unused == 0 and one.graph_is_static is not False
        )

    def told(self, evidence: Evidence, models: tuple[Ddp, ...], said: str) -> dict[str, Any]:
        """Say that there is nothing to be found."""
        return {
            "title": "DDP searches for unused parameters, and there are none",
            "text": f"`{SETTING}=True` makes DDP walk over the graph before each backward; all "
            f"parameters got a gradient. {said}, with the search in it.",
            "advice": f"Leave {SETTING}=True out.",
            "snippet": f"model = DistributedDataParallel(model, {SETTING}=False)",
        }

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Take the keyword out of each call."""
        for site in finding.where:
            drop_ddp(script, site, SETTING, finding.data)
