"""Everything found, put into the one value that reporters see."""

from __future__ import annotations

import datetime
import time
from dataclasses import replace

import trainperf
from trainperf.evidence.events import NoLoop, Parts
from trainperf.model import (
    FORMAT_VERSION,
    Device,
    Diagnosis,
    Ending,
    Evidence,
    Finding,
    Framework,
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
    parts = Parts()
    diagnosis = Diagnosis(
        format_version=FORMAT_VERSION,
        trainperf_version=trainperf.__version__,
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        script=run.label,
        command=run.command,
        cwd=run.cwd,
        ending=recording.ending,
        ended_by=parts.read_or("", "how the script ended", ended_by, recording),
        framework=evidence.framework,
        device=evidence.device,
        machine=evidence.machine,
        loop=evidence.loop,
        verdict=verdict,
        times=parts.read_or(NO_TIMES, "the figures of a step", times, evidence),
        startup=evidence.startup,
        between_epochs=evidence.between_epochs,
        outside=None if isinstance(evidence.outside_, Missing) else evidence.outside_,
        over_time=evidence.over_time,
        stages=parts.read_or((), "the input's stages", stages, evidence),
        step_parts=parts.read_or((), "the step's parts", step_parts, evidence),
        sync_points=parts.read_or((), "the places that wait", sync_points, evidence),
        log_calls=parts.read_or((), "the logging", log_calls, evidence),
        device_memory=parts.read_or(None, "the device's memory", device_memory, evidence),
        operators=parts.read_or((), "the operators", operators, evidence),
        parallel=parts.read_or(None, "the job", parallel, evidence),
        container=evidence.container,
        reads=evidence.reads,
        objects=evidence.objects,
        channels=evidence.channels,
        cost=parts.read_or(None, "the cost", cost, evidence),
        timeline=parts.read_or(None, "the timeline", timeline, recording, evidence.machine.cores),
        kernels=parts.read_or(None, "the kernels", kernels, evidence),
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
        not_measured=parts.read_or((), "what was not measured", not_measured, recording, evidence),
        notes=parts.read_or((), "the notes", notes, recording, evidence),
        seconds=recording.ended - recording.started,
        output_tail=recording.output_tail if recording.ending in SHOWN else "",
    )
    return replace(diagnosis, notes=(*diagnosis.notes, *evidence.unread, *parts.faults))


NO_TIMES = ReportedTimes(None, None, None, None, 0, None, None, None)

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
    parts = Parts()
    last = parts.read_or("", "where the script was last", last_place, recording)
    text = " ".join(one for one in (text, last) if one)
    known = parts.read_or(None, "a way out", way_out, recording)
    if known is not None:
        text, hint = f"The script ended before it trained. {known}.", ""
    told = parts.read_or((), "the notes of the run", run_notes, recording)
    return Diagnosis(
        format_version=FORMAT_VERSION,
        trainperf_version=trainperf.__version__,
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        script=run.label,
        command=run.command,
        cwd=run.cwd,
        ending=recording.ending,
        ended_by=parts.read_or("", "how the script ended", ended_by, recording),
        framework=parts.read_or(Framework("", ""), "the framework", framework_seen, recording),
        device=Device("", "", 0),
        machine=machine,
        loop=None,
        verdict=Verdict("none", text[0].upper() + text[1:]),
        times=NO_TIMES,
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
            *(one for one in told if one != known),
            *((hint,) if hint else ()),
            *parts.faults,
        ),
        seconds=time.monotonic() - began,
        output_tail=recording.output_tail,
    )
