"""The cost of exchanging gradients, beside what the links could give."""

from __future__ import annotations

from collections.abc import Iterator

from trainperf.model import Diagnosis, Overlap
from trainperf.model import words as units
from trainperf.model.reported_parallel import (
    ReportedAllReduce,
    ReportedExchange,
    ReportedParallel,
)
from trainperf.report.document import Page
from trainperf.report.places import place
from trainperf.report.sections.shares import EXPOSED

LABEL = 18
"""Columns of the labels at the left of the facts."""


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


def _alone(found: ReportedAllReduce) -> str:
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
