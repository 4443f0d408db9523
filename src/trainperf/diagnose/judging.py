"""What a recorded run says: evidence, findings, trials, diagnosis."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

from trainperf import verdict as rank
from trainperf.diagnose import Request
from trainperf.diagnose.fewer_devices import with_fewer_devices
from trainperf.evidence import read
from trainperf.evidence.events import NoLoop, Parts
from trainperf.fixes import Fix, by_id, concern
from trainperf.fixes.findings import findings_to_try, shown_findings, with_free_input
from trainperf.machine import after_run
from trainperf.machine.price import with_price
from trainperf.model import (
    Diagnosis,
    Ending,
    Event,
    Evidence,
    Finding,
    Machine,
    Measure,
    Outcome,
    Recording,
    Run,
    Training,
    Trial,
    Verdict,
)
from trainperf.patch.patch import Edits, answered
from trainperf.report import ignored
from trainperf.report.assemble.diagnosis import assemble, cost_after, without_loop
from trainperf.report.assemble.notes import experiment_changes
from trainperf.rewrite.script import Script, default_reader
from trainperf.run.spawn import Interrupted
from trainperf.samplers.contention import busy_cores
from trainperf.trial import Freed, Subject, Tried, run_once, try_fixes
from trainperf.trial.budget import Clock, Costs, costs_of, steps_of_a_pass
from trainperf.trial.repeat import SLACK, WHOLE_RUNS_S
from trainperf.whole_training import Found, confirm, ledger, reserved_s

LOOK_S = 0.25
"""So long the machine is looked at before the trials: how many cores do neighbours take?"""


@dataclass(frozen=True)
class Observed:
    """The observed run of a request, and what is to be known of the diagnosis meanwhile."""

    request: Request
    recording: Recording
    evidence: Evidence
    began: float
    interrupted: Interrupted
    on_event: Callable[[Event], None]

    @property
    def deadline(self) -> float:
        """When the budget is over, on `time.monotonic()`."""
        return self.began + self.request.run.budget_s

    def subject(self, found: Found, deadline: float | None = None, **fields: Any) -> Subject:
        """The subject of trials of what was found, with what else they are to know."""
        request = self.request
        return Subject(
            recording=self.recording,
            evidence=self.evidence,
            findings=found.findings,
            machine=request.inspect(),
            edits=found.edits,
            folder=request.folder,
            began=self.began,
            deadline=self.deadline if deadline is None else deadline,
            sequential=request.sequential,
            allow_semantic=request.allow_semantic,
            neighbours_cores=busy_cores(LOOK_S),
            **fields,
        )


def judged(
    request: Request,
    recording: Recording,
    machine: Machine,
    began: float,
    interrupted: Interrupted,
    on_event: Callable[[Event], None],
) -> tuple[Diagnosis, Recording]:
    """The diagnosis of the observed run, with what trials prove where `request` asks for them.

    And the recording, with what was looked up of its storage.
    """
    parts = Parts()
    try:
        if recording.ending.complete:
            machine = parts.read_or(machine, "the price", with_price, machine)
        recording = parts.read_or(
            recording, "storage", after_run.probe_storage, recording, machine, interrupted
        )
        evidence = read(recording, machine)
    except NoLoop as error:
        return without_loop(recording, machine, error, began), recording
    if request.trials:
        folder = request.folder
        fewer = partial(
            with_fewer_devices, recording, evidence, folder, began, interrupted, on_event
        )
        evidence = parts.read_or(evidence, "runs on fewer devices", fewer)
    evidence = replace(evidence, unread=(*parts.faults, *evidence.unread))
    observed = Observed(request, recording, evidence, began, interrupted, on_event)
    edits = cache(edits_in)  # each is made once, from the first verdict to the last run
    first = first_verdict(request, recording, evidence, edits)
    diagnosis = first
    if request.trials and recording.ending.complete:
        diagnosis = _tried(observed, first, edits)
    return replace(diagnosis, seconds=time.monotonic() - began), recording


def _tried(observed: Observed, first: Diagnosis, edits: Callable[[str], Edits]) -> Diagnosis:
    """The first verdict with what trials on the script prove, and the whole training with that."""
    request, evidence, before = observed.request, observed.evidence, first.training
    known = {finding.id for finding in first.findings}
    hidden = _untold(request, findings_to_try(evidence, known, _noted))
    findings = (*first.findings, *hidden)
    if request.only:
        findings = tuple(finding for finding in findings if finding.id in request.only)
    if not findings:
        return first
    free = None if request.only else _freed(request, evidence, findings)
    ids = {finding.id for finding in findings}
    behind = tuple(finding for finding in free.findings if finding.id not in ids) if free else ()
    found = Found(findings, edits(patch_root(request.run, (*findings, *behind))))
    deadline = observed.deadline
    if before is not None:  # time is left for what only whole runs show
        real, steps = evidence.times.real_, steps_of_a_pass(evidence)
        epoch_s = steps * real.seconds if steps and isinstance(real, Measure) else None
        deadline -= reserved_s(found, before, deadline - time.monotonic(), epoch_s)
    subject = observed.subject(found, deadline, training=before, freed=free)
    costs = costs_of(observed.recording, evidence, subject.machine, 1)
    if isinstance(costs, Costs) and any(finding.in_place for finding in findings):
        once_s = SLACK * (costs.start_s + evidence.outside.seconds)
        kept_s = min(once_s, (deadline - time.monotonic()) / 2)
        subject = replace(subject, deadline=deadline - kept_s)
    tried = try_fixes(subject, observed.interrupted, observed.on_event)
    kept = {trial.fix for trial in tried.trials if trial.kept}
    found = replace(
        found, findings=(*findings, *(finding for finding in behind if finding.id in kept))
    )
    recording, full_s = observed.recording, request.full_run_s
    clock = Clock(max(observed.deadline, time.monotonic() + full_s), observed.interrupted)
    over = recording.ending is Ending.FINISHED
    tried, whole = confirm(
        tried,
        found,
        before,
        request.run,
        request.folder,
        clock,
        observed.on_event,
        max(WHOLE_RUNS_S, full_s),
        recording.ended - recording.started if over else None,
        partial(run_once, subject, costs, clock, observed.on_event),
    )
    proven = _proven(first, evidence, (*hidden, *behind), tried, found.edits)
    findings = tuple(of_second_round(finding, tried.trials, free) for finding in proven.findings)
    return replace(proven, findings=findings, training=whole)


def of_second_round(finding: Finding, trials: Iterable[Trial], free: Freed | None) -> Finding:
    """A finding with the bound of the round that it was tried in: on top of a repaired input."""
    on_top = any(trial.fix == finding.id and trial.on_top for trial in trials)
    priced = next((one for one in free.findings if one.id == finding.id), None) if free else None
    if not on_top or priced is None:
        return finding
    return replace(
        finding,
        text=priced.text,
        bound=priced.bound,
        at_best=priced.at_best,
        bound_basis=priced.bound_basis,
    )


def _noted(fix: Fix, error: Exception) -> None:
    """What fails here has failed as the findings were told, and was noted."""


def edits_in(root: str) -> Edits:
    """The edits of findings, in the folder that their patch is relative to."""
    return Edits(root, by_id())


def first_verdict(
    request: Request,
    recording: Recording,
    evidence: Evidence,
    edits: Callable[[str], Edits] = edits_in,
) -> Diagnosis:
    """The diagnosis of one observed run: findings with upper bounds, none of them tried."""
    faults: list[str] = []
    parts, cwd = Parts(), request.run.cwd
    found = tuple(
        one
        for one in shown_findings(
            evidence, lambda fix, error: faults.append(f"{fix.id}: {error!r}")
        )
        if one.id not in request.ignore
    )
    asked = ignored.Suppressed(found, (), ())
    asked = parts.read_or(
        asked, "what comments ignore", ignored.suppressed, found, default_reader, cwd
    )
    found = parts.read_or(asked.kept, "your source", as_written, asked.kept, cwd)
    findings = parts.read_or(found, "the order of the findings", rank.ranked, found, evidence)
    root = parts.read_or(cwd, "the folder of the patch", patch_root, request.run, findings)
    made = edits(root)
    findings = parts.read_or(findings, "their lines", pasteable, findings, made)
    verdict = parts.read_or(UNTOLD, "the verdict", rank.verdict, evidence, findings)
    patch = parts.read_or(None, "the patch", lambda: made.write(findings).patch)
    diagnosis = assemble(recording, evidence, findings, verdict, patch)
    return replace(
        diagnosis,
        training=parts.read_or(Training(None), "the whole training", ledger, evidence),
        ignored=asked.ignored,
        notes=(
            *diagnosis.notes,
            *asked.notes,
            *(f"a check failed: {fault}" for fault in faults),
            *parts.faults,
        ),
    )


UNTOLD = Verdict("none", "What holds the training up cannot be told.", grade="not examined")


def as_written(findings: Iterable[Finding], cwd: str) -> tuple[Finding, ...]:
    """Return the findings, each after its fix's look at the source."""
    return tuple(by_id()[one.id].as_written(Script(cwd), one) for one in findings)


def _freed(request: Request, evidence: Evidence, found: Sequence[Finding]) -> Freed | None:
    """What is to be tried on top of a repair of the input, None where steps hardly wait for it."""
    free = with_free_input(evidence)
    if free is None:
        return None
    asked = [
        replace(one, bound_basis=f"{one.bound_basis}; once the input is free")
        for one in _untold(request, findings_to_try(free, (), _noted))
        if one.category != "input" and one.slices != "none"
    ]
    ids = {finding.id for finding in asked}
    others = (one for one in found if one.category != "input" and one.id not in ids)
    return Freed(free, (*asked, *others))


def _untold(request: Request, asked: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Findings to be tried that the times and probes cannot prove, what may give most first."""
    kept = ignored.suppressed(asked, default_reader).kept
    order = sorted(kept, key=lambda one: -(one.most or by_id()[one.id].usual))
    return as_written((one for one in order if one.id not in request.ignore), request.run.cwd)


def _proven(
    first: Diagnosis,
    evidence: Evidence,
    hidden: tuple[Finding, ...],
    tried: Tried,
    edits: Edits,
) -> Diagnosis:
    """The first verdict with what the trials gave: only what was proven is patched."""
    kept = {trial.fix for trial in tried.trials if trial.kept}
    told = _answered(first.findings, evidence, tried)
    found = (
        *(finding for finding in first.findings if finding not in told),
        *(finding for finding in hidden if finding.id in kept),
    )
    shown = pasteable((tried.choices.get(one.id, one) for one in found), edits)
    apart = {one.fix for one, _ in tried.apart}
    others = (finding for finding in (*first.findings, *hidden) if finding.id in apart)
    changing = pasteable((tried.choices.get(one.id, one) for one in others), edits)
    patch = first.patch
    if tried.patch is not None:
        before = patch.skipped if patch is not None else ()
        gone = {*tried.patch.findings, *(finding.id for finding in told)}
        left_out = (one for one in before if one.what not in gone)
        patch = replace(tried.patch, skipped=(*tried.patch.skipped, *left_out))
    parts = Parts()
    findings = parts.read_or(
        shown, "the order after the trials", rank.after_trials, shown, tried.trials, evidence
    )
    judged_by = evidence, findings, tried.trials, tried.stack
    answer = parts.read_or(first.verdict, "the verdict", rank.verdict_after, *judged_by)
    return replace(
        first,
        verdict=rank.held_by_spinning(answer, evidence, tried.trying, tried.step_s),
        findings=findings,
        trials=tried.trials,
        trying=tried.trying,
        stack=tried.stack,
        cost=cost_after(first.cost, tried.stack),
        control=tried.control,
        overhead=tried.overhead,
        patch=patch,
        experiment_changes=experiment_changes(
            tried.apart,
            {one.id: one for one in changing},
            tried.trials,
            (tried.step_s, tried.step_on_top_s),
            evidence.loop,
        ),
        notes=(
            *first.notes,
            *rank.spinning(evidence, tried.trying, tried.step_s),
            *map(LASTS.format, tried.passing),
            *(
                f"{finding.id} is not listed: the patch edits the code that it told of"
                for finding in told
            ),
            *parts.faults,
        ),
    )


LASTS = (
    "the gain of {} is that of the steps that were compared; "
    "it lasts as long as what it mends goes on"
)
OWN_CODE = ("own work", "outside")
"""What findings concern that tell only what some lines of the user's take: an edit answers them."""


def _answered(findings: Iterable[Finding], evidence: Evidence, tried: Tried) -> tuple[Finding, ...]:
    """The findings on the user's own code that nothing was tried of, and that the patch edits."""
    if tried.patch is None:
        return ()
    came = {trial.fix for trial in tried.trials if trial.outcome is not Outcome.NOT_TRIED}
    own = (
        finding for finding in findings if concern(finding) in OWN_CODE and finding.id not in came
    )
    return answered(own, tried.sources, evidence.loop.where, default_reader)


def pasteable(findings: Iterable[Finding], edits: Edits) -> tuple[Finding, ...]:
    """The findings, each with the user's own lines as its edit leaves them, if it has one."""
    written = ((finding, edits.lines(finding)) for finding in findings)
    return tuple(replace(one, snippet=lines) if lines else one for one, lines in written)


def patch_root(run: Run, findings: tuple[Finding, ...]) -> str:
    """The folder that the patch is relative to: the working directory if it holds all.

    Otherwise the deepest folder that holds every file to be edited.
    """
    folders = {os.path.dirname(site.file) for finding in findings for site in finding.where}
    here = os.path.abspath(run.cwd)
    if all(os.path.commonpath((here, folder)) == here for folder in folders):
        return here
    return os.path.commonpath(sorted(folders))
