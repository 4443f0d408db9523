"""A graph that DDP searches for unused parameters in each step, though it never changes."""

from __future__ import annotations

from typing import Any

from trainperf.fixes.ddp._edits import DdpSetting, set_ddp
from trainperf.fixes.ranks._exchange import ddps_with
from trainperf.model import Ddp, Equivalence, Evidence, Finding
from trainperf.rewrite import Script


class StaticGraph(DdpSetting):
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

    equivalence = Equivalence.EXACT

    def models(self, evidence: Evidence) -> tuple[Ddp, ...]:
        """Return those that search a graph of which PyTorch itself says it is static."""
        return tuple(
            one
            for one in ddps_with(evidence, "find_unused_parameters", True)
            if one.settings.get("static_graph") is False
            and one.graph_is_static is True
            and one.unused != 0
        )

    def told(self, evidence: Evidence, models: tuple[Ddp, ...], said: str) -> dict[str, Any]:
        """Say what the search finds, each time."""
        unused = sum(one.unused or 0 for one in models)
        which = f" for {unused} unused parameter{'s' if unused > 1 else ''}" if unused else ""
        return {
            "title": "DDP searches a graph that never changes in each step",
            "text": f"`find_unused_parameters=True` makes DDP walk over the graph{which} before "
            f"each backward; in this run it used the same parameters every time. "
            f"{said}, with the search in it.",
            "advice": "Give DistributedDataParallel static_graph=True.",
            "snippet": "model = DistributedDataParallel(model, static_graph=True)",
        }

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Set the keyword in each call."""
        for site in finding.where:
            set_ddp(script, site, "static_graph", "True", finding.data)
