"""Reporters are found by being there."""

from __future__ import annotations

import pytest

from reporters.samples_observed import INPUT_BOUND
from trainperf.errors import TrainperfError
from trainperf.reporters import REPORTERS, reporter


def test_every_reporter_can_render() -> None:
    assert {"terminal", "json"} <= set(REPORTERS)
    for name in REPORTERS:
        assert callable(reporter(name))


def test_a_reporter_renders_by_its_name() -> None:
    text = reporter("json")(INPUT_BOUND)
    assert text is not None
    assert text.startswith("{")


def test_an_unknown_reporter_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(TrainperfError, match="'pdf'") as caught:
        reporter("pdf")
    assert "terminal" in caught.value.hint


def test_private_modules_are_no_reporters() -> None:
    with pytest.raises(TrainperfError):
        reporter("_paper")
