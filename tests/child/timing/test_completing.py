"""What is recorded last: measurements in the time there is, lengths, where else a script trains."""

from __future__ import annotations

import re
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from fixes.case_text import evidence_of
from kit.child import Watcher
from recordings import FIT, recording
from trainperf.child.timing import completing
from trainperf.report.assemble.notes import notes


class Fake(Watcher):
    """A loop, and its framework, in one."""

    def __init__(self) -> None:
        super().__init__()
        self._lenient = True
        self.extras: list[Any] = []
        self.known: dict[str, Any] = {"batch": 8}

    def source(self) -> None: ...

    def exchange_extras(self, driver: Any) -> list[Any]:
        return []

    @property
    def loops(self) -> Any:
        return self

    def describe(self) -> dict[str, Any]:
        return {"batch": self.known["batch"]}

    def slow(self, deadline: float) -> None:
        assert self.off, "hooks let what we do ourselves through"
        self.clock.tick(2.0)

    def spoilt(self, deadline: float) -> None:
        raise ValueError("no such stage")


@pytest.fixture
def driver() -> Any:
    return Fake()


def missing(driver: Any) -> dict[str, str]:
    return {event["what"]: event["reason"] for event in driver.record.of("missing")}


def test_what_there_is_no_time_for_is_said_to_be_missing_but_facts_are_always_taken(driver):
    taken: list[float] = []
    extras = [("stages", driver.slow), ("probes", driver.slow), ("facts", taken.append)]
    completing.measure(driver, extras)
    reason = "too little time was left: `extra` allows 1 s for all of this"
    assert missing(driver) == {"probes": reason}
    assert taken == [1001.0], "it is told the deadline"
    assert not driver.off
    assert driver.record.events[-1]["e"] == "measured"


def test_a_measurement_that_fails_is_missing_and_the_next_is_taken(driver: Any) -> None:
    taken: list[float] = []
    completing.measure(driver, [("stages", driver.spoilt), ("probes", taken.append)])
    assert missing(driver) == {"stages": "ValueError: no such stage"}
    assert taken
    assert not driver.off


@pytest.mark.parametrize("in_step", [False, True])
def test_ranks_leave_out_the_probes_that_they_cannot_make_in_step(
    driver: Any, in_step: bool
) -> None:
    driver.world, driver.probes_in_step = object(), in_step
    driver.extras = [("probes", driver.slow), ("facts", driver.slow)]
    names = [name for name, _ in completing.extras(driver)]
    assert names == (["probes", "facts"] if in_step else ["facts"])
    assert set(missing(driver)) == (set() if in_step else {"probes"})


# How long the training is to be.


class Silent:
    """Keeps what is recorded, and what failed."""

    def __init__(self):
        self.events, self.failures, self.left = [], [], None
        self.record = SimpleNamespace(write=lambda kind, **fields: self.events.append(fields))
        self.process = SimpleNamespace(failed=lambda what, error: self.failures.append(error))


class Trainer:
    def __init__(self, steps):
        self.state = SimpleNamespace(max_steps=steps)

    def _inner_training_loop(self, driver):
        completing.record_length(driver)


@pytest.mark.parametrize(("given", "steps"), [(120, 120), (-1, None)])
def test_the_steps_of_transformers_trainer_are_its_own(given, steps):
    driver = Silent()
    Trainer(given)._inner_training_loop(driver)
    assert driver.events[0]["trainer"] == {"name": "Trainer", "steps": steps, "epochs": None}


class _FitLoop:
    def __init__(self, epochs, steps):
        self.max_epochs, self.trainer = epochs, SimpleNamespace(max_steps=steps)

    def advance(self, driver):
        completing.record_length(driver)


@pytest.mark.parametrize(
    ("given", "told"), [((4, -1), (4, None)), ((-1, 500), (None, 500)), ((None, -1), (None, None))]
)
def test_lightnings_trainer_has_epochs_or_steps_or_no_end(given, told):
    driver = Silent()
    _FitLoop(*given).advance(driver)
    found = driver.events[0]["trainer"]
    assert (found["epochs"], found["steps"]) == told


def test_what_cannot_be_read_ends_no_training():
    driver = Silent()
    Trainer("many")._inner_training_loop(driver)
    assert driver.events == []
    assert isinstance(driver.failures[0], TypeError)


# Where else it trains.


@pytest.fixture
def module(users):
    return lambda source: users(source, "train_here", other_loops=completing.other_loops)


FITS = """
class Model:
    def fit(self, x, epochs=1):
        return found()

def found():
    return other_loops()

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
    assert [where["line"] for where in made.main(made.Model(), made.Model())] == [16]


LOOPS = """
def found():
    return other_loops()

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

def third(data, loss, optimizer):
    for batch in data:
        with tf.GradientTape() as tape:
            value = loss(batch)
        optimizer.apply(tape.gradient(value, optimizer.variables))

def evaluate(data, loss):
    for batch in data:
        loss.item(np.gradient(batch))
"""


def test_another_loop_that_updates_is_noted_and_an_evaluation_is_not(users, driver):
    driver.kind = "iterator"
    made = users(LOOPS, "train_here", other_loops=partial(completing.around, driver))
    made.first([1], SimpleNamespace(backward=lambda: None))
    told = notes(recording(FIT, *driver.record.of("other")), evidence_of("slow_images"))
    assert [re.search(r"train_here.py:\d+", note)[0] for note in told] == [
        "train_here.py:20",
        "train_here.py:24",
    ]
