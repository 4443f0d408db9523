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

    Not of calls that trainperf makes. What `act` raises is noted as `what`, once: it is called no
    more.
    """
    _beside(guard, owner, name, what, act, first=True)


def after(guard: Guard, owner: Any, name: str, what: str, act: Callable[..., Any]) -> None:
    """Call `act` with the arguments of each call of `owner.name`, after it; see `before`."""
    _beside(guard, owner, name, what, act, first=False)


def _beside(
    guard: Guard, owner: Any, name: str, what: str, act: Callable[..., Any], first: bool
) -> None:
    def make(original: Any) -> Any:
        failed = False

        def hook(*args: Any, **kwargs: Any) -> Any:
            nonlocal failed
            result = None if first else original(*args, **kwargs)
            if not (failed or guard.off):
                try:
                    act(*args, **kwargs)
                except Exception as error:
                    failed = True
                    guard.failed(what, error)
            return original(*args, **kwargs) if first else result

        return _named(hook, name)

    replace(owner, name, make)


def around(guard: Guard, owner: Any, name: str, ours: bool = False) -> Callable[[F], F]:
    """Decorate what makes each call of `owner.name`: it is given the original and the arguments.

    With `ours`, calls that trainperf makes as well. What may be given keywords of the user's own
    choice has parameters by place alone before them. Where it raises what the original did not,
    the fault is noted, the user gets what the original gives, and later calls are the original's.
    """

    def decorate(act: F) -> F:
        def make(original: Any) -> Any:
            failed = False

            def hook(*args: Any, **kwargs: Any) -> Any:
                nonlocal failed
                if failed or (guard.off and not ours):
                    return original(*args, **kwargs)
                call = _Call(original)
                try:
                    return act(call, *args, **kwargs)
                except Exception as error:
                    if error is call.raised or isinstance(error, StopIteration):
                        raise
                    failed = True
                    guard.failed(f"hook {name}", error)
                    if call.raised is not None:
                        raise call.raised from None
                finally:
                    call.raised = None  # it holds this frame, and all that the user's code gave
                return call.result if call.made else original(*args, **kwargs)

            return _named(hook, name)

        replace(owner, name, make)
        return act

    return decorate


class _Call:
    """The original, which remembers what it gave or raised last."""

    __slots__ = ("made", "original", "raised", "result")

    def __init__(self, original: Any) -> None:
        self.original = original
        self.made = False
        self.result: Any = None
        self.raised: BaseException | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            self.result = self.original(*args, **kwargs)
        except BaseException as error:
            self.raised = error
            raise
        self.made, self.raised = True, None
        return self.result


def _named(hook: Any, name: str) -> Any:
    """The hook under the name by which frames show what the user called."""
    hook.__code__ = hook.__code__.replace(co_name=name, co_qualname=name)
    return hook


def undo(owner: Any, name: str) -> None:
    current = owner.__dict__.get(name)
    original = getattr(current, "_trainperf_original", None)
    if original is not None:
        setattr(owner, name, original)
