"""The processes and devices of a job, from what each of them recorded."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from trainperf.child.timing.estimating import estimate
from trainperf.evidence.devices import by_uuid
from trainperf.evidence.events import Observed, read_as
from trainperf.evidence.ranks import NOT_SWITCHED, stragglers, summarise
from trainperf.model import (
    AllReduce,
    Ddp,
    Event,
    Exchange,
    Loop,
    Machine,
    Measure,
    Missing,
    Parallel,
    Rank,
    Recording,
    Sample,
    ScalingPoint,
    Site,
    Strategy,
)
from trainperf.model.parallel import NOT_TIMED

DDP = "DistributedDataParallel"

LONGER = Missing("a step took longer without the exchange than with it: the machine was not quiet")
ODD = 0.05
"""By so much of a step it has to be longer, beyond its interval."""


def exchange(ranks: Sequence[Rank], lead: Observed, replicas: int) -> Exchange | None:
    """The exchange of gradients; None if none that trainperf knows was seen.

    `ranks` are those that reported, `lead` is what one of them recorded of the job.
    """
    event, spread = lead.last("exchange"), strategy(lead)
    if event is None:  # it was not timed
        if spread is not None and spread.replicas > 1:
            event = {"method": spread.cls, "backend": spread.cross_device_ops}
        elif lead.last("ddp") is not None and lead.place is not None:
            event = {"method": DDP, "backend": lead.place.get("backend")}
        else:
            return None
    alone = lead.last("all_reduce")
    timed = alone is not None and alone.get("seconds") and int(alone.get("devices") or 0) > 1
    return Exchange(
        method=str(event["method"]),
        backend=str(event.get("backend") or ""),
        replicas=int(event.get("replicas") or replicas),
        seconds_=cost(ranks),
        waiting_=waiting(ranks),
        bytes=event.get("bytes"),
        all_reduce=(
            read_as(AllReduce, alone)
            if alone is not None and timed
            else lead.missing("all_reduce", NOT_TIMED.reason)
        ),
    )


def cost(ranks: Sequence[Rank]) -> Measure | Missing:
    """Seconds that the exchange adds to a step: real less local, of the slowest rank.

    All ranks wait for the one whose own work takes longest, so what its step has beyond
    that work is the exchange itself. Both times are of one process and of phases that
    alternate, so the interval is that of their pairs: what drifts, drifts in both.
    Never below 0 nor above the step; `low` is 0 where the interval contains it. Steps that
    surely take much longer without the exchange were held up by something else, and tell
    nothing.
    """
    timed = [(rank.local, rank.real) for rank in ranks if isinstance(rank.local, Measure)]
    if not timed:
        return _why(ranks)
    local, real = max(timed, key=lambda pair: pair[0].seconds)
    if isinstance(real, Missing):
        return real
    half, seconds = None, real.seconds - local.seconds
    if len(real.blocks) == len(local.blocks) > 0:
        pairs = zip(real.blocks, local.blocks, strict=True)
        half = estimate([with_it - without for with_it, without in pairs]).half
    elif real.high is not None and local.high is not None:
        half = math.hypot(real.noise * real.seconds, local.noise * local.seconds)
    found = Measure(max(0.0, seconds), min(real.steps, local.steps), ())
    if half is None:
        return found
    if seconds + half < -ODD * real.seconds:
        return LONGER
    low, high = max(0.0, seconds - half), max(0.0, seconds + half)
    return replace(found, low=low, high=min(real.seconds, high))


def waiting(ranks: Sequence[Rank]) -> float | Missing:
    """Seconds that the mean rank waits for the slowest in each step.

    By the steps without exchange, in which no rank waits for another. None waits for
    longer than its real step has beyond its own work.
    """
    if len(ranks) < 2:
        return Missing("one process runs all replicas")
    timed = [(rank.local, rank.real) for rank in ranks if isinstance(rank.local, Measure)]
    if len(timed) < 2:
        return _why(ranks)
    slowest = max(local.seconds for local, _ in timed)
    longest = (
        (local, slowest if isinstance(real, Missing) else real.seconds) for local, real in timed
    )
    return statistics.fmean(max(0.0, min(slowest, most) - local.seconds) for local, most in longest)


def ddp(lead: Observed) -> tuple[Ddp, ...]:
    """The `DistributedDataParallel`s of the process; of each, what was said last."""
    found: dict[tuple[str, Site | None], Ddp] = {}
    for event in lead.all("ddp"):
        wrapper = read_as(Ddp, event)
        found[wrapper.model, wrapper.where] = wrapper
    return tuple(found.values())


def strategy(lead: Observed) -> Strategy | None:
    """The `tf.distribute` strategy of the process, by what was said of it last."""
    event = lead.last("tf_strategy")
    return None if event is None else read_as(Strategy, event)


def _why(ranks: Sequence[Rank]) -> Missing:
    """Why the step was not timed without exchange: in the words of the first rank."""
    reasons = (rank.local for rank in ranks if isinstance(rank.local, Missing))
    return next(reasons, Missing(NOT_SWITCHED))


_SLOWER = 1.1
"""A step on one device longer than this many of the job's is no matter of rounding."""

_ALONE_SLOWER = (
    "a step took longer on one device than on several that exchange gradients: the machine was "
    "busier then, or the step varies; expect these rates to be off"
)


def parallel(recording: Recording, observed: Observed, machine: Machine) -> Parallel | None:
    """The job's ranks, their exchange and skew; None for one process on one device."""
    records: Iterable[tuple[Event, ...]] = (observed.process,)  # others train by themselves
    if observed.place is not None:
        records = (events for events in recording.events.values() if Observed(events, {}, ()).place)
    ranks = [found for events in records if (found := summarise(events)) is not None]
    here = [rank if rank.host else replace(rank, host=machine.hostname) for rank in ranks]
    return joined(on_gpus(here, machine), observed, recording.samples)


def on_gpus(ranks: Sequence[Rank], machine: Machine) -> list[Rank]:
    """The ranks, those of this host with the GPU that each of them has, as NVML counts."""
    told = []
    for rank in ranks:
        if rank.gpu_uuid and rank.host == machine.hostname:
            gpu = by_uuid(rank.gpu_uuid, machine.gpus)
            rank = replace(rank, gpu=None if gpu is None else gpu.index)
        told.append(rank)
    return told


def joined(
    ranks: Sequence[Rank], lead: Observed, samples: Sequence[Sample] = ()
) -> Parallel | None:
    """Join the ranks of a job; None for one process on one device.

    `lead` is what one of them recorded, best rank 0: it is asked for what concerns the
    whole job. `samples` are those of its host. Of two records of one rank (a launcher
    may start one again) the one with more steps counts. Linear in the ranks, but for
    stragglers, each of which is compared with the ranks of its host.
    """
    place = lead.place or {}
    timed = sorted(ranks, key=lambda rank: getattr(rank.real, "steps", -1))
    longest = {rank.rank: rank for rank in timed}
    processes = tuple(longest[number] for number in sorted(longest))
    expected = max(int(place.get("world_size") or 1), 1)
    replicas = int((lead.last("exchange") or {}).get("replicas") or 0)
    if not replicas:  # a strategy of TensorFlow counts those of all workers, PyTorch its own
        replicas = int(lead.facts.get("replicas") or 1)
        replicas *= 1 if replicas >= expected or _untied(lead) else expected
    spread = strategy(lead)
    if expected < 2 and replicas < 2 and (spread is None or spread.replicas < 2):
        return None
    return Parallel(
        expected=expected,
        replicas=replicas,
        hosts=max(1, len({rank.host for rank in processes})),
        processes=processes,
        absent=tuple(sorted(set(range(expected)) - {rank.rank for rank in processes})),
        exchange=exchange(processes, lead, replicas),
        stragglers=stragglers(processes, samples),
        ddp=ddp(lead),
        notes=tuple(_notes(processes, expected, lead)),
    )


def whole_job(loop: Loop, job: Parallel | None) -> Loop:
    """Return the loop with replicas and samples per step of all ranks together.

    The size of the batch is not known where a rank's is not, unless those that are known
    are all alike: then the others' is the same.
    """
    if job is None:
        return loop
    strategy_ = loop.strategy or ("" if job.exchange is None else job.exchange.method)
    loop = replace(loop, replicas=job.replicas, strategy=strategy_)
    if job.expected < 2 or job.replicas < job.expected:
        return loop
    known = [rank.batch_size for rank in job.processes if rank.batch_size]
    alike = len(set(known)) == 1
    whole = known[0] * job.expected if alike else None
    if len(known) == job.expected:
        whole = sum(known)
    times = whole / loop.batch_size if whole and loop.batch_size else None
    return replace(
        loop,
        batch_size=whole,
        tokens=loop.tokens * times if loop.tokens and times else None,
        real_tokens=loop.real_tokens * times if loop.real_tokens and times else None,
    )


def _untied(lead: Observed) -> bool:
    """Whether nothing that trainperf knows ties the processes of a launcher together."""
    return lead.place is not None and lead.place.get("tied") is False


def _notes(ranks: Sequence[Rank], expected: int, lead: Observed) -> Iterator[str]:
    """Notes on the ranks, beside their times."""
    if expected > 1 and _untied(lead) and lead.last("exchange") is None:
        yield (
            f"the launcher started {expected} processes, but no process group that trainperf knows "
            f"ties them together: steps and samples are those of one"
        )
    known = [rank for rank in ranks if rank.device == "CPU" and rank.cores is not None]
    for host in dict.fromkeys(rank.host for rank in known):
        here = [rank for rank in known if rank.host == host]
        cores = {core for rank in here for core in rank.cores or ()}
        if len(here) > len(cores):
            where = f" of {host}" if host else ""
            yield (
                f"{len(here)} ranks take turns on the {len(cores)} cores{where}: as many ranks as "
                f"cores may do as much"
            )
            break
    lengths = {rank.epoch_steps: rank.rank for rank in reversed(ranks) if rank.epoch_steps}
    if len(lengths) > 1:
        shortest, longest = min(lengths), max(lengths)
        yield (
            f"the ranks' shards are uneven: an epoch of rank {lengths[shortest]} has "
            f"{shortest:,} steps, one of rank {lengths[longest]} {longest:,}"
        )


def with_scaling(parallel: Parallel, points: Sequence[ScalingPoint], reason: str = "") -> Parallel:
    """Return the job with what the same script gave on fewer devices.

    Points have the same batch per device; efficiencies are filled in where one of them
    is of one device: samples per second and device over its, or steps where there are no rates.
    `reason` says why there are no points, or not all.
    """
    ordered = sorted(points, key=lambda point: point.devices)
    real = [rank.real.seconds for rank in parallel.processes if isinstance(rank.real, Measure)]
    notes, single = parallel.notes, next((p for p in ordered if p.devices == 1), None)
    if single is not None:
        alone = single
        if real and alone.real_s > _SLOWER * max(real):
            notes = (*notes, _ALONE_SLOWER)

        def efficiency(point: ScalingPoint) -> float:
            if point.samples_per_s and alone.samples_per_s:
                return point.samples_per_s / point.devices / alone.samples_per_s
            return alone.real_s / point.real_s

        ordered = [replace(point, efficiency=efficiency(point)) for point in ordered]
    return replace(parallel, scaling=tuple(ordered), scaling_reason=reason, notes=notes)
