"""The times: of a step, of start-up, between epochs, and of the probes."""

from __future__ import annotations

import bisect
import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from trainperf.child.timing.estimating import FEWEST, estimate
from trainperf.child.timing.loop import CRAWLING_S
from trainperf.evidence.events import Observed, Parts, host_times
from trainperf.evidence.facts import callbacks
from trainperf.model import (
    BetweenEpochs,
    Collections,
    Device,
    Event,
    HostSample,
    Measure,
    Missing,
    PhaseUse,
    Probe,
    Recording,
    Sample,
    StartUp,
    Times,
)

PHASES = ("real", "resident", "input")

OF_HOST = ("cpu_cores", "machine_cpu_cores", "read_bytes_s", "others_cores")
OF_GPU = (
    *("utilization_percent", "power_w", "sm_clock_mhz"),
    *("sm_active", "tensor_active", "dram_active"),
)
"""Fields of samples of which a phase has the mean."""


def usage(
    recording: Recording, observed: Observed, device: Device | None = None
) -> tuple[PhaseUse, ...]:
    """Mean use of cores, memory, disk and GPUs per phase, for phases with samples.

    Of a GPU in MIG mode of which `device` uses one slice, the memory is not known.
    """
    shared = {gpu.index for gpu in (() if device is None else device.used) if gpu.mig}
    marks = [(event["t"], event["p"]) for event in observed.of("phase")]
    groups: defaultdict[str, list[Sample]] = defaultdict(list)
    for sample in recording.samples:
        index = bisect.bisect_right(marks, sample.t, key=lambda mark: mark[0]) - 1
        groups[marks[index][1] if index >= 0 else ""].append(sample)
    found = []
    for phase in (phase for phase in PHASES if phase in groups):
        samples = groups[phase]
        hosts = [sample.host for sample in samples if sample.host is not None]
        indices = sorted({gpu.index for sample in samples for gpu in sample.gpus})
        periods = sum(host.quota_periods or 0 for host in hosts)
        used_up = sum(host.quota_throttled or 0 for host in hosts)
        use = PhaseUse(
            phase,
            len(samples),
            rss_peak=max((host.rss for host in hosts), default=None),
            gpu=tuple(_gpu(index, samples, index in shared) for index in indices),
            throttled_share=used_up / periods if periods else None,
            waited=waited(hosts),
            **{name: _mean(hosts, name) for name in OF_HOST},
        )
        found.append(use)
    return tuple(found)


def waited(hosts: Iterable[HostSample]) -> float | None:
    """The share of the time threads were ready to run that others kept them waiting.

    Threads of the script that wait for each other do not count: of all waiting, others
    have the part that they have of the cores that are busy.
    """
    ready = waits = 0.0
    for host in hosts:
        running, waiting, others = host.threads_running, host.threads_waiting, host.others_cores
        if running is None or waiting is None or others is None:
            continue
        ready += running + waiting
        waits += waiting * others / max(others + running, 1e-9)
    return waits / ready if ready > 0 else None


def _gpu(index: int, samples: list[Sample], shared: bool) -> dict[str, Any]:
    """The use of one GPU; none of the memory of one that is `shared` in slices."""
    own = [gpu for sample in samples for gpu in sample.gpus if gpu.index == index]
    told = [set(gpu.throttle) for gpu in own if gpu.throttle is not None]
    counts = Counter(reason for reasons in told for reason in reasons)
    shares = {reason: counts[reason] / len(told) for reason in sorted(counts)}
    memory = (gpu.memory_used for gpu in own if gpu.memory_used and not shared)
    return {
        "index": index,
        "samples": len(own),
        **{name: _mean(own, name) for name in OF_GPU},
        "memory_used_peak": max(memory, default=None),
        "throttle_shares": shares if told else None,
    }


def _mean(samples: Iterable[object], name: str) -> float | None:
    values = [value for sample in samples if (value := getattr(sample, name)) is not None]
    return statistics.fmean(values) if values else None


Calm = set[tuple[str, int]]
"""Blocks, each by its phase and round."""

LEAST_STEPS, LEAST_REAL_STEPS = 3, 2
CALM = 0.05
"""A block is calm if others keep the script's threads from a core for less of their time."""
CALM_SHARE = 0.25
"""Calm blocks are enough by themselves if they are so large a share of a phase's, and five."""


def times(observed: Observed, samples: Sequence[Sample] = (), parts: Parts | None = None) -> Times:
    """The three times of one step, each a measure or the reason why there is none.

    `samples` tell which blocks were timed beside busy neighbours, `parts` is told of what
    cannot be read.
    """
    parts = parts or Parts()
    calm = parts.read_or(None, "which blocks had no neighbours", _calm, observed, samples)
    noise, busy = "how much the waiting varies", reversed(list(observed.of("device")))
    return Times(
        real_=parts.read("the step as it is", measure, observed, "real", calm),
        resident_=parts.read("the step with free input", measure, observed, "resident", calm),
        input_=parts.read("the input alone", _input, observed),
        host_=parts.read("the host's part of a step", _host, observed),
        waiting_noise=parts.read_or(None, noise, _waiting_noise, observed, calm),
        device_s=next((event["busy"] / observed.steps_per_call for event in busy), None),
    )


def _calm(observed: Observed, samples: Sequence[Sample]) -> Calm | None:
    """The blocks in which others hardly kept the script waiting; None if they are too few.

    Too few of one phase are too few of all: what was timed in peace is not to be compared
    with what was not.
    """
    at, calm = [sample.t for sample in samples], Calm()
    blocks = [event for event in observed.of("block") if event["p"] in ("real", "resident")]
    for event in blocks:
        first, last = (bisect.bisect_right(at, event["s"] + part) for part in (0.0, event["d"]))
        hosts = (sample.host for sample in samples[first:last] if sample.host is not None)
        share = waited(hosts)
        if share is not None and share <= CALM:
            calm.add((event["p"], event["b"]))
    timed, found = Counter(event["p"] for event in blocks), Counter(phase for phase, _ in calm)
    enough = all(found[phase] >= max(FEWEST, CALM_SHARE * many) for phase, many in timed.items())
    return calm if calm and enough else None


def measure(observed: Observed, phase: str, calm: Calm | None = None) -> Measure | Missing:
    """The time of a step in one phase, from blocks of steps; bursts do not move it.

    The slowest and the quickest quarter of the blocks are left out whole. Steps inside a
    block never are: where workers deliver by the handful, one step waits for all of it. Only
    the blocks in `calm` count, where they are given.
    """
    blocks = _blocks(observed, phase, calm)
    if not blocks:
        return _partial(observed, phase)
    means = tuple(seconds / steps for seconds, steps in blocks.values())
    steps = [steps for _, steps in blocks.values()]
    found, disturbed = estimate(means, steps), len(_blocks(observed, phase)) - len(blocks)
    return measured(found.value, found.half, round(sum(steps)), means, disturbed)


def measured(
    seconds: float,
    half: float | None,
    steps: int,
    means: tuple[float, ...] = (),
    disturbed: int = 0,
) -> Measure:
    """A time of so many steps with its interval, if that is known."""
    low, high = (None, None) if half is None else (max(0.0, seconds - half), seconds + half)
    return Measure(seconds, steps, means, low, high, disturbed)


def _blocks(
    observed: Observed, phase: str, calm: Calm | None = None
) -> dict[int, tuple[float, float]]:
    """Seconds and steps of each round's block, of those in `calm`.

    Where the script waits for its devices at every so many steps, those of whole periods only.
    """
    per_call, every = observed.steps_per_call, observed.waits_every
    return {
        event["b"]: (event["d"], event["n"] * per_call)
        for event in observed.of("block")
        if event["p"] == phase and event["n"] > 0 and event["d"] > 0 and event["n"] % every == 0
        if calm is None or (phase, event["b"]) in calm
    }


def collections(observed: Observed) -> Collections | None:
    """What garbage collections take of a step; None where they were not timed.

    Of all steps as they are, not of blocks alone: one that goes through all objects is rare, and
    its block is one of those that are left out as held up.
    """
    seen = next(iter(observed.of("collections")), None)
    if seen is None or not seen["steps"]:
        return None
    steps = seen["steps"] * observed.steps_per_call
    return Collections(seen["seconds"] / steps, seen["full"] / steps)


def _waiting_noise(observed: Observed, calm: Calm | None) -> float | None:
    """Half the interval of what a step loses to waiting, as a share of it.

    From each real block and the resident one that followed it: what slows both for a
    while is in none of these differences.
    """
    real, resident = (_blocks(observed, phase, calm) for phase in ("real", "resident"))
    losses = [
        1 - (resident[b][0] / resident[b][1]) / (seconds / steps)
        for b, (seconds, steps) in real.items()
        if b in resident
    ]
    return estimate(losses).half if losses else None


def _partial(observed: Observed, phase: str) -> Measure | Missing:
    """A measure from single steps, for a run that ended before a block was full."""
    phases = ("real", "real~", "warmup") if phase == "real" else (phase,)
    steps = [event for event in observed.of("step") if event["p"] in phases]
    durations = [event["t"] - event["s"] for event in steps]
    if phase == "real" and observed.start["kind"] != "update":
        durations = durations[1:]  # the first step traces and compiles; updates are seen later
    least = LEAST_REAL_STEPS if phase == "real" else LEAST_STEPS
    if len(durations) < (1 if max(durations, default=0.0) > CRAWLING_S else least):
        reason = f"the run ended before the {phase} phase was complete"
        if phase not in observed.start["phases"]:
            reason = "the loop makes its own batches, and none could be replayed"
        return observed.missing(phase, reason)
    per_call = observed.steps_per_call
    return Measure(statistics.fmean(durations) / per_call, round(len(durations) * per_call), ())


def _input(observed: Observed) -> Measure | Missing:
    if "input" not in observed.start["phases"]:
        return Missing("the loop makes its own batches, so they cannot be drained apart from it")
    per_step = int(observed.facts.get("batches_per_step") or 1)
    slopes = [found for event in observed.of("input") if (found := _slope(event["marks"]))]
    if not slopes:
        return observed.missing("input", "the run ended before the input phase was complete")
    means = tuple(seconds * per_step for seconds, _ in slopes)
    steps = max(1, sum(batches for _, batches in slopes) // per_step)
    return measured(statistics.median(means), estimate(means).half, steps, means)


def _slope(marks: list[tuple[float, int]]) -> tuple[float, int] | None:
    """Seconds per batch over the later half of a drain.

    The first batches come from buffers that were full when the drain began, and say
    nothing about what the pipeline can deliver.
    """
    end, total = marks[-1]
    later = [mark for mark in marks if mark[0] >= end / 2]
    known = ((t, count) for t, count in (*later, marks[0]) if count < total)
    return next((((end - t) / (total - count), total - count) for t, count in known), None)


def _host(observed: Observed) -> float | Missing:
    if observed.framework == "torch" or observed.start["kind"] not in ("fit", "argument"):
        return Missing("host work cannot be told from the step in a loop of this kind")
    resident = [event for event in observed.of("step") if event["p"] == "resident"]
    if not resident:
        return Missing("no step ran on a resident batch")
    host = [event["t"] - event["s"] - event["w"] for event in resident]
    return max(0.0, statistics.fmean(host)) / observed.steps_per_call


def startup(observed: Observed) -> StartUp | None:
    """The time before the first step, taken apart.

    Without tracing, what the first step took cannot be told from the set-up.
    """
    hello, update = observed.first("hello"), observed.first("first_update")
    if hello is None or update is None:
        return None

    def before(*kinds: str) -> list[Event]:
        events = (event for kind in kinds for event in observed.all(kind))
        return [event for event in events if event["t"] <= update["t"]]

    total = update["t"] - hello["t"]
    imports = sum(event["seconds"] for event in before("import"))
    traces = [event for event in before("trace") if event["in_step"]]
    tracing = sum(event["d"] for event in traces)
    first = update["t"] - min((event["s"] for event in traces), default=update["t"])
    return StartUp(
        to_first_step_s=total,
        imports_s=imports,
        setup_s=max(0.0, total - imports - max(first, tracing)),
        tracing_s=tracing if traces else None,
        first_step_s=first if traces else None,
        evaluation_s=sum(event["seconds"] for event in before("evaluation", "evaluate")) or None,
    )


def between_epochs(observed: Observed) -> BetweenEpochs | None:
    """The time between two epochs: in all where one ended, else the restart alone."""
    gaps = list(observed.of("between"))
    real = measure(observed, "real")
    usual = real.seconds * observed.steps_per_call if isinstance(real, Measure) else 0.0
    excess = [max(0.0, event["t"] - event["s"] - usual) for event in _opening(observed)]
    restart = statistics.median(excess) if excess else None
    epoch_steps = observed.facts.get("epoch_steps")
    if not gaps:
        if restart is None:
            return None
        return BetweenEpochs(restart, len(excess), epoch_steps, restart_s=restart)
    usual_gaps = gaps[1:] or gaps  # the first one traces the validation, once
    seconds = statistics.median(event["seconds"] for event in usual_gaps)
    spans = list(map(host_times, usual_gaps))
    validation = [
        event["seconds"]
        for event in observed.of("evaluate")
        if any(first <= event["s"] <= last for first, last in spans)
    ]
    epoch_ends = [cost.epoch_s for cost in callbacks(observed) if cost.epoch_s is not None]
    first_s = None
    if len(gaps) > 1:
        first_s = max(0.0, float(gaps[0]["seconds"]) - seconds)
        if observed.framework == "tensorflow" and observed.start["kind"] != "iterator":
            # The first pause of `fit` closes the iterator of an epoch that we broke off, for which
            # tf.data waits up to seconds, and for none where epochs end by themselves.
            began, ended = host_times(gaps[0])
            traces = [event for event in observed.all("trace") if began <= event["s"] <= ended]
            first_s = min(first_s, float(sum(event["d"] for event in traces)))
    return BetweenEpochs(
        seconds=seconds + (restart or 0.0),
        epochs_seen=len(gaps),
        epoch_steps=epoch_steps,
        validation_s=statistics.median(validation) if validation else None,
        callbacks_s=sum(epoch_ends) if epoch_ends else None,
        restart_s=restart,
        first_s=first_s,
    )


def _opening(observed: Observed) -> Iterator[Event]:
    """The first steps that opened their input: those after a drain go on with what it opened."""
    drained = False
    for event in observed.loop:
        if event["e"] in ("input", "epoch"):
            drained = event["e"] == "input"
        elif event["e"] == "step" and event["p"] == "first" and not drained:
            yield event


def probes(observed: Observed) -> dict[str, Probe | Missing]:
    """The probes by name, each with its ratio and interval, or why it was not run."""
    found: dict[str, Probe | Missing] = {}
    for event in observed.of("missing"):
        what, _, name = event["what"].partition(" ")
        if what in ("probe", "probes"):
            missing = Missing(str(event["reason"]), event.get("applies", True))
            found[name or "all changes"] = missing
    for event in observed.of("probe"):
        found[event["name"]] = probe(event)
    return found


def probe(event: Event) -> Probe:
    """The geometric mean of the paired ratios, trimmed, with an interval on their logarithms."""
    pairs = list(zip(event["base"], event["candidate"], strict=False))
    ratio = estimate([math.log(base / candidate) for base, candidate in pairs])
    middle, half = ratio.value, math.log(2) if ratio.half is None else ratio.half
    # Twice the samples take no less time than once, whatever a probe reads.
    most = 2.0 if event["name"] == "double_batch" else math.inf
    return Probe(
        name=event["name"],
        base_s=statistics.geometric_mean(base for base, _ in pairs),
        candidate_s=statistics.geometric_mean(candidate for _, candidate in pairs),
        ratio=min(most, math.exp(middle)),
        low=min(most, math.exp(middle - half)),
        high=min(most, math.exp(middle + half)),
        one_off_s=event["one_off"],
        detail=event["detail"],
        pairs=len(pairs),
        steps=event.get("steps", len(pairs)),  # earlier recordings: one a block, at least
    )
