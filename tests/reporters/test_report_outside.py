"""The table of where the run's time goes, on a terminal, in Markdown, on the page."""

from __future__ import annotations

from dataclasses import replace

from fixes.cases.common.cases import evidence
from fixes.cases.tf_step.calls._model_calls import timed_in_place
from fixes.cases.tf_step.calls.keras_predict_in_loop import BETWEEN_FITS
from reporters.rendering import text
from reporters.samples_observed import HEALTHY
from reporters.samples_tried import TRIED
from trainperf.fixes.tf_step.calls.keras_predict_in_loop import PredictInLoop
from trainperf.model import Outcome, Outside, Trial
from trainperf.report.sections import training as _outside
from trainperf.reporters import html, markdown

SHOWN = replace(HEALTHY, outside=BETWEEN_FITS)


def test_a_terminal_says_what_a_turn_is_made_of_before_the_step():
    said = " ".join(text(SHOWN, 100).split())
    assert "One turn of the loop around `fit`: 13.0 s." in said
    assert "training steps 32 600 ms 4.6 %" in said
    assert "prediction predict train.py:27 200 12.0 s 92 %" in said
    assert said.index(_outside._TURN_HEADING) < said.index("One step ")


def test_markdown_and_the_page_have_it_too():
    assert f"### {_outside._TURN_HEADING}" in markdown.render(SHOWN)
    assert "`train.py:27`" in markdown.render(SHOWN)
    assert _outside._TURN_HEADING.replace("'", "&#39;") in html.render(SHOWN)


def test_a_turn_that_was_not_over_says_so():
    said = " ".join(text(replace(HEALTHY, outside=replace(BETWEEN_FITS, whole=False))).split())
    assert "at least 13.0 s: it was not over when the run was stopped" in said


def test_steps_that_are_nearly_all_need_no_table():
    little = replace(BETWEEN_FITS, training_s=12.8)
    assert _outside.shown(replace(HEALTHY, outside=little)) is None
    assert _outside.shown(HEALTHY) is None


def test_an_epoch_whose_parts_stand_elsewhere_is_not_said_twice():
    epoch: Outside = replace(BETWEEN_FITS, turn="epoch", spent=())
    assert _outside.shown(replace(HEALTHY, outside=epoch)) is None


def test_a_repair_that_was_timed_in_place_says_of_what_its_speed_up_is():
    turn = timed_in_place(BETWEEN_FITS)
    finding = PredictInLoop().detect(evidence(outside_=turn))
    assert finding is not None
    trial = Trial(
        finding.id, Outcome.KEPT, "", 9.4, 9.2, 9.6, 12, kept=True, basis="calls", note="so"
    )
    tried = replace(TRIED, outside=turn, findings=(finding,), trials=(trial,), stack=None)
    said = " ".join(text(tried, 100).split())
    assert "9.4× as fast, one turn of the loop around `fit`, measured (9.2 to 9.6)" in said
    assert "On the same inputs `predict_on_batch` took 1.60 ms (12 pairs)" in said
    assert "12 pairs each" not in said
    assert "(0 steps)" not in said
