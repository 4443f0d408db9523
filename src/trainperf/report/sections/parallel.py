"""A job of several ranks or devices: who was there, who waits, what more devices give."""

from __future__ import annotations

from collections.abc import Sequence

from trainperf.model import Diagnosis, Parallel, Rank, known
from trainperf.model import words as units
from trainperf.model.parallel import GONE
from trainperf.report.document import ALARM, QUIET, SHORT, STEP, Page, Section, Words, say
from trainperf.report.sections._shares import waits_s

MOST_RANKS = 8
"""Beyond so many ranks only some are shown: the quickest, the median, the slowest."""

OTHERS = "The numbers are those of the other ranks."

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
        text = (
            f"{who.capitalize()} of {job.expected:,} {verb} left no record: the numbers are those "
            f"of the others."
        )
        page.prose(say(text, ALARM))
    cut = [rank for rank in job.processes if rank.ended != "measured"]
    cut.sort(key=lambda rank: GONE in rank.ended)
    others = "" if job.absent or all(map(_timed, job.processes)) else OTHERS
    others = others if any(map(_timed, job.processes)) else ""
    for rank in cut[:SLOWEST]:
        page.prose(say(f"Rank {rank.rank}: {rank.ended.rstrip('.')}.", ALARM))
    if len(cut) > SLOWEST:
        rest = units.ranks([rank.rank for rank in cut[SLOWEST:]])
        page.prose(say(f"Not measured to the end either: {rest}.", ALARM))
    if others:
        page.prose(say(others, ALARM))


def ranks(diagnosis: Diagnosis, page: Page) -> None:
    """Print the times of each rank; of many, of the quickest, the median and the slowest."""
    job = diagnosis.evidence.parallel_
    if job is None or job.expected < 2 or not any(map(_timed, job.processes)):
        return
    page.heading("Ranks")
    shown = _shown(job.processes)
    late = {one.rank for one in job.stragglers}
    rows: list[list[Words | str]] = [
        [str(one.rank), which, one.host if job.hosts > 1 else "", one.device, *_times(one, job)]
        for one, which in shown
    ]
    for row, (one, _) in zip(rows, shown, strict=True):
        if one.rank in late:
            row[0] = say(str(row[0]), SHORT)
    page.table(
        rows,
        header=("rank", "", "host", "device", "step", "without exchange", "input", "waits"),
        right=(0, 4, 5, 6, 7),
        elastic=(2, 3),
    )
    left = len(_by_own_step(job.processes)) - len(shown)
    if left > 0:
        page.prose(say(f"and {units.count(left, 'other')} between them", QUIET), indent=2)
    page.prose(say(f"{_started(job)}.", QUIET), indent=2)
    _stragglers(job, page)


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


def _timed(rank: Rank) -> bool:
    return any(known(time) for time in (rank.real, rank.local, rank.input_))


def _times(rank: Rank, job: Parallel) -> list[str]:
    times = (known(time) for time in (rank.real, rank.local, rank.input_))
    values = [*(None if time is None else time.seconds for time in times), waits_s(rank, job)]
    return ["" if value is None else units.seconds(value) for value in values]


def _shown(found: Sequence[Rank]) -> list[tuple[Rank, str]]:
    """The ranks to show, each with what it stands for; of many only such as were timed."""
    if len(found) <= MOST_RANKS:
        return [(one, "") for one in found]
    ordered = _by_own_step(found)
    if len(ordered) <= MOST_RANKS:
        return [(one, "") for one in ordered]
    quickest, middle = ordered[0], ordered[(len(ordered) - 1) // 2]
    return [
        (quickest, "quickest"),
        (middle, "median"),
        *((one, "slowest" if one is ordered[-1] else "") for one in ordered[-SLOWEST:]),
    ]


def _by_own_step(found: Sequence[Rank]) -> list[Rank]:
    """The ranks whose own step is known, the quickest first."""
    timed: list[tuple[float, Rank]] = []
    for rank in found:
        times = [time for each in (rank.local, rank.input_, rank.real) if (time := known(each))]
        timed += [(time.seconds, rank) for time in times[:1]]
    return [rank for _, rank in sorted(timed, key=lambda pair: pair[0])]


def _started(job: Parallel) -> str:
    hosts = f" on {units.count(job.hosts, 'host')}" if job.hosts > 1 else ""
    by = f", started by {job.launcher}" if job.launcher else ""
    return f"{units.count(job.expected, 'rank')}{hosts}{by}"


def _stragglers(job: Parallel, page: Page) -> None:
    for late in job.stragglers[:SLOWEST]:
        why = f": {late.cause}" if late.cause else ""
        behind = units.seconds(late.behind_s)
        page.prose(f"Rank {late.rank} is {behind} behind the median rank{why}.", indent=2)
    if len(job.stragglers) > SLOWEST:
        more = units.count(len(job.stragglers) - SLOWEST, "more rank")
        page.prose(f"{more} behind by over a tenth.", indent=2)


def _waits(diagnosis: Diagnosis) -> bool:
    job = diagnosis.evidence.parallel_
    late = job is not None and bool(job.stragglers)
    return late or diagnosis.verdict.bottleneck == "sync"


SECTIONS = (
    Section("absent", 20, absent, absent, side=""),
    Section("ranks", STEP + 40, ranks, ranks, _waits, side="job"),
    Section("scaling", STEP + 60, scaling, side="job"),
)
