"""What fixes, the verdict and the report read is what a recording holds, or is listed with why not.

A field is held where some recording has another value of it than its default, than none and than
nothing; so is a fact, a flag or a probe, by its name.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, get_args, get_type_hints

import zoo
from trainperf.model import Evidence, Missing

READERS = ("fixes", "verdict", "report", "model")
NAMED = {"fact": "facts", "flag": "flags", "probe": "probes"}
"""Methods of the evidence that read one of its dictionaries by name."""

UNSEEN = {
    "a GPU": "CudaDevice.index CudaDevice.mig Device.of_others DeviceWait Gpu "
    "Loader.pin_memory Machine.driver_cuda PhaseUse.gpu Rank.gpu Torch.memory "
    "Line.device_s Trace.device_s Trace.gap_s "
    "Trace.together_s Trace.unqueued_s facts.cuda_failed facts.cuda_visible_devices "
    "flags.cudnn_benchmark flags.launch_blocking",
    "several GPUs": "facts.data_parallel facts.model_devices facts.nccl_environment",
    "AWS": "Instance InstanceType Objects Price Volume.limit_basis Volume.limit_bytes_s "
    "Volume.model",
    "a cluster": "Parallel.absent Strategy.workers",
    "a container with limits": "ContainerUse.memory_limit "
    "ContainerUse.memory_peak ContainerUse.quota_cores "
    "ContainerUse.throttled_share Machine.quota_cores PhaseUse.throttled_share",
    "more runs than one": "Parallel.scaling_reason ScalingPoint",
    "a record cut short": "Evidence.unread Rank.ending",
    "a script that has it": "BetweenEpochs.callbacks_s CallbackCost.epoch_s Ddp.comm_hook "
    "GraphBreak.skips Looks.sparse Loop.steps_per_execution "
    "ModelFacts.jit_refused ModelFacts.steps_per_execution Outside.whole "
    "Reads.at_least TorchModel.trained "
    "TorchOptimizer.builtin TorchOptimizer.foreach Trainer facts.functions_run_eagerly "
    "flags.deterministic",
}
"""What no recording holds, by what it takes to record it; of a class without a field, no value."""


def classes(type_: Any = Evidence, seen: frozenset[type] = frozenset()) -> frozenset[type]:
    """The dataclasses that evidence is made of, or another type is."""
    inner = list(get_args(type_))
    if is_dataclass(type_) and type_ not in (*seen, Missing):
        seen |= {type_}
        inner += get_type_hints(type_).values()
    for one in inner:
        seen = classes(one, seen)
    return seen


def held(value: Any) -> Iterator[str]:
    """The fields of a value and of all within it that tell something, as `Class.field`."""
    if isinstance(value, tuple | list | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from held(item)
    elif is_dataclass(value) and not isinstance(value, Missing):
        for field in fields(value):
            item = getattr(value, field.name)
            told = item is not None and item not in ((), {}, "") and not isinstance(item, Missing)
            if told and item != field.default:
                yield f"{type(value).__name__}.{field.name}"
            if field.name in NAMED.values():
                yield from (f"{field.name}.{name}" for name, one in item.items() if one)
            yield from held(item)


def read() -> set[str]:
    """The names of attributes that are read, and of entries: `facts.model_devices`."""
    found = set()
    for folder in READERS:
        for file in (zoo.REPOSITORY / "src/trainperf" / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_bytes())):
                if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                    found.add(node.attr)
                found.update(entries(node))
    return found


def entries(node: ast.AST) -> Iterator[str]:
    """The entry that a node reads: `x.facts["a"]`, `x.facts.get("a")` or `x.fact("a")`."""
    match node:
        case ast.Subscript(holder, ast.Constant(str(name))):
            pass
        case ast.Call(ast.Attribute(holder, "get"), [ast.Constant(str(name)), *_]):
            pass
        case ast.Call(ast.Attribute(attr=method), [ast.Constant(str(name))]) if method in NAMED:
            holder = ast.Name(NAMED[method])
        case _:
            return
    place = getattr(holder, "attr", None) or getattr(holder, "id", None)
    if place in NAMED.values():
        yield f"{place}.{name}"


def test_what_is_read_is_held_by_a_recording_or_listed() -> None:
    names = read()
    seen = {name for script in zoo.SCRIPTS for name in held(zoo.load(script).evidence)}
    known = {name.partition(".")[0] for name in seen}
    none = {cls for cls in classes() if cls.__name__ not in known}
    asked = {name for name in names if "." in name} | {cls.__name__ for cls in none}
    for cls in classes() - none:
        for name, hint in get_type_hints(cls).items():
            if {name, name.rstrip("_")} & names and not classes(hint) & none:
                asked.add(f"{cls.__name__}.{name}")
    listed = {name for names in UNSEEN.values() for name in names.split()}
    assert asked - seen == listed
