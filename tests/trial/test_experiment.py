"""What is put together and when, and why trials could not be made; the whole end to end."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from trainperf.model import Equivalence, Outcome, Ratio, Run, Trials
from trainperf.trial.budget import LATE, NO_SLICE, Clock, Costs
from trainperf.trial.candidates import Candidate
from trainperf.trial.experiment import ON_TOP, _Ahead, _failed, _once, _partners
from trainperf.trial.outcome import Baseline, Measured, Start, control_of
from trainperf.trial.parity import Band
from trainperf.trial.stack import Stacked
from trainperf.trial.variants import sort_out

WAY = Candidate(("a",), None, Equivalence.EXACT, 2.0, 0, "workers=2")
PLANNED = SimpleNamespace(chosen=(WAY,), how=Trials("side by side"))


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


@pytest.mark.parametrize(
    ("own", "beside", "told"),
    [(14.0, True, 4.0), (14.0, False, 4.0), (7.0, True, 0.0), (7.0, False, -3.0)],
)
def test_starting_sooner_counts_where_legs_did_not_start_beside_each_other(own, beside, told):
    usual = Baseline(0.1, 0.0, None, None, None, Start(10.0, None))
    stacked = Stacked(("a",), Ratio(2.0, 1.9, 2.1, 12, 60), start=Start(own, None))
    assert _once(stacked, usual, beside) == told


RUN = Run(("python", "train.py"), "/home/me", "train.py")
QUIET = Baseline(
    0.1, 0.0, None, Band(None, None), control_of(Ratio(1.0, 0.99, 1.01, 8, 24), Band(None, None))
)


def alone(fix, speedup, variant="", width=0.02, **fields):
    """A fix that was measured alone, its interval so wide to either side."""
    made = Candidate((fix,), RUN, Equivalence.EXACT, None, 0, variant, **fields)
    found = Ratio(speedup, speedup * (1 - width), speedup * (1 + width), 8, 24)
    return Measured(made, found, None)


class Engine:
    """Compares nothing but what it is asked for, and remembers that."""

    def __init__(self):
        self.asked = []

    def baseline(self, holds=None):
        return QUIET

    def compare(self, candidates, clock):
        self.asked += [(one.name, one.pairs) for one in candidates]
        return [Measured(one, Ratio(9.0, 8.9, 9.1, 10, 30), None) for one in candidates]


class AllGoTogether:
    """Edits that can all be made together, of the ways that were chosen."""

    def choosing(self, chosen):
        return self

    def join(self, ids):
        return Candidate(tuple(ids), replace(RUN, seed=len(ids)), Equivalence.EXACT, None, 0)


def ahead(*planned):
    costs = Costs(5.0, 0.1, epoch_s=None, cores=2, slots=8)
    chosen = tuple(one.candidate for one in planned)
    return _Ahead(Engine(), SimpleNamespace(chosen=chosen, edits=AllGoTogether(), costs=costs))


def test_what_pays_alone_is_put_together_the_best_first():
    small, large, idle = alone("a", 1.5), alone("b", 3.0, share=0.5), alone("c", 1.0)
    plan = ahead(small, large, idle)
    assert plan.more([small]) == ()
    assert plan.more([small, idle]) == ()
    (both,) = plan.more([small, large, idle])
    assert (both.fixes, both.hope, both.share, both.pairs) == (("b", "a"), 4.5, 0.5, ON_TOP)


def test_a_fix_with_several_ways_waits_for_the_last_of_them():
    two, four, other = alone("w", 1.5, "2"), alone("w", 2.0, "4"), alone("a", 1.5)
    plan = ahead(two, four, other)
    assert plan.more([two, other]) == ()
    assert [one.fixes for one in plan.more([two, four, other])] == [("w", "a")]


def test_what_was_put_together_before_is_not_measured_again():
    small, large = alone("a", 1.5), alone("b", 3.0)
    plan = ahead(small, large)
    (both,) = plan.more([small, large])
    known = Measured(both, Ratio(4.4, 4.3, 4.5, 10, 30), None)
    same, another = AllGoTogether().join(["b", "a"]), AllGoTogether().join(["b", "a", "c"])
    found = plan.compare([known], [same, another], None)
    assert [one.ratio.speedup for one in found] == [4.4, 9.0]
    assert plan.engine.asked == [("b+a+c", ON_TOP)]
    assert plan.keep([small, large, known]) < plan.keep([small, large])


def test_what_is_small_alone_is_tried_on_top_where_the_rest_of_the_step_is_gone():
    """Of 100 ms the input takes 70; 4 ms of the other 30 are one in seven once it is gone."""
    faster_input = alone("cache", 3.0, input=True)
    model = alone("autocast", 1.04, width=0.05)

    def on_top(*others, hidden=()):
        measured = [faster_input, *others]
        return _partners(sort_out(measured, lambda _: QUIET, ""), measured, dict(hidden))

    assert on_top(model) == ["autocast"]
    assert on_top(alone("autocast", 1.01, width=0.05)) == []
    assert on_top(alone("parallel", 1.04, width=0.05, input=True)) == []
    assert on_top(alone("batch", 1.04, width=0.05, apart=True)) == []
    many = [alone(name, 1.03 + at / 1000, width=0.05) for at, name in enumerate("abc")]
    assert on_top(*many) == ["c", "b"]
    assert on_top(model, hidden={"compiled": 0.1, "fused": 0.01}.items()) == [
        "compiled",
        "autocast",
    ]


def test_no_other_change_of_the_input_is_tried_once_it_is_as_good_as_free():
    def of_input(fix, speedup, variant="", **fields):
        return alone(fix, speedup, variant, input=True, most=2.3, hope=2.3, **fields)

    three, four = of_input("workers", 2.26, "3"), of_input("workers", 2.0, "4")
    prefetch, model = of_input("prefetch", 1.0).candidate, alone("fused", 1.0).candidate
    plan = ahead(three, four)
    reason = "workers (3) gives all that a faster input can"
    assert plan.needless(four.candidate, [three]) == reason
    assert plan.needless(prefetch, [three]) == reason
    assert plan.needless(prefetch, [four]) == ""
    assert plan.needless(model, [three]) == ""
    assert plan.needless(replace(prefetch, hope=4.0), [three]) == ""
    assert plan.needless(replace(prefetch, most=None), [three]) == "", "nobody knows its limit"


def test_what_the_input_hides_is_tried_where_that_became_faster():
    measured = [alone("fused", 1.5)]
    partners = _partners(sort_out(measured, lambda _: QUIET, ""), measured, {"compiled": 0.3})
    assert partners == []
