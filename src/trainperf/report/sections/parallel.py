"""A job of several ranks or devices: who was there, who waits, what more devices give."""

from __future__ import annotations

from collections.abc import Sequence

from trainperf.model import Diagnosis, Parallel, Rank, known
from trainperf.model import words as units
from trainperf.report.document import ALARM, QUIET, SHORT, STEP, Page, Section, Words, say
from trainperf.report.sections._shares import waits_s

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
        who = units.ranks(job.absent)
        verb = "has" if len(job.absent) == 1 else "have"
        told = f"{who.capitalize()} of {job.expected:,} {verb} left no record"
        page.prose(say(f"{told}: the numbers are those of the others.", ALARM))
    cut = [rank for rank in job.processes if rank.ending != "measured"]
    cut.sort(key=lambda rank: rank.ending == "lost another")
    for rank in cut[:SLOWEST]:
        page.prose(say(f"Rank {rank.rank}: {rank.ended.rstrip('.')}.", ALARM))
    if len(cut) > SLOWEST:
        rest = units.ranks([rank.rank for rank in cut[SLOWEST:]])
        page.prose(say(f"Not measured to the end either: {rest}.", ALARM))


def ranks(diagnosis: Diagnosis, page: Page) -> None:
    """Print the times of each rank; of many, of the quickest, the median and the slowest."""
    job = diagnosis.evidence.parallel_
    if job is None or job.expected < 2 or not (found := _by_own_step(job.processes)):
        return
    page.heading("Ranks")
    shown = _shown(job.processes, found)
    late = {straggler.rank for straggler in job.stragglers}
    rows: list[list[Words | str]] = [
        [
            say(str(rank.rank), SHORT if rank.rank in late else ""),
            which,
            rank.host if job.hosts > 1 else "",
            rank.device,
            *_times(rank, job),
        ]
        for rank, which in shown
    ]
    page.table(
        rows,
        header=("rank", "", "host", "device", "step", "without exchange", "input", "waits"),
        right=(0, 4, 5, 6, 7),
        elastic=(2, 3),
    )
    left = len(found) - len(shown)
    if left > 0:
        page.prose(say(f"and {units.count(left, 'other')} between them", QUIET), indent=2)


def scaling(diagnosis: Diagnosis, page: Page) -> None:
    """Print what the same script gives on one device and on more, with the same batch each."""
    job = diagnosis.evidence.parallel_
    if job is None or not job.scaling:
        return
    page.heading("Devices, each with the same batch")
    rows = [
        [
            str(point.devices),
            units.seconds(point.real_s),
            "" if point.samples_per_s is None else units.rate(point.samples_per_s, "samples"),
            "" if point.efficiency is None else units.share(point.efficiency),
        ]
        for point in job.scaling
    ]
    page.table(
        rows, header=("devices", "step", "rate", "efficiency"), right=(0, 1, 2, 3), elastic=(1, 2)
    )


def _times(rank: Rank, job: Parallel) -> list[str]:
    times = (known(time) for time in (rank.real, rank.local, rank.input_))
    values = [*(None if time is None else time.seconds for time in times), waits_s(rank, job)]
    return ["" if value is None else units.seconds(value) for value in values]


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
    timed: list[tuple[float, Rank]] = []
    for rank in found:
        times = [time for each in (rank.local, rank.input_, rank.real) if (time := known(each))]
        timed += [(time.seconds, rank) for time in times[:1]]
    return [rank for _, rank in sorted(timed, key=lambda pair: pair[0])]


def _waits(diagnosis: Diagnosis) -> bool:
    job = diagnosis.evidence.parallel_
    late = job is not None and bool(job.stragglers)
    return late or diagnosis.verdict.bottleneck == "sync"


SECTIONS = (
    Section("absent", 20, absent, absent, side=""),
    Section("ranks", STEP + 40, ranks, ranks, _waits, side="job"),
    Section("scaling", STEP + 60, scaling, side="job"),
)
