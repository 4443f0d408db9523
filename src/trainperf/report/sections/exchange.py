"""The cost of exchanging gradients, beside what the links could give, and ways around it."""

from __future__ import annotations

from collections.abc import Iterator

from trainperf.model import (
    AllReduce,
    Diagnosis,
    Exchange,
    Measure,
    Parallel,
    Strategy,
    known,
)
from trainperf.model import words as units
from trainperf.report.document import CHANGES, STEP, STRONG, Page, Section, say
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
    strategy: Strategy | None = diagnosis.evidence.strategy
    over = f" over {found.backend}" if found.backend else ""
    where = next((one.where for one in (*job.ddp, strategy) if one and one.where), None)
    at = "" if where is None else f", {place(where, diagnosis.cwd)}"
    yield "By", f"{found.method}{over}, {units.count(found.replicas, 'replica')}{at}"
    if isinstance(found.seconds_, Measure):
        yield "Costs a step", _cost(found.seconds_, diagnosis.step_s) + _or_waiting(job)
    if (waiting := known(found.waiting_)) is not None and job.expected > 1:
        yield (
            "Waiting",
            f"{units.seconds(waiting)} of each step for the slowest rank, mean of ranks",
        )
    if found.bytes:
        buckets = f", in {units.count(len(found.buckets), 'bucket')}" if found.buckets else ""
        yield "Gradients", f"{units.size(found.bytes)} from each replica in a step{buckets}"
    if (all_reduce := known(found.all_reduce)) is not None:
        yield "All-reduce alone", _alone(all_reduce)


def _cost(cost: Measure, real: float | None) -> str:
    least, most = cost.low, cost.high
    share = f", {units.share(cost.seconds / real)}" if real else ""
    if least is None or most is None:
        return f"{units.seconds(cost.seconds)}{share}"
    if least <= 0:
        if real and most > EXPOSED * real:
            share = units.share(min(1.0, most / real))
            return f"not known: between nothing and {units.seconds(most)}, {share} of it"
        return f"nothing that stands out of the noise: {units.seconds(most)} at most"
    interval = f"{units.seconds(least)} to {units.seconds(most)}"
    return f"{units.seconds(cost.seconds)}{share}{' of it' if share else ''} ({interval})"


def _or_waiting(job: Parallel) -> str:
    """Say that the cost may be a wait, where the own step of some ranks is not known."""
    if job.expected < 2:
        return ""
    timed = sum(isinstance(rank.local, Measure) for rank in job.processes)
    unknown = units.count(job.expected - timed, "rank")
    return "" if timed >= job.expected else f", any wait for {unknown} not measured included"


def _alone(found: AllReduce) -> str:
    return (
        f"{units.seconds(found.seconds)} for a step's gradients between {found.devices} devices, "
        f"{units.size(found.bus_bytes_s)}/s on the bus"
    )


def remains(diagnosis: Diagnosis, page: Page) -> None:
    """Say how a step has less of the exchange, where that is what the job is bound by."""
    job = diagnosis.evidence.parallel_
    if job is None or job.exchange is None or diagnosis.verdict.bottleneck != "sync":
        return
    if not diagnosis.findings and not open_question(diagnosis):
        return
    told = any(finding.id == _NOT_WORTH for finding in diagnosis.findings)
    if told or not _dominates(job, diagnosis.step_s):
        return
    page.gap()
    page.prose(say("To exchange less often", STRONG))
    for way in _ways(job):
        page.item(way)
    page.prose(
        "Each changes the experiment: adjust the learning rate to the global batch, and compare "
        "the losses.",
        indent=2,
    )


def open_question(diagnosis: Diagnosis) -> bool:
    """Whether a whole run was slow, so that a reader asks why."""
    return (
        diagnosis.ending.complete and diagnosis.step_s is not None and not diagnosis.verdict.healthy
    )


def _ways(job: Parallel) -> list[str]:
    ways = ["a larger batch per replica: the exchange takes as long for a large one"]
    if job.ddp and all((one.micro_steps or 1.0) <= 1.0 for one in job.ddp):
        ways.append("one update after several batches, all but the last under `model.no_sync()`")
    many = "ranks" if job.expected > 1 else "replicas"
    ways.append(f"fewer {many}: compare samples per second; or a faster link between them")
    return ways


def _dominates(job: Parallel, real: float | None) -> bool:
    """Whether the exchange takes more of a step than a tenth, and than waiting for a rank."""
    cost = None if job.exchange is None else known(job.exchange.seconds_)
    if cost is None or not cost.low or not real:
        return False
    behind = max((late.behind_s for late in job.stragglers), default=0.0)
    return cost.seconds / real > EXPOSED and cost.seconds >= behind


def _synchronised(diagnosis: Diagnosis) -> bool:
    return diagnosis.verdict.bottleneck == "sync"


SECTIONS = (
    Section("exchange", STEP + 50, exchange, exchange, _synchronised, side="job"),
    Section("remains", CHANGES + 10, remains, remains, side="changes"),
)
