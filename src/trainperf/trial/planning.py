"""The plan of the trials: what, in which way, for how long; made before anything is started."""

from __future__ import annotations

import math
import os
import socket
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from trainperf.fixes import by_id
from trainperf.model import (
    Ending,
    Evidence,
    Finding,
    Leg,
    Machine,
    Outcome,
    Recording,
    Run,
    Training,
    Trial,
    Trials,
)
from trainperf.patch.patch import Edits
from trainperf.recording.run import Epoch
from trainperf.run.caches import private
from trainperf.trial.budget import (
    CACHES,
    Clock,
    Costs,
    budget_needed,
    costs_of,
    pass_steps,
    settles,
    warm_up_steps,
)
from trainperf.trial.candidates import (
    Candidate,
    Changes,
    GivenChanges,
    candidates,
    decided_in_the_loop,
)
from trainperf.trial.contest import WORTH
from trainperf.trial.legs.environment import environment, grows
from trainperf.trial.legs.ports import shared_port
from trainperf.trial.legs.room import TWO, Room, room
from trainperf.trial.ranks import count, launcher, obstacle
from trainperf.trial.ratio import FEWEST

SEED = 20261121
LEAST_SAVED = 0.02
"""What saves less of the whole training than this, at the favourable end, is not tried; nor what
gives its steps less than a trial would be ended for, `contest.WORTH`."""
NOT_WORTH = "it saves at most {:.1f} % of the whole training: too little for a trial"
NOTHING = "it saves nothing of a step by what was measured"
NO_EPOCH = "it shows after a whole epoch, and how long one takes is not known"
LONGEST_EPOCH_S = 6 * 3600.0
"""For a longer epoch nobody waits to try a change. One of a sampler without end has 10^8 steps."""
RANKS = (
    "what it saves lies between epochs, and slices of whole epochs are only made where one "
    "process trains"
)
LONG_BUDGET_S = 3600.0
"""A budget beyond an hour is not offered."""
FEW = 2
"""What shows in steps as well has slices of whole epochs where so many could be tried in them."""
LONG_EPOCH_S = 3.0
"""Of epochs that take so long most slices of steps hold no start of one."""
SHORT_STEPS = 40
"""Workers have a good part of an epoch of so few steps ready before its first one."""
RESTART_SHARE = 0.05
"""Opening the input for so large a share of an epoch's steps is part of what they cost."""
FILL_SHARE = 0.25
"""The same for tf.data, whose buffers hold little unless a shuffle fills one. Then no two steps
are alike: the first ones wait, and the last ones find all that they need in the buffer. A script
with epochs of 36 steps (620 ms) that began by filling one for 430 ms met itself in slices of 17
steps at 0.40 to 2.76 times its speed."""
ENDS = "the training ends by itself before it can be compared"
BY_WHOLE_RUNS = f"{ENDS}, so whole runs of it were compared"
DECIDED = "what could be tried gained nothing in the loop"


@dataclass(frozen=True)
class Subject:
    """The subject of trials: the observed run, what was found in it, and how it may be tried.

    `edits` are those of the findings, `folder` is the trials' own; `began` and `deadline` are those
    of the diagnosis, on `time.monotonic()`, in seconds. `neighbours_cores` were busy when the
    trials began. `training` is the whole of it by its ledger, None if it has none. Where there are
    `changes`, these are tried and no finding is: each is the observed run with one change, by its
    name. Where steps wait for their input, `freed` is the evidence as if they did not, and what may
    pay then. What is tried on top of others has these `beneath`.
    """

    recording: Recording
    evidence: Evidence
    findings: tuple[Finding, ...]
    machine: Machine
    edits: Edits
    folder: Path
    began: float
    deadline: float
    sequential: bool = False
    allow_semantic: bool = False
    neighbours_cores: float | None = None
    training: Training | None = None
    changes: tuple[Candidate, ...] = ()
    freed: Freed | None = None
    beneath: tuple[Finding, ...] = ()

    def on_top_of(self, beneath: tuple[Finding, ...], known: Collection[str]) -> Subject:
        """The subject of what is tried on top of kept changes of the input, without the `known`."""
        assert self.freed is not None
        findings = tuple(finding for finding in self.freed.findings if finding.id not in known)
        evidence = self.freed.evidence
        return replace(self, evidence=evidence, findings=findings, beneath=beneath, freed=None)


@dataclass(frozen=True)
class Freed:
    """What a script is found to be once its steps wait for no input."""

    evidence: Evidence
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class Plan:
    """The trials to make. `how` says why there are none, where there are none.

    `ours` are the variables that legs have so that they are alike, and that the user has not.
    Among the `skipped` are those that the loop has decided. There are none where the training
    `ends` by itself before its steps can be compared.
    """

    changes: Changes
    chosen: tuple[Candidate, ...]
    skipped: tuple[Trial, ...]
    how: Trials
    costs: Costs | None = None
    ours: frozenset[str] = frozenset()
    ends: bool = False


def plan(subject: Subject, clock: Clock) -> Plan:
    """Choose what to try within the time and the memory there are, best bounds first."""
    evidence, ranks = subject.evidence, count(subject.recording.events)
    given = os.environ | subject.recording.run.env
    space = room(subject.recording, subject.machine, evidence.device)
    how = _how(subject, space)
    repeated = how.mode == "side by side" and not subject.changes
    alike = environment(evidence, given, subject.neighbours_cores, repeated)
    apart = obstacle(subject.recording.events, socket.gethostname())
    ends = subject.recording.ending is Ending.FINISHED
    changes, chosen, skipped = _to_try(subject, leg_run(subject, alike.variables))

    def none(reason: str, why: str = "", needed: float | None = None, late: bool = False) -> Plan:
        untried = (candidate.skipped(why or reason, late) for candidate in chosen)
        how = Trials("none", reason=reason, budget_needed_s=needed)
        return Plan(changes, (), (*skipped, *untried), how, ends=ends and not apart)

    how = replace(
        how,
        passive=alike.passive,
        huge_pages=alike.huge_pages,
        growth=grows(evidence, given),
        neighbours_cores=subject.neighbours_cores,
    )
    slots = space.legs if how.mode == "side by side" else 1
    costs = costs_of(subject.recording, evidence, subject.machine, slots, alike.spin)
    if chosen and (apart or ends):
        return none(apart or ENDS)
    if isinstance(costs, str):
        return none(costs)
    if endless := _endless(costs):
        skipped += [candidate.skipped(endless) for candidate in chosen if candidate.warm_up_epochs]
        chosen = [candidate for candidate in chosen if not candidate.warm_up_epochs]
    if not chosen:
        decided = any(trial.outcome is not Outcome.NOT_TRIED for trial in skipped)
        reason = DECIDED if decided else "none of the findings has an edit that could be tried"
        return none(reason if subject.findings else "nothing was found to try")
    spent = clock.now() - subject.began
    chosen, left_out, would_do_s = choose_slices(chosen, evidence, costs, clock.left, spent, ranks)
    skipped += left_out
    if not chosen:
        return none(left_out[0].reason, needed=would_do_s)
    chosen, idle = in_order(chosen, costs, alike.passive, subject.training)
    skipped += idle
    # without the start that all legs have at once: no trial is refused for a guess, nor for steps
    # whose threads spun beside neighbours, where those of its legs sleep
    at_best = replace(costs, cores=max(costs.cores, float(min(3, costs.slots))))
    if not alike.passive and at_best.trying(1) > clock.left:
        epochs = max(candidate.warm_up_epochs for candidate in chosen)
        needed = budget_needed(spent, costs, len(chosen), epochs)
        return none(
            f"the script needs {costs.start_s:.0f} s to warm up and {max(0.0, clock.left):.0f} s "
            f"of the budget were left; with --budget {needed:.0f}s its fixes would be tried",
            f"out of budget: all would need --budget {needed:.0f}s",
            needed,
            late=True,
        )
    held = slices_text(chosen) if how.mode == "side by side" else how.mode_reason
    how = replace(how, mode_reason=held, budget_needed_s=would_do_s)
    return Plan(changes, tuple(chosen), tuple(skipped), how, costs, frozenset(alike.variables))


def leg_run(subject: Subject, variables: Mapping[str, str]) -> Run:
    """The observed run as a leg, with variables that the user has not set."""
    run, evidence = subject.recording.run, subject.evidence
    ranks = count(subject.recording.events)
    seed = {"PYTHONHASHSEED": os.environ.get("PYTHONHASHSEED", "0")}
    compiled = private(os.environ | run.env, subject.folder / CACHES)
    return replace(
        run,
        seed=SEED,
        leg=Leg(
            warm_up_steps(evidence),
            ranks=ranks,
            waits_every=evidence.loop.waits_every,
            settles=settles(evidence, ranks),
            pass_steps=pass_steps(evidence),
        ),
        env={**seed, **variables, **run.env, **compiled},
    )


def _to_try(subject: Subject, run: Run) -> tuple[Changes, list[Candidate], list[Trial]]:
    """What can be tried on the leg `run`, how its changes are made, and what is not tried."""
    if subject.changes:
        given = GivenChanges(run, (), subject.edits, changes=subject.changes)
        joined = [given.join((change.name,)) for change in subject.changes]
        return given, [change for change in joined if isinstance(change, Candidate)], []
    beneath = tuple(finding.id for finding in subject.beneath)
    changes = Changes(run, (*subject.findings, *subject.beneath), subject.edits, beneath)
    chosen, untried = candidates(changes, subject.allow_semantic)
    chosen, decided = decided_in_the_loop(chosen, subject.findings, subject.evidence)
    compiled = set[str]()
    given_env = os.environ | subject.recording.run.env
    for at, candidate in enumerate(chosen):
        fix = candidate.fixes[0]
        if candidate.compiles and fix in compiled:
            # What another way to make its fix compiles it must not find. The first way keeps the
            # caches that all legs share, which are there for what it is put together with.
            folder = subject.folder / CACHES / f"{fix}-{at}"
            env = {**candidate.run.env, **private(given_env, folder)}
            chosen[at] = replace(candidate, run=replace(candidate.run, env=env))
        compiled.add(fix)
    return changes, chosen, [*untried, *decided]


def in_order(
    sliced: Sequence[Candidate], costs: Costs, spun: bool, training: Training | None
) -> tuple[list[Candidate], list[Trial]]:
    """The candidates in the order in which they are tried, and those that cannot matter.

    The first of the report, then what may save most of the training in a second of its trial, and
    last what changes the experiment. Each is given what it may save of the whole `training`; what
    no rule gives a bound, by what it usually gives. Where threads `spun` beside neighbours while
    the bounds were measured, a low one says nothing.
    """
    chosen, skipped = list[Candidate](), list[Trial]()
    for candidate in sliced:
        candidate = replace(candidate, share=_share(training, candidate.holds))
        if candidate.difference is not None:  # somebody wants it judged
            chosen.append(candidate)
            continue
        fix = by_id().get(candidate.fixes[0])
        usual = fix.usual if fix is not None else 1.0
        most = candidate.bound if candidate.most is None else candidate.most
        gain = usual if most is None else max(most, usual if spun else 0.0)
        gain = min(gain, usual) if fix is not None and fix.rarely_all else gain
        if candidate.epoch is None and gain > 0:  # of steps, which are a part of its slices
            gain = 1 / (1 - costs.in_steps(candidate.holds) * (1 - 1 / gain))
        saved = candidate.saves(gain)
        if (saved >= LEAST_SAVED and gain >= 1 + WORTH) or not chosen:
            chosen.append(replace(candidate, hope=max(1.0, gain)))
        else:
            reason = NOT_WORTH.format(100 * saved) if saved > 0 else NOTHING
            skipped.append(candidate.skipped(reason))

    def saved_a_second(candidate: Candidate) -> float:
        whole = costs.holding(candidate.holds)
        trial_s = whole.starting(1, candidate.warm_up_epochs) + whole.comparing(1)
        return candidate.saves(candidate.hope) / trial_s

    first, *others = sorted(chosen, key=lambda candidate: candidate.apart)
    others.sort(key=lambda candidate: (candidate.apart, -saved_a_second(candidate)))
    return [first, *others], skipped


def _share(training: Training | None, holds: Epoch | None) -> float:
    """The part of the whole training of which slices that hold such epochs, or steps, are of."""
    if training is None or not training.seconds_now:
        return 1.0
    parts = ("steps",) if holds is None else ("steps", "between")
    return sum(item.now_s for item in training.items if item.part in parts) / training.seconds_now


def _endless(costs: Costs) -> str:
    """Why no trial can wait for an epoch to pass, or nothing."""
    if costs.epoch_s is None:  # all legs would wait, nobody knows how long
        return NO_EPOCH
    if costs.epoch_s > LONGEST_EPOCH_S:
        return f"it shows after a whole epoch, of {costs.epoch_s / costs.step_s:,.0f} steps here"
    return ""


def _how(subject: Subject, space: Room) -> Trials:
    events, why = subject.recording.events, ""
    if subject.sequential:
        why = "as asked for with --sequential"
    elif count(events) > 1:
        why = shared_port(subject.recording.run, launcher(events))
    if why or space.legs < TWO:
        return Trials("one after another", why or space.reason)
    return Trials("side by side")


# ------------------------------------------------------------------ what slices hold


def slices_text(candidates: Sequence[Candidate]) -> str:
    """What the candidates' slices hold, told to the reader; "" where all hold a few steps."""
    kinds: dict[Epoch | None, list[str]] = {}
    for candidate in candidates:
        kinds.setdefault(candidate.holds, []).append(candidate.fixes[0])
    texts = ["a few steps"] if None in kinds and len(kinds) > 1 else []
    for epoch, names in kinds.items():
        if epoch is not None:
            what = "turns as they are written" if epoch.written else "epochs"
            text = f"whole {what} ({epoch.steps:,} step{'s' if epoch.steps > 1 else ''} each)"
            of = f" for {', '.join(dict.fromkeys(names))}" if len(kinds) > 1 else ""
            texts.append(text + of)
    return " and ".join(texts)


def choose_slices(
    chosen: Sequence[Candidate],
    evidence: Evidence,
    costs: Costs,
    left: float,
    spent: float,
    ranks: int,
) -> tuple[list[Candidate], list[Trial], float | None]:
    """Decide what the slices of each candidate hold: whole epochs where steps would not tell.

    So where it saves between epochs, or outside the steps of a turn, and where epochs are short:
    their first steps come from buffers that filled while the input was opened, which no slice of
    steps counts. `left` and `spent` are seconds of the budget. A candidate that needs whole epochs
    is skipped where they do not fit, with the budget that would do. Returns those that can be
    tried, the others, and the budget, seconds, with which they could be, None where none would do.
    """
    short = short_epoch(evidence)
    of_findings = [candidate.epoch for candidate in chosen if candidate.epoch is not None]
    turn = next((epoch for epoch in of_findings if epoch.written), None)
    epoch = next((epoch for epoch in of_findings if not epoch.written), short)
    made, skipped, needed = list[Candidate](), list[Trial](), None
    for candidate in chosen:
        own = candidate.epoch
        wanted = turn if own is not None and own.written else epoch
        outside = own is not None and (own.written or not candidate.in_steps)
        of_short = short is not None and (candidate.input or short.seconds < LONG_EPOCH_S)
        if wanted is None or not (outside or own or of_short) or (ranks > 1 and not outside):
            made.append(candidate)
            continue
        whole, epochs = costs.holding(wanted), candidate.warm_up_epochs
        # the fewest that can tell where they alone do: others have theirs before
        takes = whole.starting(2, epochs) + whole.comparing(1, FEWEST)
        fits = (takes if outside else whole.trying(FEW, epochs)) <= left
        if ranks == 1 and (fits or not outside):
            made.append(replace(candidate, holds=wanted) if fits else candidate)
            continue
        budget = budget_needed(spent, whole, 1, epochs) if ranks == 1 else math.inf
        reason = RANKS
        if ranks == 1:
            place, what = (
                ("outside the steps", "a turn") if wanted.written else ("between epochs", "one")
            )
            reason = f"what it saves lies {place}, and {what} takes {wanted.seconds:.1f} s: "
            if budget <= LONG_BUDGET_S:
                needed = max(needed or 0.0, budget)
                reason += f"to compare whole ones would need --budget {budget:.0f}s"
            else:
                reason += "whole ones are too long to be compared"
        skipped.append(candidate.skipped(reason, late=budget <= LONG_BUDGET_S))
    return made, skipped, needed


def short_epoch(evidence: Evidence) -> Epoch | None:
    """The epoch of a script whose epochs are so short that slices have to hold whole ones.

    So for a `DataLoader`, whose workers start anew with each epoch and have their first batches
    ready before its first step. What tf.data holds ready is little, and slices of whole epochs
    vary five times as much (control ±20 % against ±4 % on one script), unless a good part of the
    epoch comes from a buffer that was filled before its first step. What else passes between
    epochs (validation) is left out: no candidate changes it.
    """
    between, steps = evidence.between_epochs, evidence.loop.epoch_steps
    if not steps or between is None or between.restart_s is None:
        return None
    seconds = steps * evidence.times.real
    if evidence.torch_ is None:
        short = between.restart_s >= FILL_SHARE * seconds
    else:
        short = steps <= SHORT_STEPS or between.restart_s >= RESTART_SHARE * seconds
    return Epoch(steps, seconds + between.restart_s) if short else None
