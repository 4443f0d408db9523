"""Turn a recording into evidence. Pure: values in, values out."""

from __future__ import annotations

from collections.abc import Sequence

from trainperf.evidence.events import Observed, choose
from trainperf.evidence.facts import (
    callbacks,
    device,
    framework,
    loop,
    models,
    padding,
    retracing,
    step_function,
)
from trainperf.evidence.parallel import joined, parallel, whole_job
from trainperf.evidence.pipeline import stages
from trainperf.evidence.stacks import functions
from trainperf.evidence.timing import between_epochs, probes, startup, times
from trainperf.evidence.torch import torch
from trainperf.evidence.usage import usage
from trainperf.model import Evidence, Machine, Missing, Rank, Recording


def read(recording: Recording, machine: Machine, ranks: Sequence[Rank] | None = None) -> Evidence:
    """Read the evidence off a recording.

    `ranks` are those of the whole job where each has a recording of its own, None where
    all are in this one. Raises `NoLoop` if no training loop was seen in it.
    """
    observed = choose(recording)
    probe_values = probes(observed)
    taken = times(observed)
    found = stages(observed, taken.input_)
    if ranks is None:
        job = parallel(recording, observed, machine)
    else:
        job = joined(ranks, observed, recording.samples)
    return Evidence(
        framework=framework(observed),
        device=device(observed, machine),
        machine=machine,
        loop=whole_job(loop(observed), job),
        times=taken,
        stages_=found,
        stage_input_s=_pipeline(found),
        callbacks=callbacks(observed),
        functions=functions(observed),
        models=models(observed),
        step_function=step_function(observed),
        retracing=retracing(observed),
        padding=padding(observed),
        probes=probe_values,
        between_epochs=between_epochs(observed),
        startup=startup(observed),
        use=usage(recording, observed),
        facts={event["k"]: event["v"] for event in observed.process if event["e"] == "fact"},
        torch_=torch(observed),
        parallel_=job,
    )


def _pipeline(found: object) -> float | None:
    if isinstance(found, Missing) or not isinstance(found, tuple) or not found:
        return None
    last = found[-1].cumulative_
    return None if isinstance(last, Missing) else float(last)


__all__ = ["Observed", "choose", "read"]
