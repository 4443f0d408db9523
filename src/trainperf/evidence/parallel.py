"""The processes and devices of a job, from what each of them recorded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from trainperf.evidence.devices import by_uuid
from trainperf.evidence.events import Observed
from trainperf.evidence.exchange import ddp, exchange, strategy
from trainperf.evidence.ranks import stragglers, summarise
from trainperf.model import (
    Event,
    Loop,
    Machine,
    Measure,
    Parallel,
    Rank,
    Recording,
    Sample,
    ScalingPoint,
)

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
