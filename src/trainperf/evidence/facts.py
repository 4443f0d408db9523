"""The script's process in its own words: framework, loop, models, callbacks, tracing."""

from __future__ import annotations

import math
import re
import statistics
from bisect import bisect
from typing import Any, Literal

from trainperf.child.timing.estimating import estimate
from trainperf.evidence.events import Observed, read_as, site
from trainperf.model import (
    CallbackCost,
    ChangingNumber,
    Event,
    Framework,
    Loop,
    ModelFacts,
    Padding,
    Retracing,
    Site,
    StepFunction,
)

COUNTED = ("warmup", "real", "real~", "first", "traced")
"""Phases whose steps are the script's own, with batches of its own."""


def framework(observed: Observed) -> Framework:
    """The framework of the loop, from its facts or, if the run ended early, its import.

    A process may import both: PyTorch's TensorBoard writer loads TensorFlow.
    """
    name: Literal["tensorflow", "torch"] = (
        "torch" if observed.framework == "torch" else "tensorflow"
    )
    event = described(observed)
    if event is not None:
        cuda = None if event["cuda"] is None else bool(event["cuda"])
        own = {"name": name, "built_with_cuda": cuda}
        return read_as(Framework, event, **own)
    imported = [event for event in observed.all("import") if event["name"] == name]
    return Framework(name, imported[0]["version"] if imported else "")


def described(observed: Observed) -> Event | None:
    """The event of the loop's framework on itself, None if the run ended before."""
    described = observed.of("framework")
    return next((event for event in described if event["name"] == observed.framework), None)


def loop(observed: Observed) -> Loop:
    """The training loop: how it takes batches, their size, epochs, what feeds it."""
    facts = observed.facts
    sequences = observed.first("sequences") or {}
    batches = facts.get("steps_per_epoch") or facts.get("epoch_steps")
    per_step = int(facts.get("batches_per_step") or 1)
    steps = math.ceil(batches / per_step) if batches else None
    opened = next(observed.of("opens_each"), {})
    of_batch = {"batch_size": sequences.get("samples") or facts.get("batch_size")}
    of_batch |= {name: sequences.get(name) for name in ("tokens", "real_tokens")}
    return read_as(
        Loop,
        facts,
        kind="iterator" if observed.start["kind"] == "argument" else observed.start["kind"],
        where=facts.get("where") or observed.start.get("where"),
        **{name: known and known * per_step for name, known in of_batch.items()},
        epoch_steps=steps,
        clock=observed.start.get("clock"),
        waits_every=observed.waits_every,
        batches_per_step=per_step,
        opened_each=opened.get("where"),
    )


def models(observed: Observed) -> tuple[ModelFacts, ...]:
    """The models that were trained."""
    return tuple(read_as(ModelFacts, event) for event in observed.of("model"))


def callbacks(observed: Observed) -> tuple[CallbackCost, ...]:
    """The cost of each callback per batch and per epoch, the dearest first."""
    costs = []
    for event in observed.of("callback"):
        hooks = {name: took / count for name, (count, took, _) in event["hooks"].items() if count}
        epoch = [hooks[name] for name in ("on_epoch_begin", "on_epoch_end") if name in hooks]
        cost = read_as(
            CallbackCost,
            event,
            batch_s=hooks.get("on_train_batch_begin", 0.0) + hooks.get("on_train_batch_end", 0.0),
            epoch_s=sum(epoch) if epoch else None,
            hooks=hooks,
            **{
                kind: {name: where for name, where in (event.get(kind) or {}).items() if where}
                for kind in ("methods", "functions")
            },
        )
        costs.append(cost)
    return tuple(sorted(costs, key=lambda cost: -cost.batch_s))


def step_function(observed: Observed) -> StepFunction | None:
    """The function that updates the weights in a loop the user wrote."""
    if observed.start["kind"] == "fit":
        return None
    for event in observed.of("step_function"):
        where = event.get("where") if event.get("own", True) else None
        return read_as(StepFunction, event, where=where, tape_where=event.get("tape"))
    return None


def retracing(observed: Observed) -> Retracing | None:
    """Tracings inside steps after the first step of the loop, while it was timed."""
    update = observed.first("first_update")
    if update is None:
        return None
    steps = [event for event in observed.of("step") if event["p"] in COUNTED]
    traces = [
        event
        for event in observed.of("trace")
        if event["in_step"]
        and update["t"] < event["t"]
        and any(step["s"] <= event["s"] <= step["t"] for step in steps)
    ]
    if not traces or not steps:
        return None
    functions = list(observed.of("step_function"))
    same = [event for event in functions if event["name"] == traces[-1]["name"]]
    described = (same or functions or [{}])[-1]
    numbers = _changing_numbers(traces)
    changes, cause = _changes(described.get("signatures") or [], numbers)
    return Retracing(
        function=str(described.get("name") or traces[-1]["name"]),
        count=len(traces),
        steps=len(steps),
        changes=changes,
        cause=cause,
        where=site(described.get("where")),
        numbers=numbers,
        step_s=_of_a_step(observed, traces, steps),
    )


def _of_a_step(observed: Observed, traces: list[Event], steps: list[Event]) -> float:
    """Seconds of a step that tracing again takes: estimated from its blocks as its own time is.

    A trace costs itself, or the first run of what it gave, as far as that took longer than the
    median of resident steps that traced nothing. Where no block was timed all steps share it.
    """
    begun = sorted(event["s"] for event in observed.of("trace"))
    quiet = [
        step["t"] - step["s"]
        for step in observed.of("step")
        if step["p"] == "resident" and bisect(begun, step["s"]) == bisect(begun, step["t"])
    ]
    usual, costs = statistics.median(quiet) if quiet else 0.0, []
    for trace in traces:
        runs = (r for r in observed.of("first_run") if r["s"] <= trace["s"] < r["s"] + r["d"])
        costs.append(max(trace["d"], next((run["d"] - usual for run in runs), 0.0)))
    timed = [step for step in steps if step["p"] == "real"]
    within = [
        (trace["s"], cost)
        for trace, cost in zip(traces, costs, strict=True)
        if any(step["s"] <= trace["s"] < step["t"] for step in timed)
    ]
    blocks = []
    for block in observed.of("block"):
        if block["p"] == "real" and block["n"]:
            own = sum(cost for began, cost in within if block["s"] <= began < block["t"])
            blocks.append(max(0.0, min(own, block["d"] - block["n"] * usual)) / block["n"])
    return estimate(blocks).value if blocks else float(sum(costs) / len(steps))


def _changing_numbers(traces: list[dict[str, Any]]) -> tuple[ChangingNumber, ...]:
    """The Python numbers that changed, each with the type that holds all its values."""
    seen: dict[tuple[Site, int | str, str], set[str]] = {}
    for call in (event.get("call") or {} for event in traces):
        if (where := site(call.get("where"))) is not None:
            for number in call["numbers"]:
                key = (where, number["argument"], number["parameter"])
                seen.setdefault(key, set()).add(number["type"])
    found = []
    for (where, argument, parameter), types in seen.items():
        dtype: Literal["float32", "int32", ""] = "float32" if "float" in types else "int32"
        found.append(ChangingNumber(where, argument, parameter, "" if "long" in types else dtype))
    return tuple(found)


def _changes(
    signatures: list[str], numbers: tuple[ChangingNumber, ...]
) -> tuple[Literal["value", "shape", "dtype", ""], str]:
    """What changed from one call to the next, and in words: by the last two signatures traced."""
    names = list(dict.fromkeys(f"`{number.parameter}`" for number in numbers if number.parameter))
    if names:
        return "value", f"the Python number{'s' * (len(names) > 1)} {' and '.join(names)}"
    if len(set(signatures[-2:])) < 2:
        return "", ""
    first, second = signatures[-2:]
    kinds: dict[Literal["shape", "dtype"], str] = {
        "shape": r"shape=(\([^)]*\))",
        "dtype": r"dtype=tf\.(\w+)",
    }
    for kind, pattern in kinds.items():
        pairs = zip(re.findall(pattern, first), re.findall(pattern, second), strict=False)
        differ = [pair for pair in pairs if pair[0] != pair[1]]
        if differ and first.count("TensorSpec") == second.count("TensorSpec"):
            return kind, f"the {kind} of an argument changes: {' and '.join(differ[0])}"
    return "value", "a Python value among the arguments changes from call to call"


def padding(observed: Observed) -> Padding | None:
    """How much of the padded sequences is padding, and what batching by length would leave."""
    for event in observed.of("padding"):
        lengths = sorted(event["lengths"])
        size = max(1, int(event["batch"]))
        buckets = [max(lengths[start : start + size]) for start in range(0, len(lengths), size)]
        return read_as(
            Padding,
            event,
            mean_length=sum(lengths) / len(lengths),
            padded_length=event["padded"],
            bucketed_length=sum(buckets) / len(buckets),
            sequences=len(lengths),
            longest_length=event.get("longest"),
            quartiles=tuple(lengths[len(lengths) * part // 4] for part in (1, 2, 3)),
            place=event.get("place") or None,
        )
    return None
