"""One process that copies the model to all GPUs in each step."""

from __future__ import annotations

from typing import Any

from trainperf.errors import NotMeasured
from trainperf.fixes import Fix
from trainperf.fixes.common.step import step_may_matter
from trainperf.fixes.common.words import at, ms, worth
from trainperf.fixes.ddp._edits import TO_DDP
from trainperf.fixes.ranks._exchange import bound_without, exchange_seconds
from trainperf.model import Equivalence, Evidence, Finding, Site


class DataParallel(Fix):
    """Start a process for each GPU: `DistributedDataParallel` for `nn.DataParallel`.

    ## Why it is slow
    `nn.DataParallel` runs all GPUs from one Python process. In each step it copies the
    whole model to every GPU, cuts the batch on the first, gathers all outputs and adds
    up all gradients there. The GPUs wait for each other, and for one interpreter.

    ## What changes
    `torchrun` starts a process for each GPU; each keeps its copy of the model, loads its
    own batches and exchanges only gradients, while the backward still runs.

    ## When not to
    - Batch statistics, metrics and checkpoints are per process: write them in rank 0.
    - The batch size is per process then: divide it by the GPUs to keep the training.
    """

    category = "sync"
    equivalence = Equivalence.NUMERICS
    without_edit = (
        "one process for each GPU wants a launcher, a sampler and a rank in what is saved"
    )
    framework = "torch"

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find a `DataParallel` over several GPUs."""
        built = evidence.fact("data_parallel")
        ids = list(built.get("device_ids") or ()) if isinstance(built, dict) else []
        if len(ids) < 2:
            return None
        where = _site(built.get("where"))
        bound: float | None = None
        cost = ""
        try:
            bound = bound_without(evidence)
            cost = f" Without it a step takes {ms(exchange_seconds(evidence))} less."
        except NotMeasured:
            if not step_may_matter(evidence):
                return None
        if bound is not None and not worth(evidence, bound):
            return None
        model = str(built.get("model") or "model")
        size = evidence.loop.batch_size
        place = f" in {at(where)}" if where else ""
        return self.finding(
            title=f"One process drives {len(ids)} GPUs through nn.DataParallel",
            text=f"`{model}` is wrapped by `DataParallel`{place}: in each step it is copied to "
            f"{len(ids)} GPUs, and all outputs and gradients come back to the first.{cost}",
            bound=bound,
            bound_basis="no time spent on copies between the GPUs" if bound else "not measured",
            where=(where,) if where else (),
            advice="Start a process for each GPU with torchrun, and use DistributedDataParallel.",
            snippet=TO_DDP.format(
                replicas=len(ids), batch=size // len(ids) if size else "batch_size"
            ),
        )


def _site(place: Any) -> Site | None:
    """A place as a process records it; None if it recorded none."""
    if not isinstance(place, dict) or not place.get("file"):
        return None
    names = ("line", "col", "end_line", "end_col")
    numbers = {name: int(place[name]) for name in names if place.get(name) is not None}
    return Site(file=str(place["file"]), function=str(place.get("function") or ""), **numbers)
