"""Turn a recording into evidence. Pure: values in, values out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from trainperf.evidence import command
from trainperf.evidence.devices import device, of_others
from trainperf.evidence.events import Observed, choose
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
from trainperf.model import Event, Evidence, Machine, Missing, Rank, Recording
from trainperf.run.event_files import training


def read(recording: Recording, machine: Machine, ranks: Sequence[Rank] | None = None) -> Evidence:
    """Read the evidence off a recording.

    `ranks` are those of the whole job where each has a recording of its own, None where
    all are in this one. Raises `NoLoop` if no training loop was seen in it.
    """
    observed = choose(recording)
    probe_values = probes(observed)
    taken = times(observed, recording.samples)
    on = device(observed, machine)
    if observed.place is not None:
        on = replace(on, of_others=of_others(observed, recording.events.values(), machine))
    found = stages(observed, taken.input_)
    if ranks is None:
        job = parallel(recording, observed, machine)
    else:
        job = joined(on_gpus(ranks, machine), observed, recording.samples)
    job = with_network_link(with_gpu_link(job, recording.gpu_link), machine)
    own = whole_job(loop(observed), job)
    return Evidence(
        framework=framework(observed),
        device=on,
        machine=machine,
        loop=own,
        times=taken,
        stages_=found,
        stage_input_s=_pipeline(found),
        callbacks=callbacks(observed),
        functions=functions(observed),
        own_work=own_work(observed),
        seen=seen(observed),
        models=models(observed),
        step_function=step_function(observed),
        retracing=retracing(observed),
        padding=padding(observed),
        probes=probe_values,
        between_epochs=between_epochs(observed),
        outside_=outside(observed, taken.real_),
        around=around(observed),
        startup=startup(observed),
        length_=length(observed, own),
        over_time_=over_time(observed, recording.samples),
        use=usage(recording, observed, on),
        facts=_facts(observed.process)
        | of_all_ranks(recording)
        | {
            "command_words": command.words(recording),
            "command_reaches_script": command.reaches_script(recording, observed),
            "strategy": strategy(observed),
        },
        torch_=torch(observed, taken.real_, on.kind == "GPU"),
        parallel_=job,
        container=recording.container,
        reads=file_reads(recording.reads, observed, taken.resident_, found),
        objects=recording.objects,
        channels=recording.channels,
    )


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
