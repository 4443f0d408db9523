"""The run of a soak, and what the evidence has of it."""

import pytest

from recordings import FIT, block, recording
from trainperf.fixes.common.cases import evidence
from trainperf.model import Ending, Missing, OverTime, StartUp
from trainperf.trial import soak


@pytest.fixture
def soaked(tmp_path, monkeypatch):
    """The evidence after a soak that left these events, and the run that was made."""

    def make(*events, ending=Ending.MEASURED, start_s=50.0):
        runs = []

        def launch(run, folder, interrupted):
            folder.mkdir()
            runs.append(run)
            return recording(*events, ending=ending)

        monkeypatch.setattr(soak, "launch", launch)
        whole = evidence(startup=StartUp(start_s) if start_s else None)
        found = soak.with_soak(recording(), whole, 600.0, tmp_path, lambda: False, lambda one: None)
        assert list(tmp_path.iterdir()) == []
        return found, runs[0]

    return make


def slices(count):
    return [{**block("real", 1.0, 10, index), "s": float(index)} for index in range(count)]


def test_it_runs_as_long_as_was_asked_and_has_time_to_start_beyond_that(soaked):
    found, run = soaked(FIT, *slices(60))
    assert (run.soak_s, run.budget_s, run.trials) == (600.0, 700.0, False)
    assert isinstance(found.over_time_, OverTime)


def test_one_that_ended_early_is_compared_as_far_as_it_went(soaked):
    found, _ = soaked(FIT, *slices(20), ending=Ending.FINISHED, start_s=None)
    assert found.over_time.seconds == pytest.approx(20.0)


@pytest.mark.parametrize("events", [[], [FIT, *slices(5)]])
def test_one_that_is_too_short_says_why(soaked, events):
    found, _ = soaked(*events, ending=Ending.FAILED)
    assert isinstance(found.over_time_, Missing)
    assert found.facts["soak_s"] == 600.0
