"""One process of a job: its times, its device, how it ended; and the ranks that others wait for."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import replace

from trainperf.evidence.events import Observed, main_loop
from trainperf.evidence.facts import described, loop
from trainperf.evidence.timing import measure, times
from trainperf.fixes.common.words import ms
from trainperf.model import Event, Measure, Rank, Sample, Straggler, known, words
from trainperf.model.parallel import RankEnding

TIMED = ("warmup", "real", "local", "resident", "input", "profile", "idle")
"""The phases that all ranks go through; a process that came further was measured."""


LOST = re.compile("connection (closed|reset)|remote (worker|process|peer)|broken pipe", re.I)
"""Messages of gloo, NCCL and gRPC where the process on the other side is gone."""

LONGEST = 160
"""Characters of an error that are told; gloo's go on with an address and advice."""

NO_LOOP = "no training loop was seen in it"
ENDED = "the run ended before a step without exchange was timed"
NOT_SWITCHED = "the exchange of gradients was not switched off in this loop"

BEHIND = 0.10
"""A rank this much slower than the median is a straggler (TraceML warns at 10 %)."""

_EXPLAINS = 0.5
"""The share of a rank's delay from which a part of its step is named as the cause."""

_SLOWER_CLOCK = 0.95
"""A GPU whose clock is below this share of another's is told apart from it."""

_FULLER_BATCH = 1.05
"""A batch larger than another by less is larger by a rest of samples."""


def summarise(events: Sequence[Event], run_ended: str = "") -> Rank | None:
    """Read one process's events into its `Rank`; None if it neither trained nor is a rank.

    A process that does not say which rank it is counts as rank 0 (a job of one process).
    `run_ended` says how its run ended, where that was told.
    """
    process = tuple(events)
    observed = main_loop(process)
    whole = Observed(process, {}, ())
    if observed is None and whole.place is None:
        return None
    place = whole.place or {}
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
        error = whole.last("error")
        if error is None:
            return rank
        ending, ended = _failed(error, "before a training loop began")
        return replace(rank, ending=ending, ended=ended)
    ending, ended = _ended(observed, run_ended)
    device, uuid = _device(observed)
    facts, taken = loop(observed), times(observed)
    if any(event["p"] == "local" for event in (*observed.of("block"), *observed.of("step"))):
        local = measure(observed, "local")
    else:  # the exchange of gradients was on in all steps
        local = observed.missing("local", ENDED if ending != "measured" else NOT_SWITCHED)
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
    late: dict[int, tuple[float, float]] = {}
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
            late[rank.rank] = behind, behind / step
    found = []
    for rank in (rank for rank, _ in timed if rank.rank in late):
        behind, share = late[rank.rank]
        own_input, usual_input = known(rank.input_), known(middle.input_)
        causes, phase = [], "step"
        own_s = own_input.seconds if own_input else 0.0
        if own_input and usual_input and own_s - usual_input.seconds >= _EXPLAINS * behind:
            phase, other = "input", ms(usual_input.seconds)
            causes = [f"its input takes {ms(own_s)} a step, that of rank {middle.rank} {other}"]
        causes += [*_causes(rank, middle, ranks), *_gpu(rank, middle, samples)]
        here = {other.rank for other in ranks if other.host == rank.host}
        if 1 < len(here) < len(ranks) and here == set(late):
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
