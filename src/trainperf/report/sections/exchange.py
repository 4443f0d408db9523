"""The cost of exchanging gradients, and ways around it."""

from __future__ import annotations

from collections.abc import Iterator

from trainperf.model import Diagnosis, Exchange, Measure, Parallel, known
from trainperf.model import words as units
from trainperf.report.document import CHANGES, STEP, Page, Section
from trainperf.report.plain import place
from trainperf.report.sections._shares import EXPOSED

LABEL = 18
"""Columns of the labels at the left of the facts."""

_NOT_WORTH = "parallel_not_worth"
"""The finding that says the same with its numbers."""


def exchange(diagnosis: Diagnosis, page: Page) -> None:
    """Print how gradients are exchanged, and what that costs."""
    job = diagnosis.evidence.parallel_
    if job is None or job.exchange is None:
        return
    page.heading("Exchange of gradients")
    for label, text in _facts(job, job.exchange, diagnosis):
        page.fact(label, text, LABEL)


def _facts(job: Parallel, found: Exchange, diagnosis: Diagnosis) -> Iterator[tuple[str, str]]:
    over = f" over {found.backend}" if found.backend else ""
    made = (*job.ddp, diagnosis.evidence.strategy)
    where = next((one.where for one in made if one and one.where), None)
    at = "" if where is None else f", {place(where, diagnosis.cwd)}"
    yield "By", f"{found.method}{over}, {units.count(found.replicas, 'replica')}{at}"
    if isinstance(found.seconds_, Measure):
        yield "Costs a step", _cost(found.seconds_, diagnosis.step_s) + _or_waiting(job)
    if found.bytes:
        yield "Gradients", f"{units.size(found.bytes)} from each replica in a step"
    if (alone := known(found.all_reduce)) is not None:
        speed = f"{units.size(alone.bus_bytes_s)}/s on the bus"
        yield "All-reduce alone", f"{units.seconds(alone.seconds)}, {speed}"


def _cost(cost: Measure, real: float | None) -> str:
    share = f", {units.share(cost.seconds / real)} of it" if real else ""
    if cost.low is None or cost.high is None or cost.low > 0:
        return f"{units.seconds(cost.seconds)}{share}"
    return f"not told from noise: {units.seconds(cost.high)} at most"


def _or_waiting(job: Parallel) -> str:
    """Say that the cost may be a wait, where the own step of some ranks is not known."""
    if job.expected < 2:
        return ""
    timed = sum(isinstance(rank.local, Measure) for rank in job.processes)
    unknown = units.count(job.expected - timed, "rank")
    return "" if timed >= job.expected else f", any wait for {unknown} not measured included"


def remains(diagnosis: Diagnosis, page: Page) -> None:
    """Say how a step has less of the exchange, where that is what the job is bound by."""
    job = diagnosis.evidence.parallel_
    if job is None or not _dominates(job, diagnosis):
        return
    accumulates = any((one.micro_steps or 1.0) > 1.0 for one in job.ddp)
    ways = ["a larger batch per replica"]
    if job.ddp and not accumulates:
        ways.append("one update after several batches, all but the last under `model.no_sync()`")
    page.gap()
    page.prose(
        f"To exchange less often: {', '.join(ways)}, or fewer replicas. Each changes the "
        "experiment: adjust the learning rate to the global batch, and compare the losses.",
        indent=2,
    )


def _dominates(job: Parallel, diagnosis: Diagnosis) -> bool:
    """Whether the exchange takes more of a step than a tenth, and than waiting for a rank."""
    cost = None if job.exchange is None else known(job.exchange.seconds_)
    told = any(finding.id == _NOT_WORTH for finding in diagnosis.findings)
    real = diagnosis.step_s
    if told or not _synchronised(diagnosis) or cost is None or not cost.low or not real:
        return False
    behind = max((late.behind_s for late in job.stragglers), default=0.0)
    return cost.seconds / real > EXPOSED and cost.seconds >= behind


def _synchronised(diagnosis: Diagnosis) -> bool:
    return diagnosis.verdict.bottleneck == "sync"


SECTIONS = (
    Section("exchange", STEP + 50, exchange, exchange, _synchronised, side="job"),
    Section("remains", CHANGES + 10, remains, remains, side="changes"),
)
