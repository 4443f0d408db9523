"""Which function holds the tape is told from the frames of two steps."""

from __future__ import annotations

import weakref
from typing import Any

import pytest

from kit.child import FakeProcess
from trainperf.child.tensorflow.loops import Tape


@pytest.fixture
def tape() -> Tape:
    return Tape(FakeProcess())


class Batch:
    """The arguments of a step."""


def step(tape: Tape, x: Any, updates: int = 0, *, rate: float = 0.1) -> None:
    tape.entered(updates)


def test_a_tape_in_the_body_of_the_loop_is_in_no_function_of_its_own(tape: Tape) -> None:
    for updates in range(3):
        tape.entered(updates)
    assert not tape.own_function
    assert tape.find_function() is None


def test_a_function_that_is_called_for_each_step_is_found_with_its_arguments(tape: Tape) -> None:
    for updates in range(2):
        step(tape, "batch", updates)
    assert tape.own_function
    assert tape.find_function() is step
    assert tape.arguments == {"tape": tape, "x": "batch", "updates": 1, "rate": 0.1}
    assert tape.frame is not None
    assert (tape.frame["function"], tape.frame["tape"]["function"]) == ("step", "step")
    assert tape.frame["tape"]["line"] > tape.frame["line"]


def test_what_a_frame_holds_is_let_go_once_the_question_is_answered(tape: Tape) -> None:
    first = Batch()
    gone = weakref.ref(first)
    step(tape, first)
    del first
    assert gone() is not None, "kept until the next step is seen"
    step(tape, None, 1)
    assert gone() is None


def summing(tape: Tape, updates: int) -> None:
    for _ in range(4):  # of the gradients of one step
        tape.entered(updates)


def test_a_function_that_sums_the_gradients_of_a_step_is_one_of_its_own(tape: Tape) -> None:
    for updates in range(2):
        summing(tape, updates)
    assert tape.find_function() is summing
