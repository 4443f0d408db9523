"""Anybody's change proved by experiment: the script as it is, itself as control, and the change."""

from __future__ import annotations

import os
import shutil
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from trainperf.changes import Change, Repository, changed_run, laid_over
from trainperf.diagnose import Request
from trainperf.diagnose.judging import Observed, patch_root
from trainperf.errors import NothingToCompare, NotMeasured, TrainperfError
from trainperf.evidence import read
from trainperf.evidence.events import NoLoop
from trainperf.fixes import by_id
from trainperf.fixes.findings import Failed, findings_to_try, shown_findings
from trainperf.machine.price import with_price
from trainperf.model import (
    Diagnosis,
    Ending,
    Equivalence,
    Event,
    Evidence,
    Machine,
    Outcome,
    Proof,
    Recording,
    Run,
    Stack,
    Training,
    Trial,
    Verdict,
)
from trainperf.patch.patch import Edits
from trainperf.proof.answers import (
    DIFFERENCE,
    checked,
    judged,
    turned,
    verdict_of,
)
from trainperf.recording.cells import is_configuration
from trainperf.report.assemble.diagnosis import assemble, cost_after, without_loop
from trainperf.rewrite.script import default_reader
from trainperf.run.launch import launch
from trainperf.run.spawn import Interrupted, interruptible
from trainperf.trial import Tried, planning, try_fixes
from trainperf.trial.budget import Clock, telling
from trainperf.trial.candidates import Candidate
from trainperf.trial.legs.faults import why
from trainperf.trial.outcome import FOR_LIFE
from trainperf.whole_training import Found, by_runs, ledger, plain_runs, with_changes
from trainperf.whole_training.ledger import started_in
from trainperf.whole_training.plain_runs import PlainRuns, Script, Version

SCRIPT_S = 4.0
CHANGE_S = 2.5
"""Seconds for timing the script before the trials, and for a look at it with a change."""
NO_CHANGE = "trainperf try --help says what can be a change"

OnEvent = Callable[[Event], None]


@dataclass(frozen=True)
class Looked:
    """The script with a change, as a look at it was: what it is, or why it cannot be tried.

    `failed` says that it is the script that failed with the change. `whole_s` are its seconds
    where it came to its end while it was looked at.
    """

    title: str
    change: Change
    run: Run
    evidence: Evidence | None = None
    reason: str = ""
    failed: bool = False
    whole_s: float | None = None
    notes: tuple[str, ...] = ()
    output_tail: str = ""

    @property
    def batch(self) -> float | None:
        """The samples of a step with the change, None if not seen."""
        return None if self.evidence is None else self.evidence.loop.batch_size


@dataclass(frozen=True)
class Experiment:
    """The script, its changes, and the trials of them; by whole `runs` where steps could not be.

    Each change has runs of the script as it is of its own.
    """

    recording: Recording
    evidence: Evidence
    looked: tuple[Looked, ...]
    tried: Tried
    began: float
    allow_semantic: bool
    runs: Mapping[str, PlainRuns] = field(default_factory=dict)

    @property
    def as_it_is(self) -> list[float]:
        """Seconds of all plain runs of the script as it is."""
        runs = (one for one in self.runs.values() if one.seconds)
        return [s for run in runs for s in run.seconds[0][: 2 - run.once]]


def try_changes(
    request: Request, on_event: OnEvent, changes: Sequence[Change], at_least: float
) -> tuple[Diagnosis, Recording]:
    """Prove `changes` on the script of `request`, one by one and those that pay together.

    A change is proven that makes the script `at_least` so many times as fast. Raises
    `TrainperfError` where a change cannot be made.
    """
    made = experiment(request, changes, DIFFERENCE, on_event)
    if not isinstance(made, Experiment):
        return made
    proofs = proofs_of(made, at_least)
    diagnosis = _assembled(made, verdict_of(proofs), proofs)
    whole = _whole(made, proofs)
    cost = cost_after(diagnosis.cost, made.tried.stack)
    return replace(diagnosis, training=whole, cost=cost, proofs=proofs), made.recording


def compare_with(
    request: Request, on_event: OnEvent, rev: str, most: float, strict: bool
) -> tuple[Diagnosis, Recording]:
    """Check the script of `request` against itself in a revision, "" for where its branch began.

    Both run in one job, in turns. It fails where a step surely takes `most` longer, as a share.
    The answer is the diagnosis' `check`; there is none where nothing could be compared.
    """
    repository = Repository.around(request.run.cwd)
    commit = repository.commit(rev or repository.fork())
    if not repository.contents(commit):
        raise NothingToCompare(f"check passed: no file differs from {rev or commit[:10]}")
    change = Change(name=f"{rev} ({commit[:10]})" if rev else commit[:10], rev=commit)
    made = experiment(request, [change], most, on_event)
    if not isinstance(made, Experiment):
        return made
    (looked,) = made.looked
    (before,) = proofs_of(made, 1.0)
    whole_s = statistics.fmean(made.as_it_is) if made.as_it_is else None
    check = checked(before, made.tried, most, strict, change.name, whole_s)
    check = replace(check, baseline=replace(check.baseline, sha256=commit))
    tree = turned(before, check.text)
    made = replace(made, tried=replace(made.tried, trials=(), stack=None))
    diagnosis = _assembled(made, check.text, (tree,))
    failed = f"at {change.name} the script {looked.reason}" if looked.failed else ""
    notes = (*diagnosis.notes, *([failed] if failed else []))
    return replace(diagnosis, check=check, proofs=(tree,), notes=notes), made.recording


# ---------------------------------------------------------------------------- the experiment


def experiment(
    request: Request, changes: Sequence[Change], difference: float, on_event: OnEvent
) -> Experiment | tuple[Diagnosis, Recording]:
    """Look at the script and at each change of it, then try them; or say why nothing is tried."""
    began = time.monotonic()
    machine = request.inspect()
    with interruptible() as interrupted:
        run = replace(request.run, began=began, trials=True)
        made = _made(request, changes, run)
        fixes = any(change.fixes for change in changes)  # which are found by probes
        first = run if fixes else replace(run, measure_s=SCRIPT_S, extra_s=0.0)
        recording = launch(first, request.folder, on_event, interrupted)
        if recording.ending.complete:
            machine = with_price(machine)
        try:
            evidence = read(recording, machine)
        except NoLoop as error:
            return without_loop(recording, machine, error, began), recording
        if not recording.ending.complete:
            text = "Cannot tell: the script as it is could not be measured."
            return assemble(recording, evidence, (), Verdict("none", text), None), recording
        looked = list[Looked]()
        for number, change in enumerate(made):
            if change.change.fixes:
                change = replace(change, run=_with_fixes(change.change, change.run, evidence))
            on_event({"e": "trial", "text": f"looking at {change.title}", "fraction": None,
                      "expected_s": recording.ended - recording.started})  # fmt: skip
            folder = request.folder / f"change-{number}"
            looked.append(_look(change, run, folder, machine, interrupted))
        observed = Observed(request, recording, evidence, began, interrupted, on_event)
        tried = _tried(observed, looked, difference)
        done = Experiment(recording, evidence, tuple(looked), tried, began, request.allow_semantic)
        if tried.ended:
            clock = Clock(observed.deadline, interrupted)
            done = by_whole_runs(done, Script(run, request.folder, clock, telling(on_event)))
        for number in range(len(made)):
            shutil.rmtree(request.folder / f"change-{number}", ignore_errors=True)
    return done


def _made(request: Request, changes: Sequence[Change], run: Run) -> list[Looked]:
    """The run with each change in it. Raises `TrainperfError` where one cannot be made."""
    made = []
    for number, change in enumerate(changes):
        for name in change.fixes:
            if name not in by_id():
                raise TrainperfError(f"--fix {name}: there is none", "trainperf explain lists them")
        changed, notes = changed_run(change, run, request.folder / f"change-{number}")
        if changed == run and not change.fixes:
            raise TrainperfError(f"{change.title or 'the change'} changes nothing", NO_CHANGE)
        title = change.title or f"change {number + 1}"
        made.append(Looked(title, change, changed, notes=notes))
    return made


def by_whole_runs(made: Experiment, script: Script) -> Experiment:
    """Compare the script with each change, and with all that pay, by whole plain runs: A B B A.

    Where these do not fit into what is left, by one run of each.
    """
    began = script.clock.now()
    recording, over = made.recording, made.recording.ending is Ending.FINISHED
    whole_s = recording.ended - recording.started if over else ledger(made.evidence).seconds_now
    trials = {trial.fix: trial for trial in made.tried.trials}
    runs = dict[str, PlainRuns]()

    def compare(name: str, run: Run, expected_s: float | None) -> None:
        versions = (Version(whole_s), Version(expected_s, run=run))
        own = replace(script, folder=script.folder / f"against-{len(runs)}")
        needed = plain_runs.needed_s(versions)
        once = needed is not None and needed > script.clock.left
        there = runs[name] = plain_runs.plain_runs(own, versions, once)
        shutil.rmtree(own.folder, ignore_errors=True)
        trial = plain_runs.judged(name, there, 0, by_losses=not made.allow_semantic)
        if trial is None:
            trial = Trial(name, Outcome.NOT_TRIED, f"{planning.ENDS}, and {there.reason}")
        elif trial.outcome is Outcome.FAILED:
            trial = replace(trial, reason=there.failure)
        elif there.once and trial.speedup is not None:
            low, high = trial.speedup / FOR_LIFE, trial.speedup * FOR_LIFE
            trial = replace(trial, low=low, high=high)
        trials[name] = trial

    for looked in made.looked:
        if not looked.reason:
            compare(looked.title, looked.run, looked.whole_s or whole_s)
    kept = [looked for looked in made.looked if trials[looked.title].kept]
    joined: Run | str = script.run
    for looked in kept:
        if isinstance(joined, Run):
            joined = laid_over(joined, looked.run, script.run)
    if len(kept) > 1 and isinstance(joined, Run):
        name = " + ".join(looked.title for looked in kept)
        compare(name, joined, kept[0].whole_s or whole_s)
    tried = replace(made.tried, trials=tuple(trials.values()))
    made = replace(made, runs=runs, tried=tried)
    if not made.as_it_is:
        return made
    seconds = tried.trying.seconds + script.clock.now() - began
    trying = replace(tried.trying, reason=planning.BY_WHOLE_RUNS, seconds=seconds)
    control = plain_runs.control_of(made.as_it_is)
    return replace(made, tried=replace(tried, control=control, trying=trying))


def _tried(observed: Observed, looked: Sequence[Looked], difference: float) -> Tried:
    """The trials of those that can be tried, and beside them why the others have none."""
    request, evidence = observed.request, observed.evidence
    changes = tuple(_candidates(looked, evidence, request.allow_semantic, difference))
    nothing = Found((), Edits(request.run.cwd, by_id()))
    subject = observed.subject(nothing, changes=changes)
    tried = try_fixes(subject, observed.interrupted, observed.on_event)
    none = [
        Trial(change.title, Outcome.FAILED if change.failed else Outcome.NOT_TRIED, change.reason)
        for change in looked
        if change.reason
    ]
    return replace(tried, trials=(*tried.trials, *none))


def _with_fixes(change: Change, run: Run, evidence: Evidence) -> Run:
    """The run with the edits of fixes. Raises `TrainperfError` where one cannot be written."""
    failed: Failed = lambda fix, error: None  # noqa: E731
    all_ = (*findings_to_try(evidence, (), failed), *shown_findings(evidence, failed))
    found = {finding.id: finding for finding in all_}
    for name in change.fixes:
        if name not in found:
            reason = "nothing of the kind shows in this run"
            raise TrainperfError(f"--fix {name}: {reason}", "trainperf diagnose says what does")
    findings = [found[name] for name in change.fixes]

    def text_of(path: str) -> bytes:
        data = run.sources.get(path)
        return default_reader(path) if data is None else data

    edits = Edits(patch_root(run, tuple(findings)), by_id(), text_of)
    written = edits.write(findings, change.fixes)
    for left in written.patch.skipped:
        raise TrainperfError(f"--fix {left.what}: {left.reason}", f"trainperf explain {left.what}")
    return replace(
        run,
        command=(*run.command, *written.patch.arguments),
        sources={**run.sources, **written.contents},
        env={**run.env, **written.patch.environment},
    )


def _look(
    one: Looked, plain: Run, folder: Path, machine: Machine, interrupted: Interrupted
) -> Looked:
    """Run the script with a change until its steps are known: does it train, and what is run?"""
    if interrupted():
        return replace(one, reason="interrupted before it could be looked at")
    left = (plain.began or 0.0) + plain.budget_s - time.monotonic()
    brief = replace(one.run, measure_s=CHANGE_S, extra_s=0.0, trials=False)
    brief = replace(brief, began=None, budget_s=max(1.0, left), trace=False)
    recording = launch(brief, folder, interrupted=interrupted)
    if recording.ending.badly:
        events = {pid: list(own) for pid, own in recording.events.items()}
        stalled = "stands still" if recording.ending is Ending.STALLED else ""
        reason = stalled or str(why(recording.exit_status or 0, events, folder))
        return replace(one, reason=reason, failed=True, output_tail=recording.output_tail)
    ran = {os.path.realpath(event["file"]) for event in recording.of("patched")}
    there = (path for path in brief.sources if not is_configuration(path))
    unread = [path for path in there if os.path.realpath(path) not in ran]
    read_ = {path: text for path, text in one.run.sources.items() if path not in unread}
    names = ", ".join(os.path.relpath(path, os.path.realpath(plain.cwd)) for path in unread[:3])
    names += f" and {len(unread) - 3} more" if len(unread) > 3 else ""
    one = replace(one, run=replace(one.run, sources=read_))
    if one.run == plain:
        return replace(
            one, reason=f"the change never reaches the training, which does not run {names}"
        )
    if unread:
        one = replace(one, notes=(*one.notes, f"not run while steps were compared: {names}"))
    if recording.ending is Ending.FINISHED:
        one = replace(one, whole_s=recording.ended - recording.started)
    try:
        evidence = read(recording, machine)
    except NoLoop:
        if not recording.ending.complete:
            return replace(one, reason=f"{recording.ending.value} before it trained")
        tail = recording.output_tail
        return replace(one, reason="makes no training step", failed=True, output_tail=tail)
    return replace(one, evidence=evidence)


def _candidates(
    looked: Sequence[Looked], evidence: Evidence, semantic: bool, difference: float
) -> Iterator[Candidate]:
    """Those that can be tried. An unknown change is judged by its losses, if at all."""
    for changed in looked:
        before, after = evidence.loop.batch_size, changed.batch
        work = after / before if before and after else 1.0
        other = semantic or work != 1
        if not changed.reason:
            yield Candidate(
                fixes=(changed.title,),
                run=changed.run,
                equivalence=Equivalence.SEMANTICS if other else Equivalence.NUMERICS,
                bound=None,
                warm_up_epochs=0,
                compiles=True,
                apart=other and not semantic,
                work=work,
                difference=difference,
            )


# ---------------------------------------------------------------------------- the answers


def proofs_of(made: Experiment, at_least: float) -> tuple[Proof, ...]:
    """The answer to each change, and to those together that pay."""
    trials = {trial.fix: trial for trial in made.tried.trials}
    control, before = made.tried.control, made.evidence.loop.batch_size
    memory, device_memory = _memory(made.evidence)
    found = []
    for looked in made.looked:
        trial = trials.get(looked.title) or Trial(
            looked.title, Outcome.NOT_TRIED, "it was not tried"
        )
        after, other = looked.batch, ""
        if before and after and before != after and not made.allow_semantic:
            other = f"a step holds {after:g} samples, not {before:g}"
        changed = (None, None) if looked.evidence is None else _memory(looked.evidence)
        proof = replace(
            judged(trial, control, at_least, other),
            step_s=made.tried.step_s,
            samples_before=before,
            samples_after=after,
            memory_before=memory,
            memory_after=changed[0],
            device_memory_before=device_memory,
            device_memory_after=changed[1],
        )
        found.append(proof)
    for name in made.runs.keys() - {change.title for change in made.looked}:
        found.append(judged(trials[name], control, at_least))
    stack = made.tried.stack
    if stack is not None and len(stack.fixes) > 1:
        name = " + ".join(stack.fixes)
        whole = Trial(name, Outcome.KEPT, "", stack.speedup, stack.low, stack.high, stack.pairs)
        alike = all(trials[fix].same for fix in stack.fixes) or None
        found.append(judged(replace(whole, same=alike), control, at_least))
    return tuple(found)


def _memory(evidence: Evidence) -> tuple[int | None, int | None]:
    """What the processes and the GPU held at most while steps were timed, bytes."""
    try:
        use = evidence.phase("real")
    except NotMeasured:
        return None, None
    taken = [gpu["memory_used_peak"] for gpu in use.gpu if gpu.get("memory_used_peak")]
    return use.rss_peak, sum(taken) if taken else None


def _assembled(made: Experiment, text: str, proofs: tuple[Proof, ...]) -> Diagnosis:
    """The diagnosis of the script as it is, with the trials of its changes."""
    tried, evidence = made.tried, made.evidence
    first = assemble(made.recording, evidence, (), Verdict("none", text), None)
    seconds = time.monotonic() - made.began
    tails = [change.output_tail for change in made.looked if change.failed]
    notes = [f"{change.title}: {note}" for change in made.looked for note in change.notes]
    return replace(
        first,
        trials=tried.trials,
        trying=tried.trying,
        stack=tried.stack,
        control=tried.control,
        overhead=tried.overhead,
        training=ledger(evidence),
        proofs=proofs,
        output_tail=tails[0] if tails and len(proofs) == 1 else first.output_tail,
        notes=(*first.notes, *notes),
        seconds=seconds,
    )


def _whole(made: Experiment, proofs: Sequence[Proof]) -> Training:
    """The whole training as it is and, where a change makes it faster or slower, with that."""
    tried, before = made.tried, ledger(made.evidence)
    if made.as_it_is:
        *others, (name, last) = made.runs.items()
        before = replace(before, seconds_now=statistics.fmean(made.as_it_is))
        if (others and name in {change.title for change in made.looked}) or len(last.seconds) < 2:
            runs = tuple(made.as_it_is)
            return replace(before, basis="whole runs", items=(), runs=runs, reason="")
        return by_runs(before, last, 1)
    before = started_in(before, tried.start_s)
    stack = tried.stack
    if stack is None and len(proofs) == 1 and proofs[0].answer in ("faster", "slower"):
        (trial, *_), step_s = tried.trials, tried.step_s  # as if it were made
        if trial.speedup is None or trial.low is None or trial.high is None or step_s is None:
            return before
        figures = trial.speedup, trial.low, trial.high, trial.pairs, trial.steps
        once_s = trial.one_off_s or 0.0
        stack = Stack((trial.fix,), *figures, step_s, step_s / trial.speedup, once_seconds=once_s)
    return with_changes(before, stack, lasting=True)
