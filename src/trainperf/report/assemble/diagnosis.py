"""Everything found, put into the one value that reporters see."""

from __future__ import annotations

import datetime
import time

import trainperf
from trainperf.evidence.events import NoLoop
from trainperf.model import (
    FORMAT_VERSION,
    Device,
    Diagnosis,
    Ending,
    Evidence,
    Finding,
    Machine,
    Missing,
    Overhead,
    Patch,
    Recording,
    ReportedTimes,
    Verdict,
)
from trainperf.report.assemble.absent import not_measured, nothing_measured
from trainperf.report.assemble.cost import cost
from trainperf.report.assemble.last_place import last_place
from trainperf.report.assemble.no_loop import way_out
from trainperf.report.assemble.notes import notes, run_notes
from trainperf.report.assemble.parallel import parallel
from trainperf.report.assemble.parts import (
    device_memory,
    kernels,
    log_calls,
    operators,
    step_parts,
    sync_points,
)
from trainperf.report.assemble.seen import framework_seen
from trainperf.report.assemble.signals import ended_by
from trainperf.report.assemble.stages import stages
from trainperf.report.assemble.timeline import timeline
from trainperf.report.assemble.times import times


def assemble(
    recording: Recording,
    evidence: Evidence,
    findings: tuple[Finding, ...],
    verdict: Verdict,
    patch: Patch | None,
) -> Diagnosis:
    """Put what was found into the one value that reporters see."""
    run = recording.run
    return Diagnosis(
        format_version=FORMAT_VERSION,
        trainperf_version=trainperf.__version__,
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        script=run.label,
        command=run.command,
        cwd=run.cwd,
        ending=recording.ending,
        ended_by=ended_by(recording),
        framework=evidence.framework,
        device=evidence.device,
        machine=evidence.machine,
        loop=evidence.loop,
        verdict=verdict,
        times=times(evidence),
        startup=evidence.startup,
        between_epochs=evidence.between_epochs,
        outside=None if isinstance(evidence.outside_, Missing) else evidence.outside_,
        over_time=None if isinstance(evidence.over_time_, Missing) else evidence.over_time_,
        stages=stages(evidence),
        step_parts=step_parts(evidence),
        sync_points=sync_points(evidence),
        log_calls=log_calls(evidence),
        device_memory=device_memory(evidence),
        operators=operators(evidence),
        parallel=parallel(evidence),
        container=evidence.container,
        reads=evidence.reads,
        objects=evidence.objects,
        channels=evidence.channels,
        cost=cost(evidence),
        timeline=timeline(recording, evidence.machine.cores),
        kernels=kernels(evidence),
        callbacks=evidence.callbacks,
        functions=evidence.functions,
        utilization=evidence.use,
        findings=findings,
        practices=(),
        trials=(),
        trying=None,
        stack=None,
        control=None,
        overhead=Overhead(None, None, recording.ended - recording.started, 0.0),
        patch=patch,
        not_measured=not_measured(recording, evidence),
        notes=notes(recording, evidence),
        seconds=recording.ended - recording.started,
        output_tail=recording.output_tail if recording.ending in SHOWN else "",
    )


SHOWN = (Ending.FAILED, Ending.SIGNALLED, Ending.STALLED)
"""Endings after which the reader wants to see what the script printed last."""


def without_loop(recording: Recording, machine: Machine, error: NoLoop, began: float) -> Diagnosis:
    """The diagnosis of a run in which no training loop was seen."""
    run = recording.run
    failed = recording.ending in (Ending.FAILED, Ending.SIGNALLED)
    text, hint = f"{error}.", error.hint
    if failed:
        text, hint = "The script ended before it trained.", ""
    elif recording.ending is Ending.OUT_OF_BUDGET:
        text = f"The budget of {run.budget_s:.0f} s was over before the first step of a training."
        hint = "A longer --budget gives it the time, such as --budget 15min."
    text = " ".join(one for one in (text, last_place(recording)) if one)
    known = way_out(recording)
    if known is not None:
        text, hint = f"The script ended before it trained. {known}.", ""
    return Diagnosis(
        format_version=FORMAT_VERSION,
        trainperf_version=trainperf.__version__,
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        script=run.label,
        command=run.command,
        cwd=run.cwd,
        ending=recording.ending,
        ended_by=ended_by(recording),
        framework=framework_seen(recording),
        device=Device("", "", 0),
        machine=machine,
        loop=None,
        verdict=Verdict("none", text[0].upper() + text[1:]),
        times=ReportedTimes(None, None, None, None, 0, None, None, None),
        startup=None,
        between_epochs=None,
        stages=(),
        callbacks=(),
        functions=(),
        utilization=(),
        findings=(),
        practices=(),
        trials=(),
        trying=None,
        stack=None,
        control=None,
        overhead=None,
        patch=None,
        not_measured=nothing_measured(recording, str(error)),
        notes=(
            *error.seen,
            *(one for one in run_notes(recording) if one != known),
            *((hint,) if hint else ()),
        ),
        seconds=time.monotonic() - began,
        output_tail=recording.output_tail,
    )
