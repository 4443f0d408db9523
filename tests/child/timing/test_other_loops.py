"""Where else a script trains is read off its source."""

from __future__ import annotations

from typing import Any

import pytest

from trainperf.child.timing.completing import other_loops


@pytest.fixture
def module(users):
    return lambda source: users(source, "train_here", other_loops=other_loops)


FITS = """
class Model:
    def fit(self, x, epochs=1):
        return found()

def found():
    return [(one["what"], one["line"]) for one in other_loops()]

def main(model, scaler):
    for turn in range(2):
        answer = model.fit(
            1, epochs=3
        )
        scaler.fit(2)
        return answer
    model.fit(3, epochs=5)
"""


def test_another_call_of_fit_is_found_and_that_of_a_scaler_is_not(module: Any) -> None:
    made = module(FITS)
    assert made.main(made.Model(), made.Model()) == [("fit", 16)]


LOOPS = """
def found():
    return [(one["what"], one["line"]) for one in other_loops()]

def step(loss):
    loss.backward()
    return found()

def first(data, loss):
    for epoch in range(2):
        for batch in data:
            answer = found()
            for _ in range(0):
                loss.backward()
            if answer is None:
                loss.backward()
        return answer

def second(data, loss):
    for batch in data:
        loss.backward()

def evaluate(data, loss):
    for batch in data:
        loss.item()
"""


def test_another_loop_that_updates_is_found_and_an_evaluation_is_not(module: Any) -> None:
    assert module(LOOPS).first([1], None) == [("loop", 20)]
