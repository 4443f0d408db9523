"""Checkpoints that every rank writes, though all have the same weights."""

from __future__ import annotations

from typing import Any

from trainperf.errors import NotMeasured
from trainperf.fixes import Fix
from trainperf.fixes.common.words import at
from trainperf.fixes.ranks._exchange import exchange
from trainperf.fixes.ranks._parallel_cases import exchange as an_exchange
from trainperf.fixes.ranks._parallel_cases import parallel_evidence, ranks
from trainperf.model import Equivalence, Evidence, Finding, Site

SNIPPET = """\
from torch import distributed

if distributed.get_rank() == 0:
    torch.save(model.module.state_dict(), path)
distributed.barrier()  # only where others read the file right away"""

SHARDED = ("FullyShardedDataParallel", "fully_shard")

FOUR = {"processes": ranks(4), "replicas": 4}


def _writing(count: Any, parallel: dict[str, Any] | None = None, **facts: Any) -> Evidence:
    return parallel_evidence(
        parallel=FOUR | (parallel or {}), facts={"ranks_writing": count, **facts}
    )


class RanksWriting(Fix):
    """Write checkpoints in rank 0 only.

    ## Why it is slow
    After each update all ranks have the same weights. Where each writes them, the disk
    takes as many copies as there are ranks, and the next exchange waits for the last of
    them. With one path for all, ranks also write into each other's file.

    ## What changes
    One rank writes; the others go on. The weights on disk are the same.

    ## When not to
    - Where each rank writes its own part (FSDP, sharded optimizers, its own random state).
    - Where each host needs a copy on its own disk: then one rank of each host writes.
    """

    category = "host"
    equivalence = Equivalence.EXACT
    framework = "torch"

    silent = [
        parallel_evidence(),
        parallel_evidence(parallel_=None, facts={"ranks_writing": 2}),
        _writing(0),
        _writing(1),
        # each writes its own part
        _writing(4, {"exchange": an_exchange(method="FullyShardedDataParallel")}),
        _writing(4, fsdp={"kind": "fully_shard"}),
        # not known
        _writing(None),
    ]
    fires = [
        _writing(4),
        _writing(2, checkpoint_writes=3),
        _writing(4, checkpoint_where={"file": "train.py", "line": 40, "function": "save"}),
        _writing(3, {"exchange": None}),
    ]

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find a job of which several ranks wrote files with `torch.save` while observed."""
        job, count = evidence.parallel, evidence.fact("ranks_writing")
        if not isinstance(count, int) or count < 2 or _sharded(evidence):
            return None
        where = _site(evidence.facts.get("checkpoint_where"))
        writes = evidence.facts.get("checkpoint_writes")
        often = ""
        if isinstance(writes, int) and writes > 0:
            often = (
                f" One of them did so {'once' if writes == 1 else f'{writes:,} times'} meanwhile."
            )
        same = ", and all have the same weights" if job.exchange is not None else ""
        place = f" in {at(where)}" if where else ""
        return self.finding(
            title=f"{count} ranks write checkpoints",
            text=f"{count} of {job.expected} ranks wrote files with `torch.save`{place} while the "
            f"training was observed{same}.{often}",
            bound=None,
            bound_basis="not measured: no step was timed without it",
            where=(where,) if where else (),
            advice="Write checkpoints in rank 0 only.",
            snippet=SNIPPET,
        )


def _sharded(evidence: Evidence) -> bool:
    """Whether each rank has its own part of the weights."""
    try:
        method = exchange(evidence).method
    except NotMeasured:
        method = ""
    return method in SHARDED or bool(evidence.facts.get("fsdp"))


def _site(place: Any) -> Site | None:
    """A place as a process records it; None if it recorded none."""
    if not isinstance(place, dict) or not place.get("file"):
        return None
    return Site(str(place["file"]), int(place["line"]), str(place.get("function") or ""))
