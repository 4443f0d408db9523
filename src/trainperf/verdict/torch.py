"""Answers for a step of PyTorch, from its parts: forward, backward, optimizer, the rest."""

from __future__ import annotations

from trainperf.errors import NotMeasured
from trainperf.fixes.common.words import at, percent
from trainperf.fixes.torch_step._step import call
from trainperf.model import INPUT_BOUND_BELOW, Evidence, FunctionCost, Site
from trainperf.model.torch import HOOK_S
from trainperf.verdict.answer import MATTERS, Answer, Case

SLOWED = 1 / 3
"""So much of what else made the steps slower that were taken apart is added to the line."""

EXPLAINS = 1 / 3
"""A function is named if it was seen in at least so much of what is to be explained."""

TIMES_AS_MUCH = 5
"""A part of the model that takes so many times what is outside is what the step is bound by. Not
bounds: those of the model promise more than most changes keep."""

MODEL = ("forward", "backward", "optimizer", "graph")
OUTSIDE = ("transfer", "zero_grad", "log", "rest")


def outside(case: Case) -> Answer | None:
    """The step is bound by work of the host: copies, its own Python, waiting for the device.

    None where that takes less than a tenth of it, or less than it loses against a resident one,
    or a fifth of what a part of the model takes; and where it was not taken apart.
    """
    evidence = case.evidence
    parts, real = shares(evidence), evidence.times.real
    own = sum(parts.get(name, 0.0) for name in OUTSIDE)
    if evidence.times.device_s is not None:  # what its devices hide costs no step
        own = min(own, max(0.0, 1 - evidence.times.device_s / real))
    syncs = () if evidence.torch_ is None else evidence.torch_.syncs
    waiting = max(min(1.0, sum(sync.seconds for sync in syncs) / real), parts.get("sync", 0.0))
    lost = 1 - (evidence.known_utilization or 1.0)  # the work outside is in a resident one as well
    dearest_part = max((parts.get(name, 0.0) for name in MODEL), default=0.0)
    if dearest_part > TIMES_AS_MUCH * max(own, waiting):
        return None
    if max(own, waiting) < max(MATTERS, lost if lost > 1 - INPUT_BOUND_BELOW else 0.0):
        return None
    if waiting > own:
        return Answer("host", _synchronised(evidence, waiting))
    slowed = max(0.0, 1 - real / sum(_seconds(evidence).values()))
    if own < MATTERS + SLOWED * slowed:
        return None
    return Answer("host", _host(evidence, parts, own))


def dearest(evidence: Evidence) -> str:
    """The parts of the model's own work, the dearest first: "backward 55 %, forward 30 %".

    "" where it was not taken apart.
    """
    parts = shares(evidence)
    told = sorted((name for name in MODEL if name in parts), key=lambda name: -parts[name])
    called = {"graph": "a replayed CUDA graph"}
    return ", ".join(f"{called.get(name, name)} {percent(parts[name])}" for name in told)


def own_share(evidence: Evidence) -> float:
    """The share of a step that is forward, backward and optimizer; 0 where that is not known."""
    parts = shares(evidence)
    return sum(parts.get(name, 0.0) for name in MODEL)


def shares(evidence: Evidence) -> dict[str, float]:
    """The parts of a step as shares of their sum; empty where it was not taken apart."""
    seconds = _seconds(evidence)
    whole = sum(seconds.values())
    return {name: part / whole for name, part in seconds.items()} if whole > 0 else {}


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
    if "rest" in seconds:
        excess = max(0.0, sum(seconds.values()) - evidence.times.real)
        if evidence.device.kind != "GPU":
            excess = min(excess, HOOK_S * sum(part.calls for part in split))
        seconds["rest"] = max(0.0, seconds["rest"] - excess)
    return seconds


def _synchronised(evidence: Evidence, share: float) -> str:
    text = f"Host-bound by synchronisation: {percent(share)} of each step waits for the device"
    first = max(evidence.torch.syncs, key=lambda sync: sync.seconds, default=None)
    if first is None:
        return text
    often = f"{first.calls:.3g} times " if first.calls > 1.05 else ""
    calls = f"{often}in each step" if first.calls >= 0.95 else "not in each step"
    return f"{text}, mostly in `{call(first.what)}`, {at(first.where)}, {calls}"


def _host(evidence: Evidence, parts: dict[str, float], own: float) -> str:
    copies = parts.get("transfer", 0.0)
    if copies > 0.5 * own:
        return (
            f"Host-bound: {percent(copies)} of each step goes into copying batches to the device, "
            f"before the model starts on them"
        )
    text = f"Host-bound: {percent(own)} of each step passes outside forward, backward and optimizer"
    log = next(iter(evidence.torch.logs), None)
    if log is not None and log.seconds >= EXPLAINS * own * evidence.times.real:
        place = f", {at(log.where)}" if log.where else ""
        return f"{text}, mostly in `{log.what}`{place}"
    # Samples do not say whether a function runs inside the model. A `forward` does, and one
    # that is seen far more often than there is work outside must.
    fitting = (
        cost
        for cost in evidence.functions
        if cost.thread == "main"
        and not of_the_step(cost, evidence)
        and EXPLAINS * own <= cost.share <= 1.5 * own
    )
    cost = max(fitting, key=lambda cost: cost.share, default=None)
    if cost is not None:
        return f"{text}, mostly in `{cost.name}`, {at(Site(cost.file, cost.line))}"
    where = evidence.loop.head or evidence.loop.where
    place = f" at {at(where)}" if where else ""
    return f"{text}, in the rest of the loop{place}: its loss, logging and own Python"


def of_the_step(cost: FunctionCost, evidence: Evidence) -> bool:
    """Whether it is a part of the model, or calls it, so that its time is the model's."""
    name = cost.name.rpartition(".")[2]
    if name in ("forward", "call"):
        return True
    calls = evidence.torch_ and evidence.torch_.calls
    own = (calls.forward, calls.backward, calls.step) if calls else ()
    places = (evidence.loop.where, *own)
    same = (place for place in places if place is not None and place.file == cost.file)
    return any(place.function.rpartition(".")[2] == name for place in same)
