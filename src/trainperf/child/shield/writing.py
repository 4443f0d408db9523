"""Send what a framework's writers write to the run's scratch folder, at the same cost."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

from .changes import Changes
from .modules import WRITING
from .writers import Scratch


def hook(observer: Any, module: ModuleType) -> None:
    """Redirect the writers of one module that was just imported. Never raises."""
    try:
        part, _, function = WRITING[module.__name__].partition(".")
        getattr(import_module(f".{part}", __package__), function)(module, *_shared(observer))
    except Exception as error:
        observer.note(
            f"what {module.__name__} writes could not be redirected, it went where the script "
            f"says: {type(error).__name__}: {error}"
        )


def undo(observer: Any) -> None:
    """Let everything write where it is told to again."""
    _shared(observer)[1].undo()


def _shared(observer: Any) -> tuple[Scratch, Changes]:
    found: tuple[Scratch, Changes] | None = observer.facts.get("writers")
    if found is None:
        settings = observer.settings
        scratch = Scratch(settings["folder"], settings.get("guarded", []), observer.note)
        found = observer.facts["writers"] = (scratch, Changes())
    return found


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
