"""The whole training in a report: its length, its seconds, and what they rest on."""

from __future__ import annotations

from dataclasses import replace

from reporters.rendering import of
from reporters.samples_tried import LEDGER, TRIED
from trainperf.model import Diagnosis, Item, Training
from trainperf.report.sections.training import HEADING


def told(training: Training | None, diagnosis: Diagnosis = TRIED) -> str:
    return of(replace(diagnosis, training=training), HEADING)


def test_without_a_length_it_says_why_and_no_seconds() -> None:
    why = "how often `while True` turns is not known"
    assert told(Training(None, reason=why)) == f"How long it takes is not known: {why}."


def test_a_ledger_stands_with_its_lines() -> None:
    said = told(LEDGER)
    assert "the script as it is 14 min 24 s" in said
    assert "with the changes 6 min 26 s (6 min 10 s to 6 min 43 s)" in said
    assert "What the script does after its last step is not in it. The interval is that of" in said
    assert "not of the sum. times now after" in said
    assert "training steps 5,999 14 min 5.7 min" in said


def test_how_the_end_of_the_process_is_reckoned_stands_where_the_end_does() -> None:
    end = Item("end", "end of the process", 1, 0.5, 0.5)
    assert "one garbage collection" in told(replace(LEDGER, items=(*LEDGER.items, end)))
    assert "one garbage collection" not in told(LEDGER)


def test_a_ledger_that_no_plain_runs_confirm_says_why() -> None:
    said = told(replace(LEDGER, reason="whole runs would take 2876 s"))
    assert "No plain runs of the script confirm it: whole runs would take 2876 s." in said


def test_where_the_changed_training_is_not_known_it_says_why() -> None:
    why = "what the changes cost once was not measured"
    items = tuple(replace(one, after_s=None) for one in LEDGER.items[:-1])
    said = told(replace(LEDGER, seconds_after=None, low=None, high=None, items=items, reason=why))
    assert f"is not in it. {why}." in said
    assert "with the changes" not in said
    assert "times now imports" in said


def test_plain_runs_are_told_in_their_order() -> None:
    runs = (864.2, 386.0, 387.4, 865.0)
    said = told(replace(LEDGER, basis="whole runs", runs=runs))
    assert "changed, as it is: 14 min 24 s, 6 min 26 s, 6 min 27 s, 14 min 25 s." in said
