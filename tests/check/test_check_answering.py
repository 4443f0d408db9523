"""The words of a check: failures, doubts, and its last line."""

from __future__ import annotations

from typing import Any

import pytest

from reporters.samples import INPUT_BOUND
from trainperf.check.answering import Baseline, Limits, answer, shortcomings
from trainperf.check.running import Repeat, Runs, Speed
from trainperf.model import Check, Compared

QUIET = Speed(0.05, 0.05)


def one(fastest: float, **values: Any) -> Repeat:
    known: dict[str, Any] = {"mean_s": fastest, "noise": 0.01, "agreement": 0.01}
    known |= {"utilization": 0.9, "speed": QUIET}
    return Repeat(fastest, **{**known, **values})


def limits(least: float | None = None) -> Limits:
    return Limits(0.05, least, strict=False)


def said(before: float, *after: Repeat, wanted: Limits | None = None, **values: Any) -> Check:
    fields = {name: getattr(INPUT_BOUND, name) for name in INPUT_BOUND.__dataclass_fields__}
    saved = Baseline(**fields, repeats=(one(before, **values),) * 3)
    against = Compared("base.json", "", "", "", "train.py", "", 3)
    return answer(saved, against, Runs(INPUT_BOUND, after), wanted or limits())


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        (
            0.0120,
            0.0121,
            "passed: 12.1 ms a step against 12.0 ms (+0.8 %, noise ±1.5 %, limit 5 %)",
        ),
        (
            0.0120,
            0.0150,
            "failed: slower: 15.0 ms a step against 12.0 ms (+25.0 %, noise ±1.5 %, limit 5 %)",
        ),
        (
            954e-6,
            0.011426,
            "failed: slower: 11.4 ms a step against 954 µs (+1097.7 %, noise ±1.5 %, limit 5 %)",
        ),
    ],
)
def test_the_last_line_has_both_times_and_the_limit(before: float, after: float, line: str) -> None:
    assert said(before, *(one(after),) * 3).text == f"check {line}"


def test_what_cannot_be_told_is_said_with_its_reason() -> None:
    checked = said(1.0, one(1.1), one(1.3))
    assert checked.outcome == "undecided"
    assert checked.text.startswith("check cannot tell: noise ±48 %: 1.10 s a step against 1.00 s")
    assert all(reason.outcome != "failed" for reason in checked.reasons)


# --------------------------------------------------------------------- a poor baseline


@pytest.mark.parametrize(
    ("made", "says"),
    [
        ((one(1.0), one(1.0)), "there was time for 2 of 3 runs"),
        ((one(1.0), one(1.1), one(1.2)), "the runs differ by 10 %"),
        ((one(1.0, others=1.3),) * 3, "other programs kept 1.3 cores busy"),
    ],
)
def test_what_makes_a_baseline_poor_is_said(made: tuple[Repeat, ...], says: str) -> None:
    told = tuple(shortcomings(made))
    assert len(told) == 1
    assert says in told[0]


# ------------------------------------------------------------------------- utilisation


@pytest.mark.parametrize(
    ("seen", "outcome"),
    [((0.9,), "passed"), ((0.7, 0.85), "passed"), ((0.7, 0.6), "failed"), ((None,), "undecided")],
)
def test_utilisation_under_the_floor_in_every_run_fails(
    seen: tuple[float | None, ...], outcome: str
) -> None:
    after = [one(1.0, utilization=share) for share in seen]
    checked = said(1.0, *after, wanted=limits(least=0.8))
    assert checked.outcome == outcome
    if outcome == "failed":
        assert checked.text == "check failed: utilisation 70 %, at least 80 % is wanted"
    if outcome == "undecided":
        assert checked.text == "check cannot tell: utilisation was not measured"


def test_several_failures_are_counted_in_the_line_and_all_told() -> None:
    checked = said(
        1.0,
        *(one(1.2, utilization=0.5),) * 5,
        wanted=limits(least=0.8),
    )
    assert sum(reason.outcome == "failed" for reason in checked.reasons) == 2
    assert checked.text.endswith("; and 1 more")
