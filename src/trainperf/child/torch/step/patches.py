"""Put functions in place of PyTorch's for a while, and take them out again."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import FrameType, ModuleType
from typing import Any

from ...process import frames
from ...process.frames import Place

OWN = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep


class Patches:
    """The functions that were replaced; `remove` and `back` take all of them out for a moment."""

    def __init__(self) -> None:
        self._made: list[tuple[Any, str, bool, Any, Any]] = []

    def replace(self, owners: list[Any], name: str, make: Callable[[Any], Any]) -> None:
        """Put `make(original)` in place of `owner.name`, inherited or its own.

        A function of modules is replaced where the user's modules imported it by name as well.
        Where there is no such name, or it cannot be set, nothing is done.
        """
        original = getattr(owners[0], name, None)
        if original is None:
            return
        hook = functools.wraps(original)(make(original))
        places = [(owner, name) for owner in owners]
        if isinstance(owners[0], ModuleType):
            places += _imported(original)
        for owner, bound in places:
            own = bound in vars(owner)
            with suppress(TypeError, AttributeError):
                setattr(owner, bound, hook)
                self._made.append((owner, bound, own, original, hook))

    def remove(self) -> None:
        """Take everything out again; what another has replaced since stays his."""
        for owner, name, own, original, hook in reversed(self._made):
            if vars(owner).get(name) is not hook:
                continue
            if own:
                setattr(owner, name, original)
            else:
                delattr(owner, name)

    def back(self) -> None:
        """Put everything in again after `aside`."""
        for owner, name, own, original, hook in self._made:
            if (vars(owner).get(name) is original) if own else (name not in vars(owner)):
                setattr(owner, name, hook)

    def undo(self) -> None:
        """Take everything out for good."""
        self.remove()
        self._made.clear()


def _imported(function: Any) -> list[tuple[ModuleType, str]]:
    found = []
    for module in list(sys.modules.values()):
        names = vars(module) if isinstance(module, ModuleType) else {}
        if frames.is_users(str(names.get("__file__") or "")):
            found += [(module, name) for name, value in list(names.items()) if value is function]
    return found


class Dynamo:
    """TorchDynamo, where it is imported: while it compiles, the patches stand aside.

    `compiled` is asked by the step.
    """

    def __init__(self, patches: Patches) -> None:
        self._patches = patches
        self._handler: Any = None
        self._compiled = False

    def start(self) -> None:
        """Listen to compilations; PyTorch's optimizers import TorchDynamo with their first step."""
        callback: Any = sys.modules.get("torch._dynamo.callback")
        if callback is not None:
            self._handler = callback.callback_handler
            self._handler.register_start_callback(self._begins)
            self._handler.register_end_callback(self._ends)

    def stop(self) -> None:
        handler, self._handler = self._handler, None
        if handler is not None:
            with suppress(ValueError):  # torch.compiler.reset() has dropped them
                handler.remove_start_callback(self._begins)
                handler.remove_end_callback(self._ends)

    def compiled(self) -> bool:
        """Whether anything was compiled since this was asked last."""
        said, self._compiled = self._compiled, False
        return said

    def _begins(self, *_: Any) -> None:
        self._compiled = True
        self._patches.remove()

    def _ends(self, *_: Any) -> None:
        if self._handler is not None:
            self._patches.back()


class Callers:
    """Finds where the user's own source called into PyTorch."""

    def __init__(self, torch: ModuleType) -> None:
        folder = os.path.dirname(os.path.abspath(str(torch.__file__))) + os.sep
        self.through_torch = partial(_beyond, (OWN, folder, "<"))
        """Where the user's source calls; None if a library other than PyTorch does."""
        self.of_tensor = partial(_beyond, (OWN, os.path.join(folder, "_tensor.py"), "<"))
        """Where the user's source itself asks a tensor; None if any library does."""

    def through(self, library: str) -> Place | None:
        """Where the user's source calls a library; None if another one does."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            module = str(frame.f_globals.get("__name__"))
            ours = frame.f_code.co_filename.startswith(OWN)
            if not ours and module.partition(".")[0] != library:
                break
            frame = frame.f_back
        return _place(frame)

    def users_place(self) -> Place | None:
        """Where the user's source calls, whatever libraries stand between."""
        return _place(frames.users_frame()[0])


def _beyond(passed: tuple[str, ...]) -> Place | None:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(passed):
        frame = frame.f_back
    return _place(frame)


def _place(frame: FrameType | None) -> Place | None:
    if frame is None or not frames.is_users(frame.f_code.co_filename):
        return None
    return Place(frame.f_code, frame.f_lasti, frame.f_lineno)
