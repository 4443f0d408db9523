"""Send what a framework's writers write to the run's scratch folder, at the same cost."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

from ..process.process import Process
from .changes import Changes
from .writers import Scratch


class Writing:
    """Redirects what modules write, to one scratch folder for all."""

    def __init__(self, process: Process) -> None:
        settings = process.settings
        self._process = process
        self._scratch = Scratch(settings["folder"], settings.get("guarded", []), process.note)
        self._changes = Changes()

    def hook(self, module: ModuleType, by: str) -> None:
        """Redirect the writers of one module that was just imported. Never raises.

        `by` names a module beside this one and its function that does it: "torch.summary".
        """
        try:
            part, _, function = by.partition(".")
            redirect = getattr(import_module(f".{part}", __package__), function)
            redirect(module, self._scratch, self._changes)
        except Exception as error:
            self._process.note(
                f"what {module.__name__} writes could not be redirected, it went where the script "
                f"says: {type(error).__name__}: {error}"
            )

    def undo(self) -> None:
        """Let everything write where it is told to again."""
        self._changes.undo()


def argument(number: int, name: str, change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Make a wrapper that changes one argument, by position or by name."""

    def make(original: Any) -> Any:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if name in kwargs:
                kwargs[name] = change(kwargs[name])
            elif len(args) > number:
                args = (*args[:number], change(args[number]), *args[number + 1 :])
            return original(*args, **kwargs)

        return wrapper

    return make
