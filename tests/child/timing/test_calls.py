"""Calls of a model are counted by the user's line, and compared in place where it is not felt."""

from __future__ import annotations

from typing import Any

import pytest

from kit.child import Watcher
from trainperf.child.timing.calls import MOST, Calls


class Driver:
    """A loop whose steps are all measured; `aside` is what was laid aside."""

    def __init__(self) -> None:
        self.beside = True
        self.aside = 0.0

    def beside_steps(self) -> bool:
        return self.beside

    def lay_aside_of_gap(self, seconds: float) -> None:
        self.aside += seconds


class Quick:
    """Takes 2 ms, and traces in its first call."""

    def __init__(self, watcher: Any) -> None:
        self.watcher = watcher
        self.calls = 0

    def __call__(self) -> int:
        assert self.watcher.off, "it must not be counted"
        self.calls += 1
        self.watcher.clock.tick(0.002 if self.calls > 1 else 0.5)
        return 7

    def traces(self) -> int:
        return min(1, self.calls)

    def undo(self):
        return False

    def apart(self, result: Any, other: Any) -> float:
        return float(result != other)


@pytest.fixture
def watcher() -> Any:
    made = Watcher()
    made.driver = Driver()
    return made


def predicts(watcher: Any, times: int, stand_in: Any, seconds: float = 0.04) -> list[Any]:
    calls = Calls(watcher)

    def slow() -> int:
        watcher.clock.tick(seconds)
        return 7

    predict = calls.counting("predict", instead=lambda args, kwargs: stand_in)(slow)
    assert all(predict() == 7 for _ in range(times))
    assert [(one["n"], round(one["seconds"], 6)) for one in calls.take()] == [
        (times, round(times * seconds, 6))
    ]
    found: list[Any] = watcher.record.of("in_place")
    return found


def test_some_of_many_calls_are_compared_and_what_that_takes_is_laid_aside(watcher: Any) -> None:
    stand_in = Quick(watcher)
    traced, *pairs = predicts(watcher, 400, stand_in)
    assert traced["traced"]
    assert len(pairs) == MOST
    assert {(round(one["seconds"], 6), round(one["instead_s"], 6)) for one in pairs} == {
        (0.04, 0.002)
    }
    assert {(one["apart"], one["traced"]) for one in pairs} == {(0.0, False)}
    assert pairs[0]["where"]["function"] == "<genexpr>"
    assert watcher.driver.aside == pytest.approx(0.5 + MOST * 0.002)
    assert not watcher.off


@pytest.mark.parametrize("why", ["steps are timed", "leg", "ranks", "no loop", "long"])
def test_nothing_is_called_where_it_would_be_felt(watcher: Any, why: str) -> None:
    if why == "steps are timed":
        watcher.driver.beside = False
    elif why == "leg":
        watcher.settings["leg"] = 0
    elif why == "ranks":
        watcher.world = object()
    elif why == "no loop":
        watcher.driver = None
    stand_in = Quick(watcher)
    assert predicts(watcher, 100, stand_in, 0.3 if why == "long" else 0.04) == []
    assert stand_in.calls == 0


def test_one_that_fails_is_told_once(watcher: Any) -> None:
    class Fails(Quick):
        def __call__(self) -> int:
            raise ValueError("no such input")

    watcher._lenient = True
    assert predicts(watcher, 100, Fails(watcher)) == []
    assert len(watcher.failures) == 1


def test_calls_of_one_line_are_counted_together() -> None:
    watcher = Watcher()
    calls = Calls(watcher)  # type: ignore[arg-type]
    predict = calls.counting("predict")(lambda seconds: watcher.clock.tick(seconds))
    for _ in range(3):
        predict(0.5)
    predict(1.0)
    first, second = calls.take()
    assert (first["what"], first["n"], first["seconds"]) == ("predict", 3, pytest.approx(1.5))
    assert second["n"] == 1
    assert first["where"]["function"] == "test_calls_of_one_line_are_counted_together"
    assert second["where"]["line"] == first["where"]["line"] + 1


def test_a_call_that_raises_is_counted_and_raises() -> None:
    calls = Calls(Watcher())  # type: ignore[arg-type]

    def fails() -> None:
        raise ValueError("no such input")

    with pytest.raises(ValueError, match="no such input"):
        calls.counting("predict")(fails)()
    assert calls.take()[0]["n"] == 1
