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
from typing import Any, NamedTuple

from ...process import frames

LOOKED_AT = 200
"""Recomputed regions whose place is looked at: those of the first steps."""
CONSTRUCTORS = ("__init__", "__post_init__", "__new__")


class Place(NamedTuple):
    """The parts of a frame that `frames.site` reads; the frame itself would keep objects alive."""

    f_code: Any
    f_lasti: int
    f_lineno: int = 0


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
    original = module.Optimizer.__init__

    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        original(self, *args, **kwargs)
        if loops.process.off:
            return
        try:
            loops.optimizers_built += 1
            where = frames.here(self)
            loops.optimizer_sites[id(self)] = weakref.ref(self), where
        except Exception as error:
            loops.process.failed("where an optimizer is built", error)

    wrapper: Any = __init__
    wrapper._trainperf_original = original
    module.Optimizer.__init__ = wrapper


def watch_checkpointing(loops: Any, module: Any) -> None:
    """Count recomputed regions; `module` is `torch.utils.checkpoint`.

    What `checkpoint` calls is wrapped rather than itself: TorchDynamo knows `checkpoint`
    by identity, and its warnings name its caller's line.
    """
    for name in ("_checkpoint_without_reentrant_generator", "check_backward_validity"):
        original = getattr(module, name, None)
        if original is not None:
            setattr(module, name, _counted(loops, original))


def _counted(loops: Any, original: Any) -> Any:
    @functools.wraps(original)
    def counted(*args: Any, **kwargs: Any) -> Any:
        if not loops.process.off:
            loops.checkpointed += 1
            if loops.checkpointed <= LOOKED_AT:
                _note_checkpoint(loops)
        return original(*args, **kwargs)

    counted._trainperf_original = original  # type: ignore[attr-defined]
    return counted


def _note_checkpoint(loops: Any) -> None:
    """Keep the call that is made, once for each place."""
    try:
        here = frames.here()
    except Exception as error:
        loops.process.failed("where activations are dropped", error)
        return
    if here is not None and here not in loops.checkpoint_sites:
        loops.checkpoint_sites.append(here)


def checkpoints(loops: Any) -> int:
    """How many recomputed regions were entered so far."""
    return int(loops.checkpointed)


def module_site(loops: Any, module: Any) -> dict[str, Any] | None:
    """The expression of the user's that built a module, None if unknown."""
    cls, code, offset = loops.built_modules.get(id(module), (0, None, 0))
    if cls != id(type(module)):  # another one that was at this address before
        return None
    frame: Any = Place(code, offset, code.co_firstlineno)
    return frames.site(frame)


def optimizer_site(loops: Any, optimizer: Any) -> dict[str, Any] | None:
    """The expression of the user's that built an optimizer, None if unknown."""
    reference, where = loops.optimizer_sites.get(id(optimizer), (None, None))
    there: dict[str, Any] | None = where
    return there if reference is not None and reference() is optimizer else None
