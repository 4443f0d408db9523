"""How long the training is to be, as its loops and its trainer say within a step."""

from types import SimpleNamespace

import pytest

from trainperf.child.timing import completing


class Driver:
    """Keeps what is recorded, and what failed."""

    def __init__(self):
        self.events, self.failures = [], []
        self.record = SimpleNamespace(write=lambda kind, **fields: self.events.append(fields))
        self.process = SimpleNamespace(failed=lambda what, error: self.failures.append(error))


class Trainer:
    def __init__(self, steps):
        self.state = SimpleNamespace(max_steps=steps)

    def _inner_training_loop(self, driver):
        completing.record_length(driver)


@pytest.mark.parametrize(("given", "steps"), [(120, 120), (-1, None)])
def test_the_steps_of_transformers_trainer_are_its_own(given, steps):
    driver = Driver()
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
    driver = Driver()
    _FitLoop(*given).advance(driver)
    found = driver.events[0]["trainer"]
    assert (found["epochs"], found["steps"]) == told


def test_what_cannot_be_read_ends_no_training():
    driver = Driver()
    Trainer("many")._inner_training_loop(driver)
    assert driver.events == []
    assert isinstance(driver.failures[0], TypeError)
