"""TorchDynamo's compiling in the user's steps, read from its events.

`torch_compile_call` is a call of the user's, `torch_compilation` a compilation that has ended,
with the guard for which the code before did not serve, `torch_graph_break` a line at which a
graph ends.
"""

from __future__ import annotations

import math
from collections import Counter

from trainperf.evidence.events import Observed, site
from trainperf.model import Event
from trainperf.model.torch.compiling import CompileCall, Compiling, GraphBreak, Recompiling

COUNTED = ("warmup", "real", "real~", "first", "traced")
"""Phases whose steps are the script's own, with batches of its own."""


def compiling(observed: Observed) -> Compiling:
    """All that is known of compiling in the script."""
    recompiling, breaks = _recompiling(observed), _breaks(observed)
    return Compiling(_calls(observed), recompiling, breaks, _start_s(observed))


def _calls(observed: Observed) -> tuple[CompileCall, ...]:
    """The calls, one of each place: of a module `torch.compile` is called twice for one."""
    found: dict[object, CompileCall] = {}
    for event in observed.process:
        where = site(event["where"]) if event["e"] == "torch_compile_call" else None
        if where is not None:
            found.setdefault(where, CompileCall(where, event["dynamic"]))
    return tuple(found.values())


def _recompiling(observed: Observed) -> Recompiling | None:
    first = observed.first("first_update")
    if first is None:
        return None
    steps = [one for one in observed.of("step") if one["p"] in COUNTED and one["s"] >= first["t"]]
    timed = [one for one in steps if one["p"] == "real"]
    within = [one for one in observed.of("torch_compilation") if _in(one, steps)]
    again = [one for one in within if one["reason"]]
    if not again:
        return None
    name, _ = Counter(str(one["function"]) for one in again).most_common(1)[0]
    last = [one for one in again if one["function"] == name][-1]
    seconds = sum(float(one["d"]) for one in within)
    lasting = sum(float(one["d"]) for one in within if _in(one, timed))
    return Recompiling(
        function=name,
        count=sum(not one["limit"] for one in again),
        steps=len(steps),
        seconds=seconds,
        reason=str(last["reason"]),
        where=site(last["where"]),
        lasting_s=lasting / len(timed) if timed else 0.0,
        once_s=seconds - lasting,
        limit=any(one["limit"] for one in again),
    )


def _start_s(observed: Observed) -> float:
    first = observed.first("first_update")
    before = math.inf if first is None else first["t"]
    made = (one for one in observed.process if one["e"] == "torch_compilation")  # before the loop
    return sum(float(one["d"]) for one in made if one["s"] < before)


def _in(event: Event, steps: list[Event]) -> bool:
    return any(one["s"] <= event["s"] <= one["t"] for one in steps)


def _breaks(observed: Observed) -> tuple[GraphBreak, ...]:
    """The places where graphs break, with the first reason of each: others follow from it."""
    found: dict[tuple[str, int], GraphBreak] = {}
    for event in observed.process:
        where = site(event["where"]) if event["e"] == "torch_graph_break" else None
        if where is None:
            continue
        known = found.get((where.file, where.line))
        reason = known.reason if known is not None else str(event["reason"])
        skips = bool(event["skips"]) or (known is not None and known.skips)
        found[where.file, where.line] = GraphBreak(where, reason, skips)
    return tuple(found.values())
