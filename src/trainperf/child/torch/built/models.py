"""The models and optimizers of a PyTorch loop, in their own words, and which they are."""

from __future__ import annotations

import ast
import dis
import gc
import inspect
import os
import sys
import weakref
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from types import CodeType
from typing import Any

from ...process import frames, turns
from .. import batches
from . import places as built
from .places import ModelCall, OptimizerCalls

MOST_MODELS = 4
PARALLEL = ("DataParallel", "DistributedDataParallel", "FullyShardedDataParallel")
WRAPPERS = dict.fromkeys(PARALLEL, "module") | {"OptimizedModule": "_orig_mod"}
"""Modules that hold the user's, by the name they hold it by."""

_PRODUCTS = {"@", "matmul", "bmm", "einsum", "baddbmm", "mm", "__matmul__"}
_SCALES = set("/*") | {"div", "div_", "mul", "mul_", "sqrt", "rsqrt", "scale", "baddbmm"}
_SOFTMAXES = {"softmax", "_softmax", "Softmax"}
_FUSED = {
    "scaled_dot_product_attention",
    "memory_efficient_attention",
    "flash_attn_func",
    "flash_attn_varlen_func",
    "flash_attn_qkvpacked_func",
    "flex_attention",
    "sdpa",
}
_DEEPEST = 2
"""So many calls into the user's own functions are followed."""
_FEWEST = 4
"""Modules of one class from which compiling one, and not all, is worth a try."""
FEWEST_WEIGHTS = 16
"""A parameter of integers with fewer elements is no weight: Keras keeps states of its random
generators so (2, Keras 3.15). Weights in 8 bits are integers as well, and more."""


def record(driver: Any) -> None:
    """Record events `torch_model`, those that are trained first, and `torch_optimizer`."""
    loops, write = driver.loops, driver.record.write
    trained = trained_parameters(loops)
    for call in models(loops)[:MOST_MODELS]:
        write("torch_model", **model_facts(loops, call, trained))
    for optimizer in loops.optimizers:
        write("torch_optimizer", **optimizer_facts(loops, optimizer))


def models(loops: Any) -> list[ModelCall]:
    """The outermost modules with parameters that the loop calls, the largest trained first.

    Where no call of a trained one was seen, those alive that own what is optimized.
    """
    trained = trained_parameters(loops)
    found = list(loops.models.calls.values())
    if not any(_trains(call.module, trained) for call in found):
        found += [ModelCall(model, (), {}) for model in _alive(loops, trained)]
    found.sort(key=lambda call: (not _trains(call.module, trained), -(_size(call.module) or 0)))
    return found


def trained_parameters(loops: Any) -> set[int]:
    """The ids of what the optimizers update."""
    return {id(weight) for optimizer in loops.optimizers for weight in parameters_of(optimizer)}


def _trains(model: Any, trained: set[int]) -> bool:
    """Whether a model is updated; without any optimizer, whether it wants gradients."""
    return any(
        id(weight) in trained if trained else weight.requires_grad for weight in model.parameters()
    )


def _alive(loops: Any, trained: set[int]) -> list[Any]:
    """The outermost modules in memory that own trained parameters; looked for once."""
    known = [reference() for reference in loops.models.alive]
    if known and None not in known:
        return known
    base: Any = sys.modules["torch"].nn.Module
    alive = (value for value in gc.get_objects() if issubclass(type(value), base))
    modules = [module for module in alive if "_modules" in vars(module)]
    inside = {id(child) for module in modules for child in module._modules.values()}
    found = [model for model in modules if id(model) not in inside and _trains(model, trained)]
    loops.models.alive = [weakref.ref(model) for model in found]
    return found


def unwrapped(model: Any) -> Any:
    """The user's module inside what compiles it or makes it parallel."""
    while (held := WRAPPERS.get(type(model).__name__)) is not None and hasattr(model, held):
        model = getattr(model, held)
    return model


def strategy(loops: Any) -> str:
    """The class that makes a trained model parallel, "" if none does."""
    trained = trained_parameters(loops)
    for call in models(loops):
        for module in call.module.modules() if _trains(call.module, trained) else ():
            names = {cls.__name__ for cls in type(module).__mro__}
            if "FSDPModule" in names:  # what `fully_shard` makes of a module
                return "fully_shard"
            for name in PARALLEL:
                if name in names:
                    return name
    return ""


def model_facts(loops: Any, call: ModelCall, trained: set[int]) -> dict[str, Any]:
    """The fields of a `TorchModel`."""
    model = call.module
    inner = unwrapped(model)
    parts = list(inner.modules())
    tensors = list(batches.leaves(call.arguments))
    return {
        "cls": type(inner).__name__,
        "where": built.module_site(loops, inner),
        "call": call.where,
        "name": name_called(call.where, model),
        "parameters": _size(inner),
        "trained": _trains(model, trained),
        "compiled": any(
            type(part).__name__ == "OptimizedModule"
            or part._compiled_call_impl is not None
            or hasattr(part.forward, "_torchdynamo_orig_callable")
            for part in model.modules()
        ),
        "modules": dict(Counter(type(part).__name__ for part in parts if part is not inner)),
        "dtypes": sorted(
            {
                str(weight.dtype).removeprefix("torch.")
                for weight in inner.parameters()
                if weight.is_floating_point()
                or weight.is_complex()
                or weight.numel() >= FEWEST_WEIGHTS
            }
        ),
        "channels_last": _channels_last(parts),
        "image_input": bool(tensors) and tensors[0].dim() == 4,
        "attentions": _attention_by_hand(parts),
        "eager": _eager(loops, parts),
        "shapes": call.shapes,
        # Seen, or set in a library's model.
        "checkpointing": loops.models.checkpointed > 0
        or any(
            getattr(part, name, False) is True
            for part in parts
            for name in ("gradient_checkpointing", "grad_checkpointing")
        ),
        "checkpoints": list(loops.models.checkpoint_sites),
        "blocks": blocks_of_model(inner),
    }


def _size(model: Any) -> int | None:
    with suppress(ValueError, RuntimeError):  # lazy ones that no forward has given a shape
        return sum(int(weight.numel()) for weight in model.parameters())
    return None


def _channels_last(modules: list[Any]) -> bool | None:
    """Whether the weights of its convolutions are; None if none can tell (1×1 kernels)."""
    torch: Any = sys.modules["torch"]
    kinds = (torch.nn.Conv2d, torch.nn.ConvTranspose2d)
    weights = [module.weight for module in modules if isinstance(module, kinds)]
    told = [
        last
        for weight in weights
        if weight.dim() == 4
        and weight.is_contiguous()
        != (last := bool(weight.is_contiguous(memory_format=torch.channels_last)))
    ]
    return all(told) if told else None


def _eager(loops: Any, modules: list[Any]) -> dict[str, Any] | None:
    """Where a model of Transformers was built that writes its scores out and need not.

    One that returns its attention weights must.
    """
    for module in modules:
        config = getattr(module, "config", None)
        eager = getattr(config, "_attn_implementation", None) == "eager"
        shown = getattr(config, "output_attentions", False)
        if eager and not shown and getattr(module, "_supports_sdpa", False):
            return built.module_site(loops, module)
    return None


def name_called(site: dict[str, Any] | None, model: Any) -> str:
    """The plain name a loop calls its model by (`net`, `self.net`), "" if there is none.

    What the name stands for is looked up in the user's function, where that still runs:
    `trainer.train(x)` is no name of the model it calls.
    """
    if site is None or not site.get("end_line"):  # only its line is known
        return ""
    path, lines = site["file"], (site["line"], site["end_line"])
    for call in turns.nodes_of(path):
        if isinstance(call, ast.Call) and (call.lineno, call.end_lineno) == lines:
            begin = frames.characters(path, call.lineno, call.col_offset)
            end = frames.characters(path, site["end_line"], call.end_col_offset or 0)
            if (begin, end) == (site["col"], site["end_col"]):
                break
    else:
        return ""
    name = ast.unparse(call.func).removesuffix(".forward").removesuffix(".__call__")
    first, *rest = name.split(".")
    if not all(part.isidentifier() for part in (first, *rest)):
        return ""
    for frame in frames.users_frames():
        code = frame.f_code
        if code.co_name == site["function"] and os.path.abspath(code.co_filename) == path:
            value = {**frame.f_globals, **frame.f_locals}.get(first)
            for part in rest:
                held = getattr(value, "__dict__", {})
                value = held.get(part, held.get("_modules", {}).get(part))
            return name if value is model else ""
    return name


# Tell a `forward` of the user's that computes attention by hand.
#
# It is told by what its code does, and the user's functions it calls: two matrix products, a
# softmax and a scale, and nowhere a fused attention. A function of the user's may have the name of
# one.


def _attention_by_hand(modules: list[Any]) -> list[dict[str, Any]]:
    """The heads of the functions that take the softmax of an attention by hand, each once.

    A head is the `forward` of a module, or what it calls.
    """
    found, classes = dict[CodeType, None](), dict[type, Any]()
    for module in modules:
        classes.setdefault(type(module), module)
    for module in classes.values():
        soft = {name for name, part in module.named_children() if type(part).__name__ == "Softmax"}
        functions = list(reached(module, type(module).forward, _DEEPEST))
        used = Counter(word for _, words in functions for word in words)
        products, scales = (sum(used[word] for word in words) for words in (_PRODUCTS, _SCALES))
        if products >= 2 and scales and not used.keys() & _FUSED:
            heads = (code for code, words in functions if (_SOFTMAXES | soft).intersection(words))
            found |= dict.fromkeys(heads)
    places = map(frames.definition, found)
    return [place | {"end_line": place["line"]} for place in places]


def reached(
    owner: Any, function: Any, deeper: int, seen: set[int] | None = None
) -> Iterator[tuple[CodeType, list[str]]]:
    """A function's code, and that of the user's functions it calls, each with what it uses.

    That is operators and names, but for those that stand for the user's functions.
    """
    code, seen = getattr(function, "__code__", None), set() if seen is None else seen
    if code is None or id(code) in seen or not frames.is_users(code.co_filename):
        return
    seen.add(id(code))
    words, called = list[str](), dict[str, Any]()
    known = {**getattr(function, "__globals__", {}), **vars(type(owner))}
    for part in frames.nested(code):
        for instruction in dis.get_instructions(part):
            word = instruction.argval
            if instruction.opname == "BINARY_OP":
                words.append(instruction.argrepr.removesuffix("="))
            elif instruction.opname.startswith("LOAD") and isinstance(word, str):
                found = getattr(known.get(word), "__func__", known.get(word))
                inside = getattr(found, "__code__", None)
                if inside is not None and frames.is_users(inside.co_filename):
                    called[word] = found
                else:
                    words.append(word)
    yield code, words
    for found in called.values() if deeper else ():
        yield from reached(owner, found, deeper - 1, seen)


def blocks_of_model(model: Any) -> list[dict[str, Any]]:
    """The fields of a `Blocks` for each list that stands in no other, the longest first.

    Modules whose `forward` is PyTorch's own are none: `Module.compile` passes over them.
    The path of a list is as it follows the model's name in source.
    """
    torch: Any = sys.modules["torch"]
    lists = (torch.nn.ModuleList, torch.nn.Sequential)
    found, inside = list[dict[str, Any]](), list[str]()
    for name, module in model.named_modules():
        if not isinstance(module, lists) or name.startswith(tuple(inside)):
            continue
        members, steps = list(module.children()), name.split(".") if name else []
        kinds = {type(member) for member in members}
        named = all(step.isidentifier() or step.isdecimal() for step in steps)
        if len(members) < _FEWEST or len(kinds) != 1 or not named:
            continue
        (cls,) = kinds
        if not (getattr(cls.forward, "__module__", None) or "").startswith("torch."):
            path = "".join(f"[{step}]" if step.isdecimal() else f".{step}" for step in steps)
            found.append({"path": path, "cls": cls.__name__, "count": len(members)})
            inside.append(f"{name}." if name else "")
    return sorted(found, key=lambda blocks: -int(blocks["count"]))


# The optimizers of a PyTorch loop, in their own words.


def parameters_of(optimizer: Any) -> list[Any]:
    return [weight for group in optimizer.param_groups for weight in group["params"]]


def optimizer_facts(loops: Any, optimizer: Any) -> dict[str, Any]:
    """The fields of a `TorchOptimizer`."""
    cls, calls = type(optimizer), loops.optimizer_calls.get(id(optimizer), OptimizerCalls())
    parameters = parameters_of(optimizer)
    return {
        "cls": cls.__name__,
        # Another one may have been at this address before.
        "where": calls.where if calls.built is not None and calls.built() is optimizer else None,
        "step_where": calls.step,
        "fused": _setting(optimizer, "fused"),
        "foreach": _setting(optimizer, "foreach"),
        "can_fuse": can_fuse(optimizer),
        "tensors": len(parameters),
        "parameters": sum(int(weight.numel()) for weight in parameters),
        "builtin": _is_builtin(cls),
    }


def _is_builtin(cls: type) -> bool:
    return f"{cls.__module__}.".startswith("torch.optim.")


def _setting(optimizer: Any, name: str) -> bool | None:
    """A setting as the parameter groups have it; as first given if they differ."""
    values = [group.get(name) for group in optimizer.param_groups]
    value = values[0] if len(set(values)) == 1 else optimizer.defaults.get(name)
    return None if value is None else bool(value)


def can_fuse(optimizer: Any) -> bool:
    """Whether `fused=True` would be accepted: by class, device and dtype.

    The rules are those of `_default_to_fused_or_foreach` in `torch.optim.optimizer`.
    """
    cls: Any = type(optimizer)
    if not _is_builtin(cls) or "fused" not in inspect.signature(cls.__init__).parameters:
        return False
    weights = parameters_of(optimizer)
    return all(one.is_floating_point() and one.device.type in ("cuda", "cpu") for one in weights)
