"""The probable verdict where times do not settle: by what no clock disturbs."""

from __future__ import annotations

import re

from trainperf.errors import NotMeasured
from trainperf.fixes.common.words import at, ms, percent, times
from trainperf.model import (
    INPUT_BOUND_BELOW,
    LEAST_SAMPLES,
    Bottleneck,
    Evidence,
    Finding,
    Measure,
    Missing,
    Site,
    Verdict,
)
from trainperf.verdict import torch
from trainperf.verdict.culprit import input_culprit

SEEN = 0.10
"""Share of its samples from which a loop that gets batches is probably bound by that."""

CPU = 0.30
"""Share of a step's CPU seconds that its input must take to be what it is probably bound by."""

OWN = 0.25
"""Share of the samples from which a function of the user's is what a step passes in."""

UNEXPLAINED = 0.05
"""Share of a step that must be said to be lost to what is not known."""

TELLS = 2.0
"""A free input that could give more than this at most tells nothing of the model."""

_Answer = tuple[Bottleneck, str]


def probably(evidence: Evidence, findings: tuple[Finding, ...]) -> Verdict:
    """The verdict where times do not settle: a suspect, or what was not examined."""
    utilization = evidence.known_utilization
    for judge in (_getting_batches, _cpu_seconds, torch.outside, _own_function):
        if (found := judge(evidence)) is not None:
            return Verdict(found[0], hedged(found[1], evidence), utilization, grade="probable")
    first = findings[0] if findings else None
    if first is not None and first.category in ("input", "storage"):
        most = "" if first.bound is None else f", at most {times(first.bound)}"
        text = hedged(f"Probably input-bound{most}: {first.title}.", evidence)
        return Verdict("input", text, utilization, grade="probable")
    shown = _model(evidence)
    if shown is None:
        return not_examined(evidence)
    if first is not None and first.bound is not None:
        shown = f"{shown}, and it could run up to {times(first.bound)} as fast"
    return Verdict("model", hedged(f"{shown}.", evidence), utilization, grade="probable")


def hedged(text: str, evidence: Evidence) -> str:
    """A verdict with the noise of the times that it rests on: "Probably …; … vary by ±40 %."."""
    if not text.startswith("Probably"):
        text = f"Probably {text[0].lower()}{text[1:]}"
    text = re.sub(r"could run (?=\d)", "could run at most ", text)
    return f"{text.rstrip('.')}; {varying(evidence)}."


def varying(evidence: Evidence) -> str:
    """How much the step times vary, in words; where they do not, what they leave unexplained."""
    real, utilization = evidence.times.real_, evidence.known_utilization
    if utilization is not None and 1 - utilization > max(UNEXPLAINED, 2 * evidence.times.noise):
        return f"{percent(1 - utilization)} of a step is not explained"
    if isinstance(real, Measure) and real.low is not None:
        noise = evidence.times.noise
        return f"step times vary by {f'±{percent(noise)}' if noise < 1 else 'more than they take'}"
    return "too few steps were timed to say how much they vary"


def not_examined(evidence: Evidence) -> Verdict:
    """The verdict on a step that could not be examined: why, and what would examine it."""
    real, resident = evidence.times.real_, evidence.times.resident_
    if isinstance(real, Missing):
        text = f"Not examined: no step could be timed ({real.reason})."
        return Verdict("none", text, None, grade="not examined")
    why = resident.reason if isinstance(resident, Missing) else varying(evidence)
    return Verdict(
        "none",
        f"Not examined: each step takes {ms(real.seconds)}, but not how much of that is the model "
        f"({why}); {would(why)}.",
        evidence.known_utilization,
        grade="not examined",
    )


def would(reason: str) -> str:
    """The way to examine what was left out for a reason."""
    if re.search(r"several|processes|ranks?\b", reason):
        return "a run of the script in one process would examine it"
    if re.search(r"its own batches|no batch to replay", reason):
        return "a loop over a dataset or a `DataLoader` can be examined"
    return "a longer --budget would examine it"


def _getting_batches(evidence: Evidence) -> _Answer | None:
    """The loop's thread was often seen at getting its next batch."""
    seen = evidence.seen
    if seen is None or seen.samples < LEAST_SAMPLES or evidence.loop.kind != "iterator":
        return None
    if seen.input_low < SEEN:
        return None
    most = 1 / max(0.05, 1 - seen.input_high)
    return "input", (
        f"Probably input-bound, at most {times(most)}: the loop's thread was getting its next "
        f"batch in {percent(seen.input)} of {seen.samples} samples, waiting for "
        f"{input_culprit(evidence)}."
    )


def _cpu_seconds(evidence: Evidence) -> _Answer | None:
    """A step with its batch at hand takes much less CPU time: that does not grow with waiting.

    But with threads that spin for each other. What the input takes alone is no less than what
    it can hold up.
    """
    fed = evidence.times.input_
    try:
        if isinstance(fed, Measure) and (fed.high or fed.seconds) < CPU * evidence.times.real:
            return None
        real, resident = evidence.phase("real").cpu_cores, evidence.phase("resident").cpu_cores
        if not real or not resident or evidence.utilization >= INPUT_BOUND_BELOW:
            return None
        whole, step = real * evidence.times.real, resident * evidence.times.resident
    except NotMeasured:
        return None
    if 1 - step / whole < CPU:
        return None
    most = max(whole / step, evidence.times.real / evidence.times.resident)
    return "input", (
        f"Probably input-bound, at most {times(most)}: a step takes {ms(whole)} of CPU time, and "
        f"{ms(step)} with its batch at hand; the rest goes into {input_culprit(evidence)}."
    )


def _own_function(evidence: Evidence) -> _Answer | None:
    """A function of the user's was often found at work, and the step is not made in it."""
    if torch.taken_apart(evidence):
        return None
    own = [
        cost
        for cost in evidence.functions
        if cost.thread == "main" and cost.share >= OWN and not torch.of_the_step(cost, evidence)
    ]
    if not own:
        return None
    share, place = percent(own[0].share), at(Site(own[0].file, own[0].line))
    return "host", f"Probably host-bound: {share} of each step passes in `{own[0].name}`, {place}."


def _model(evidence: Evidence) -> str | None:
    """The sign that a step is mostly the model's own; None where there is none."""
    if torch.taken_apart(evidence):
        return f"Probably model-bound: {torch.dearest(evidence)} of a step"
    seen = evidence.seen
    if seen is not None and seen.samples >= LEAST_SAMPLES and evidence.loop.kind == "iterator":
        return (
            f"Probably model-bound: the loop's thread was getting its next batch in "
            f"{percent(seen.input)} of {seen.samples} samples"
        )
    try:
        most = evidence.favourable().times
        ratio = most.real / most.resident
    except NotMeasured:
        return None
    if ratio >= TELLS:
        return None
    if ratio <= 1:
        return "Probably model-bound: free data made the step no faster"
    return f"Probably model-bound: free data would make the step at most {times(ratio)} as fast"
