from __future__ import annotations

import pytest

from trainperf.model import Outcome, Trial, Trials
from trainperf.self_test.judging import (
    BUSY,
    Figure,
    SelfTest,
    nothing_kept,
)


def figure(measured: float | None, others: float | None = 0.0) -> Figure:
    return Figure("a step", "s", 0.050, measured, 0.03, others, "plain run")


def result(*figures: Figure) -> SelfTest:
    return SelfTest("PyTorch", "2.13", "the CPU", figures, (), 60.0)


@pytest.mark.parametrize("measured", [0.0486, 0.050, 0.0514])
def test_a_figure_within_its_band_holds(measured: float) -> None:
    assert figure(measured).status == "ok"
    assert figure(measured).check().text.startswith("expected 50.0 ms (plain run), measured ")
    assert result(figure(measured)).holds is True


def test_beside_busy_neighbours_a_figure_outside_its_band_says_nothing() -> None:
    busy = figure(0.080, others=BUSY + 0.1)
    assert busy.status == "unknown"
    assert "others kept 0.4 cores busy" in busy.check().text
    assert result(busy, figure(0.050)).holds is None
    assert figure(0.0505, others=BUSY + 0.1).status == "ok"
    assert figure(None).status == "unknown"


def test_a_repair_that_was_tried_and_not_kept_is_a_problem() -> None:
    tried = Trial("torch_workers", Outcome.NO_EFFECT, "not told from noise in 24 pairs")
    said = nothing_kept("repair", [tried], Trials("side by side"))
    assert said.status == "problem"
    assert "not told from noise" in said.text


def test_the_conclusion_names_framework_and_device() -> None:
    assert (
        result(figure(0.05)).conclusion == "The measuring holds here, with PyTorch 2.13 on the CPU."
    )
    assert "--json FILE" in result(figure(0.08)).conclusion
