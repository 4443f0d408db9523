"""Put functions of ours in place of others."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from .process import Guard

F = TypeVar("F", bound=Callable[..., Any])


def replace(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
    """Put `make(original)` in place of `owner.name`, looking like the original.

    What a class inherits is replaced for it and its subclasses alone. `functools.wraps` also keeps
    `__module__`, by which AutoGraph knows library code. The signature is given as well: Keras names
    the arguments that it was given by `inspect.getfullargspec`, which looks behind no wrapper.
    """
    own = isinstance(owner, type) and name in owner.__dict__
    original = owner.__dict__[name] if own else getattr(owner, name)
    wrapper: Any = functools.wraps(original)(make(original))
    wrapper._trainperf_original = original
    with suppress(TypeError, ValueError):  # of functions written in C
        wrapper.__signature__ = inspect.signature(original)
    setattr(owner, name, wrapper)


def before(guard: Guard, owner: Any, name: str, what: str, act: Callable[..., Any]) -> None:
    """Call `act` with the arguments of each call of `owner.name`, before it.

    Not of calls that trainperf makes; what `act` raises is noted as `what`.
    """

    def make(original: Any) -> Any:
        def hook(*args: Any, **kwargs: Any) -> Any:
            if not guard.off:
                try:
                    act(*args, **kwargs)
                except Exception as error:
                    guard.failed(what, error)
            return original(*args, **kwargs)

        return _named(hook, name)

    replace(owner, name, make)


def after(guard: Guard, owner: Any, name: str, what: str, act: Callable[..., Any]) -> None:
    """Call `act` with the arguments of each call of `owner.name`, after it; see `before`."""

    def make(original: Any) -> Any:
        def hook(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            if not guard.off:
                try:
                    act(*args, **kwargs)
                except Exception as error:
                    guard.failed(what, error)
            return result

        return _named(hook, name)

    replace(owner, name, make)


def around(guard: Guard | None, owner: Any, name: str) -> Callable[[F], F]:
    """Decorate what makes each call of `owner.name`: it is given the original and the arguments.

    With a `guard`, not calls that trainperf makes. What may be given keywords of the user's own
    choice has parameters by place alone before them.
    """

    def decorate(act: F) -> F:
        def make(original: Any) -> Any:
            def hook(*args: Any, **kwargs: Any) -> Any:
                if guard is not None and guard.off:
                    return original(*args, **kwargs)
                return act(original, *args, **kwargs)

            return _named(hook, name)

        replace(owner, name, make)
        return act

    return decorate


def _named(hook: Any, name: str) -> Any:
    """The hook under the name by which frames show what the user called."""
    hook.__code__ = hook.__code__.replace(co_name=name, co_qualname=name)
    return hook


def undo(owner: Any, name: str) -> None:
    current = owner.__dict__.get(name)
    original = getattr(current, "_trainperf_original", None)
    if original is not None:
        setattr(owner, name, original)
