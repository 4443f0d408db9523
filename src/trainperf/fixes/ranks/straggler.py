"""A rank that all others wait for in each step."""

from __future__ import annotations

from trainperf.errors import NotMeasured
from trainperf.fixes import Fix
from trainperf.fixes.common.step import bound_if_saved
from trainperf.fixes.common.words import ms, percent, worth
from trainperf.fixes.ranks._exchange import waiting_seconds
from trainperf.model import Equivalence, Evidence, Finding, Measure, Parallel, Site, Straggler

LOOK = """\
# on the host of rank {rank}, while it trains
nvidia-smi --query-gpu=index,clocks.sm,clocks_throttle_reasons.active --format=csv -l 1
# cores the rank may run on, and who else runs there
# taskset -cp PID; top -H"""

LOOK_CPU = """\
# on the host of rank {rank}, while it trains: who else runs there
top -b -n 1 | head -30"""

BALANCE = """\
# where samples differ in length: sort, and deal out in turn
order = sorted(range(len(dataset)), key=lambda index: length_of(dataset[index]))
own = order[: len(order) // world_size * world_size][rank::world_size]"""


class FixTheStraggler(Fix):
    """Give the slowest rank what it lacks: the others wait for it in each step.

    ## Why it is slow
    Every exchange of gradients needs all ranks. One that reads larger files, has fewer
    cores, a GPU at a lower clock or a busy host sets the pace of the whole job, and the
    others stand still meanwhile.

    ## What changes
    Nothing in the training: its input, its cores, its clock or its host are to be made
    like those of the others. Shards that are dealt out anew change the order of samples.

    ## When not to
    When which rank is late changes from step to step: then the samples differ in length,
    and batches of similar lengths help, not another host.
    """

    category = "sync"
    equivalence = Equivalence.NUMERICS
    without_edit = "what the slowest rank lacks is in its host, its share of the data or its device"
    framework = "any"

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find the rank that is furthest behind."""
        parallel = evidence.parallel
        if not parallel.stragglers:
            return None
        late = max(parallel.stragglers, key=lambda one: one.behind_s)
        bound = bound_if_saved(evidence, _lost(evidence, late))
        if not worth(evidence, bound):
            return None
        host = next((one.host for one in parallel.processes if one.rank == late.rank), "")
        name = f"Rank {late.rank} on {host}" if host and parallel.hosts > 1 else f"Rank {late.rank}"
        more = [str(one.rank) for one in parallel.stragglers if one.rank != late.rank]
        cause = f": {late.cause}." if late.cause else "."
        others = f" Late as well: rank {', '.join(more)}." if more else ""
        look = LOOK if evidence.device.kind == "GPU" else LOOK_CPU
        where = "by its input" if late.phase == "input" else "by its own step"
        return self.finding(
            title=f"All ranks wait for rank {late.rank}",
            text=f"{name} is {ms(late.behind_s)} behind {_usual(parallel)} in each step of "
            f"{ms(evidence.times.real)} ({percent(late.share)}), {where}{cause}"
            f"{_waiting_said(evidence)}{others}",
            where=_places(evidence, late),
            bound=bound,
            bound_basis="the step of the slowest of the other ranks"
            if _ahead(parallel, late, evidence.times.real) is not None
            else "nobody waits for this rank",
            advice=_advice(late),
            snippet=BALANCE if late.phase == "input" else look.format(rank=late.rank),
            data={"rank": late.rank, "phase": late.phase},
        )


def _places(evidence: Evidence, late: Straggler) -> tuple[Site, ...]:
    """Where samples are made, for a rank whose input is late: the same code in all ranks."""
    if late.phase != "input":
        return ()
    try:
        loader = evidence.torch.loader
    except NotMeasured:
        return ()
    return tuple(one for one in (loader.item, loader.where) if one is not None)[:1]


def _usual(parallel: Parallel) -> str:
    """Name the ranks that a straggler is compared with: of two, the other one."""
    late = {one.rank for one in parallel.stragglers}
    others = [one.rank for one in parallel.processes if one.rank not in late]
    two = len(parallel.processes) == 2 and len(others) == 1
    return f"rank {others[0]}" if two else "the median rank"


def _ahead(parallel: Parallel, late: Straggler, real: float) -> float | None:
    """Seconds by which it is behind the slowest rank that is no straggler; None if unknown.

    By the steps without exchange, in which no rank waits for another.
    """
    names = {one.rank for one in parallel.stragglers}
    own = {
        one.rank: one.local.seconds for one in parallel.processes if isinstance(one.local, Measure)
    }
    others = [seconds for number, seconds in own.items() if number not in names]
    if late.rank not in own or not others:
        return None
    slowest = max(own.values())
    fits = min(1.0, real / slowest)  # its work was timed over other samples than its step
    return (slowest - max(others)) * fits


def _lost(evidence: Evidence, late: Straggler) -> float:
    """Seconds of a step saved if the late ranks were like the others."""
    ahead = _ahead(evidence.parallel, late, evidence.times.real)
    if ahead is not None:
        return ahead
    try:
        return max(late.behind_s, waiting_seconds(evidence))
    except NotMeasured:
        return late.behind_s


def _waiting_said(evidence: Evidence) -> str:
    try:
        waiting = waiting_seconds(evidence)
    except NotMeasured:
        return ""
    return f" On average a rank waits {ms(waiting)} in each step." if waiting > 0 else ""


def _advice(late: Straggler) -> str:
    if late.phase == "input":
        return (
            f"Compare the shard, the loader and the storage of rank {late.rank} with those of "
            "the others; deal samples out so that every rank has as much to do."
        )
    return (
        f"Compare clocks, cores and host of rank {late.rank} with those of the others, and what "
        "else runs there."
    )
