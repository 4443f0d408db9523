from __future__ import annotations

import pytest

from trainperf.machine.doctor.checks import Check
from trainperf.model import Outcome, Trial, Trials
from trainperf.self_test.judging import (
    BUSY,
    Figure,
    SelfTest,
    neighbours,
    nothing_kept,
    nothing_to_gain,
)


def figure(measured: float | None, waited: float | None = 0.0, reason: str = "") -> Figure:
    return Figure("a step", "s", 0.050, measured, 0.03, waited, "plain run", reason)


def result(*figures: Figure) -> SelfTest:
    return SelfTest("PyTorch", "2.13", "the CPU", figures, (), 60.0)


@pytest.mark.parametrize("measured", [0.0486, 0.050, 0.0514])
def test_a_figure_within_its_band_holds(measured: float) -> None:
    assert figure(measured).status == "ok"
    assert result(figure(measured)).holds is True


@pytest.mark.parametrize("measured", [0.0484, 0.0516])
def test_one_outside_it_does_not(measured: float) -> None:
    assert figure(measured).status == "problem"
    assert result(figure(measured), figure(0.050)).holds is False


def test_waiting_for_a_core_widens_the_band_by_what_was_waited() -> None:
    assert figure(0.0535, waited=0.05).status == "ok"
    assert figure(0.0545, waited=0.05).status == "problem"
    assert (
        "8.0 %: 3.0 %, and 5.0 % of waiting for a core" in figure(0.0535, waited=0.05).check().text
    )


def test_where_threads_waited_long_a_figure_outside_its_band_says_nothing() -> None:
    busy = figure(0.080, waited=BUSY + 0.01)
    assert busy.status == "unknown"
    assert result(busy, figure(0.050)).holds is None
    assert result(busy, figure(0.080)).holds is False  # the other one was not disturbed


def test_where_waiting_was_not_counted_a_figure_outside_its_band_says_nothing() -> None:
    assert figure(0.0505, waited=None).status == "ok"
    blind = figure(0.080, waited=None)
    assert blind.status == "unknown"
    assert "how long threads waited for a core is not known" in blind.check().text


def test_what_time_was_missing_for_is_unknown_and_what_failed_is_a_problem() -> None:
    assert figure(None).status == "unknown"
    assert figure(None).check().text == "expected 50.0 ms (plain run), the time was over"
    assert figure(None, reason="crashed").status == "problem"


def test_each_figure_is_a_line_with_what_was_expected_and_measured() -> None:
    assert figure(0.0505).check() == Check(
        "a step",
        "ok",
        "expected 50.0 ms (plain run), measured 50.5 ms: +1.0 %, may be off by 3.0 %",
    )


def test_a_finding_about_the_input_of_a_hidden_loader_is_a_problem() -> None:
    assert nothing_to_gain([], []).status == "ok"
    assert nothing_to_gain(["torch_workers"], []).status == "problem"
    assert nothing_to_gain([], ["torch_workers"]).status == "problem"


def test_a_repair_that_was_tried_and_not_kept_is_a_problem() -> None:
    tried = Trial("torch_workers", Outcome.NO_EFFECT, "not told from noise in 24 pairs")
    said = nothing_kept("repair", [tried], Trials("side by side"))
    assert said.status == "problem"
    assert "not told from noise" in said.text


def test_one_that_there_was_no_time_for_is_unknown() -> None:
    late = Trial("torch_workers", Outcome.NOT_TRIED, "out of budget")
    assert nothing_kept("r", [late], Trials("none", budget_needed_s=90.0)).status == "unknown"
    assert nothing_kept("r", [late], Trials("none")).status == "problem"


def test_others_on_the_gpu_are_named() -> None:
    assert neighbours(0.2, 16, ["GPU 0"]).status == "warning"
    assert neighbours(0.2, 16, []).text == "others took 0.2 of 16 cores at most"


def test_the_conclusion_names_framework_and_device() -> None:
    assert (
        result(figure(0.05)).conclusion == "The measuring holds here, with PyTorch 2.13 on the CPU."
    )
    assert "--json FILE" in result(figure(0.08)).conclusion
