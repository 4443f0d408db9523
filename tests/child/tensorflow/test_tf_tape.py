"""Which function holds the tape, and whether a loop of it does."""

from __future__ import annotations

from typing import Any

import pytest

from kit.child import FakeProcess
from trainperf.child.tensorflow.loops import Tape


@pytest.fixture
def tape() -> Tape:
    return Tape(FakeProcess())


def step(tape: Tape, x: Any, *, rate: float = 0.1) -> None:
    tape.entered()


def test_a_tape_in_the_body_of_the_loop_is_in_no_function_of_its_own(tape: Tape) -> None:
    for _ in range(3):
        tape.entered()
    assert not tape.own_function
    assert tape.find_function() is None


def test_a_function_that_is_called_for_each_step_is_found_with_its_arguments(tape: Tape) -> None:
    for _ in range(2):
        step(tape, "batch")
    assert tape.own_function
    assert tape.find_function() is step
    assert tape.arguments == {"tape": tape, "x": "batch", "rate": 0.1}
    assert tape.frame is not None
    assert (tape.frame["function"], tape.frame["tape"]["function"]) == ("step", "step")
    assert tape.frame["tape"]["line"] > tape.frame["line"]
