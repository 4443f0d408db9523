"""Whether more devices pay: efficiency, and the batch from which they do."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import replace

from trainperf.model import Measure, Missing, Parallel, Rank, ScalingPoint

SHARING = "the replicas share cores, so their steps do not say what one takes by itself"
UNMEASURED = "the step of some ranks is not known, and may be what the exchange waits for"
SLOWER = 1.1
"""A step on one device longer than this many of the job's is no matter of rounding."""

ALONE_SLOWER = (
    "a step took longer on one device than on several that exchange gradients: the machine was "
    "busier then, or the step varies; expect these rates to be off"
)
IN_THE_NOISE = "the exchange does not stand out of the noise of a step"


def with_scaling(parallel: Parallel, points: Sequence[ScalingPoint], reason: str = "") -> Parallel:
    """Return the job with what the same script gave on fewer devices.

    Points have the same batch per device; efficiencies are filled in where one of them
    is of one device. `reason` says why there are no points, or not all.
    """
    ordered = sorted(points, key=lambda point: point.devices)
    single = next((point for point in ordered if point.devices == 1), None)
    filled = tuple(replace(point, efficiency=_efficiency(point, single)) for point in ordered)
    odd = (ALONE_SLOWER,) if _alone_slower(parallel, single) else ()
    notes = (*parallel.notes, *odd)
    found = replace(parallel, scaling=filled, scaling_reason=reason, notes=notes)
    return replace(found, break_even_batch_=break_even(found))


def break_even(parallel: Parallel) -> float | Missing:
    """The batch per replica from which N replicas give more samples per second than one.

    N replicas make N b samples in c(b) + e seconds, one makes b in c(b): N pay if
    (N - 1) c(b) > e, with e the exchange and c the step of one replica. c is taken as
    proportional to b, which makes this an estimate of the order: a step has a fixed
    part, with which N replicas pay from a smaller batch on. c is from the run on one
    device, else from the mean step with the exchange switched off, unless replicas share
    cores: then one by itself is quicker, nobody knows by how much.
    """
    exchange = parallel.exchange
    if exchange is None or parallel.replicas < 2:
        return Missing("no exchange of gradients was seen")
    if isinstance(exchange.seconds_, Missing):
        return exchange.seconds_
    if exchange.seconds <= 0 or (exchange.seconds_.low is not None and exchange.seconds_.low <= 0):
        return Missing(IN_THE_NOISE)
    if parallel.unmeasured:
        return Missing(UNMEASURED)
    batches = [rank.batch_size for rank in parallel.processes]
    known = [batch for batch in batches if batch]
    if not known or len(known) < len(batches):
        return Missing("the size of a batch is not known")
    alone = _alone(parallel)
    if isinstance(alone, Missing):
        return alone
    each = statistics.fmean(known) * parallel.expected / parallel.replicas
    return each * exchange.seconds / ((parallel.replicas - 1) * alone)


def _alone(parallel: Parallel) -> float | Missing:
    """Seconds of a step of one replica that exchanges nothing."""
    for point in parallel.scaling:
        if point.devices == 1:
            slower = _alone_slower(parallel, point)
            return Missing(ALONE_SLOWER) if slower else point.real_s
    if _share_cores(parallel.processes):
        return Missing(SHARING)
    own = [rank.local.seconds for rank in parallel.processes if isinstance(rank.local, Measure)]
    return statistics.fmean(own) if own else Missing("the step was not timed on one device")


def _alone_slower(parallel: Parallel, single: ScalingPoint | None) -> bool:
    """Whether one device took longer than several, which do the same and exchange besides."""
    real = [rank.real.seconds for rank in parallel.processes if isinstance(rank.real, Measure)]
    return single is not None and bool(real) and single.real_s > SLOWER * max(real)


def _share_cores(ranks: Sequence[Rank]) -> bool:
    """Whether replicas that compute on CPUs want more threads than there are cores."""
    if any(rank.device.endswith("logical CPUs") for rank in ranks):
        return True
    return any(_crowded(here) for here in _by_host(ranks).values())


def crowded(ranks: Sequence[Rank]) -> Iterator[str]:
    """Say on which host there are more ranks than cores, the first such host."""
    for host, here in _by_host(ranks).items():
        cores = {core for rank in here for core in rank.cores or ()}
        if len(here) > len(cores):
            where = f" of {host}" if host else ""
            yield (
                f"{len(here)} ranks take turns on the {len(cores)} cores{where}: as many ranks as "
                f"cores may do as much"
            )
            return


def _by_host(ranks: Sequence[Rank]) -> dict[str, list[Rank]]:
    """The ranks that compute on CPUs and whose cores are known, by host."""
    hosts: dict[str, list[Rank]] = {}
    for rank in ranks:
        if rank.device == "CPU" and rank.cores is not None:
            hosts.setdefault(rank.host, []).append(rank)
    return hosts


def _crowded(ranks: Sequence[Rank]) -> bool:
    cores = {core for rank in ranks for core in rank.cores or ()}
    wanted = sum(rank.threads or len(rank.cores or ()) for rank in ranks)
    return len(ranks) > 1 and wanted > len(cores)


def _efficiency(point: ScalingPoint, single: ScalingPoint | None) -> float | None:
    """Samples per second and device over those of one device.

    Without rates, the steps are compared: the batch per device is the same.
    """
    if single is None:
        return None
    if point.samples_per_s and single.samples_per_s:
        return point.samples_per_s / point.devices / single.samples_per_s
    return single.real_s / point.real_s
