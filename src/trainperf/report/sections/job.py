"""A job of several ranks or devices: who was there, who waits, what the exchange costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trainperf.model import Diagnosis, Exchange, Measure, Parallel, Rank, known
from trainperf.model import words as units
from trainperf.report.document import ALARM, CHANGES, SHORT, STEP, Page, Section, Words, given, say
from trainperf.report.plain import place
from trainperf.report.sections.step import EXPOSED, waits_s

MOST_RANKS = 8
"""Beyond so many ranks only some are shown: the quickest, the median, the slowest."""

SLOWEST = 4


def absent(diagnosis: Diagnosis, page: Page) -> None:
    """Say which ranks there is no record of, and which did not come to the end.

    Those that failed of themselves come before those that failed because another had.
    """
    job = diagnosis.evidence.parallel_
    if job is None or job.expected < 2:
        return
    if job.absent:
        verb = "has" if len(job.absent) == 1 else "have"
        told = f"{units.ranks(job.absent).capitalize()} of {job.expected:,} {verb} left no record"
        page.prose(say(f"{told}: the numbers are those of the others.", ALARM))
    cut = [rank for rank in job.processes if rank.ending != "measured"]
    cut.sort(key=lambda rank: rank.ending == "lost another")
    for rank in cut[:SLOWEST]:
        page.prose(say(f"Rank {rank.rank}: {rank.ended.rstrip('.')}.", ALARM))
    if rest := [rank.rank for rank in cut[SLOWEST:]]:
        page.prose(say(f"Not measured to the end either: {units.ranks(rest)}.", ALARM))


def ranks(diagnosis: Diagnosis, page: Page) -> None:
    """Print the times of each rank; of many, of the quickest, the median and the slowest."""
    job = diagnosis.evidence.parallel_
    if job is None or job.expected < 2 or not (timed := _by_own_step(job.processes)):
        return
    page.heading("Ranks")
    late = {straggler.rank for straggler in job.stragglers}
    rows: list[list[Words | str]] = []
    for rank, which in _shown(job.processes, timed):
        number = say(str(rank.rank), SHORT if rank.rank in late else "")
        times = (known(time) for time in (rank.real, rank.local, rank.input_))
        values = (*(None if time is None else time.seconds for time in times), waits_s(rank, job))
        taken = (given(units.seconds, value) for value in values)
        rows.append([number, which, rank.host if job.hosts > 1 else "", rank.device, *taken])
    header = ("rank", "", "host", "device", "step", "without exchange", "input", "waits")
    page.table(rows, header=header, right=(0, 4, 5, 6, 7), elastic=(2, 3))


def _shown(every: Sequence[Rank], timed: Sequence[Rank]) -> list[tuple[Rank, str]]:
    """The ranks to show, each with what it stands for; of many only such as were timed."""
    for found in (every, timed):
        if len(found) <= MOST_RANKS:
            return [(rank, "") for rank in found]
    *slow, slowest = timed[-SLOWEST:]
    median = timed[(len(timed) - 1) // 2]
    named = [(timed[0], "quickest"), (median, "median"), *((rank, "") for rank in slow)]
    return [*named, (slowest, "slowest")]


def _by_own_step(found: Sequence[Rank]) -> list[Rank]:
    """The ranks whose own step is known, the quickest first."""
    timed = [
        (time.seconds, rank.rank, rank)
        for rank in found
        if (time := known(rank.local) or known(rank.input_) or known(rank.real))
    ]
    return [rank for *_, rank in sorted(timed, key=lambda row: row[:2])]


def scaling(diagnosis: Diagnosis, page: Page) -> None:
    """Print what the same script gives on one device and on more, with the same batch each."""
    job = diagnosis.evidence.parallel_
    if job is None or not job.scaling:
        return
    page.heading("Scaling, the same batch on each device")
    rows = [
        [
            str(point.devices),
            units.seconds(point.real_s),
            "" if point.samples_per_s is None else units.rate(point.samples_per_s, "samples"),
            given(units.share, point.efficiency),
        ]
        for point in job.scaling
    ]
    page.table(rows, header=("devices", "step", "rate", "efficiency"), right=(0, 1, 2, 3))


def exchange(diagnosis: Diagnosis, page: Page) -> None:
    """Print how gradients are exchanged, and what that costs."""
    job = diagnosis.evidence.parallel_
    if job is None or job.exchange is None:
        return
    page.heading("Exchange of gradients")
    page.facts(_facts(job, job.exchange, diagnosis))


def _facts(job: Parallel, found: Exchange, diagnosis: Diagnosis) -> Iterator[tuple[str, str]]:
    over = f" over {found.backend}" if found.backend else ""
    made = (*job.ddp, diagnosis.evidence.strategy)
    where = next((one.where for one in made if one and one.where), None)
    at = f", {place(where, diagnosis.cwd)}" if where else ""
    yield "By", f"{found.method}{over}, {units.count(found.replicas, 'replica')}{at}"
    cost = found.seconds_
    if isinstance(cost, Measure):
        text = units.seconds(cost.seconds)
        if diagnosis.step_s:
            text += f", {units.share(cost.seconds / diagnosis.step_s)} of it"
        if cost.low is not None and cost.high is not None and cost.low <= 0:
            text = f"not told from noise: {units.seconds(cost.high)} at most"
        unknown = job.expected - sum(isinstance(rank.local, Measure) for rank in job.processes)
        if job.expected > 1 and unknown > 0:  # it may be a wait for these
            text += f", any wait for {units.count(unknown, 'rank')} not measured included"
        yield "Costs a step", text
    if found.bytes:
        yield "Gradients", f"{units.size(found.bytes)} from each replica in a step"
    if (alone := known(found.all_reduce)) is not None:
        speed = f"{units.size(alone.bus_bytes_s)}/s on the bus"
        yield "One all-reduce", f"{units.seconds(alone.seconds)}, {speed}"


def remains(diagnosis: Diagnosis, page: Page) -> None:
    """Say how a step has less of the exchange, where that is what the job is bound by."""
    job = diagnosis.evidence.parallel_
    cost = None if job is None else job.exchange_cost
    told = any(finding.id == "parallel_not_worth" for finding in diagnosis.findings)
    if told or job is None or cost is None or not cost.low or not _synchronised(diagnosis):
        return
    behind = max((late.behind_s for late in job.stragglers), default=0.0)
    if cost.seconds <= EXPOSED * (diagnosis.step_s or 0.0) or cost.seconds < behind:
        return
    several = any((one.micro_steps or 1.0) > 1.0 for one in job.ddp)
    less = "" if several or not job.ddp else "gradient accumulation under `model.no_sync()`, "
    page.gap()
    page.prose(
        f"To exchange less often: a larger batch per replica, {less}or fewer replicas. Each "
        "changes the experiment: adjust the learning rate to the global batch, and compare the "
        "losses.",
        indent=2,
    )


def _synchronised(diagnosis: Diagnosis) -> bool:
    return diagnosis.verdict.bottleneck == "sync"


def _waits(diagnosis: Diagnosis) -> bool:
    job = diagnosis.evidence.parallel_
    return _synchronised(diagnosis) or (job is not None and bool(job.stragglers))


SECTIONS = (
    Section("absent", 20, absent, True, side=""),
    Section("ranks", STEP + 40, ranks, _waits, side="job"),
    Section("exchange", STEP + 50, exchange, _synchronised, side="job"),
    Section("scaling", STEP + 60, scaling, side="job"),
    Section("remains", CHANGES + 10, remains, True, side="changes"),
)
