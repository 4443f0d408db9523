"""Everything found, put into the one value that reporters see."""

from __future__ import annotations

import datetime
import time
from dataclasses import replace

import trainperf
from trainperf.evidence.events import NoLoop, Parts
from trainperf.model import (
    FORMAT_VERSION,
    Cost,
    Device,
    Diagnosis,
    Ending,
    Evidence,
    Finding,
    Framework,
    Loop,
    Machine,
    Measure,
    Missing,
    NotTaken,
    Patch,
    Recording,
    Stack,
    Times,
    Verdict,
)
from trainperf.model.words import seconds, signal_name
from trainperf.report.assemble.notes import framework_seen, last_place, not_measured, notes, way_out

_MEANINGS = {
    "SIGABRT": "it gave itself up: a failed assertion, or an exception of C++ that nobody caught",
    "SIGBUS": "memory that is not there: `/dev/shm` or a mapped file may be cut short",
    "SIGFPE": "a division by zero of whole numbers, in compiled code",
    "SIGILL": "an instruction that this processor does not have",
    "SIGKILL": "as the kernel does where memory runs out, and who limits a job",
    "SIGSEGV": "a segmentation fault, in compiled code",
    "SIGTERM": "somebody asked it to end",
    "SIGXCPU": "its limit of processor time is used up",
}

FAILED = (Ending.FAILED, Ending.SIGNALLED)


def assemble(
    recording: Recording,
    evidence: Evidence,
    findings: tuple[Finding, ...],
    verdict: Verdict,
    patch: Patch | None,
) -> Diagnosis:
    """Put what was found into the one value that reporters see."""
    parts = Parts()
    diagnosis = Diagnosis(
        format_version=FORMAT_VERSION,
        trainperf_version=trainperf.__version__,
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        script=recording.run.label,
        command=recording.run.command,
        cwd=recording.run.cwd,
        ending=recording.ending,
        ended_by=parts.read_or("", "how the script ended", _ended_by, recording),
        verdict=verdict,
        evidence=evidence,
        cost=parts.read_or(None, "the cost", cost, evidence),
        findings=findings,
        patch=patch,
        not_measured=parts.read_or((), "what was not measured", not_measured, recording, evidence),
        notes=parts.read_or((), "the notes", notes, recording, evidence),
        seconds=recording.ended - recording.started,
        output_tail=recording.output_tail if recording.ending.badly else "",
    )
    return replace(diagnosis, notes=(*diagnosis.notes, *evidence.unread, *parts.faults))


def without_loop(recording: Recording, machine: Machine, error: NoLoop, began: float) -> Diagnosis:
    """The diagnosis of a run in which no training loop was seen."""
    parts, failed = Parts(), recording.ending in FAILED
    text, hint, reason = f"{error}.", error.hint, str(error)
    if failed:
        text, hint = "The script ended before it trained.", ""
        reason = "the script ended before a training loop began"
    elif recording.ending is Ending.OUT_OF_BUDGET:
        budget_s = recording.run.budget_s
        text = f"The budget of {budget_s:.0f} s was over before the first step of a training."
        hint = "A longer --budget gives it the time, such as --budget 15min."
    last = parts.read_or("", "where the script was last", last_place, recording)
    way = parts.read_or(None, "a way out", way_out, recording)
    text = " ".join(filter(None, (text, last, way and f"{way}.")))
    framework = parts.read_or(Framework("", ""), "the framework", framework_seen, recording)
    untimed = Missing(str(error))
    times = Times(untimed, untimed, untimed, untimed)
    evidence = Evidence(framework, Device("", "", 0), machine, Loop(""), times)
    verdict = Verdict("none", text[0].upper() + text[1:])
    diagnosis = assemble(recording, evidence, (), verdict, None)
    told = (note for note in diagnosis.notes if note not in (last, way))
    return replace(
        diagnosis,
        not_measured=(NotTaken("the training step", reason),),
        notes=(*error.seen, *told, *filter(None, [hint]), *parts.faults),
        seconds=time.monotonic() - began,
        output_tail=recording.output_tail,
    )


def _ended_by(recording: Recording) -> str:
    """Return the signal that killed the script, what that means, and when it came; "" if none."""
    status = recording.exit_status
    if recording.ending is not Ending.SIGNALLED or status is None:
        return ""
    name = signal_name(status)
    meaning = _MEANINGS.get(name, "")
    counted = dict(recording.container.memory_events) if recording.container is not None else {}
    if name == "SIGKILL" and counted.get("oom_kill"):
        meaning = "by the kernel, as the memory of its container ran out"
    after = f"{seconds(recording.ended - recording.started)} after its start"
    return ", ".join(filter(None, (name, meaning, after)))


def cost(evidence: Evidence) -> Cost | None:
    """The cost of a million samples and of an epoch now; None where no price is known.

    US dollars: the price of an hour for each host, times hosts, times measured time. What
    passes between epochs is in both, where the length of an epoch is known.
    """
    machine, real, loop = evidence.machine, evidence.times.real_, evidence.loop
    if machine.price is None or not isinstance(real, Measure) or real.seconds <= 0:
        return None
    instance, job = machine.instance, evidence.parallel_
    hosts = max(1, instance.hosts if instance else 1, job.hosts if job else 1)
    per_s, epoch_s, step_s = machine.price.per_hour * hosts / 3600.0, None, real.seconds
    if loop.epoch_steps:
        between = evidence.between_epochs
        epoch_s = loop.epoch_steps * step_s + (between.seconds if between else 0.0)
        step_s = epoch_s / loop.epoch_steps
    return Cost(
        price=machine.price,
        hosts=hosts,
        million_samples_before=1e6 / loop.batch_size * step_s * per_s if loop.batch_size else None,
        epoch_before=None if epoch_s is None else epoch_s * per_s,
    )


def cost_after(before: Cost | None, stack: Stack | None) -> Cost | None:
    """The cost with what the kept fixes of `stack` make of it, by their measured speed-up.

    By that of an epoch where the stack has one: what passes between epochs does not get
    shorter with its steps.
    """
    if before is None or stack is None or not stack.fixes:
        return before
    million, epoch = before.million_samples_before, before.epoch_before
    share = None
    if stack.before_epoch_s and stack.after_epoch_s is not None:
        share = stack.after_epoch_s / stack.before_epoch_s
    return replace(
        before,
        million_samples_after=None if million is None else million * (share or 1 / stack.speedup),
        epoch_after=None if epoch is None or share is None else epoch * share,
    )
