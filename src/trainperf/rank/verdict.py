"""The answer in one sentence."""

from __future__ import annotations

from trainperf.errors import NotMeasured
from trainperf.fixes._words import SMALLEST_GAIN, at, ms, percent, times
from trainperf.model import (
    INPUT_BOUND_BELOW,
    Bottleneck,
    Evidence,
    Finding,
    Measure,
    Missing,
    Probe,
    Site,
    Verdict,
)
from trainperf.rank import outside, torch
from trainperf.rank.culprit import input_culprit
from trainperf.rank.sync import hidden_share, sync_bound
from trainperf.rank.turns import beside_the_steps, mostly_outside

ENDS_OF_EPOCHS = ("keras_epoch_end", "torch_persistent_workers", "torch_loader_rebuilt")
"""Fixes of what passes between epochs: where one comes first, that is the verdict."""

NOISY = 0.25
"""Noise of a step beyond which nothing is called healthy: gains of half as much again hide."""

HOST_SHARE = 0.10
"""Host work beyond this share of a step is what the step is bound by (XProf: 10 %)."""


def verdict(evidence: Evidence, findings: tuple[Finding, ...]) -> Verdict:
    """The answer in one sentence: what the step is bound by, and whose work that is."""
    try:
        utilization: float | None = evidence.utilization
    except NotMeasured:
        utilization = None
    bottleneck, text = _bottleneck(evidence, findings, utilization)
    if isinstance(evidence.times.real_, Missing):
        return Verdict(bottleneck, text, utilization)
    settled = utilization is None or utilization >= INPUT_BOUND_BELOW
    if not findings and settled and bottleneck in ("model", "none"):
        if evidence.times.noise > NOISY:
            return Verdict("none", _unsettled(evidence), utilization)
        if (hidden := hidden_share(evidence)) > NOISY:
            return Verdict("none", _exchange_unsettled(hidden), utilization)
        if beside := beside_the_steps(evidence):
            return Verdict("none", beside, utilization)
        return Verdict("none", _healthy(evidence, utilization), utilization, healthy=True)
    if bottleneck != "environment":
        text += outside.also_stopped(evidence, findings)
    return Verdict(bottleneck, text, utilization)


def _bottleneck(
    evidence: Evidence, findings: tuple[Finding, ...], utilization: float | None
) -> tuple[Bottleneck, str]:
    if findings and findings[0].category == "environment" and findings[0].bound is None:
        return "environment", f"{findings[0].title}: nothing else matters until that is repaired."
    if utilization is not None and findings and findings[0].id in ENDS_OF_EPOCHS:
        found = _between(evidence)
        if found is not None:
            return found
    found = mostly_outside(evidence, findings) or sync_bound(evidence)
    if found is not None:
        return found
    if utilization is None:
        return _without_resident(evidence, findings)
    if evidence.input_bound:
        return outside.storage_bound(evidence, findings) or _input(evidence)
    for judge in (_eager, _host, _tracing, torch.outside):
        found = judge(evidence)
        if found is not None:
            return found
    if utilization < INPUT_BOUND_BELOW:
        if findings and findings[0].category == "input":
            return _input(evidence)
        return outside.counted(evidence, findings) or ("none", _unsettled(evidence))
    if (found := outside.held_back(evidence, findings)) is not None:
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
    """Whether the input alone is far quicker than what its presence costs a step."""
    measure = evidence.times.input_
    if not isinstance(measure, Measure):
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
        return "host", f"{text}; compiling it was not tried."
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
    if share < HOST_SHARE:
        return None
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
    share = found.seconds / (found.steps * evidence.times.real)
    if share < HOST_SHARE:
        return None
    return "host", (
        f"Held up by tracing: `{found.function}` was traced {found.count} times again in "
        f"{found.steps} steps, {percent(min(1.0, share))} of their time."
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


def _healthy(evidence: Evidence, utilization: float | None) -> str:
    if utilization is None and torch.taken_apart(evidence):
        return torch.healthy(evidence)
    if utilization is None:
        return "Nothing to repair was found in what could be measured."
    hidden = hidden_share(evidence)
    also = f" (the exchange of gradients is up to {percent(hidden)})" if hidden else ""
    return (
        f"Healthy: {percent(utilization)} of each step is the step itself{also}, and nothing that "
        f"trainperf knows would make it faster than the noise of this machine."
    )


def _exchange_unsettled(hidden: float) -> str:
    return (
        f"Not settled: the exchange of gradients may take anything up to {percent(hidden)} of a "
        f"step, as step times varied; run again on a quieter machine or with more --steps."
    )


def _unsettled(evidence: Evidence) -> str:
    real = evidence.times.real_
    known = isinstance(real, Measure) and real.low is not None
    by = f" by ±{percent(evidence.times.noise)}" if known else ""
    return (
        f"Not settled: step times varied{by}, which hides what the step loses; run again on a "
        f"quieter machine or with more --steps."
    )


def _without_resident(evidence: Evidence, findings: tuple[Finding, ...]) -> tuple[Bottleneck, str]:
    if isinstance(evidence.times.real_, Missing):
        return "none", "Nothing was measured: the loop made too few steps."
    if torch.taken_apart(evidence):
        found = torch.outside(evidence)
        return found or ("model", torch.model_bound(evidence, findings))
    real = evidence.times.real
    own = [cost for cost in evidence.functions if cost.thread == "main"]
    text = f"Each step takes {ms(real)}; how much of it is the model could not be measured."
    if findings:
        category = findings[0].category
        text = f"{findings[0].title}. Each step takes {ms(real)}."
        return ("host" if category == "practice" else category), text
    if own and own[0].share >= 0.25:
        place = at(Site(own[0].file, own[0].line))
        text = f"{percent(own[0].share)} of each step passes in `{own[0].name}`, {place}."
        return "host", text
    return "none", text
