"""The answer in a sentence or two: before fixes are tried, and once they were."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from trainperf.child.timing.estimating import FEWEST
from trainperf.fixes import concern
from trainperf.fixes.common.words import at, ms, percent, times
from trainperf.model import (
    INPUT_BOUND_BELOW,
    Evidence,
    Finding,
    Missing,
    Outcome,
    Spent,
    Stack,
    Trial,
    Trials,
    Verdict,
    by_fix,
    known,
)
from trainperf.model.training import MOST_OF_IT, SPENT_ON, TURNS, Outside, Turn
from trainperf.model.words import budget, measured, seconds
from trainperf.verdict.answer import SIDES, Answer, Case
from trainperf.verdict.grades import probable, probably, sound, tried
from trainperf.verdict.order import share_compared
from trainperf.verdict.steps import NOISY, by_times, own_code

SLOW_START_S, TIMED_STEPS = 10.0, 12
"""A start to the end of the first step that long may be its step's, of which so many are timed
before anything is known: warm-up, real steps and some with their batch there."""

A_LINE, LONGEST_LINE = 0.2, 60
"""A line is named from this share of a step on, by so many characters of its text at most."""

NOT_HEALTHY = 0.2
"""Beyond this share nothing that is said of the steps alone makes a training healthy."""

CALLS = ("predict", "predict_on_batch", "evaluate", "test_on_batch")
"""Methods of a Keras model."""

SLOWER = 1.5
"""So much longer must the last of the blocks take than the first: noise of a machine wanders."""

FAR_MORE = 2.0
"""So many times what a kept repair saves must code of the user's take to stay the answer."""

SPINS, SPUN = 1.5, 3.0
"""The unchanged script must have been so much faster for it to be told, and for it to come first:
no more than a third of each step is the script's own work then."""


def verdict(evidence: Evidence, findings: tuple[Finding, ...]) -> Verdict:
    """The answer in one sentence: what the step is bound by, and whose work that is."""
    return _answer(Case(evidence, findings)).verdict(evidence.known_utilization)


def _answer(case: Case, trials: Sequence[Trial] = ()) -> Answer:
    """The answer; `trials` are those that were made on the script, and came to nothing."""
    evidence = case.evidence
    found, real = _graded(case, trials), known(evidence.times.real_)
    more = passes(evidence) if found.side == "model" or found.healthy else ""
    turn = None if mostly_outside(case) else known(evidence.outside_)
    if turn is not None and (_first_outside(case) or (not case.findings and _unhealthy(case))):
        more = f" {_training(turn)}.{more}"
    blocks = () if real is None else real.blocks
    rises = all(before < after for before, after in pairwise(blocks))
    if len(blocks) >= FEWEST and rises and blocks[-1] >= SLOWER * blocks[0]:
        longer = times(blocks[-1] / blocks[0])
        more += f" Steps get slower as it runs: the last timed took {longer} as long as the first."
    return replace(found, more=found.more + more)


def _graded(case: Case, trials: Sequence[Trial]) -> Answer:
    evidence, first = case.evidence, case.first
    if isinstance(evidence.times.real_, Missing):
        text, first_s = "Nothing was measured: the loop made too few steps", 0.0
        if evidence.startup is not None:
            first_s = evidence.startup.to_first_step_s
        if first_s >= SLOW_START_S:
            text += f"; the first was over after {seconds(first_s)}, so "
            text += f"--budget {budget(TIMED_STEPS * first_s)} may do"
        return Answer("none", text, grade="not examined")
    if first is not None and first.category == "environment" and first.bound is None:
        text = f"{first.title}: nothing else matters until that is repaired"
        return Answer("environment", text, names=first.id)
    if (found := mostly_outside(case) or own_code(case)) is not None:
        return found
    found = by_times(case)
    if first is not None and _first_outside(case) and (found is None or found.side == "host"):
        return Answer(first.category, f"{SIDES[first.category]}: {first.title}", names=first.id)
    if found is None:
        return probably(case)
    utilization = evidence.known_utilization
    settled = utilization is None or utilization >= INPUT_BOUND_BELOW
    healthy = not case.findings and settled and found.side in ("model", "none")
    if healthy and not _unhealthy(case):
        return sound(evidence, trials)
    # what is lost to the input was told by neighbouring steps
    lost = found.side in ("input", "storage")
    noise = evidence.times.loss_noise if lost else evidence.times.noise
    loud = found.side != "environment" and noise > NOISY
    return probable(found, evidence) if loud else found


def passes(evidence: Evidence) -> str:
    """A sentence on the line of the user's that most of a step passes on; "" where none stands out.

    What the framework does to train is no such line: `fit`, an optimizer's step, a backward as far
    as it belongs to lines.
    """
    if isinstance(evidence.lines_, Missing):
        return ""
    lines = evidence.lines
    own = (
        line
        for line in lines.lines
        if not line.of_training or line.of("backward") > A_LINE * lines.seconds
    )
    line = max(own, key=lines.computing, default=None)
    if line is None or lines.computing(line) < A_LINE:
        return ""
    text = line.text
    shown = text if len(text) <= LONGEST_LINE else f"{text[: LONGEST_LINE - 1].rstrip()}…"
    return f" {percent(lines.computing(line))} of each step passes in `{shown}`, {at(line.where)}."


# ---------------------------------------------------------------------------- after the trials


def verdict_after(
    evidence: Evidence,
    findings: tuple[Finding, ...],
    trials: Sequence[Trial],
    stack: Stack | None = None,
) -> Verdict:
    """The final verdict, of `findings` in the order that the trials gave them.

    If something was kept, it names what that repairs. Else what was tried and rejected says
    no more what the step could gain, and healthy is what was examined and tried. Of several
    changes that were kept and measured together, as the `stack`, it says what all of them gave.
    """
    came = by_fix(trials)
    case = Case(evidence, findings)
    best = None if case.first is None else came.get(case.first.id)
    if case.first is not None and best is not None and best.kept:
        larger = _larger(findings, came, best)
        before = _answer(Case(evidence, (larger, *findings)) if larger else case)
        answer = _kept(before, case.first, best, evidence, stack, stays=larger is not None)
        return answer.verdict(evidence.known_utilization)
    left = tuple(finding for finding in findings if _stands(finding, came.get(finding.id)))
    answer = _answer(Case(evidence, left), trials)
    if answer.healthy:
        answer = _in_another_experiment(findings, came) or answer
    elif not left:
        answer = replace(answer, tried=tried(trials))
    return answer.verdict(evidence.known_utilization)


def _stands(finding: Finding, trial: Trial | None) -> bool:
    """Whether a finding still says what the step could gain, or what holds up the script beside it.

    The latter where its repair pays, though it changes the experiment.
    """
    if trial is None or trial.outcome in (Outcome.KEPT, Outcome.NOT_TRIED):
        return True
    return trial.outcome is Outcome.CHANGES and concern(finding) in ("outside", "epoch end")


def _larger(findings: Sequence[Finding], came: Mapping[str, Trial], best: Trial) -> Finding | None:
    """Code of the user's that takes far more than the best repair gave, and nobody could try."""
    saved = 1 - 1 / (best.speedup or 1.0)
    for finding in findings:
        trial, most = came.get(finding.id), 1 - 1 / (finding.bound or 1.0)
        untried = trial is None or trial.outcome is Outcome.NOT_TRIED
        if finding.own is not None and untried and most > FAR_MORE * saved:
            return finding
    return None


def _kept(
    before: Answer,
    first: Finding,
    best: Trial,
    evidence: Evidence,
    stack: Stack | None,
    *,
    stays: bool,
) -> Answer:
    """The answer with the repair that was kept: on its side of the step, by its name.

    Where the steps take the smaller part of a turn, a repair of theirs does not answer for it; nor
    does one that gives less than what a step surely loses on another side. One that `stays` names
    what is larger.
    """
    gave, by, gain = "", "", (best.speedup, best.low, best.high)
    several = stack is not None and stack.together and len(stack.fixes) > 1
    if stack is not None and several and best.basis == "steps" and best.fix in stack.fixes:
        both = "both" if len(stack.fixes) == 2 else f"all {len(stack.fixes)}"
        by = f" with {both} kept changes"
        gain = stack.speedup, stack.low, stack.high
    if figure := measured(*gain):
        ran = "the whole script ran" if best.basis == "whole runs" else "the steps ran"
        ran = f"{_place(evidence.outside.turn)} is" if best.basis == "calls" else ran
        gave = f" Repaired, {ran} {figure} as fast{by}."
    side, named = first.category, f" {first.title}."
    if share_compared(first, best, evidence) < MOST_OF_IT and mostly_outside(Case(evidence)):
        return replace(before, more=before.more + gave)
    if before.side == side and before.grade == "settled":
        named = "" if before.names == first.id or best.basis == "calls" else named
        return replace(before, gain="", more=before.more + named + gave)
    saved, lost = 1 - 1 / (best.speedup or 1.0), 1 - (evidence.known_utilization or 1.0)
    if stays or (before.grade == "settled" and saved < lost):
        return replace(before, more=before.more + named + gave)
    return Answer(side, f"{SIDES[first.category]}: {first.title}", more=gave)


def _in_another_experiment(findings: Sequence[Finding], came: Mapping[str, Trial]) -> Answer | None:
    """The answer where all that is faster makes another experiment of the script; else None.

    A step that such a change shortens is not healthy: it could be shorter, if its user agrees.
    """
    for finding in findings:
        trial = came.get(finding.id)
        if trial is None or trial.outcome is not Outcome.CHANGES or trial.speedup is None:
            continue
        figure = measured(trial.speedup, trial.low, trial.high)
        text = f"{SIDES[finding.category]}: {finding.title}. Changed, it trained {figure} as fast, "
        return Answer(finding.category, f"{text}as another experiment")
    return None


def held_by_spinning(
    answer: Verdict, evidence: Evidence, trying: Trials, step_s: float | None
) -> Verdict:
    """The verdict, behind what holds up most of each step: threads that spin beside neighbours."""
    real = known(evidence.times.real_)
    if not trying.passive or step_s is None or real is None or real.seconds < SPUN * step_s:
        return answer
    text = (
        "Held back by the machine: its neighbours keep cores from threads that wait for one "
        f"another by spinning, and a step took {ms(real.seconds)}; with OMP_WAIT_POLICY=passive in "
        f"its environment the unchanged script took {ms(step_s)} in the trials."
        + ("" if answer.healthy else f" {answer.text}")
    )
    return replace(answer, bottleneck="environment", text=text, healthy=False, grade="settled")


def spinning(evidence: Evidence, trying: Trials, step_s: float | None) -> Iterator[str]:
    """A note where the way in which all legs ran made much of the unchanged script."""
    real = known(evidence.times.real_)
    if step_s is None or real is None or real.seconds < SPINS * step_s:
        return
    if trying.passive and real.seconds >= SPUN * step_s:  # the verdict says so
        return
    variable, why = "GLIBC_TUNABLES=glibc.malloc.hugetlb=1", "huge pages may be what it lacks"
    if trying.passive:
        variable = "OMP_WAIT_POLICY=passive"
        why = "beside busy neighbours threads that spin keep the cores from those they wait for"
    if trying.passive or trying.huge_pages:
        yield (
            f"with {variable} a step of the unchanged script took {ms(step_s)} in the trials, "
            f"without it {ms(real.seconds)} in the observed run: {why}"
        )


# ----------------------------------------------------------------- beside the training steps


def mostly_outside(case: Case) -> Answer | None:
    """The answer where most of what the script repeats is no training step."""
    turn = known(case.evidence.outside_)
    if turn is None or turn.share <= MOST_OF_IT:
        return None
    return Answer("host", f"Held up outside the training steps: {_training(turn, 'they')}")


def _first_outside(case: Case) -> bool:
    """Whether the first finding is of what is no training step."""
    return case.first is not None and concern(case.first) in ("outside", "epoch end")


def _unhealthy(case: Case) -> bool:
    turn = known(case.evidence.outside_)
    return turn is not None and turn.share > NOT_HEALTHY


def _training(turn: Outside, steps: str = "Training steps") -> str:
    """A sentence on what training steps take of a turn, and into what most of the rest goes."""
    at_least = "" if turn.whole else "at least "
    text = (
        f"{steps} take {percent(turn.training_s / turn.seconds)} "
        f"of {_place(turn.turn)} ({at_least}{ms(turn.seconds)})"
    )
    if turn.spent:
        # In a pause nothing else stands than what makes it: what is not known comes with what is.
        longest = named = turn.spent[0]
        if turn.turn == "pause":
            told = (spent for spent in turn.spent if spent.what != "other" or spent.name)
            named = next(told, longest)
        text += f"; {at_least}{percent(named.share)} goes into {_work(named)}"
        if named is not longest:
            text += f", and {percent(longest.share)} into what comes with it"
    return text


def _place(turn: Turn) -> str:
    """A turn in a sentence: "each epoch with what follows it", "what passes from one pause …"."""
    what = TURNS[turn].replace("One ", "each ")
    return what.replace("From one", "what passes from one")


def _work(spent: Spent) -> str:
    """The work in a sentence: "`model.predict` (200 calls, …)"."""
    text = SPENT_ON[spent.what]
    if spent.name:
        method = spent.name in CALLS and spent.calls is not None
        text = f"`model.{spent.name}`" if method else f"`{spent.name}`"
    called = f"{spent.calls:.0f} calls" if spent.calls and spent.calls >= 2 else ""
    inside = ", ".join(filter(None, (called, at(spent.where))))
    return f"{text} ({inside})" if inside else text
