"""Turn a recording into evidence. Pure: values in, values out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from trainperf.evidence import command
from trainperf.evidence.devices import device, of_others
from trainperf.evidence.events import NoLoop, Observed, Parts, choose
from trainperf.evidence.exchange import strategy, with_gpu_link, with_network_link
from trainperf.evidence.facts import (
    callbacks,
    framework,
    loop,
    models,
    padding,
    retracing,
    step_function,
)
from trainperf.evidence.length import length
from trainperf.evidence.outside import around, outside
from trainperf.evidence.over_time import over_time
from trainperf.evidence.own_work import own_work, seen
from trainperf.evidence.parallel import joined, on_gpus, parallel, whole_job
from trainperf.evidence.pipeline import stages
from trainperf.evidence.reads import reads as file_reads
from trainperf.evidence.stacks import functions
from trainperf.evidence.timing import between_epochs, probes, startup, times
from trainperf.evidence.torch import torch
from trainperf.evidence.usage import usage
from trainperf.model import (
    Device,
    Event,
    Evidence,
    Framework,
    Loop,
    Machine,
    Missing,
    Parallel,
    Rank,
    Recording,
    Times,
)
from trainperf.run.event_files import training


def read(recording: Recording, machine: Machine, ranks: Sequence[Rank] | None = None) -> Evidence:
    """Read the evidence off a recording.

    `ranks` are those of the whole job where each has a recording of its own, None where
    all are in this one. Raises `NoLoop` if no training loop was seen in it.
    """
    parts = Parts()
    seen_loop = parts.read("the training loop", choose, recording)
    if isinstance(seen_loop, Missing):
        raise NoLoop(seen_loop.reason, UNREADABLE, ())
    observed = seen_loop
    taken = parts.read_or(UNTIMED, "the times", times, observed, recording.samples, parts)
    on = parts.read_or(Device("", "", 0), "the device", _device, recording, observed, machine)
    found = parts.read("the stages of the input", stages, observed, taken.input_)
    job = parts.read_or(None, "the job's ranks", _job, recording, observed, machine, ranks)
    own = parts.read_or(Loop("update"), "the loop", loop, observed)
    own = parts.read_or(own, "the loop of all ranks", whole_job, own, job)
    return Evidence(
        framework=parts.read_or(Framework("", ""), "the framework", framework, observed),
        device=on,
        machine=machine,
        loop=own,
        times=taken,
        stages_=found,
        stage_input_s=_pipeline(found),
        callbacks=parts.read_or((), "the callbacks", callbacks, observed),
        functions=parts.read_or((), "the functions on the stacks", functions, observed),
        own_work=parts.read_or((), "your own code in a step", own_work, observed),
        seen=parts.read_or(None, "how often the stacks were sampled", seen, observed),
        models=parts.read_or((), "the models of Keras", models, observed),
        step_function=parts.read_or(None, "the step's function", step_function, observed),
        retracing=parts.read_or(None, "what was traced again", retracing, observed),
        padding=parts.read_or(None, "the padding", padding, observed),
        probes=parts.read_or({}, "the probes", probes, observed),
        between_epochs=parts.read_or(None, "the time between epochs", between_epochs, observed),
        outside_=parts.read("the work between steps", outside, observed, taken.real_),
        around=parts.read_or(None, "the loop around `fit`", around, observed),
        startup=parts.read_or(None, "the start of the script", startup, observed),
        length_=parts.read("the length of the training", length, observed, own),
        over_time=parts.read_or(
            None, "late steps against early ones", over_time, observed, recording.samples
        ),
        use=parts.read_or((), "the use of the machine", usage, recording, observed, on),
        facts=_all_facts(recording, observed, parts),
        torch_=parts.read_or(
            None, "what PyTorch did", torch, observed, taken.real_, on.kind == "GPU", parts
        ),
        parallel_=job,
        container=recording.container,
        reads=parts.read_or(
            (), "the reads", file_reads, recording.reads, observed, taken.resident_, found
        ),
        objects=recording.objects,
        channels=recording.channels,
        unread=tuple(parts.faults),
    )


NOT_READ = Missing("the times could not be read")
UNTIMED = Times(NOT_READ, NOT_READ, NOT_READ, NOT_READ)
UNREADABLE = "this is a fault of trainperf's own; run it again, and report it if it comes back"


def _device(recording: Recording, observed: Observed, machine: Machine) -> Device:
    on = device(observed, machine)
    if observed.place is None:
        return on
    return replace(on, of_others=of_others(observed, recording.events.values(), machine))


def _job(
    recording: Recording, observed: Observed, machine: Machine, ranks: Sequence[Rank] | None
) -> Parallel | None:
    if ranks is None:
        job = parallel(recording, observed, machine)
    else:
        job = joined(on_gpus(ranks, machine), observed, recording.samples)
    return with_network_link(with_gpu_link(job, recording.gpu_link), machine)


def _command(recording: Recording, observed: Observed) -> dict[str, object]:
    return {
        "command_words": command.words(recording),
        "command_reaches_script": command.reaches_script(recording, observed),
    }


def _all_facts(recording: Recording, observed: Observed, parts: Parts) -> dict[str, object]:
    facts: dict[str, object] = {}
    for name, reader in (
        ("facts of the process", lambda: _facts(observed.process)),
        ("facts of all ranks", lambda: of_all_ranks(recording)),
        ("the command", lambda: _command(recording, observed)),
        ("the strategy", lambda: {"strategy": strategy(observed)}),
    ):
        facts |= parts.read_or({}, name, reader)
    return facts


def _facts(events: Sequence[Event]) -> dict[str, object]:
    return {event["k"]: event["v"] for event in events if event["e"] == "fact"}


def of_all_ranks(recording: Recording) -> dict[str, object]:
    """Facts that only all ranks together tell; empty for a process by itself.

    `ranks_writing` counts the ranks that saved something while they trained,
    `ranks_same_data` says whether all read the very same dataset.
    """
    told = [_facts(events) for events in training(recording.events).values()]
    if len(told) < 2:
        return {}
    found: dict[str, object] = {
        "ranks_writing": sum(bool(one.get("checkpoint_writes")) for one in told)
    }
    digests = {one.get("data_digest") for one in told}
    if None not in digests:
        found["ranks_same_data"] = len(digests) == 1
    return found


def _pipeline(found: object) -> float | None:
    if isinstance(found, Missing) or not isinstance(found, tuple) or not found:
        return None
    last = found[-1].cumulative_
    return None if isinstance(last, Missing) else float(last)


__all__ = ["Observed", "choose", "read"]
