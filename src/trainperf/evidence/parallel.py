"""The processes and devices of a job, from what each of them recorded; whom they wait for."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from trainperf.child.timing.estimating import estimate
from trainperf.evidence.events import Observed, main_loop, read_as
from trainperf.evidence.facts import by_uuid, described, loop
from trainperf.evidence.timing import measure, times
from trainperf.fixes.common.words import ms
from trainperf.model import (
    NOT_TIMED,
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
    RankEnding,
    Recording,
    Sample,
    ScalingPoint,
    Straggler,
    Strategy,
    known,
    words,
)

TIMED = ("warmup", "real", "local", "resident", "input", "profile", "idle")
"""The phases that all ranks go through; a process that came further was measured."""

LOST = re.compile("connection (closed|reset)|remote (worker|process|peer)|broken pipe", re.I)
"""Messages of gloo, NCCL and gRPC where the process on the other side is gone."""

LONGEST = 160
"""Characters of an error that are told; gloo's go on with an address and advice."""

NO_LOOP = "no training loop was seen in it"
ENDED = "the run ended before a step without exchange was timed"
NOT_SWITCHED = "the exchange of gradients was not switched off in this loop"

LONGER = Missing("a step took longer without the exchange than with it: the machine was not quiet")
ODD = 0.05
"""By so much of a step it has to be longer, beyond its interval."""

BEHIND = 0.10
"""A rank this much slower than the median is a straggler (TraceML warns at 10 %)."""

_EXPLAINS = 0.5
"""The share of a rank's delay from which a part of its step is named as the cause."""

_SLOWER_CLOCK = 0.95
"""A GPU whose clock is below this share of another's is told apart from it."""

_FULLER_BATCH = 1.05
"""A batch larger than another by less is larger by a rest of samples."""

_SLOWER = 1.1
"""A step on one device longer than this many of the job's is no matter of rounding."""

_ALONE_SLOWER = (
    "a step took longer on one device than on several that exchange gradients: the machine was "
    "busier then, or the step varies; expect these rates to be off"
)


def parallel(
    recording: Recording, observed: Observed, machine: Machine, ranks: Sequence[Rank] | None = None
) -> Parallel | None:
    """The job's ranks, their exchange and skew; None for one process on one device.

    `ranks` are given where each has a recording of its own; those of this host get the GPU that
    each of them has, as NVML counts.
    """
    if ranks is None:
        records: Iterable[tuple[Event, ...]] = (observed.process,)  # others train by themselves
        if observed.place is not None:
            everyone = recording.events.values()
            records = (events for events in everyone if Observed(events, {}, ()).place)
        found = (rank for events in records if (rank := summarise(events)) is not None)
        ranks = [rank if rank.host else replace(rank, host=machine.hostname) for rank in found]
    placed = []
    for rank in ranks:
        if rank.gpu_uuid and rank.host == machine.hostname:
            gpu = by_uuid(rank.gpu_uuid, machine.gpus)
            rank = replace(rank, gpu=None if gpu is None else gpu.index)
        placed.append(rank)
    return joined(placed, observed, recording.samples)


def joined(
    ranks: Sequence[Rank], lead: Observed, samples: Sequence[Sample] = ()
) -> Parallel | None:
    """Join the ranks of a job; None for one process on one device.

    `lead` is what one of them recorded, best rank 0: it is asked for what concerns the
    whole job. `samples` are those of its host. Of two records of one rank (a launcher
    may start one again) the one with more steps counts. Linear in the ranks, but for
    stragglers, each of which is compared with the ranks of its host.
    """
    timed = sorted(ranks, key=lambda rank: getattr(rank.real, "steps", -1))
    longest = {rank.rank: rank for rank in timed}
    processes = tuple(longest[number] for number in sorted(longest))
    expected = max(int((lead.place or {}).get("world_size") or 1), 1)
    replicas = int((lead.last("exchange") or {}).get("replicas") or 0)
    if not replicas:  # a strategy of TensorFlow counts those of all workers, PyTorch its own
        replicas = int(lead.facts.get("replicas") or 1)
        replicas *= 1 if replicas >= expected or _untied(lead) else expected
    spread = strategy(lead)
    if expected < 2 and replicas < 2 and (spread is None or spread.replicas < 2):
        return None
    wrappers = (read_as(Ddp, event) for event in lead.all("ddp"))
    return Parallel(
        expected=expected,
        replicas=replicas,
        hosts=max(1, len({rank.host for rank in processes})),
        processes=processes,
        absent=tuple(sorted(set(range(expected)) - {rank.rank for rank in processes})),
        exchange=exchange(processes, lead, replicas),
        stragglers=stragglers(processes, samples),
        ddp=tuple({(ddp.model, ddp.where): ddp for ddp in wrappers}.values()),  # what was said last
        notes=tuple(_notes(processes, expected, lead)),
    )


def strategy(lead: Observed) -> Strategy | None:
    """The `tf.distribute` strategy of the process, by what was said of it last."""
    event = lead.last("tf_strategy")
    return None if event is None else read_as(Strategy, event)


def whole_job(loop: Loop, job: Parallel | None) -> Loop:
    """Return the loop with replicas and samples per step of all ranks together.

    The size of the batch is not known where a rank's is not, unless those that are known
    are all alike: then the others' is the same.
    """
    if job is None:
        return loop
    strategy = loop.strategy or ("" if job.exchange is None else job.exchange.method)
    loop = replace(loop, replicas=job.replicas, strategy=strategy)
    if job.expected < 2 or job.replicas < job.expected:
        return loop
    sizes = [rank.batch_size for rank in job.processes if rank.batch_size]
    whole = sizes[0] * job.expected if len(set(sizes)) == 1 else None
    if len(sizes) == job.expected:
        whole = sum(sizes)
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
    on_cores = [rank for rank in ranks if rank.device == "CPU" and rank.cores is not None]
    for host in dict.fromkeys(rank.host for rank in on_cores):
        here = [rank for rank in on_cores if rank.host == host]
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
    points, notes = sorted(points, key=lambda point: point.devices), parallel.notes
    if points and points[0].devices == 1:
        alone = points[0]
        real = [rank.real.seconds for rank in parallel.processes if isinstance(rank.real, Measure)]
        if real and alone.real_s > _SLOWER * max(real):
            notes = (*notes, _ALONE_SLOWER)

        def efficiency(point: ScalingPoint) -> float:
            if point.samples_per_s and alone.samples_per_s:
                return point.samples_per_s / point.devices / alone.samples_per_s
            return alone.real_s / point.real_s

        points = [replace(point, efficiency=efficiency(point)) for point in points]
    return replace(parallel, scaling=tuple(points), scaling_reason=reason, notes=notes)


# ------------------------------------------------------------------------------ one process


def summarise(events: Sequence[Event], run_ended: str = "") -> Rank | None:
    """Read one process's events into its `Rank`; None if it neither trained nor is a rank.

    A process that does not say which rank it is counts as rank 0 (a job of one process).
    `run_ended` says how its run ended, where that was told.
    """
    process = tuple(events)
    observed, whole = main_loop(process), Observed(process, {}, ())
    if observed is None and whole.place is None:
        return None
    place, error = whole.place or {}, whole.last("error")
    rank = Rank(
        rank=int(place.get("rank", 0)),
        host=str(place.get("host") or ""),
        pid=(whole.first("hello") or {}).get("pid"),
        ended=f"{run_ended}; {NO_LOOP}" if run_ended else NO_LOOP,
        ending="cut short",
        device=str(place.get("device") or ""),
        threads=place.get("threads"),
        cores=tuple(place.get("cores") or ()) or None,
    )
    if observed is None:
        if error is None:
            return rank
        ending, ended = _failed(error, "before a training loop began")
        return replace(rank, ending=ending, ended=ended)
    ending, ended = _ended(observed, run_ended)
    facts, taken = loop(observed), times(observed)
    if any(event["p"] == "local" for event in (*observed.of("block"), *observed.of("step"))):
        local = measure(observed, "local")
    else:  # the exchange of gradients was on in all steps
        local = observed.missing("local", ENDED if ending != "measured" else NOT_SWITCHED)
    device, uuid = _device(observed)
    return replace(
        rank,
        ended=ended,
        ending=ending,
        device=rank.device or device,
        gpu_uuid=uuid,
        real=taken.real_,
        resident=taken.resident_,
        local=local,
        input_=taken.input_,
        batch_size=facts.batch_size,
        epoch_steps=facts.epoch_steps,
    )


def _ended(observed: Observed, run_ended: str) -> tuple[RankEnding, str]:
    """How the process ended, and in words what happened in which phase.

    Where its launcher stops a rank because another one is done, it may not have said
    that all is measured: to be past the timed phases is enough.
    """
    phase = ["warmup", *(event["p"] for event in observed.of("phase"))][-1]
    if phase not in TIMED or any(observed.of("measured")):
        return "measured", "measured"
    when = "in the warm-up" if phase == "warmup" else "while its steps were timed"
    errors = list(observed.of("error"))
    if errors:
        return _failed(errors[-1], when)
    how = run_ended or ("ended by itself" if any(observed.of("exit")) else "stopped")
    return "cut short", f"{how} {when}"


def _failed(error: Event, when: str) -> tuple[RankEnding, str]:
    """Say when a rank failed and with what; the first line of the error, without its end."""
    text = str(error.get("text") or "").strip()
    if LOST.search(text):
        why = f"when its connection to another rank broke ({error['type']})"
        return "lost another", f"failed {when}, {why}"
    line = text.partition("\n")[0]
    if len(line) > LONGEST:
        line = line[:LONGEST].rpartition(" ")[0] + " …"
    return "failed", f"failed {when} with {error['type']}{': ' if line else ''}{line}"


def _device(observed: Observed) -> tuple[str, str | None]:
    """The rank's device as the framework says, and the UUID of its first GPU."""
    event = described(observed)
    if event is None:
        return "", None
    gpus = [gpu for gpu in event["gpus"] if gpu["used"]]
    if gpus:
        name = str(gpus[0]["name"] or "GPU")
        return name if len(gpus) == 1 else f"{len(gpus)} × {name}", gpus[0]["uuid"]
    logical = int(event["logical"] or 1)
    return "CPU" if logical < 2 else f"{logical} logical CPUs", None


# ---------------------------------------------------------------- the exchange of gradients


def exchange(ranks: Sequence[Rank], lead: Observed, replicas: int) -> Exchange | None:
    """The exchange of gradients; None if none that trainperf knows was seen.

    `ranks` are those that reported, `lead` is what one of them recorded of the job.
    """
    event, spread = lead.last("exchange"), strategy(lead)
    if event is None:  # it was not timed
        if spread is not None and spread.replicas > 1:
            event = {"method": spread.cls, "backend": spread.cross_device_ops}
        elif lead.last("ddp") is not None and lead.place is not None:
            event = {"method": "DistributedDataParallel", "backend": lead.place.get("backend")}
        else:
            return None
    timed = [(rank.local, rank.real) for rank in ranks if isinstance(rank.local, Measure)]
    reasons = (rank.local for rank in ranks if isinstance(rank.local, Missing))
    why = next(reasons, Missing(NOT_SWITCHED))
    waits: float | Missing = why if len(timed) < 2 else waiting(timed)
    if len(ranks) < 2:
        waits = Missing("one process runs all replicas")
    alone = lead.last("all_reduce") or {}
    reduces = alone.get("seconds") and int(alone.get("devices") or 0) > 1
    return Exchange(
        method=str(event["method"]),
        backend=str(event.get("backend") or ""),
        replicas=int(event.get("replicas") or replicas),
        seconds_=cost(timed) if timed else why,
        waiting_=waits,
        bytes=event.get("bytes"),
        all_reduce=(
            read_as(AllReduce, alone) if reduces else lead.missing("all_reduce", NOT_TIMED.reason)
        ),
    )


def cost(timed: Sequence[tuple[Measure, Measure | Missing]]) -> Measure | Missing:
    """Seconds that the exchange adds to a step: real less local, of the slowest rank.

    `timed` are the local and the real step of each rank. All ranks wait for the one whose own work
    takes longest, so what its step has beyond
    that work is the exchange itself. Both times are of one process and of phases that
    alternate, so the interval is that of their pairs: what drifts, drifts in both.
    Never below 0 nor above the step; `low` is 0 where the interval contains it. Steps that
    surely take much longer without the exchange were held up by something else, and tell
    nothing.
    """
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


def waiting(timed: Sequence[tuple[Measure, Measure | Missing]]) -> float:
    """Seconds that the mean rank waits for the slowest in each step.

    By the steps without exchange, in which no rank waits for another. None waits for
    longer than its real step has beyond its own work.
    """
    slowest = max(local.seconds for local, _ in timed)
    longest = (
        (local, real.seconds if isinstance(real, Measure) else slowest) for local, real in timed
    )
    return statistics.fmean(max(0.0, min(slowest, most) - local.seconds) for local, most in longest)


# ------------------------------------------------------------- the ranks that others wait for


def stragglers(ranks: Sequence[Rank], samples: Sequence[Sample] = ()) -> tuple[Straggler, ...]:
    """The ranks that hold the others up, the one furthest behind first.

    By the steps without exchange, in which each rank runs free. Where those were not
    timed, by the input alone, which ranks drain without waiting for each other, as far as the
    job waits for input at all. A rank counts from 10 % behind the median rank (of two: the
    quicker one), beyond the noise of both.
    """
    timed = [(rank, rank.local) for rank in ranks if isinstance(rank.local, Measure)]
    waits = [
        rank.real.seconds - rank.resident.seconds
        for rank in ranks
        if isinstance(rank.real, Measure) and isinstance(rank.resident, Measure)
    ]
    by_input = len(timed) < 2
    if by_input:
        timed = [(rank, rank.input_) for rank in ranks if isinstance(rank.input_, Measure)]
    if len(timed) < 2 or (by_input and not waits):
        return ()
    typical = statistics.median_low(own.seconds for _, own in timed)
    middle, usual = next((rank, own) for rank, own in timed if own.seconds == typical)
    late: list[tuple[Rank, float, float]] = []
    for rank, own in timed:
        noise = own.noise * own.seconds + usual.noise * usual.seconds
        behind = own.seconds - usual.seconds
        if behind <= max(BEHIND * usual.seconds, noise):
            continue
        step = max(1e-9, (rank.real if isinstance(rank.real, Measure) else own).seconds)
        if by_input:
            step, behind = max(step, own.seconds), min(behind, statistics.median(waits))
        else:  # nobody waits longer for a rank than a step takes
            behind *= min(1.0, step / own.seconds)
        if behind > 0 and (not by_input or behind >= BEHIND * step):
            late.append((rank, behind, behind / step))
    numbers, found = {rank.rank for rank, *_ in late}, []
    for rank, behind, share in late:
        own_input, usual_input, phase = known(rank.input_), known(middle.input_), "step"
        causes = [*_causes(rank, middle, ranks), *_gpu(rank, middle, samples)]
        if own_input and usual_input:
            own_s, usual_s = own_input.seconds, usual_input.seconds
            if own_s - usual_s >= _EXPLAINS * behind:
                other, phase = f"that of rank {middle.rank} {ms(usual_s)}", "input"
                causes.insert(0, f"its input takes {ms(own_s)} a step, {other}")
        here = {other.rank for other in ranks if other.host == rank.host}
        if 1 < len(here) < len(ranks) and here == numbers:
            causes.append(f"all ranks on host {rank.host} are behind, and no others")
        found.append(Straggler(rank.rank, phase, behind, share, "; ".join(causes)))
    return tuple(sorted(found, key=lambda straggler: (-straggler.behind_s, straggler.rank)))


def _causes(rank: Rank, middle: Rank, ranks: Sequence[Rank]) -> Iterator[str]:
    """The differences of the rank from the median one, likeliest first."""
    own_batch, usual_batch = rank.batch_size, middle.batch_size
    if own_batch and usual_batch and own_batch > _FULLER_BATCH * usual_batch:
        yield f"its batch holds {own_batch:,} samples, that of rank {middle.rank} {usual_batch:,}"
    if rank.threads and middle.threads and rank.threads < middle.threads:
        threads = words.count(rank.threads, "thread")
        yield f"it computes with {threads}, rank {middle.rank} with {middle.threads}"
    if rank.cores is None or middle.cores is None:
        return
    if len(rank.cores) < len(middle.cores):
        cores = words.count(len(rank.cores), "core")
        yield f"it may run on {cores}, rank {middle.rank} on {len(middle.cores)}"
    sharing = _sharing(rank, ranks)
    if len(sharing) > len(_sharing(middle, ranks)):
        yield f"{words.ranks(sharing)} may run on its cores as well"


def _sharing(rank: Rank, ranks: Sequence[Rank]) -> list[int]:
    """The other ranks of its host that may run on cores of this one."""
    others = (other for other in ranks if other.host == rank.host and other.rank != rank.rank)
    return [other.rank for other in others if {*(rank.cores or ())} & {*(other.cores or ())}]


def _gpu(rank: Rank, middle: Rank, samples: Sequence[Sample]) -> Iterator[str]:
    """A slower clock, or a reason to slow down, that the GPU of the median rank has not.

    Only where it is known which GPU of the host each of the two has, and each has its own.
    """
    if rank.host != middle.host or None in (rank.gpu, middle.gpu) or rank.gpu == middle.gpu:
        return
    clocks, reasons = [], []
    for index in (rank.gpu, middle.gpu):
        gpus = [gpu for sample in samples for gpu in sample.gpus if gpu.index == index]
        known_mhz = [gpu.sm_clock_mhz for gpu in gpus if gpu.sm_clock_mhz]
        clocks.append(statistics.fmean(known_mhz) if known_mhz else 0.0)
        reasons.append({reason for gpu in gpus for reason in gpu.throttle or ()})
    (own, usual), slowed = clocks, ", ".join(sorted(reasons[0] - reasons[1]))
    if own and own < _SLOWER_CLOCK * usual:
        why = f" ({slowed})" if slowed else ""
        yield f"its GPU ran at {own:.0f} MHz, that of rank {middle.rank} at {usual:.0f}{why}"
    elif slowed:
        yield f"its GPU was slowed down by {slowed}"
