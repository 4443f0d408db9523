"""Turn a recording into evidence. Pure: values in, values out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from trainperf.evidence.events import NoLoop, Observed, Parts, choose, read_as
from trainperf.evidence.facts import (
    callbacks,
    device,
    framework,
    length,
    loop,
    models,
    of_others,
    padding,
    retracing,
    step_function,
)
from trainperf.evidence.outside import around, outside
from trainperf.evidence.parallel import parallel, strategy, whole_job
from trainperf.evidence.stacks import functions, lines, seen
from trainperf.evidence.timing import between_epochs, collections, probes, startup, times, usage
from trainperf.evidence.torch import torch
from trainperf.model import (
    Device,
    DrawnFrom,
    Event,
    Evidence,
    Framework,
    Loop,
    Machine,
    Measure,
    Missing,
    Rank,
    Reads,
    Recording,
    Stage,
    Times,
)
from trainperf.run.event_files import training
from trainperf.run.launchers import program

ALONE = Missing("the input was not drained")

LEAST_BYTES = 4096
"""Below a page in each step, read calls are not how the data comes in."""

READ_OP = "ReadFile"
"""The operation in a graph where `tf.io.read_file` is mapped over file names."""


def read(recording: Recording, machine: Machine, ranks: Sequence[Rank] | None = None) -> Evidence:
    """Read the evidence off a recording.

    `ranks` are those of the whole job where each has a recording of its own, None where
    all are in this one. Raises `NoLoop` if no training loop was seen in it.
    """
    parts = Parts()
    observed = parts.read("the training loop", choose, recording)
    if isinstance(observed, Missing):
        raise NoLoop(observed.reason, UNREADABLE, ())
    taken = parts.read_or(UNTIMED, "the times", times, observed, recording.samples, parts)
    on = parts.read_or(Device("", "", 0), "the device", _device, recording, observed, machine)
    found = parts.read("the stages of the input", stages, observed, taken.input_)
    job = parts.read_or(None, "the job's ranks", parallel, recording, observed, machine, ranks)
    own = parts.read_or(Loop("update"), "the loop", loop, observed)
    own = parts.read_or(own, "the loop of all ranks", whole_job, own, job)
    return Evidence(
        framework=parts.read_or(Framework("", ""), "the framework", framework, observed),
        device=on,
        machine=machine,
        loop=own,
        times=taken,
        stages_=found,
        callbacks=parts.read_or((), "the callbacks", callbacks, observed),
        functions=parts.read_or((), "the functions on the stacks", functions, observed),
        lines_=parts.read("a step by lines", lines, observed, taken),
        seen=parts.read_or(None, "how often the stacks were sampled", seen, observed),
        models=parts.read_or((), "the models of Keras", models, observed),
        step_function=parts.read_or(None, "the step's function", step_function, observed),
        retracing=parts.read_or(None, "what was traced again", retracing, observed),
        padding=parts.read_or(None, "the padding", padding, observed),
        probes=parts.read_or({}, "the probes", probes, observed),
        collections=parts.read_or(None, "garbage collections", collections, observed),
        between_epochs=parts.read_or(None, "the time between epochs", between_epochs, observed),
        outside_=parts.read("the work between steps", outside, observed, taken.real_),
        around=parts.read_or(None, "the loop around `fit`", around, observed),
        startup=parts.read_or(None, "the start of the script", startup, observed),
        length_=parts.read("the length of the training", length, observed, own),
        use=parts.read_or((), "the use of the machine", usage, recording, observed, on),
        facts=parts.read_or({}, "the facts", _facts, recording, observed),
        torch_=parts.read_or(
            None, "what PyTorch did", torch, observed, taken.real_, on.kind == "GPU"
        ),
        parallel_=job,
        strategy=parts.read_or(None, "the strategy", strategy, observed),
        container=recording.container,
        reads=parts.read_or(
            (), "the reads", reads, recording.reads, observed, taken.resident_, found
        ),
        objects=recording.objects,
        unread=tuple(parts.faults),
    )


NOT_READ = Missing("the times could not be read")
UNTIMED = Times(NOT_READ, NOT_READ, NOT_READ, NOT_READ)
UNREADABLE = "this is a fault of trainperf's own; run it again, and report it if it comes back"


def _device(recording: Recording, observed: Observed, machine: Machine) -> Device:
    others = recording.events.values() if observed.place else ()
    return replace(device(observed, machine), of_others=of_others(observed, others, machine))


def _facts(recording: Recording, observed: Observed) -> dict[str, object]:
    """The facts of the process, and those that only all of them together tell.

    `command_words` are those of the command and of every process that it started: a launcher or a
    shell script may give the training script options of its own. Words put at the end of the
    command are arguments of the script (`command_reaches_script`) where it ends as the command of
    the process that trains does: with all words of the script, or its name where it has none.
    `ranks_writing` counts the ranks that saved something while they trained, `ranks_same_data`
    says whether all read the very same dataset.
    """
    found: dict[str, object] = dict(_told(observed.process))
    ranks = [_told(events) for events in training(recording.events).values()]
    if len(ranks) > 1:
        found["ranks_writing"] = sum(bool(facts.get("checkpoint_writes")) for facts in ranks)
        digests = {facts.get("data_digest") for facts in ranks}
        if None not in digests:
            found["ranks_same_data"] = len(digests) == 1
    command = recording.run.command
    events = (event for events in recording.events.values() for event in events)
    started = (event.get("argv") or () for event in events if event["e"] == "hello")
    found["command_words"] = [*command, *(str(word) for words in started for word in words)]
    argv = [str(word) for word in (observed.first("hello") or {}).get("argv") or ()]
    script = program(argv)
    last = max(1, len(argv[script.at :])) if script is not None else 1
    found["command_reaches_script"] = bool(argv) and list(command[-last:]) == argv[-last:]
    return found


def _told(events: Iterable[Event]) -> dict[str, object]:
    return {event["k"]: event["v"] for event in events if event["e"] == "fact"}


def stages(observed: Observed, drained: Measure | Missing = ALONE) -> tuple[Stage, ...] | Missing:
    """The stages from source to last, or why the pipeline was not taken apart.

    A pipeline of one stage that could not be opened a second time (a generator that
    is spent) took what draining the loop's own input took: `drained`.
    """
    described = list(observed.of("stage"))
    if not described:
        reason = "the run ended before the pipeline was taken apart"
        if "input" not in observed.start["phases"]:
            reason = "the loop makes its own batches"
        return observed.missing("stages", reason)
    timed = {event["index"]: event for event in observed.of("stage_time")}
    built: list[Stage] = []
    before = 0.0
    for event in described:
        told = timed.get(event["index"], {})
        cumulative: float | Missing = Missing("the run ended before this stage was timed")
        if "missing" in told:
            cumulative = Missing(str(told["missing"]))
        elif told and told.get("elements_per_step") is None:
            cumulative = Missing("how many of its elements make a step cannot be told")
        elif told:
            cumulative = float(told["seconds"] * told["elements_per_step"])
        if isinstance(cumulative, Missing) and len(described) == 1 and isinstance(drained, Measure):
            cumulative = drained.seconds
        own: float | Missing = cumulative
        if not isinstance(cumulative, Missing):
            own, before = max(0.0, cumulative - before), max(before, cumulative)
        serial = event["op"] == "map" and event["arguments"].get("num_parallel_calls") is None
        made_by, drawn = event.get("function"), told.get("drawn_from")
        stage = read_as(
            Stage,
            {**told, **event},
            seconds_per_step_=own,
            cumulative_=cumulative,
            function=made_by if isinstance(made_by, dict) else None,
            stateful_random=event.get("random"),
            drawn_from=DrawnFrom(drawn["line"], drawn["bytes"]) if drawn else None,
            parallelised_by_default=serial and not event.get("stateful"),
            by_user=bool(event.get("by_user")),
        )
        built.append(stage)
    return tuple(built)


def reads(
    found: Sequence[Reads],
    observed: Observed,
    resident: Measure | Missing,
    stages: tuple[Stage, ...] | Missing = (),
) -> tuple[Reads, ...]:
    """`found`, with opens and bytes per step, and the rate that the resident step needs.

    What was opened and read is counted from the first timed block to the last, and divided
    by the batches taken meanwhile; what read-ahead had ready at either end makes that a few
    per cent inexact. Bytes are those of the system calls, or opens times the mean size where
    that is less. Where files are opened and next to nothing is read by calls they are mapped
    (`numpy.memmap`), and what is taken of them is not known.
    """
    event = next(reversed(list(observed.of("reads"))), None)
    if event is None:
        return tuple(found)
    since, until = event["since"], event["t"]
    taken_from = (step for step in observed.of("step") if not step["p"].startswith("resident"))
    real = sum(since <= step["t"] <= until for step in taken_from) * observed.steps_per_call
    drains = [drain for drain in observed.of("input") if since <= drain["t"] <= until]
    batches = sum(drain["marks"][-1][1] for drain in drains if drain["marks"])
    steps = float(real + batches / loop(observed).batches_per_step)
    if not steps:
        return tuple(found)
    chain = () if isinstance(stages, Missing) else stages
    of_graph = next((stage.elements_per_step for stage in chain if READ_OP in stage.ops), None)
    files, opened = sum(volume.files for volume in found), sum(volume.opens for volume in found)
    told = []
    for volume in found:
        share = (volume.opens / opened if opened else volume.files / max(1, files)) / steps
        opens = share * event["opens"] if event["opens"] else of_graph
        by_calls = share * event["read_bytes"] if event["counted"] else None
        mapped = by_calls is not None and by_calls < LEAST_BYTES and not event.get("workers")
        by_sizes = opens * volume.mean_bytes if opens and volume.mean_bytes and not mapped else None
        known = [value for value in (by_calls, by_sizes) if value and value >= LEAST_BYTES]
        taken, needed = min(known, default=None), None
        if taken is not None and isinstance(resident, Measure) and resident.seconds > 0:
            needed = taken / resident.seconds
        per_step = replace(
            volume,
            opens_per_step=opens,
            bytes_per_step=taken,
            stored_per_step=share * event["stored_bytes"] if event["counted"] else None,
            needed_bytes_s=needed,
        )
        told.append(per_step)
    return tuple(told)
