"""Of a script that is given up the report says where it stood."""

from __future__ import annotations

from recordings import recording
from trainperf.model import Ending
from trainperf.report.assemble.no_loop import last_place

AT = {"e": "at", "file": "/home/me/train.py", "line": 4, "function": "download", "into": ""}


def test_nothing_is_said_of_a_script_that_was_never_looked_at() -> None:
    assert last_place(recording(ending=Ending.STALLED)) == ""


def test_a_script_that_stood_still_is_told_with_its_line_and_how_long_it_had_been_there() -> None:
    assert last_place(recording({**AT, "t": 10.0}, {**AT, "line": 9, "t": 20.0},
                                ending=Ending.STALLED)) == (
        "When it was stopped, the script had been for 80.0 s at train.py:9 in `download`."
    )  # fmt: skip


def test_what_was_seen_just_now_has_no_duration() -> None:
    moved = {**AT, "function": "<module>", "into": "load", "t": 98.0}
    assert last_place(recording(moved, ending=Ending.OUT_OF_BUDGET)) == (
        "When it was stopped, the script was at train.py:4, in a call of `load`."
    )
