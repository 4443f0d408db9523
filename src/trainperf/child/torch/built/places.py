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
from typing import Any

from ...process import frames
from ...process.patching import after, before

LOOKED_AT = 200
"""Recomputed regions whose place is looked at: those of the first steps."""
CONSTRUCTORS = ("__init__", "__post_init__", "__new__")


def watch_modules(loops: Any, module: Any) -> None:
    """Note where modules are built; `module` is `torch.nn.modules.module`."""
    process = loops.process
    built = loops.built_modules
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
            if id(code) in own:
                frame = frame.f_back
                continue
            if users(code.co_filename):
                built[id(self)] = id(cls), code, frame.f_lasti
                return
            if id(code) in constructors:
                return  # a part of a library's module
            frame = frame.f_back

    wrapper: Any = __init__
    wrapper._trainperf_original = original
    module.Module.__init__ = wrapper


def _constructors(cls: type) -> frozenset[int]:
    """The ids of the code that runs, with the object as `self`, to construct a class's objects."""
    found: set[int] = set()
    for base in cls.__mro__:
        for name in CONSTRUCTORS:
            function: Any = vars(base).get(name)
            function = getattr(function, "__func__", function)
            while function is not None:
                if (code := getattr(function, "__code__", None)) is not None:
                    found.add(id(code))
                function = getattr(function, "__wrapped__", None)
    return frozenset(found)


def watch_optimizers(loops: Any, module: Any) -> None:
    """Note where optimizers are built, and how many; `module` is `torch.optim.optimizer`."""

    def built(optimizer: Any, *args: Any, **kwargs: Any) -> None:
        loops.optimizers_built += 1
        loops.optimizer_sites[id(optimizer)] = weakref.ref(optimizer), frames.here(optimizer)

    after(loops.process, module.Optimizer, "__init__", "where an optimizer is built", built)


def watch_checkpointing(loops: Any, module: Any) -> None:
    """Count recomputed regions; `module` is `torch.utils.checkpoint`.

    What `checkpoint` calls is wrapped rather than itself: TorchDynamo knows `checkpoint`
    by identity, and its warnings name its caller's line.
    """

    def entered(*args: Any, **kwargs: Any) -> None:
        loops.checkpointed += 1
        here = frames.here() if loops.checkpointed <= LOOKED_AT else None
        if here is not None and here not in loops.checkpoint_sites:
            loops.checkpoint_sites.append(here)

    for name in ("_checkpoint_without_reentrant_generator", "check_backward_validity"):
        if hasattr(module, name):
            before(loops.process, module, name, "where activations are dropped", entered)


def module_site(loops: Any, module: Any) -> dict[str, Any] | None:
    """The expression of the user's that built a module, None if unknown."""
    cls, code, offset = loops.built_modules.get(id(module), (0, None, 0))
    if cls != id(type(module)):  # another one that was at this address before
        return None
    return frames.site(frames.Place(code, offset, code.co_firstlineno))


def optimizer_site(loops: Any, optimizer: Any) -> dict[str, Any] | None:
    """The expression of the user's that built an optimizer, None if unknown."""
    reference, where = loops.optimizer_sites.get(id(optimizer), (None, None))
    there: dict[str, Any] | None = where
    return there if reference is not None and reference() is optimizer else None
