"""How sure an answer is: healthy, probable, not examined, and what each of these rests on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from trainperf.errors import NotMeasured
from trainperf.fixes.common.words import at, ms, percent, times
from trainperf.model import LEAST_SAMPLES, Evidence, Measure, Missing, Outcome, Trial
from trainperf.verdict import torch
from trainperf.verdict.answer import MATTERS, Answer, Case
from trainperf.verdict.steps import hidden_share, input_culprit

QUIET = 0.10
"""Noise of a step up to which it may be called healthy: larger gains than that would show."""

HIDDEN = 0.25
"""An exchange of gradients that may take more than this of a step is no healthy one."""

BESIDE = 0.15
"""Share of a step beside the model above which a loop is not called healthy: no rule knows what
else could be computed there."""

UNEXPLAINED = 0.05
"""Share of a step that must be said to be lost to what is not known."""

TELLS = 2.0
"""A free input that could give more than this at most tells nothing of the model."""

TRIES = {"compiled": "tf_function", "double_batch": "batch_size"}
"""Probes, and how the fix is called whose trial tells the same; others end in the probe's name."""

RATE = "matmul_rate"
"""The probe that tells the rate of the model's products: no repair rests on it."""

MOST_NAMED = 6


# ---------------------------------------------------------------------------------- healthy


def sound(evidence: Evidence, trials: Sequence[Trial] = ()) -> Answer:
    """The answer for a loop in which nothing to repair was found: healthy, if that was examined.

    `trials` are those that were made on the script.
    """
    if evidence.around is not None and isinstance(evidence.outside_, Missing):
        text = (
            "Nothing to repair was found in the steps of `fit`; what stands between its calls, in "
            f"the loop at {at(evidence.around)}, was not examined: {evidence.outside_.reason}"
        )
        return Answer("none", text, grade="not examined")
    used, own = evidence.known_utilization, torch.own_share(evidence)
    if used is None and not own:
        return not_examined(evidence)
    share = f"{percent(own)} of each step is forward, backward and optimizer"
    if used is not None:
        share = f"{percent(used)} of each step is the step itself"
    if evidence.times.noise > QUIET + 1e-9:
        return probably(Case(evidence))
    if (hidden := hidden_share(evidence)) > HIDDEN:
        most = f"it may take anything up to {percent(hidden)} of a step"
        text = f"Held up by the exchange of gradients: {most}"
        return probable(Answer("none", text), evidence)
    came = tried(trials)
    if left := tuple(_left_out(evidence, trials)):
        names, reasons = _named(name for name, _ in left), _named(why for _, why in left)
        doubt = f"; not examined: {names} ({reasons}); {_remedy(evidence)}"
        text = f"Nothing to repair was found, and {share}"
        return Answer("none", text, tried=came, doubt=doubt, grade="not examined")
    if beside := _beside_model(evidence):
        return Answer("none", f"No cause that trainperf knows: {beside}", tried=came)
    text = f"Healthy: {share}"
    if hidden:
        text += f" (the exchange of gradients is up to {percent(hidden)})"
    if not came:
        text += ", and nothing that trainperf knows would make it faster than the noise of "
        text += "this machine"
    return Answer("none", text, tried=came, healthy=True)


def tried(trials: Sequence[Trial]) -> str:
    """The outcome of trials where nothing was kept: "; 2 changes were tried …"; "" without any."""
    apart = {trial.fix for trial in trials if trial.outcome is Outcome.CHANGES}
    untold = (Outcome.NOT_TRIED, Outcome.FAILED)
    made = (trial.fix for trial in trials if trial.outcome not in untold)
    names = [name for name in dict.fromkeys(made) if name not in apart]
    if not names:
        return ""
    open_ = {trial.fix for trial in trials if trial.undecided}.intersection(names)
    noise = f"; a gain of {_named(sorted(open_))} could not be told from noise" if open_ else ""
    if len(names) == 1:
        became = "" if open_ else ", which made it no faster"
        return f"; one change was tried on the script ({names[0]}){became}{noise}"
    became = "none surely made it faster" if open_ else "none made it faster"
    return f"; {len(names)} changes were tried on the script ({_named(names)}), {became}{noise}"


def _left_out(evidence: Evidence, trials: Sequence[Trial]) -> Iterator[tuple[str, str]]:
    """What applies and was not measured, and trials for which time was short, with the reason."""
    made = tuple(trial.fix for trial in trials if trial.outcome is not Outcome.NOT_TRIED)
    for name, probe in evidence.probes.items():
        by_trial = any(fix.endswith(TRIES.get(name, name)) for fix in made)
        if isinstance(probe, Missing) and probe.applies and not by_trial and name != RATE:
            yield name.replace("_", " "), probe.reason
    yield from ((trial.fix, trial.reason) for trial in trials if trial.late)


def _beside_model(evidence: Evidence) -> str:
    """What a step takes beside its model, on lines whose work could be another; "" for little."""
    if isinstance(evidence.lines_, Missing):
        return ""
    lines = evidence.lines
    beside = lines.beside_model()
    share = sum(map(lines.computing, beside))
    if share - lines.half_width(share) < BESIDE:
        return ""
    first = max(beside, key=lines.computing)
    return (
        f"{percent(share)} of it passes beside the model and its layers, first of all in "
        f"`{first.text}`, {at(first.where)}"
    )


def _named(names: Iterable[str]) -> str:
    known = list(dict.fromkeys(names))
    more = len(known) - MOST_NAMED
    return ", ".join(known[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


# --------------------------------------------------------------------- probable, not examined


def probable(answer: Answer, evidence: Evidence) -> Answer:
    """An answer that rests on times which vary: "Probably …; step times vary by ±40 %"."""
    text = f"Probably {answer.text[0].lower()}{answer.text[1:]}"
    return replace(answer, text=text, doubt=f"; {_varying(evidence)}", grade="probable")


def not_examined(evidence: Evidence) -> Answer:
    """The answer for a step that could not be examined: why, and what would examine it."""
    resident = evidence.times.resident_
    why = resident.reason if isinstance(resident, Missing) else _varying(evidence)
    text = (
        f"Not examined: each step takes {ms(evidence.times.real)}, but not how much of that is the "
        f"model ({why})"
    )
    return Answer("none", text, doubt=f"; {_remedy(evidence)}", grade="not examined")


def probably(case: Case) -> Answer:
    """The answer where times do not settle: a suspect by what no clock disturbs, or none."""
    evidence, first, seen = case.evidence, case.first, case.evidence.seen
    fetching, found = "", None
    if seen and seen.samples >= LEAST_SAMPLES and evidence.loop.kind == "iterator":
        often = f"in {percent(seen.input)} of {seen.samples} samples"
        fetching = f"the loop's thread was getting its next batch {often}"
        if seen.input_low >= MATTERS:
            most = times(1 / max(0.05, 1 - seen.input_high))
            waits = f"{fetching}, waiting for {input_culprit(evidence)}"
            found = Answer("input", f"Input-bound, at most {most}: {waits}")
    found = found or torch.outside(case)
    if found is None and first is not None and first.category in ("input", "storage"):
        most = "" if first.bound is None else f", at most {times(first.bound)}"
        found = Answer("input", f"Input-bound{most}: {first.title}", names=first.id)
    if found is None:
        parts = torch.dearest(evidence)
        sign = f"{parts} of a step" if parts else fetching or _free(evidence)
        found = Answer("model", f"Model-bound: {sign}", case.gain) if sign else None
    return not_examined(evidence) if found is None else probable(found, evidence)


def _varying(evidence: Evidence) -> str:
    """How much the step times vary, in words; where they do not, what they leave unexplained."""
    real, utilization = evidence.times.real_, evidence.known_utilization
    if utilization is not None and 1 - utilization > max(UNEXPLAINED, 2 * evidence.times.noise):
        return f"{percent(1 - utilization)} of a step is not explained"
    if isinstance(real, Measure) and real.low is not None:
        noise = evidence.times.noise
        return f"step times vary by {f'±{percent(noise)}' if noise < 1 else 'more than they take'}"
    return "too few steps were timed to say how much they vary"


def _remedy(evidence: Evidence) -> str:
    """The way to examine what was not."""
    if evidence.parallel_ is not None:
        return "a run of the script in one process would examine it"
    if isinstance(evidence.times.resident_, Missing) and evidence.loop.kind in ("call", "update"):
        return "a loop over a dataset or a `DataLoader` can be examined"
    return "a longer --budget would examine it"


def _free(evidence: Evidence) -> str:
    """The sign in the times of a step that it is mostly the model's own; "" where there is none."""
    try:
        most = evidence.favourable().times
        ratio = most.real / most.resident
    except NotMeasured:
        return ""
    if ratio >= TELLS:
        return ""
    if ratio <= 1:
        return "free data made the step no faster"
    return f"free data would make the step at most {times(ratio)} as fast"
