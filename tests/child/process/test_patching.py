"""Functions of ours in place of others look like them."""

from __future__ import annotations

import contextlib
import gc
import sys
import weakref
from typing import Any

import pytest

from kit.child import FakeProcess
from trainperf.child.process.patching import after, around, before, replace, undo


def test_what_a_class_inherits_is_replaced_for_it_and_its_subclasses_alone() -> None:
    class Base:
        def call(self) -> int:
            return 1

    class Model(Base):
        pass

    class Own(Model):
        pass

    replace(Model, "call", lambda original: lambda self: original(self) + 1)
    assert (Base().call(), Model().call(), Own().call()) == (1, 2, 2)
    undo(Model, "call")
    assert Own().call() == 1


@pytest.mark.parametrize("hook", [before, after])
def test_what_is_called_beside_a_function_cannot_change_what_it_gives(hook: Any) -> None:
    process, seen = FakeProcess(lenient=True), []

    class Adder:
        def add(self, one: int, other: int = 2) -> int:
            seen.append("add")
            return one + other

    def act(adder: Adder, *args: Any, **kwargs: Any) -> None:
        seen.append((args, kwargs, sys._getframe(1).f_code.co_name))
        raise ValueError("no such place")

    hook(process, Adder, "add", "adding", act)
    assert Adder().add(1, other=4) == 5
    told = ((1,), {"other": 4}, "add")
    assert seen == ([told, "add"] if hook is before else ["add", told])
    assert process.failures == ["adding: ValueError('no such place')"]
    process.off = True
    assert Adder().add(1) == 3
    assert seen[2:] == ["add"]
    undo(Adder, "add")
    assert Adder.add.__code__.co_filename == __file__


def test_what_a_failed_call_was_given_is_free_as_soon_as_it_is_caught() -> None:
    process = FakeProcess(lenient=True)

    class Given:
        pass

    class Caller:
        def call(self, given: Given) -> None:
            raise ValueError("too large")

    @around(process, Caller, "call")
    def act(original: Any, *args: Any) -> Any:
        return original(*args)

    given = Given()
    alive = weakref.ref(given)
    gc.collect()
    gc.disable()
    try:
        with contextlib.suppress(ValueError):
            Caller().call(given)
        del given
        assert alive() is None
    finally:
        gc.enable()


def test_an_error_that_a_hook_has_dealt_with_is_not_raised_for_a_later_fault() -> None:
    process, asked = FakeProcess(lenient=True), []

    class Caller:
        def call(self) -> int:
            asked.append(1)
            if len(asked) == 1:
                raise ValueError("the input is over")
            return len(asked)

    @around(process, Caller, "call")
    def act(original: Any, *args: Any) -> Any:
        with contextlib.suppress(ValueError):
            original(*args)
        original(*args)
        raise RuntimeError("a fault of ours")

    assert Caller().call() == 2
    assert process.failures == ["hook call: RuntimeError('a fault of ours')"]
    assert Caller().call() == 3  # the hook is called no more
