"""Calls of a model's methods are counted by the user's line, the outermost only."""

from __future__ import annotations

from typing import Any

import pytest

from kit.child import Watcher
from trainperf.child.timing.calls import Calls


def test_calls_of_one_line_are_counted_together() -> None:
    watcher: Any = Watcher()
    calls = Calls(watcher)
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
    calls = Calls(Watcher())

    def fails() -> None:
        raise ValueError("no such input")

    with pytest.raises(ValueError, match="no such input"):
        calls.counting("predict")(fails)()
    assert calls.take()[0]["n"] == 1
