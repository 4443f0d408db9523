"""The reasons why trials could not be made; whole trials are tested end to end."""

import math
from types import SimpleNamespace

import pytest

from trainperf.model import Equivalence, Outcome, Ratio, Trial, Trials
from trainperf.trial import experiment
from trainperf.trial.budget import LATE, NO_SLICE, Clock
from trainperf.trial.candidates import Candidate
from trainperf.trial.experiment import Tried, _failed, _once
from trainperf.trial.outcome import Baseline, Start
from trainperf.trial.stack import Stacked

WAY = Candidate(("a",), None, Equivalence.EXACT, 2.0, 0, "workers=2")
PLANNED = SimpleNamespace(chosen=(WAY,))


@pytest.mark.parametrize(
    ("failure", "deadline", "interrupted", "reason"),
    [
        ("made no step", 100.0, True, "interrupted before anything could be compared"),
        ("made no step", 1.0, False, "the budget was over before anything could be compared"),
        (LATE, 100.0, False, "the budget was over before anything could be compared"),
        (NO_SLICE, 100.0, False, "the budget was over before anything could be compared"),
        (
            "made no step",
            100.0,
            False,
            "the script as it is could not be run as a leg: made no step",
        ),
    ],
)
def test_where_nothing_could_be_compared_the_reason_is_named(
    failure, deadline, interrupted, reason
):
    clock = Clock(deadline, lambda: interrupted, lambda: 0.0)
    tried = _failed(PLANNED, failure, clock)
    assert (tried.trying.mode, tried.trying.reason) == ("none", reason)
    (one,) = tried.trials
    assert (one.fix, one.outcome, one.reason, one.bound) == ("a", Outcome.NOT_TRIED, reason, 2.0)
    assert (one.variant, one.name) == ("workers=2", "a (workers=2)")


class Plans:
    """Stands in for what runs plans: says which ran, and gives what each came to."""

    def __init__(self, **kept: bool) -> None:
        self.kept, self.ran = kept, []

    def __call__(self, planned, subject, clock, on_event, within=""):
        assert bool(within) == (planned.name == "later")  # no leg's folder is used twice
        self.ran.append(planned.name)
        stack = SimpleNamespace(fixes=(planned.name,)) if self.kept[planned.name] else None
        outcome = Outcome.KEPT if stack else Outcome.NO_EFFECT
        trials = (Trial(planned.name, outcome, "", speedup=1.0),)
        return Tried(Trials("side by side"), trials, stack=stack), 2, ""


def planned(name, then=None, skipped=()):
    one = Candidate((name,), None, Equivalence.EXACT, 2.0, 0)
    how = Trials("side by side", mode_reason=f"for {name}")
    return SimpleNamespace(name=name, chosen=(one,), skipped=skipped, how=how, then=then)


def tried(monkeypatch, *decided, deadline=math.inf, **kept):
    plans = Plans(**kept)
    later = planned("later")
    first = planned("first", later, (later.chosen[0].skipped("not yet"), *decided))
    monkeypatch.setattr(experiment, "_run", plans)
    monkeypatch.setattr(experiment, "plan", lambda *_: first)
    subject = SimpleNamespace(deadline=deadline)
    found = experiment.try_fixes(subject, lambda: False, lambda _: None)
    return plans.ran, found


def test_what_was_left_for_later_is_tried_where_nothing_was_kept(monkeypatch):
    ran, found = tried(monkeypatch, first=False, later=True)
    assert ran == ["first", "later"]
    assert [(one.fix, one.outcome) for one in found.trials] == [
        ("later", Outcome.KEPT),
        ("first", Outcome.NO_EFFECT),
    ]
    assert (found.stack.fixes, found.trying.mode_reason) == (("later",), "for later")
    assert found.trying.legs == 4


def test_what_was_left_for_later_stays_where_something_was_kept(monkeypatch):
    ran, found = tried(monkeypatch, first=True, later=True)
    assert ran == ["first"]
    assert [(one.fix, one.reason) for one in found.trials] == [("first", ""), ("later", "not yet")]


def test_a_way_that_the_loop_decided_stays_where_another_is_tried_later(monkeypatch):
    slower = Trial("later", Outcome.SLOWER, "", variant="batch=32", basis="in the loop")
    _, found = tried(monkeypatch, slower, first=False, later=True)
    assert slower in found.trials
    assert [one.outcome for one in found.trials if one.fix == "later"] == [
        Outcome.KEPT,
        Outcome.SLOWER,
    ]


def test_where_neither_is_kept_both_are_named(monkeypatch):
    ran, found = tried(monkeypatch, first=False, later=False)
    assert ran == ["first", "later"]
    assert {one.fix for one in found.trials} == {"first", "later"}
    assert (found.stack, found.trying.mode_reason) == (None, "for first")


def test_without_time_nothing_is_tried_later(monkeypatch):
    ran, found = tried(monkeypatch, deadline=0.0, first=False, later=True)
    assert ran == ["first"]
    assert [one.reason for one in found.trials if one.fix == "later"] == ["not yet"]


@pytest.mark.parametrize(
    ("own", "beside", "told"),
    [(14.0, True, 4.0), (14.0, False, 4.0), (7.0, True, 0.0), (7.0, False, -3.0)],
)
def test_starting_sooner_counts_where_legs_did_not_start_beside_each_other(own, beside, told):
    usual = Baseline(0.1, 0.0, None, None, None, Start(10.0, None))
    stacked = Stacked(("a",), Ratio(2.0, 1.9, 2.1, 12, 60), start=Start(own, None))
    assert _once(stacked, usual, beside) == told
