"""A PyTorch process's own word, read from its events.

Most have the fields of the values they become; `torch_split` holds the seconds and
calls of all profiled steps (and a place), `torch_flags` a dictionary, `gpu_memory` is of one GPU.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import TypeVar

from trainperf.evidence.events import Observed, read_as, site
from trainperf.evidence.facts import COUNTED
from trainperf.fixes.common.words import ms
from trainperf.model import (
    HOOK_S,
    CompileCall,
    Compiling,
    DeviceWait,
    Evaluation,
    Event,
    GraphBreak,
    Loader,
    LogCall,
    Measure,
    Missing,
    Recompiling,
    StepCalls,
    StepPart,
    SyncPoint,
    Torch,
    TorchModel,
    TorchOptimizer,
    Trace,
    Trainer,
)

T = TypeVar("T")

SPLIT = Missing("the run ended before the parts of a step were timed")
UNTRACED = "the run ended before its operators were traced"

OF_MEMORY = ("allocated_peak", "reserved_peak", "retries", "total")
"""What CUDA's allocator counts, on the first GPU that is used."""

APART = 0.25
"""Parts whose sum is further than this from the step, or than its noise, are not its parts."""


def torch(observed: Observed, real: Measure | Missing = SPLIT, gpu: bool = False) -> Torch | None:
    """All that only PyTorch has; None where the loop is not one of PyTorch's.

    `real` is the step as it is, which its parts must add up to; `gpu` whether it runs on one.
    """
    if observed.start.get("framework") != "torch":
        return None
    profile, (low, high) = _taken_apart(observed)

    def values(kind: type[T], name: str, profiled: bool = False) -> list[T]:
        events = observed.of(name)
        return [read_as(kind, e) for e in events if not profiled or low <= e.get("t", low) < high]

    traces, flags = values(Trace, "torch_trace"), [*observed.of("torch_flags")]
    on_gpu = next(observed.of("gpu_memory"), {})
    # the first may come before the loop is known to be one
    evaluations = [read_as(Evaluation, event) for event in observed.all("torch_evaluation")]
    why = "" if traces else observed.missing("the operators of a step", UNTRACED).reason
    return Torch(
        # one of each place: as it was last recorded, in the order of the first time
        loaders=tuple({made.where: made for made in values(Loader, "torch_loader")}.values()),
        models=tuple(values(TorchModel, "torch_model")),
        optimizers=tuple(values(TorchOptimizer, "torch_optimizer")),
        calls=next(reversed(values(StepCalls, "torch_calls")), None),
        evaluation=max(evaluations, key=lambda seen: seen.grad, default=None),
        split_=_split(observed, profile, None if gpu else real),
        syncs=tuple(sorted(values(SyncPoint, "torch_sync", True), key=lambda e: -e.seconds)),
        logs=tuple(sorted(values(LogCall, "torch_log", True), key=lambda e: -e.seconds)),
        waits=tuple(sorted(values(DeviceWait, "torch_wait", True), key=lambda e: -e.calls)),
        flags=dict(flags[-1]["values"]) if flags else {},
        memory={name: on_gpu[name] for name in OF_MEMORY if name in on_gpu},
        trace=traces[-1] if traces else None,
        untraced=why,
        trainer=next(iter(values(Trainer, "torch_trainer")), None),
        compiling=compiling(observed),
    )


def _taken_apart(observed: Observed) -> tuple[Event | None, tuple[float, float]]:
    """The split of the profile that disturbed steps least, and when what that recorded came.

    Steps are profiled again where a burst fell on them; what each profile saw of them follows
    its `torch_split`.
    """
    splits = list(observed.of("torch_split"))
    if not splits:
        return None, (0.0, math.inf)

    def step_s(split: Event) -> float:
        return sum(float(part[0]) for part in split["parts"].values()) / int(split["steps"])

    least = min(splits, key=step_s)
    after = (split["t"] for split in splits if split["t"] > least["t"])
    return least, (least["t"], min(after, default=math.inf))


def _split(
    observed: Observed, event: Event | None, real: Measure | Missing | None
) -> tuple[StepPart, ...] | Missing:
    """The parts of a step if they add up to `real`, else why they are left out.

    What timing each call costs is allowed for. Not for a GPU: CUDA's debug mode is on in these
    steps there, and holds up the host wherever it waits.
    """
    if event is None:
        return observed.missing("split", SPLIT.reason)
    steps = event["steps"]
    split = tuple(
        StepPart(name, seconds / steps, calls / steps, site(where[0]) if where else None)
        for name, (seconds, calls, *where) in event["parts"].items()
    )
    if not isinstance(real, Measure):
        return split
    whole = sum(part.seconds for part in split)
    hooks = HOOK_S * sum(part.calls for part in split)
    apart = max(whole - hooks - real.seconds, real.seconds - whole)
    if apart <= max(APART, real.noise) * real.seconds:
        return split
    return Missing(
        f"the steps that were taken apart took {ms(whole)} each, where a step takes "
        f"{ms(real.seconds)}: their parts are not those of a usual step"
    )


def compiling(observed: Observed) -> Compiling:
    """All that is known of compiling in the script.

    Of a module `torch.compile` is called twice for one call. A break has the first reason of its
    place: others follow from it.
    """
    calls: dict[object, CompileCall] = {}
    for event in observed.all("torch_compile_call"):
        if event["where"]:
            call = read_as(CompileCall, event)
            calls.setdefault(call.where, call)
    breaks: dict[tuple[str, int], GraphBreak] = {}
    for event in observed.all("torch_graph_break"):
        if event["where"]:
            new = read_as(GraphBreak, event)
            place = new.where.file, new.where.line
            known = breaks.get(place, new)
            breaks[place] = replace(new, reason=known.reason, skips=new.skips or known.skips)
    return Compiling(tuple(calls.values()), _recompiling(observed), tuple(breaks.values()))


def _recompiling(observed: Observed) -> Recompiling | None:
    first = observed.first("first_update")
    if first is None:
        return None
    begun = (step for step in observed.of("step") if step["s"] >= first["t"])
    steps = [step for step in begun if step["p"] in COUNTED]
    timed = [step for step in steps if step["p"] == "real"]
    within = [event for event in observed.of("torch_compilation") if _in(event, steps)]
    again = [event for event in within if event["reason"]]
    if not again:
        return None
    name, _ = Counter(str(event["function"]) for event in again).most_common(1)[0]
    last = [event for event in again if event["function"] == name][-1]
    seconds = sum(float(event["d"]) for event in within)
    lasting = sum(float(event["d"]) for event in within if _in(event, timed))
    return read_as(
        Recompiling,
        last,
        count=sum(not event["limit"] for event in again),
        steps=len(steps),
        seconds=seconds,
        lasting_s=lasting / len(timed) if timed else 0.0,
        once_s=seconds - lasting,
        limit=any(event["limit"] for event in again),
    )


def _in(event: Event, steps: list[Event]) -> bool:
    return any(step["s"] <= event["s"] <= step["t"] for step in steps)
