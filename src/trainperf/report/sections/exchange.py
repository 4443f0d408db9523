"""The cost of exchanging gradients, beside what the links could give, and ways around it."""

from __future__ import annotations

from collections.abc import Iterator

from trainperf.model import AllReduce, Diagnosis, Overlap
from trainperf.model import words as units
from trainperf.model.reported_parallel import (
    ReportedExchange,
    ReportedParallel,
)
from trainperf.report.document import STRONG, Page, say
from trainperf.report.plain import place
from trainperf.report.sections.shares import EXPOSED

LABEL = 18
"""Columns of the labels at the left of the facts."""

_NOT_WORTH = "parallel_not_worth"
"""The finding that says the same with its numbers."""


def exchange(diagnosis: Diagnosis, page: Page) -> None:
    """Print how gradients are exchanged, what that costs, and what the links could give."""
    job = diagnosis.parallel
    if job is None or job.exchange is None:
        return
    page.heading("Exchange of gradients")
    for label, text in _facts(job, job.exchange, diagnosis):
        page.fact(label, text, LABEL)


def _facts(
    job: ReportedParallel, found: ReportedExchange, diagnosis: Diagnosis
) -> Iterator[tuple[str, str]]:
    over = f" over {found.backend}" if found.backend else ""
    where = next((one.where for one in (*job.ddp, job.strategy) if one and one.where), None)
    at = "" if where is None else f", {place(where, diagnosis.cwd)}"
    yield "By", f"{found.method}{over}, {units.count(found.replicas, 'replica')}{at}"
    if found.seconds_per_step is not None:
        yield "Costs a step", _cost(found, diagnosis.times.real_s) + _or_waiting(job)
    if found.waiting_s is not None and job.expected > 1:
        yield (
            "Waiting",
            f"{units.seconds(found.waiting_s)} of each step for the slowest rank, mean of ranks",
        )
    if found.bytes:
        buckets = f", in {units.count(len(found.buckets), 'bucket')}" if found.buckets else ""
        yield "Gradients", f"{units.size(found.bytes)} from each replica in a step{buckets}"
    if found.all_reduce is not None:
        yield "All-reduce alone", _alone(found.all_reduce)
    if found.link is not None:
        most = found.link.bytes_s
        gives = "" if most is None else f" can give {units.size(most)}/s"
        source = f" ({found.link.source})" if found.link.source else ""
        yield "Link", f"{found.link.kind}{gives}{source}"
    if found.overlap is not None:
        yield "Overlap", _overlap(found.overlap)
    if job.break_even_batch is not None:
        yield "Pays from", _break_even(job, job.break_even_batch)


def _cost(found: ReportedExchange, real: float | None) -> str:
    assert found.seconds_per_step is not None
    least, most = found.low_s, found.high_s
    if least is None or most is None:
        share = "" if found.share is None else f", {units.share(found.share)}"
        return f"{units.seconds(found.seconds_per_step)}{share}"
    if least <= 0:
        if real and most > EXPOSED * real:
            share = units.share(min(1.0, most / real))
            return f"not known: between nothing and {units.seconds(most)}, {share} of it"
        return f"nothing that stands out of the noise: {units.seconds(most)} at most"
    share = "" if found.share is None else f", {units.share(found.share)} of it"
    interval = f"{units.seconds(least)} to {units.seconds(most)}"
    return f"{units.seconds(found.seconds_per_step)}{share} ({interval})"


def _or_waiting(job: ReportedParallel) -> str:
    """Say that the cost may be a wait, where the own step of some ranks is not known."""
    if job.expected < 2:
        return ""
    known = sum(one.local_s is not None for one in job.ranks)
    unknown = units.count(job.expected - known, "rank")
    return "" if known >= job.expected else f", any wait for {unknown} not measured included"


def _alone(found: AllReduce) -> str:
    return (
        f"{units.seconds(found.seconds)} for a step's gradients between {found.devices} devices, "
        f"{units.size(found.bus_bytes_s)}/s on the bus"
    )


def _overlap(found: Overlap) -> str:
    return (
        f"{units.seconds(found.overlap_s)} of {units.seconds(found.exchange_s)} of exchange, "
        f"waiting included, hide behind {units.seconds(found.compute_s)} of backward (PyTorch's "
        f"own log of {units.count(found.steps, 'step')})"
    )


def _break_even(job: ReportedParallel, batch: float) -> str:
    """From which batch per replica on more replicas pay, beside the batch that it is."""
    known = [one.batch_size for one in job.ranks if one.batch_size]
    now = ""
    if known:
        each = sum(known) / len(known) * job.expected / job.replicas
        now = f"; it is {each:,.0f} now"
    return (
        f"a batch of about {units.number(max(1.0, batch), 2)} per replica: from there on "
        f"{job.replicas} replicas give more samples per second than one{now}"
    )


def remains(diagnosis: Diagnosis, page: Page) -> None:
    """Say how a step has less of the exchange, where that is what the job is bound by."""
    job = diagnosis.parallel
    if job is None or job.exchange is None or diagnosis.verdict.bottleneck != "sync":
        return
    if not diagnosis.findings and not open_question(diagnosis):
        return
    if any(finding.id == _NOT_WORTH for finding in diagnosis.findings) or not _dominates(job):
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
        diagnosis.ending.complete
        and diagnosis.times.real_s is not None
        and not diagnosis.verdict.healthy
    )


def _ways(job: ReportedParallel) -> list[str]:
    ways = ["a larger batch per replica: the exchange takes as long for a large one"]
    if job.ddp and all((one.micro_steps or 1.0) <= 1.0 for one in job.ddp):
        ways.append("one update after several batches, all but the last under `model.no_sync()`")
    many = "ranks" if job.expected > 1 else "replicas"
    ways.append(f"fewer {many}: compare samples per second; or a faster link between them")
    return ways


def _dominates(job: ReportedParallel) -> bool:
    """Whether the exchange takes more of a step than a tenth, and than waiting for a rank."""
    found = job.exchange
    if found is None or not found.low_s or found.seconds_per_step is None:
        return False
    behind = max((late.behind_s for late in job.stragglers), default=0.0)
    return (found.share or 0.0) > EXPOSED and found.seconds_per_step >= behind
