"""Measurements that are missing, each with its reason."""

from __future__ import annotations

from collections.abc import Iterator

from trainperf.fixes.common.words import at
from trainperf.model import Ending, Evidence, LogCall, Missing, NotTaken, Recording

NO_SCALING = "no run on fewer devices was made"
UNKNOWN = "no exchange of gradients that trainperf knows was seen"
CUT = "a rank ended before the exchange was looked at"


def not_measured(recording: Recording, evidence: Evidence) -> tuple[NotTaken, ...]:
    """Everything that was not measured, each with its reason."""
    return tuple(_not_measured(recording, evidence))


def _not_measured(recording: Recording, evidence: Evidence) -> Iterator[NotTaken]:
    taken = evidence.times
    for what, value in (
        ("the step as it is", taken.real_),
        ("the step with free input", taken.resident_),
        ("the input alone", taken.input_),
        ("the stages of the input", evidence.stages_),
        ("a step by lines", evidence.lines_),
    ):
        if isinstance(value, Missing):
            yield NotTaken(what, value.reason)
    if evidence.torch_ is not None and isinstance(evidence.torch_.split_, Missing):
        yield NotTaken("the parts of a step", evidence.torch_.split_.reason)
    if evidence.torch_ is not None and evidence.torch_.untraced:
        yield NotTaken("the operators of a step", evidence.torch_.untraced)
    yield from _sending(evidence)
    yield from _probes(evidence)
    if not recording.gpus:
        yield NotTaken("GPU use", _no_gpu(recording, evidence))
    machine = evidence.machine
    if machine.price is None:
        why = machine.price_reason or machine.instance_reason or "not an AWS instance"
        yield NotTaken("cost", f"{why.rstrip('.')}; --price-per-hour gives it")
    if recording.reads_reason:
        yield NotTaken("storage", recording.reads_reason)
    if evidence.around is not None and isinstance(evidence.outside_, Missing):
        yield NotTaken("what stands between the calls of `fit`", evidence.outside_.reason)
    between = evidence.between_epochs
    if between is None or not between.epochs_seen:
        steps = evidence.loop.epoch_steps
        length = f"an epoch has {steps:,} steps; " if steps else ""
        yield NotTaken("the time between epochs", f"{length}none ended while it was observed")
    yield from _exchange(evidence)


def _sending(evidence: Evidence) -> Iterator[NotTaken]:
    """The trackers that are called in a step and were kept off the network."""
    first: dict[str, LogCall] = {}
    for log in () if evidence.torch_ is None else evidence.torch_.logs:
        if log.unsent:
            first.setdefault(log.unsent, log)
    for tracker, log in first.items():
        place = "" if log.where is None else f" ({at(log.where)})"
        why = f"trackers are kept offline: `{log.what}`{place} took what writing to a file takes"
        yield NotTaken(f"what sending to {tracker} takes", why)


def _probes(evidence: Evidence) -> Iterator[NotTaken]:
    """The probes that were not made; those that lack for the same reason together."""
    by_reason: dict[str, list[str]] = {}
    for name, probe in evidence.probes.items():
        if isinstance(probe, Missing):
            by_reason.setdefault(probe.reason, []).append(name.replace("_", " "))
    for reason, names in by_reason.items():
        what = "a probe" if len(names) == 1 else "probes"
        yield NotTaken(f"{what} of {', '.join(names)}", reason)


def _no_gpu(recording: Recording, evidence: Evidence) -> str:
    reason = recording.gpu_reason or "no GPU was found"
    if evidence.device.kind == "GPU":
        return f"{reason}; what the GPU is, CUDA says: {evidence.device.name}"
    instance = evidence.machine.instance
    if instance is None or instance.type is None or not instance.type.gpus:
        return reason
    kind = instance.type
    return f"{reason}, though {instance.name} has {kind.gpus} × {kind.gpu or 'GPU'}"


def _exchange(evidence: Evidence) -> Iterator[NotTaken]:
    """The figures of the exchange of gradients that are not known, and why."""
    what, job = "gradient exchange", evidence.parallel_
    if job is None:
        if evidence.device.count < 2 and evidence.loop.replicas < 2:
            yield NotTaken(what, "the script trains on one device")
        return
    if job.exchange is None:
        cut = any(rank.ending != "measured" for rank in job.processes)
        yield NotTaken(what, CUT if cut else UNKNOWN)
        return
    if isinstance(job.exchange.seconds_, Missing):
        yield NotTaken(what, job.exchange.seconds_.reason)
    if isinstance(job.exchange.all_reduce, Missing):
        yield NotTaken("all-reduces by themselves", job.exchange.all_reduce.reason)
    if not job.scaling:
        yield NotTaken("the step on fewer devices", job.scaling_reason or NO_SCALING)
    elif job.scaling_reason:
        yield NotTaken("the step on some numbers of devices", job.scaling_reason)


def nothing_measured(recording: Recording, reason: str) -> tuple[NotTaken, ...]:
    """The one thing to say where there was no loop to measure."""
    if recording.ending in (Ending.FAILED, Ending.SIGNALLED):
        reason = "the script ended before a training loop began"
    return (NotTaken("the training step", reason),)
