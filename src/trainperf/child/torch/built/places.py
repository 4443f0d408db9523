"""Where in the user's source models and optimizers were built, and checkpointing was called.

`nn.Module.__init__` runs for every submodule, thousands of times, so its wrapper only
keeps a code object and an offset, and none for the parts of a library's modules: about
1 µs for a module, against the 5 µs and more that building it takes (torch 2.13, 2,400
modules). What stands there is looked up once, at the end.
"""

from __future__ import annotations

import functools
import sys
import weakref
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ...process import frames
from ...process.patching import after, before

LOOKED_AT = 200
"""Recomputed regions whose place is looked at: those of the first steps."""
CONSTRUCTORS = ("__init__", "__post_init__", "__new__")

Where = dict[str, Any] | None


class ModelCall(NamedTuple):
    """The last call of a model that trains, where it was, and with how many shapes of input.

    `autocast` is the type of numbers of the region around it, "" for none; with `keeps_graph` its
    backward may be asked for again.
    """

    module: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    where: Where = None
    shapes: int = 1
    autocast: str = ""
    keeps_graph: bool = False

    @property
    def arguments(self) -> list[Any]:
        return [*self.args, *self.kwargs.values()]


@dataclass
class Models:
    """The models of a process, by their ids: where they were built, how a step called them.

    `calls` is filled in once a few steps were taken apart; `alive` are those found in memory.
    """

    built: dict[int, Any] = field(default_factory=dict)
    calls: dict[int, ModelCall] = field(default_factory=dict)
    alive: list[weakref.ref[Any]] = field(default_factory=list)
    checkpointed: int = 0
    checkpoint_sites: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class OptimizerCalls:
    """Where an optimizer was built, and where it steps."""

    built: weakref.ref[Any] | None = None
    where: Where = None
    step: Where = None


def watch_modules(loops: Any, module: Any) -> None:
    """Note where modules are built; `module` is `torch.nn.modules.module`."""
    process, built = loops.process, loops.models.built
    users, getframe = frames.is_users, sys._getframe
    own_of: dict[type, frozenset[int]] = {}
    constructors: set[int] = set()
    original = module.Module.__init__

    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        original(self, *args, **kwargs)
        if process.off:
            return
        cls = self.__class__
        own = own_of.get(cls)
        if own is None:
            own = own_of[cls] = _constructors(cls)
            constructors.update(own)
        frame: Any = getframe(1)
        while frame is not None:
            code = frame.f_code
            if id(code) not in own:
                if users(code.co_filename):
                    built[id(self)] = id(cls), code, frame.f_lasti
                    return
                if id(code) in constructors:
                    return  # a part of a library's module
            frame = frame.f_back

    __init__._trainperf_original = original  # type: ignore[attr-defined]
    module.Module.__init__ = __init__


def _constructors(cls: type) -> frozenset[int]:
    """The ids of the code that runs, with the object as `self`, to construct a class's objects."""
    found: set[int] = set()
    for base in cls.__mro__:
        for name in CONSTRUCTORS:
            function: Any = vars(base).get(name)
            function = getattr(function, "__func__", function)
            while function is not None:
                found.add(id(getattr(function, "__code__", None)))
                function = getattr(function, "__wrapped__", None)
    return frozenset(found)


def watch_optimizers(loops: Any, module: Any) -> None:
    """Note where optimizers are built, and how many; `module` is `torch.optim.optimizer`."""

    def made(optimizer: Any, *args: Any, **kwargs: Any) -> None:
        loops.optimizers_built += 1
        built = OptimizerCalls(weakref.ref(optimizer), frames.here(optimizer))
        loops.optimizer_calls[id(optimizer)] = built

    after(loops.process, module.Optimizer, "__init__", "where an optimizer is built", made)


def watch_checkpointing(loops: Any, module: Any) -> None:
    """Count recomputed regions; `module` is `torch.utils.checkpoint`.

    What `checkpoint` calls is wrapped rather than itself: TorchDynamo knows `checkpoint`
    by identity, and its warnings name its caller's line.
    """

    def entered(*args: Any, **kwargs: Any) -> None:
        models = loops.models
        models.checkpointed += 1
        here = frames.here() if models.checkpointed <= LOOKED_AT else None
        if here is not None and here not in models.checkpoint_sites:
            models.checkpoint_sites.append(here)

    for name in ("_checkpoint_without_reentrant_generator", "check_backward_validity"):
        if hasattr(module, name):
            before(loops.process, module, name, "where activations are dropped", entered)


def module_site(loops: Any, module: Any) -> Where:
    """The expression of the user's that built a module, None if unknown."""
    cls, code, offset = loops.models.built.get(id(module), (0, None, 0))
    if cls != id(type(module)):  # another one that was at this address before
        return None
    return frames.site(frames.Place(code, offset, code.co_firstlineno))
