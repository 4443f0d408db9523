"""The script's process in its own words: framework, devices, loop, models, callbacks, tracing."""

from __future__ import annotations

import math
import re
import statistics
from bisect import bisect
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from trainperf.child.timing.estimating import estimate
from trainperf.evidence.events import Observed, main_loop, read_as, site
from trainperf.model import (
    CallbackCost,
    ChangingNumber,
    CudaDevice,
    Device,
    Event,
    Framework,
    Gpu,
    Length,
    Loop,
    Machine,
    Missing,
    ModelFacts,
    Padding,
    Retracing,
    Site,
    StepFunction,
    words,
)

COUNTED = ("warmup", "real", "real~", "first", "traced")
"""Phases whose steps are the script's own, with batches of its own."""


def described(observed: Observed) -> Event | None:
    """The event of the loop's framework on itself, None if the run ended before."""
    described = observed.of("framework")
    return next((event for event in described if event["name"] == observed.framework), None)


def framework(observed: Observed) -> Framework:
    """The framework of the loop, from its facts or, if the run ended early, its import.

    A process may import both: PyTorch's TensorBoard writer loads TensorFlow.
    """
    name = observed.framework
    imported = (event for event in observed.all("import") if event["name"] == name)
    event = described(observed) or next(imported, {"name": name, "version": ""})
    return read_as(Framework, event, built_with_cuda=event.get("cuda"))


BY_PLACE = "PCI_BUS_ID"
"""The value of CUDA_DEVICE_ORDER with which CUDA counts as NVML does."""


def device(observed: Observed, machine: Machine) -> Device:
    """The devices that the framework computes on, as it said itself."""
    event = described(observed)
    if event is None:
        return Device("", "", 0)
    facts = {fact["k"]: fact["v"] for fact in observed.all("fact")}
    gpus = tuple(_device(told, event["gpus"], machine.gpus, facts) for told in event["gpus"])
    used = [gpu for gpu in gpus if gpu.used]
    if used:
        return Device("GPU", used[0].name or "GPU", len(used), gpus)
    return Device("CPU", machine.cpu_model, int(event["logical"] or 1), gpus)


def of_others(
    observed: Observed, processes: Iterable[Sequence[Event]], machine: Machine
) -> tuple[int, ...]:
    """NVML's indices of the GPUs that other processes of a job use, as far as they are known."""
    others = (main_loop(tuple(events)) for events in processes if events is not observed.process)
    ranks = (loop for loop in others if loop is not None and loop.place is not None)
    found = {gpu.index for loop in ranks for gpu in device(loop, machine).used}
    return tuple(sorted(index for index in found if index is not None))


def _device(
    told: Event, seen: Sequence[Event], gpus: Sequence[Gpu], facts: Mapping[str, Any]
) -> CudaDevice:
    """One device, put together from what CUDA and NVML say of it; NVML knows no slice's memory."""
    gpu = _found(told, seen, gpus, facts)
    mig = " MIG " in told["name"] or (gpu is not None and bool(gpu.mig))
    return read_as(
        CudaDevice,
        told,
        index=None if gpu is None else gpu.index,
        memory_total=told["memory"] or (None if gpu is None or mig else gpu.memory_total),
        compute_capability=told["capability"] or (None if gpu is None else gpu.compute_capability),
        mig=mig,
    )


def _found(
    told: Event, seen: Sequence[Event], gpus: Sequence[Gpu], facts: Mapping[str, Any]
) -> Gpu | None:
    """The GPU of NVML that a device of CUDA is; None where unsure.

    CUDA counts GPUs in an order of its own, and only those that CUDA_VISIBLE_DEVICES shows. Their
    UUIDs are the same in both; where the framework does not tell them, the variables do.
    """
    if told["uuid"]:
        return by_uuid(told["uuid"], gpus)
    shown = facts.get("cuda_visible_devices")
    words = shown.split(",") if isinstance(shown, str) else [str(gpu["number"]) for gpu in seen]
    if len(words) < len(seen):  # it was set when CUDA had begun
        return None
    word = words[told["number"]].strip()
    if word.startswith("GPU-"):
        return by_uuid(word, gpus)
    alone = len(gpus) == len(seen) == 1  # in a container NVML shows no others either
    ordered = facts.get("cuda_device_order") == BY_PLACE or len({gpu.name for gpu in gpus}) == 1
    for gpu in gpus:  # both give a GPU the same name; CUDA puts the slice behind it
        same = not told["name"] or str(told["name"]).startswith(gpu.name)
        if same and (alone or (ordered and str(gpu.index) == word)):
            return gpu
    return None


def by_uuid(uuid: str, gpus: Sequence[Gpu]) -> Gpu | None:
    """By a UUID, or the beginning of one as the variable may have it; PyTorch's has no "GPU-"."""
    begins = uuid.lower().removeprefix("gpu-")
    found = [
        gpu for gpu in gpus if gpu.uuid and gpu.uuid.lower().removeprefix("gpu-").startswith(begins)
    ]
    return found[0] if len(found) == 1 else None


def loop(observed: Observed) -> Loop:
    """The training loop: how it takes batches, their size, epochs, what feeds it."""
    facts = observed.facts
    sequences = observed.first("sequences") or {}
    batches = facts.get("steps_per_epoch") or facts.get("epoch_steps")
    per_step = int(facts.get("batches_per_step") or 1)
    steps = math.ceil(batches / per_step) if batches else None
    opened = next(observed.of("opens_each"), {})
    around = next(observed.of("length"), {}).get("loops")
    of_batch = {"batch_size": sequences.get("samples") or facts.get("batch_size")}
    of_batch |= {name: sequences.get(name) for name in ("tokens", "real_tokens")}
    return read_as(
        Loop,
        facts,
        kind="iterator" if observed.start["kind"] == "argument" else observed.start["kind"],
        where=facts.get("where") or observed.start.get("where"),
        head=around[0] if around and observed.start["kind"] == "update" else None,
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
    types: defaultdict[tuple[Site, int | str, str], set[str]] = defaultdict(set)
    for call in (event.get("call") or {} for event in traces):
        if (where := site(call.get("where"))) is not None:
            for number in call["numbers"]:
                types[where, number["argument"], number["parameter"]].add(number["type"])
    return tuple(
        ChangingNumber(*key, "" if "long" in seen else "float32" if "float" in seen else "int32")
        for key, seen in types.items()
    )


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
    if first.count("TensorSpec") == second.count("TensorSpec"):
        for kind, pattern in CHANGES.items():
            pairs = zip(re.findall(pattern, first), re.findall(pattern, second), strict=False)
            differ = next((pair for pair in pairs if pair[0] != pair[1]), None)
            if differ:
                return kind, f"the {kind} of an argument changes: {' and '.join(differ)}"
    return "value", "a Python value among the arguments changes from call to call"


CHANGES: dict[Literal["shape", "dtype"], str] = {
    "shape": r"shape=(\([^)]*\))",
    "dtype": r"dtype=tf\.(\w+)",
}
"""What may change of a tensor, as its signature has it."""


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


# -------------------------------------------------------------- how long the training is to be

NO_EPOCH = Missing("it is not known how many steps an epoch has")
EARLY = "early stopping may end it sooner"


def length(observed: Observed, loop: Loop) -> Length | Missing:
    """The length of the training in steps of `loop`, or why it is not known."""
    event = next(observed.of("length"), None)
    if event is None:
        return Missing("the run ended before it was known how long the training is to be")
    around: Sequence[Event] = event["loops"]
    own = around[0] if around else None  # which may count its turns, and not iterate the data
    counts = own and (own["turns"] is not None or str(own["text"]).startswith("while"))
    before = [e["p"] for e in observed.loop[: observed.loop.index(event)] if e["e"] == "step"]
    if loop.kind == "call":  # there a batch is replayed without a turn of the loop
        before = [phase for phase in before if not phase.startswith("resident")]
    made = round(len(before) * observed.steps_per_call)
    if loop.kind == "fit":
        counted = [cycle["turns"] for cycle in observed.of("cycle") if cycle.get("turns")]
        found = _fits(loop, around, statistics.fmean(counted) if counted else None)
    elif event["trainer"] is not None:
        found = _trained(loop, event["trainer"])
    elif loop.kind == "iterator" and not counts:
        found = _epochs(loop, around, made)
    elif not around:
        return Missing("no loop of the script was seen around its steps")
    elif own and own["sometimes"]:
        found = _now_and_then(own, made, *event.get("left", (None, None)))
    else:  # it makes its own batches, or asks for each: the innermost loop makes the steps
        turns = _product(around, made * loop.batches_per_step)
        if isinstance(turns, Missing):
            return turns
        steps = turns // loop.batches_per_step
        found = Length(steps, words.count(steps, "step"), None, 1, site(own))
    if isinstance(found, Missing):
        return found
    others = sum(1 for _ in observed.of("other"))
    return replace(found, others=others, open=EARLY if loop.early_stopping else "")


def _now_and_then(own: Event, made: int, before: int | None, left: int | None) -> Length | Missing:
    """Steps that do not come in each turn: as often as those made since `before` were left."""
    if not made or before is None or left is None or left >= before:
        return Missing(f"the update does not come in each turn of `{_head(own)}`")
    steps = made + round(left * made / (before - left))
    return Length(steps, f"about {words.count(steps, 'step')}", None, 1, site(own))


def _head(loop: Event) -> str:
    return str(loop["text"]).rstrip().rstrip(":")


def _fits(loop: Loop, around: Sequence[Event], apart: float | None) -> Length | Missing:
    """Calls of Keras's `fit`: epochs of so many steps, as often as the loops around it turn.

    `apart` are the turns that the innermost of them was seen to make from one call to the next.
    """
    if loop.epoch_steps is None:
        return NO_EPOCH
    many = _product(around)
    if isinstance(many, Missing):
        return many
    for outer in around[int(apart is not None) :]:
        if outer["sometimes"]:
            return Missing(f"`fit` does not come in each turn of `{_head(outer)}`")
    about = ""
    if apart is not None and apart > 1:
        many, about = max(1, round(many / apart)), "about "
    epochs = (loop.epochs or 1) * many
    text = _in_epochs(epochs, loop.epoch_steps)
    if many > 1:
        text = f"{about}{words.count(many, 'call')} of `fit`, {text} in all"
    return Length(epochs * loop.epoch_steps, text, epochs, many, loop.where)


def _trained(loop: Loop, trainer: dict[str, Any]) -> Length | Missing:
    """The length that a library's trainer is given: the earlier of its steps and its epochs."""
    name, in_epoch = trainer["name"], loop.epoch_steps or 0
    known = [steps for steps in (trainer["steps"], (trainer["epochs"] or 0) * in_epoch) if steps]
    if not known:
        return Missing(f"`{name}` has no end that was seen")
    total = int(min(known))
    text = f"{words.count(total, 'step')}, as `{name}` is configured"
    return Length(total, text, math.ceil(total / in_epoch) if in_epoch else None, 1, loop.where)


def _epochs(loop: Loop, around: Sequence[Event], made: int) -> Length | Missing:
    """A loop over a dataset within others: the innermost is its own, the others count epochs."""
    own, others = (around[0], around[1:]) if around else (None, ())
    steps = loop.epoch_steps
    per_step = loop.batches_per_step
    if own is not None and own["each"] is not None:
        each = math.ceil(own["each"] / per_step)
        steps = each if steps is None else min(steps, each)
    most = None if own is None or own["left"] is None else made + own["left"] // per_step
    many = _product(others)
    whole = None if steps is None or isinstance(many, Missing) else many * steps
    if whole is None and most is None:
        return many if isinstance(many, Missing) else NO_EPOCH
    total = min(known for known in (whole, most) if known is not None)
    epochs = None if whole is None or steps is None else math.ceil(total / steps)
    text = f"{words.count(total, 'step')}, until its counter ends it"
    if total == whole and epochs and steps:
        text = _in_epochs(epochs, steps)
    where = site(others[0]) if others and whole is not None else loop.where
    return Length(total, text, epochs, 1, where)


def _product(around: Sequence[Event], made: int | None = None) -> int | Missing:
    """The turns of loops within each other; `made` are those of the innermost until now.

    Loops that end by a counter which goes on in the next turn of the one around them, and which
    ends that one as well (`while len(losses) < most` in another), are as long as the longest.
    """
    total = 1
    for number, outer in enumerate(around):
        counted = [turns for turns in (outer["turns"], outer["each"]) if turns is not None]
        left = [(0 if number else made or 0) + outer["left"]] if outer["left"] is not None else []
        if not counted and not left:
            return Missing(f"how often `{_head(outer)}` turns is not known")
        if number and made is not None and not counted:
            total = max(total, made + left[0])
        else:
            total *= min(counted + left)
    return total


def _in_epochs(epochs: int, steps: int) -> str:
    return f"{words.count(epochs, 'epoch')} of {words.count(steps, 'step')}"
