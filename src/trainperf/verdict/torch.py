"""Verdicts on a step of PyTorch, from its parts: forward, backward, optimizer, the rest."""

from __future__ import annotations

from trainperf.errors import NotMeasured
from trainperf.fixes.common.words import at, ms, percent, times
from trainperf.fixes.torch_step._step import call
from trainperf.model import (
    INPUT_BOUND_BELOW,
    Bottleneck,
    Evidence,
    Finding,
    FunctionCost,
    Measure,
    Site,
    SyncPoint,
)
from trainperf.model.torch.step import HOOK_S

OUTSIDE_SHARE = 0.10
"""Work outside the model beyond this share of a step is what it is bound by (XProf: 10 %)."""

SLOWED = 1 / 3
"""So much of what else made the steps slower that were taken apart is added to the line."""

EXPLAINS = 1 / 3
"""A function is named if it was seen in at least so much of what is to be explained."""

MODEL = ("forward", "backward", "optimizer", "graph")
OUTSIDE = ("transfer", "zero_grad", "log", "rest")


def outside(evidence: Evidence) -> tuple[Bottleneck, str] | None:
    """The step is bound by work of the host: copies, its own Python, waiting for the device.

    None where that takes less than a tenth of it, or less than it loses against a resident one,
    or the step was not taken apart.
    """
    parts = _shares(evidence)
    own = min(sum(parts.get(name, 0.0) for name in OUTSIDE), _not_hidden(evidence))
    waiting = max(_waiting(evidence), parts.get("sync", 0.0))
    if max(own, waiting) < max(OUTSIDE_SHARE, _lost(evidence)):
        return None
    if own >= waiting and own < OUTSIDE_SHARE + SLOWED * _slowed(evidence):
        return None
    if waiting > own:
        return "sync", _synchronised(evidence, waiting)
    return "host", _host(evidence, parts, own)


def compiling(evidence: Evidence) -> tuple[Bottleneck, str] | None:
    """Compiling again takes a tenth of the steps or more; None where it does not."""
    seen = evidence.torch_ and evidence.torch_.compiling.recompiling
    share = evidence.tracing_s / evidence.times.real
    if not seen or share < OUTSIDE_SHARE:
        return None
    return "host", (
        f"Held up by compiling: `{seen.function}` is compiled again and again, which takes "
        f"{percent(min(1.0, share))} of each step."
    )


def dearest(evidence: Evidence) -> str:
    """The parts of the model's own work, the dearest first: "backward 55 %, forward 30 %"."""
    parts = _shares(evidence)
    told = sorted((name for name in MODEL if name in parts), key=lambda name: -parts[name])
    called = {"graph": "a replayed CUDA graph"}
    return ", ".join(f"{called.get(name, name)} {percent(parts[name])}" for name in told)


def model_bound(evidence: Evidence, findings: tuple[Finding, ...]) -> str:
    """The sentence where the resident step was not timed, but its parts show the model."""
    text = (
        f"Model-bound: each step takes {ms(evidence.times.real)}, nearly all of it the model's "
        f"own work ({dearest(evidence)})"
    )
    if findings and findings[0].bound is not None:
        return f"{text}; it could run up to {times(findings[0].bound)} as fast."
    return f"{text}."


def own_share(evidence: Evidence) -> float:
    """The share of a step that is forward, backward and optimizer."""
    parts = _shares(evidence)
    return sum(parts.get(name, 0.0) for name in MODEL)


def taken_apart(evidence: Evidence) -> bool:
    """Whether it is known how the model's own work divides."""
    return any(name in _shares(evidence) for name in MODEL)


def _shares(evidence: Evidence) -> dict[str, float]:
    """The parts of a step as shares of their sum; empty where it was not taken apart."""
    seconds = _seconds(evidence)
    whole = sum(seconds.values())
    return {name: each / whole for name, each in seconds.items()} if whole > 0 else {}


def _slowed(evidence: Evidence) -> float:
    """Share of the steps that were taken apart by which they were slower than real ones."""
    whole = sum(_seconds(evidence).values())
    real = evidence.times.real_
    return max(0.0, 1 - real.seconds / whole) if isinstance(real, Measure) and whole > 0 else 0.0


def _seconds(evidence: Evidence) -> dict[str, float]:
    """The parts of a step, less what timing its calls cost; that is taken off the rest.

    On a GPU that is all by which they exceed the real step. Elsewhere it is `HOOK_S` for each
    call at most; what exceeds that slowed all parts alike (neighbours on the same cores).
    """
    try:
        split = evidence.torch.split
    except NotMeasured:
        return {}
    seconds: dict[str, float] = {part.name: part.seconds for part in split}
    real = evidence.times.real_
    if isinstance(real, Measure) and "rest" in seconds:
        excess = max(0.0, sum(seconds.values()) - real.seconds)
        if evidence.device.kind != "GPU":
            excess = min(excess, HOOK_S * sum(part.calls for part in split))
        seconds["rest"] = max(0.0, seconds["rest"] - excess)
    return seconds


def _not_hidden(evidence: Evidence) -> float:
    """Share of a step in which its devices may be idle: more of it no host work costs."""
    times = evidence.times
    if times.device_s is None or not isinstance(times.real_, Measure):
        return 1.0
    return max(0.0, 1 - times.device_s / times.real_.seconds)


def _lost(evidence: Evidence) -> float:
    """Share of a step that a resident one does without, where its work outside is the same."""
    lost = 1 - (evidence.known_utilization or 1.0)
    return lost if lost > 1 - INPUT_BOUND_BELOW else 0.0


def _waiting(evidence: Evidence) -> float:
    """Share of a step that passes in calls that wait for the device."""
    syncs = _syncs(evidence)
    try:
        return sum(sync.seconds for sync in syncs) / evidence.times.real
    except NotMeasured:
        return 0.0


def _syncs(evidence: Evidence) -> list[SyncPoint]:
    found = () if evidence.torch_ is None else evidence.torch_.syncs
    return sorted(found, key=lambda sync: -sync.seconds)


def _synchronised(evidence: Evidence, share: float) -> str:
    text = f"Host-bound by synchronisation: {percent(share)} of each step waits for the device"
    syncs = _syncs(evidence)
    if not syncs:
        return f"{text}."
    first = syncs[0]
    calls = f"{first.calls:.3g} times in each step" if first.calls > 1.05 else "in each step"
    if first.calls < 0.95:
        calls = "not in each step"
    return f"{text}, mostly in `{call(first.what)}`, {at(first.where)}, {calls}."


def _host(evidence: Evidence, parts: dict[str, float], own: float) -> str:
    copies = parts.get("transfer", 0.0)
    if copies > 0.5 * own:
        return (
            f"Host-bound: {percent(copies)} of each step goes into copying batches to the device, "
            f"before the model starts on them."
        )
    if idle := _idle(evidence, own):
        return idle
    text = f"Host-bound: {percent(own)} of each step passes outside forward, backward and optimizer"
    log = next(iter(evidence.torch.logs), None)
    if log is not None and log.seconds >= EXPLAINS * own * evidence.times.real:
        place = "" if log.where is None else f", {at(log.where)}"
        return f"{text}, mostly in `{log.what}`{place}."
    cost = _culprit(evidence, own)
    if cost is not None:
        return f"{text}, mostly in `{cost.name}`, {at(Site(cost.file, cost.line))}."
    where = evidence.loop.where
    loop = f" at {at(where)}" if where else ""
    return f"{text}, in the rest of the loop{loop}: its loss, logging and own Python."


def _idle(evidence: Evidence, share: float) -> str:
    """The sentence on a GPU that has nothing to do, where nothing is known of the host but a trace.

    "" elsewhere: what the host does meanwhile says more.
    """
    traced = evidence.torch.trace
    if evidence.loop.where is not None or traced is None or not traced.gap_s:
        return ""
    text = f"the GPU runs nothing for {percent(share)} of each step"
    if (traced.unqueued_s or 0.0) > 0.5 * traced.gap_s:
        return f"Host-bound: {text}, mostly as the host has not handed over its next work yet."
    return (
        f"Held up: {text}, mostly with its next work queued: it waits for other streams or ranks."
    )


def _culprit(evidence: Evidence, own: float) -> FunctionCost | None:
    """The user's function that the work outside the model passes in, by the stack samples.

    Samples do not say whether a function runs inside the model. A `forward` does, and one
    that is seen far more often than there is work outside must.
    """
    fitting = [
        cost
        for cost in evidence.functions
        if cost.thread == "main"
        and not of_the_step(cost, evidence)
        and EXPLAINS * own <= cost.share <= 1.5 * own
    ]
    return max(fitting, key=lambda cost: cost.share, default=None)


def of_the_step(cost: FunctionCost, evidence: Evidence) -> bool:
    """Whether it is a part of the model, or calls it, so that its time is the model's."""
    if _bare(cost.name) in ("forward", "call"):
        return True
    calls = None if evidence.torch_ is None else evidence.torch_.calls
    places = [evidence.loop.where]
    if calls is not None:
        places += [calls.forward, calls.backward, calls.step]
    return any(
        place is not None and _bare(place.function) == _bare(cost.name) and place.file == cost.file
        for place in places
    )


def _bare(name: str) -> str:
    """The name of a function without that of its class."""
    return name.rpartition(".")[2]
