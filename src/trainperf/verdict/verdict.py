"""The answer in one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from trainperf.errors import NotMeasured
from trainperf.fixes import by_id, concern
from trainperf.fixes.common.words import SMALLEST_GAIN, at, ms, percent, times
from trainperf.fixes.host.limits import throttled_share
from trainperf.model import (
    INPUT_BOUND_BELOW,
    Bottleneck,
    Category,
    Evidence,
    Finding,
    Measure,
    Missing,
    OwnCode,
    Probe,
    Trial,
    Verdict,
)
from trainperf.verdict import torch
from trainperf.verdict.culprit import input_culprit
from trainperf.verdict.healthy import own_share, sound
from trainperf.verdict.probable import hedged, probably
from trainperf.verdict.sync import hidden_share, sync_bound
from trainperf.verdict.turns import beside_the_steps, mostly_outside

NOISY = 0.25
"""Noise of a step beyond which what its times say is probable: gains of half as much again hide."""

_Answer = tuple[Bottleneck, str]

SIDES: dict[Category, str] = {
    "input": "Input-bound",
    "storage": "Storage-bound",
    "model": "Model-bound",
    "host": "Host-bound",
    "sync": "Sync-bound",
    "memory": "Held up by memory",
    "environment": "Held back by the machine",
    "practice": "Host-bound",
}
"""How a verdict begins, by the category of what it names."""

A_LINE, LONGEST_LINE = 0.2, 60
"""A line is named from this share of a step on, by so many characters of its text at most."""

MOSTLY_LOST = 0.5
"""Below this utilisation a step is bound by what it loses, or by nothing that is known."""

HOST_SHARE = 0.10
"""Host work beyond this share of a step is what the step is bound by (XProf: 10 %)."""

_MOST = 0.5
"""The share of the waiting that storage must take to be called its cause."""

_ALIKE = 0.9
"""Bounds that differ by less than the noise of a step are as good as equal."""

_OFTEN = 0.5
"""The share of its periods in which a CPU quota must have been used up to be in the verdict."""


def verdict(
    evidence: Evidence, findings: tuple[Finding, ...], trials: Sequence[Trial] = ()
) -> Verdict:
    """The answer in one sentence: what the step is bound by, and whose work that is.

    `trials` are those that were made on the script, and came to nothing.
    """
    found = _verdict(evidence, findings, trials)
    named = passes(evidence) if _of_model(found) else ""
    return replace(found, text=found.text + named + _slower(evidence))


def _slower(evidence: Evidence) -> str:
    """A sentence on steps that take longer and longer; "" where they do not."""
    seen = evidence.over_time
    if seen is None or not seen.slower:
        return ""
    longer = times(seen.ratio)
    return f" Steps get slower as it runs: late ones take {longer} as long as early ones."


def _of_model(found: Verdict) -> bool:
    return found.bottleneck == "model" or found.healthy


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


def _verdict(evidence: Evidence, findings: tuple[Finding, ...], trials: Sequence[Trial]) -> Verdict:
    utilization = evidence.known_utilization
    if isinstance(evidence.times.real_, Missing):
        text = "Nothing was measured: the loop made too few steps."
        return Verdict("none", text, utilization, grade="not examined")
    if (found := _counted(evidence, findings, utilization)) is not None:
        return Verdict(*found, utilization)
    found = _timed(evidence, findings, utilization)
    if found is None:
        return probably(evidence, findings)
    bottleneck, text = found
    settled = utilization is None or utilization >= INPUT_BOUND_BELOW
    if not findings and settled and bottleneck in ("model", "none"):
        if beside := beside_the_steps(evidence, own_share(evidence) is not None):
            return Verdict("none", beside, utilization, grade="not examined")
        return sound(evidence, trials)
    if bottleneck != "environment":
        text += _also_stopped(evidence, findings)
    if bottleneck != "environment" and _noise(evidence, bottleneck) > NOISY:
        return Verdict(bottleneck, hedged(text, evidence), utilization, grade="probable")
    return Verdict(bottleneck, text, utilization)


def _noise(evidence: Evidence, bottleneck: Bottleneck) -> float:
    """The noise of what a verdict concerns: what is lost to the input was told by neighbours."""
    waiting = evidence.times.waiting_noise
    if waiting is not None and bottleneck in ("input", "storage"):
        return waiting
    return evidence.times.noise


def _counted(
    evidence: Evidence, findings: tuple[Finding, ...], utilization: float | None
) -> _Answer | None:
    """Verdicts that noise does not touch: a machine set up wrong, pauses, own code."""
    first = findings[0] if findings else None
    if first is not None and first.category == "environment" and first.bound is None:
        return "environment", f"{first.title}: nothing else matters until that is repaired."
    if (found := mostly_outside(evidence, findings)) is not None:
        return found
    if first is None:
        return None
    if utilization is not None and concern(first) == "epoch end":
        return _between(evidence)
    return None if first.own is None else _own(first, first.own)


def side_of(finding: Finding) -> Bottleneck:
    """Which side of the step a finding concerns."""
    return "host" if finding.category == "practice" else finding.category


def _own(first: Finding, own: OwnCode) -> _Answer:
    """The step passes in the user's own function, and what that does."""
    return side_of(first), (
        f"{SIDES[first.category]}: {percent(own.share)} of each step passes in {own.name}, "
        f"{at(first.where[0])}, which {own.does}."
    )


def _timed(
    evidence: Evidence, findings: tuple[Finding, ...], utilization: float | None
) -> _Answer | None:
    """The bottleneck of the step, by its times; None where they do not tell."""
    found = sync_bound(evidence)
    if found is not None:
        return found
    if utilization is None:
        return _without_resident(evidence, findings)
    if evidence.input_bound:
        return _storage_bound(evidence, findings) or _input(evidence)
    found = torch.compiling(evidence)
    if found is None and 1 - utilization > HOST_SHARE:  # resident batches trace nothing anew
        found = _tracing(evidence)
    if found is not None:
        return found
    if utilization < MOSTLY_LOST:  # the bar of the step would show that before all else
        return _counted_limit(evidence, findings)
    for judge in (_eager, _host, _tracing, torch.outside):
        found = judge(evidence)
        if found is not None:
            return found
    if utilization < INPUT_BOUND_BELOW:
        return _counted_limit(evidence, findings)
    if (found := _held_back(evidence, findings)) is not None:
        return found
    return "model", _model(evidence, findings, utilization)


def _input(evidence: Evidence) -> tuple[Bottleneck, str]:
    real, resident = evidence.times.real, evidence.times.resident
    waiting = percent(1 - resident / real)
    if _contended(evidence):
        alone = ms(evidence.times.input)
        return "input", (
            f"Input-bound: the step could run {times(real / resident)} as fast if data were free; "
            f"{waiting} of each step goes into handing batches over and sharing cores with the "
            f"input, which alone makes one in {alone}."
        )
    culprit = input_culprit(evidence)
    text = (
        f"Input-bound: the step could run {times(real / resident)} as fast if data were free; "
        f"{waiting} of each step waits for {culprit}."
    )
    if evidence.loop.kind == "call":
        return "input", text.replace("waits for", "goes into")
    return "input", text


def _contended(evidence: Evidence) -> bool:
    """Whether the input alone is far quicker than what its presence costs a step.

    Drained, it is opened once: of one that each step opens anew that says nothing.
    """
    measure = evidence.times.input_
    if not isinstance(measure, Measure) or evidence.loop.opened_each is not None:
        return False
    return measure.seconds < 0.5 * (evidence.times.real - evidence.times.resident)


def _eager(evidence: Evidence) -> tuple[Bottleneck, str] | None:
    """The step is the user's own and runs op by op."""
    step = evidence.step_function
    eager = (step is not None and not step.compiled) or any(
        model.run_eagerly for model in evidence.models
    )
    if not eager:
        return None
    text = "Host-bound: the step runs eagerly, one operation at a time from Python"
    probe = evidence.probes.get("compiled")
    if not isinstance(probe, Probe):
        return "host", f"{text}; what compiling gives was not probed."
    if probe.low < 1 + SMALLEST_GAIN:
        return None
    return "host", f"{text}; compiled, it ran {times(probe.ratio)} as fast in a probe."


def _between(evidence: Evidence) -> tuple[Bottleneck, str] | None:
    between = evidence.between_epochs
    if between is None or not between.epoch_steps:
        return None
    epoch = between.epoch_steps * evidence.times.real
    if between.validation_s and between.validation_s > 0.5 * between.seconds:
        what = "mostly validation"
    elif between.callbacks_s and between.callbacks_s > 0.5 * between.seconds:
        what = "mostly callbacks at the end of the epoch"
    elif between.restart_s and between.restart_s > 0.5 * between.seconds:
        what = "mostly opening the input again"
    elif evidence.torch_ is not None:
        what = "validation, opening the input again and what the script does besides"
    else:
        what = "validation, callbacks and opening the input again"
    share = percent(between.seconds / (epoch + between.seconds))
    return "host", (
        f"Held up between epochs: {ms(between.seconds)} after every {between.epoch_steps} steps, "
        f"{share} of an epoch, {what}."
    )


def _host(evidence: Evidence) -> tuple[Bottleneck, str] | None:
    try:
        host, real = evidence.times.host, evidence.times.real
    except NotMeasured:
        return None
    # Where the machine was slower while resident steps ran, so was the host's part of them.
    share = host / max(real, evidence.times.resident, host)
    if share < HOST_SHARE or (1 - evidence.utilization > share and not evidence.waiting_is_real):
        return None  # more of it may be waiting, of which less than half is sure
    keras = evidence.framework.keras is not None
    culprit = "callbacks, logging and Keras's own Python" if keras else "callbacks and logging"
    for cost in evidence.callbacks:
        if cost.batch_s > 0.5 * host:
            culprit = f"the callback `{cost.name}`" + (f", {at(cost.where)}" if cost.where else "")
            break
    return "host", (
        f"Host-bound: {percent(share)} of each step is spent outside the model's step, "
        f"mostly in {culprit}."
    )


def _tracing(evidence: Evidence) -> tuple[Bottleneck, str] | None:
    found = evidence.retracing
    if found is None or found.steps == 0:
        return None
    share = evidence.tracing_s / evidence.times.real
    if share < HOST_SHARE:
        return None
    return "host", (
        f"Held up by tracing: `{found.function}` was traced {found.count} times again in "
        f"{found.steps} steps; traces and the first runs of new graphs take "
        f"{percent(min(1.0, share))} of a step."
    )


def _model(evidence: Evidence, findings: tuple[Finding, ...], utilization: float) -> str:
    text = (
        f"Model-bound: the data is there in time (utilisation {percent(utilization)}); each step "
        f"takes {ms(evidence.times.real)}"
    )
    if parts := torch.dearest(evidence):
        text += f" ({parts})"
    if hidden := hidden_share(evidence):
        text += f", of which the exchange of gradients may be up to {percent(hidden)}"
    if findings and findings[0].bound is not None:
        return f"{text}, and could run up to {times(findings[0].bound)} as fast."
    return f"{text}."


def _without_resident(evidence: Evidence, findings: tuple[Finding, ...]) -> _Answer | None:
    if torch.taken_apart(evidence):
        found = torch.compiling(evidence) or torch.outside(evidence)
        return found or ("model", torch.model_bound(evidence, findings))
    if not findings:
        return None
    first = findings[0]
    text = f"{first.title}. Each step takes {ms(evidence.times.real)}."
    return side_of(first), text


def _storage_bound(
    evidence: Evidence, findings: tuple[Finding, ...]
) -> tuple[Bottleneck, str] | None:
    """The step waits for its input, and most of that is files or objects on their way.

    None where no finding measured that, or other work takes more of the waiting.
    """
    known = (finding.waits for finding in findings if finding.category == "storage")
    found = max(filter(None, known), key=lambda waits: waits.seconds, default=None)
    if found is None:
        return None
    real, resident = evidence.times.real, evidence.times.resident
    probed, most = found.seconds, found.most_s
    waiting = real - resident
    seconds = min(most, waiting)
    if seconds < _MOST * waiting:
        return None
    verb = "goes into" if evidence.loop.kind == "call" else "waits for"
    return "storage", (
        f"Storage-bound: the step could run {times(real / resident)} as fast if data were free; "
        f"{percent(1 - resident / real)} of each step {verb} data, "
        f"{'up to ' if most > min(probed, waiting) else ''}{ms(seconds)} of its "
        f"{ms(real)} for {found.what}."
    )


def _held_back(evidence: Evidence, findings: tuple[Finding, ...]) -> tuple[Bottleneck, str] | None:
    """The machine, as it is set up, is what a step loses most to."""
    first = findings[0] if findings else None
    if first is None or first.category != "environment" or first.bound is None:
        return None
    # A quota is the cause where threads that are too many for it promise the same.
    quota = next((one for one in findings if concern(one) == "quota"), None)
    if quota is not None and quota.bound is not None and quota.bound >= _ALIKE * first.bound:
        first = quota
    return "environment", (
        f"{first.title}: each step takes {ms(evidence.times.real)}, and could run up to "
        f"{times(first.bound or 1.0)} as fast.{_stops(evidence) if first is quota else ''}"
    )


def _counted_limit(
    evidence: Evidence, findings: tuple[Finding, ...]
) -> tuple[Bottleneck, str] | None:
    """The limit that the kernel's or the driver's own counts show, whatever times say."""
    fix = by_id().get(findings[0].id) if findings else None
    return _held_back(evidence, findings) if fix is not None and fix.counted else None


def _also_stopped(evidence: Evidence, findings: tuple[Finding, ...]) -> str:
    """A sentence on a CPU quota that was used up most of the time; "" where it was not."""
    known = any(concern(one) == "quota" for one in findings)
    return _stops(evidence) if known else ""


def _stops(evidence: Evidence) -> str:
    try:
        share = throttled_share(evidence)
    except NotMeasured:
        return ""
    if share < _OFTEN or evidence.container is None:
        return ""
    quota = evidence.container.quota_cores or 0.0
    return (
        f" The CPU quota of {quota:g} core{'' if quota == 1 else 's'} was used up in "
        f"{percent(share)} of its periods."
    )
