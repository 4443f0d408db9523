"""The models and optimizers of a PyTorch loop, in their own words, and which they are."""

from __future__ import annotations

import ast
import dis
import gc
import inspect
import linecache
import os
import sys
import weakref
from collections import Counter
from collections.abc import Iterator
from types import CodeType
from typing import Any

from ...process import frames
from .. import batches
from . import places as built

MOST_MODELS = 4
WRAPPERS = {
    "DataParallel": "module",
    "DistributedDataParallel": "module",
    "FullyShardedDataParallel": "module",
    "OptimizedModule": "_orig_mod",
}
"""Modules that hold the user's, by the name they hold it by."""
PARALLEL = ("DataParallel", "DistributedDataParallel", "FullyShardedDataParallel")

Called = tuple[Any, tuple[Any, ...], dict[str, Any]]

_PRODUCTS = {"matmul", "bmm", "einsum", "baddbmm", "mm", "__matmul__"}
_SCALES = {"div", "div_", "true_divide", "mul", "mul_", "sqrt", "rsqrt", "scale", "baddbmm"}
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


def record(driver: Any) -> None:
    """Record each model as an event `torch_model`, those that are trained first."""
    trained = trained_parameters(driver.loops)
    for called in models(driver.loops)[:MOST_MODELS]:
        driver.record.write("torch_model", **model_facts(driver.loops, called, trained))


def models(loops: Any) -> list[Called]:
    """The outermost modules with parameters that the loop calls, the largest trained first.

    Where no call of a trained one was seen, those alive that own what is optimized.
    """
    trained = trained_parameters(loops)
    found: list[Called] = []
    for entry in list(loops.model_calls.values()):
        if next(entry[0].parameters(), None) is not None:
            found.append((entry[0], tuple(entry[1]), dict(entry[2])))
    if not any(_trains(one[0], trained) for one in found):
        found += [(model, (), {}) for model in _alive(loops, trained)]
    found.sort(key=lambda one: (not _trains(one[0], trained), -(_size(one[0]) or 0)))
    return found


def trained_parameters(loops: Any) -> set[int]:
    """The ids of what the optimizers update."""
    return {id(one) for optimizer in loops.optimizers for one in parameters_of(optimizer)}


def _trains(model: Any, trained: set[int]) -> bool:
    """Whether a model is updated; without any optimizer, whether it wants gradients."""
    if not trained:
        return any(one.requires_grad for one in model.parameters())
    return any(id(one) in trained for one in model.parameters())


def _alive(loops: Any, trained: set[int]) -> list[Any]:
    """The outermost modules in memory that own trained parameters; looked for once."""
    known = [reference() for reference in loops.alive]
    if known and all(one is not None for one in known):
        return known
    base: Any = sys.modules["torch"].nn.Module
    modules = [
        value
        for value in gc.get_objects()
        if issubclass(type(value), base) and "_modules" in vars(value)
    ]
    inside = {id(child) for module in modules for child in module._modules.values()}
    found = [one for one in modules if id(one) not in inside and _trains(one, trained)]
    loops.alive = [weakref.ref(one) for one in found]
    return found


def unwrapped(model: Any) -> Any:
    """The user's module inside what compiles it or makes it parallel."""
    while (held := WRAPPERS.get(type(model).__name__)) is not None and hasattr(model, held):
        model = getattr(model, held)
    return model


def strategy(loops: Any) -> str:
    """The class that makes a trained model parallel, "" if none does."""
    trained = trained_parameters(loops)
    for model, _, _ in models(loops):
        if not _trains(model, trained):
            continue
        for module in model.modules():
            names = {cls.__name__ for cls in type(module).__mro__}
            if "FSDPModule" in names:  # what `fully_shard` makes of a module
                return "fully_shard"
            for name in PARALLEL:
                if name in names:
                    return name
    return ""


FEWEST_WEIGHTS = 16
"""A parameter of integers with fewer elements is no weight: Keras keeps states of its random
generators so (2, Keras 3.15). Weights in 8 bits are integers as well, and more."""


def _dtypes(module: Any) -> list[str]:
    """The types of a model's weights."""
    weights = (
        one
        for one in module.parameters()
        if one.is_floating_point() or one.is_complex() or one.numel() >= FEWEST_WEIGHTS
    )
    return sorted({str(one.dtype).removeprefix("torch.") for one in weights})


def model_facts(loops: Any, called: Called, trained: set[int]) -> dict[str, Any]:
    model, args, kwargs = called
    inner = unwrapped(model)
    tensors = list(batches.leaves([*args, *kwargs.values()]))
    site = loops.model_sites.get(id(model))
    return {
        "cls": type(inner).__name__,
        "where": built.module_site(loops, inner),
        "call": site,
        "name": name_called(site, model),
        "parameters": _size(inner),
        "trained": _trains(model, trained),
        "compiled": _compiled(model),
        "modules": dict(Counter(type(one).__name__ for one in inner.modules() if one is not inner)),
        "dtypes": _dtypes(inner),
        "channels_last": _channels_last(inner),
        "image_input": bool(tensors) and tensors[0].dim() == 4,
        "attentions": _attention_by_hand(inner),
        "eager": _eager(loops, inner),
        "scattered": _scattered(inner),
        "shapes": max(1, loops.shapes.get(id(model), 1)),
        "checkpointing": _checkpoints(loops, inner),
        "checkpoints": list(loops.checkpoint_sites),
        "blocks": blocks_of_model(inner),
    }


def _scattered(model: Any) -> list[dict[str, Any]]:
    """The heads of the user's `forward`s whose recurrent layers have weights that lie apart.

    cuDNN copies them together in each call of such a layer.
    """
    found: dict[Any, dict[str, Any]] = {}
    if not any(one.device.type == "cuda" for one in model.parameters()):
        return []
    for module in model.modules():
        code = getattr(getattr(type(module), "forward", None), "__code__", None)
        if code is None or code in found or not frames.is_users(code.co_filename):
            continue
        if any(_apart(getattr(child, "_flat_weights", ())) for child in module.children()):
            place = frames.definition(code)
            found[code] = place | {"end_line": place["line"]}
    return list(found.values())


def _apart(weights: Any) -> bool:
    """Whether tensors lie in several pieces of memory."""
    return len({one.untyped_storage().data_ptr() for one in weights if one is not None}) > 1


def _size(model: Any) -> int | None:
    try:
        return sum(int(one.numel()) for one in model.parameters())
    except (ValueError, RuntimeError):  # lazy ones that no forward has given a shape
        return None


def _compiled(model: Any) -> bool:
    """Whether the model, a part of it or its `forward` was given to `torch.compile`."""
    return any(
        type(module).__name__ == "OptimizedModule"
        or getattr(module, "_compiled_call_impl", None) is not None
        or hasattr(module.forward, "_torchdynamo_orig_callable")
        for module in model.modules()
    )


def _channels_last(model: Any) -> bool | None:
    """Whether the weights of its convolutions are; None if none can tell (1×1 kernels)."""
    torch: Any = sys.modules["torch"]
    kinds = (torch.nn.Conv2d, torch.nn.ConvTranspose2d)
    last = torch.channels_last
    told = [
        bool(module.weight.is_contiguous(memory_format=last))
        for module in model.modules()
        if isinstance(module, kinds)
        and module.weight.dim() == 4
        and module.weight.is_contiguous() != module.weight.is_contiguous(memory_format=last)
    ]
    return all(told) if told else None


def _checkpoints(loops: Any, model: Any) -> bool:
    """Whether parts are computed again in backward: seen, or set in a library's model."""
    return loops.checkpointed > 0 or any(
        getattr(module, name, False) is True
        for module in model.modules()
        for name in ("gradient_checkpointing", "grad_checkpointing")
    )


def name_called(site: dict[str, Any] | None, model: Any) -> str:
    """The plain name a loop calls its model by (`net`, `self.net`), "" if there is none.

    What the name stands for is looked up in the user's function, where that still runs:
    `trainer.train(x)` is no name of the model it calls.
    """
    if site is None or not site.get("end_line"):
        return ""
    try:
        call = ast.parse(_text(site).strip(), mode="eval").body
    except SyntaxError:
        return ""
    if not isinstance(call, ast.Call):
        return ""
    function = call.func
    if isinstance(function, ast.Attribute) and function.attr in ("forward", "__call__"):
        function = function.value
    name = ast.unparse(function)
    if not all(part.isidentifier() for part in name.split(".")):
        return ""
    return name if _stands_for(name, site, model) else ""


def _text(site: dict[str, Any]) -> str:
    lines = linecache.getlines(site["file"])[site["line"] - 1 : site["end_line"]]
    if not lines:
        return ""
    lines[-1] = lines[-1][: site["end_col"]]
    lines[0] = lines[0][site["col"] :]
    return "".join(lines)


def _stands_for(name: str, site: dict[str, Any], model: Any) -> bool:
    """Whether a name means the model in the function of `site`; True if that has returned."""
    frame: Any = sys._getframe(1)
    first, *rest = name.split(".")
    while frame is not None:
        code = frame.f_code
        if code.co_name == site["function"] and os.path.abspath(code.co_filename) == site["file"]:
            value = {**frame.f_globals, **frame.f_locals}.get(first)
            for part in rest:
                held = getattr(value, "__dict__", {})
                value = held.get(part, held.get("_modules", {}).get(part))
            return value is model
        frame = frame.f_back
    return True


def devices(driver: Any) -> list[int]:
    """The indices of the CUDA devices that models or batches are on."""
    tensors = list(batches.leaves(driver.batch))
    for model, args, kwargs in models(driver.loops):
        tensors += model.parameters()
        tensors += batches.leaves([*args, *kwargs.values()])
    return sorted({one.device.index or 0 for one in tensors if one.device.type == "cuda"})


# Tell a `forward` of the user's that computes attention by hand.
#
# It is told by what its code does, and the user's functions it calls: two matrix products, a
# softmax and a scale, and nowhere a fused attention. A function of the user's may have the name of
# one.


def _attention_by_hand(model: Any) -> list[dict[str, Any]]:
    """The heads of the functions that compute attention by hand, each once.

    A head is the `forward` of a module, or what it calls to take the softmax.
    """
    seen: set[int] = set()
    found: dict[CodeType, dict[str, Any]] = {}
    for module in model.modules():
        code = getattr(getattr(type(module), "forward", None), "__code__", None)
        if code is None or id(code) in seen or not frames.is_users(code.co_filename):
            continue
        seen.add(id(code))
        for head in _heads(module, type(module).forward):
            place = frames.definition(head)
            found[head] = place | {"end_line": place["line"]}
    return list(found.values())


def _eager(loops: Any, model: Any) -> dict[str, Any] | None:
    """Where a model of Transformers was built that writes its scores out and need not.

    One that returns its attention weights must.
    """
    for module in model.modules():
        config = getattr(module, "config", None)
        eager = getattr(config, "_attn_implementation", None) == "eager"
        shown = getattr(config, "output_attentions", False)
        if eager and not shown and getattr(module, "_supports_sdpa", False):
            return built.module_site(loops, module)
    return None


def _heads(module: Any, forward: Any) -> list[CodeType]:
    """The functions that take the softmax where a `forward` attends by hand, else none."""
    names: set[str] = set()
    heads: list[CodeType] = []
    soft = {name for name, child in module.named_children() if type(child).__name__ == "Softmax"}
    products = scales = 0
    for head, code, own in _reached(module, forward, _DEEPEST, set()):
        here: set[str] = set()
        for instruction in dis.get_instructions(code):
            what = instruction.argrepr.removeprefix("NULL + ")
            if instruction.opname == "BINARY_OP":
                products += what in ("@", "@=")
                scales += what in ("/", "/=", "*", "*=")
            elif instruction.opname.startswith("LOAD") and isinstance(instruction.argval, str):
                here.add(instruction.argval)
                products += instruction.argval in _PRODUCTS
                scales += instruction.argval in _SCALES
        if here & (_SOFTMAXES | soft) and head not in heads:
            heads.append(head)
        names |= here - own
    return heads if products >= 2 and scales > 0 and not names & _FUSED else []


def _reached(
    owner: Any, function: Any, deeper: int, seen: set[int]
) -> Iterator[tuple[CodeType, CodeType, set[str]]]:
    """A function's code with the code inside it, and that of the user's functions it calls.

    Each comes with the function's own, and with the names that stand for the user's functions.
    """
    code = getattr(function, "__code__", None)
    if code is None or id(code) in seen or not frames.is_users(code.co_filename):
        return
    seen.add(id(code))
    for one in frames.nested(code):
        called = {
            name: getattr(found, "__func__", found)
            for name in one.co_names
            if (found := _users(owner, function, name)) is not None
        }
        yield code, one, set(called)
        for each in called.values() if deeper else ():
            yield from _reached(owner, each, deeper - 1, seen)


def _users(owner: Any, function: Any, name: str) -> Any:
    """The function of the user's that a name within `function` stands for, None if none."""
    found = vars(type(owner)).get(name) or getattr(function, "__globals__", {}).get(name)
    code = getattr(getattr(found, "__func__", found), "__code__", None)
    return found if code is not None and frames.is_users(code.co_filename) else None


def blocks_of_model(model: Any) -> list[dict[str, Any]]:
    """The fields of a `Blocks` for each list that stands in no other, the longest first.

    Modules whose `forward` is PyTorch's own are none: `Module.compile` passes over them.
    """
    torch: Any = sys.modules["torch"]
    lists = (torch.nn.ModuleList, torch.nn.Sequential)
    found, inside = list[dict[str, Any]](), list[str]()
    for name, module in model.named_modules():
        if not isinstance(module, lists) or name.startswith(tuple(inside)):
            continue
        members = list(module.children())
        kinds = {type(one) for one in members}
        path = _source(name)
        if len(members) < _FEWEST or len(kinds) != 1 or path is None:
            continue
        (cls,) = kinds
        if not (getattr(cls.forward, "__module__", None) or "").startswith("torch."):
            found.append({"path": path, "cls": cls.__name__, "count": len(members)})
            inside.append(f"{name}." if name else "")
    return sorted(found, key=lambda one: -int(one["count"]))


def _source(name: str) -> str | None:
    """The path of a submodule as it follows the model's name in source; None if it is no such."""
    parts = name.split(".") if name else []
    if not all(one.isidentifier() or one.isdecimal() for one in parts):
        return None
    return "".join(f"[{one}]" if one.isdecimal() else f".{one}" for one in parts)


# The optimizers of a PyTorch loop, in their own words.


def record_optimizers(driver: Any) -> None:
    for optimizer in driver.loops.optimizers:
        driver.record.write("torch_optimizer", **optimizer_facts(driver.loops, optimizer))


def parameters_of(optimizer: Any) -> list[Any]:
    return [one for group in optimizer.param_groups for one in group["params"]]


def optimizer_facts(loops: Any, optimizer: Any) -> dict[str, Any]:
    key, cls = id(optimizer), type(optimizer)
    parameters = parameters_of(optimizer)
    return {
        "cls": cls.__name__,
        "where": built.optimizer_site(loops, optimizer),
        "step_where": loops.step_sites.get(key),
        "zero_grad_where": loops.zero_grad_sites.get(key),
        "fused": _setting(optimizer, "fused"),
        "foreach": _setting(optimizer, "foreach"),
        "can_fuse": can_fuse(optimizer),
        "tensors": len(parameters),
        "parameters": sum(int(one.numel()) for one in parameters),
        "set_to_none": loops.set_to_none.get(key),
        "builtin": is_builtin(cls),
    }


def is_builtin(cls: type) -> bool:
    """Whether a class is one of `torch.optim` itself, no subclass of it."""
    return cls.__module__ == "torch.optim" or cls.__module__.startswith("torch.optim.")


def _setting(optimizer: Any, name: str) -> bool | None:
    """A setting as the parameter groups have it; as first given if they differ."""
    values = [group.get(name) for group in optimizer.param_groups]
    value = values[0] if len(set(values)) == 1 else optimizer.defaults.get(name)
    return None if value is None else bool(value)


def can_fuse(optimizer: Any) -> bool:
    """Whether `fused=True` would be accepted: by class, device, dtype and settings.

    The rules are those of `_default_to_fused_or_foreach` in `torch.optim.optimizer`;
    sparse gradients are refused by the kernels themselves.
    """
    cls: Any = type(optimizer)
    if not is_builtin(cls) or "fused" not in inspect.signature(cls.__init__).parameters:
        return False
    if any(group.get("differentiable") for group in optimizer.param_groups):
        return False
    supported = _fused_devices()
    return all(
        one.is_floating_point()
        and one.device.type in supported
        and not (one.grad is not None and one.grad.is_sparse)
        for one in parameters_of(optimizer)
    )


def _fused_devices() -> frozenset[str]:
    """The device types with fused kernels, among those trainperf knows."""
    utils: Any = sys.modules.get("torch.utils._foreach_utils")
    devices = getattr(utils, "_get_fused_kernels_supported_devices", None)
    return frozenset(devices() if devices is not None else ()) & {"cuda", "cpu"}
