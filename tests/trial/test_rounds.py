"""What is put together and when; the input first, where steps wait for it."""

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from kit.simulated import Machine
from trainperf.model import Equivalence, Finding, Outcome, Ratio, Run, Trials
from trainperf.trial import rounds
from trainperf.trial.budget import Costs
from trainperf.trial.candidates import Candidate
from trainperf.trial.outcome import Baseline, Measured, control_of
from trainperf.trial.parity import Band
from trainperf.trial.planning import Changes, Freed, Plan, Subject
from trainperf.trial.rounds import ON_TOP, Ahead, in_rounds

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


def ahead(*planned, free=math.inf):
    costs = Costs(5.0, 0.1, epoch_s=None, cores=2, slots=8)
    chosen = tuple(one.candidate for one in planned)
    planned = SimpleNamespace(chosen=chosen, changes=AllGoTogether(), costs=costs)
    return Ahead(Engine(), planned, free)


def test_what_pays_alone_is_put_together_the_best_first():
    small, large, idle = alone("a", 1.5), alone("b", 3.0, share=0.5), alone("c", 1.0)
    plan = ahead(small, large, idle)
    assert plan.look([small], ()).more == ()
    assert plan.look([small, idle], ()).more == ()
    (both,) = plan.look([small, large, idle], ()).more
    assert (both.fixes, both.hope, both.share, both.pairs) == (("b", "a"), 4.5, 0.5, ON_TOP)


def test_a_fix_with_several_ways_waits_for_the_last_of_them():
    two, four, other = alone("w", 1.5, "2"), alone("w", 2.0, "4"), alone("a", 1.5)
    plan = ahead(two, four, other)
    assert plan.look([two, other], ()).more == ()
    assert [one.fixes for one in plan.look([two, four, other], ()).more] == [("w", "a")]


def test_what_was_put_together_before_is_not_measured_again():
    small, large = alone("a", 1.5), alone("b", 3.0)
    plan = ahead(small, large)
    (both,) = plan.look([small, large], ()).more
    known = Measured(both, Ratio(4.4, 4.3, 4.5, 10, 30), None)
    same, another = AllGoTogether().join(["b", "a"]), AllGoTogether().join(["b", "a", "c"])
    found = plan.compare([known], [same, another], None)
    assert [one.ratio.speedup for one in found] == [4.4, 9.0]
    assert plan.engine.asked == [("b+a+c", ON_TOP)]
    assert plan.look([small, large, known], ()).keep_s < plan.look([small, large], ()).keep_s


def test_no_other_change_of_the_input_is_tried_once_it_is_as_good_as_free():
    def of_input(fix, speedup, variant="", **fields):
        return alone(fix, speedup, variant, input=True, most=2.3, hope=2.3, **fields)

    three, four = of_input("workers", 2.26, "3"), of_input("workers", 2.0, "4")
    prefetch, model = of_input("prefetch", 1.0).candidate, alone("fused", 1.0).candidate
    plan = ahead(three, four, free=2.3)
    asked = [four.candidate, prefetch, model, replace(prefetch, fixes=("unknown",), most=None)]
    needless = {
        "workers (4)": "workers (3) gives as much as it could",
        "prefetch": "workers (3) gives all that a faster input can",
    }
    assert plan.look([three], asked).needless == needless
    assert plan.look([four], asked).needless == {}
    assert plan.look([], asked).needless == {}


FINDINGS = {
    name: Finding(name, side, "", "", None, "", Equivalence.EXACT)
    for name, side in (("cache", "input"), ("fused", "model"), ("compiled", "model"))
}


PLACES = {-1: "cache", -2: "fused", -3: "compiled"}
"""The digit of a leg's seed that says whether a change is made in it."""


class ByName(Changes):
    """Each edit is the seed of its leg: 1 for the cache, 10 and 100 for the others."""

    def join(self, ids):
        seeds = {"cache": 1, "fused": 10, "compiled": 100}
        every = (*self.beneath, *ids)
        seed = sum(seeds[one] for one in every)
        return Candidate(tuple(ids), replace(RUN, seed=seed), Equivalence.EXACT, None, 0)


@pytest.fixture
def in_two(monkeypatch):
    """Try a cache, and two changes of the step, on a script that waits for its input."""

    def run(freed=True, seconds=600.0, broken=False, **step_s):
        """`step_s` is how long a step takes, by the changes that are made."""
        plans = {name.replace("_", "+"): {"step_s": taken} for name, taken in step_s.items()}
        machine = Machine()

        def leg(name, run, folder, *_):
            made = [one for place, one in PLACES.items() if f"{run.seed or 0:03}"[place] == "1"]
            fails = {"fails_at": 1} if broken and made == ["cache"] and not name else {}
            machine.made[name or "base"] = {"noise": 0.01, **plans.get("+".join(made), {}), **fails}
            return original(name, run, folder)

        original = machine.leg
        machine.leg = leg
        changes = ByName(RUN, tuple(FINDINGS.values()), None)
        costs = Costs(1.0, 0.1, epoch_s=None, cores=2, slots=10, at_once=3)

        def planned(names, beneath=()):
            own = replace(changes, beneath=beneath)
            chosen = [replace(own.join((name,)), input=name == "cache", hope=4.0) for name in names]
            return Plan(own, tuple(chosen), (), Trials("side by side"), costs)

        def on_top(subject, clock):
            assert subject.evidence == "free"
            assert [one.id for one in subject.findings] == ["fused", "compiled"]
            return planned(("fused", "compiled"), tuple(one.id for one in subject.beneath))

        monkeypatch.setattr(rounds, "plan", on_top)
        free = Freed("free", tuple(FINDINGS.values())) if freed else None
        subject = Subject(
            None,
            SimpleNamespace(length_=None, known_utilization=None),
            (),
            None,
            "",
            Path(),
            0.0,
            600.0,
            freed=free,
        )
        with machine.queue(monkeypatch) as queue:
            return in_rounds(
                queue, planned(FINDINGS), subject, machine.clock(seconds), lambda: "late"
            )

    return run


def test_the_step_is_tried_on_top_of_the_input_that_it_waited_for(in_two):
    """Fused updates are hidden behind the input, and halve the step that is left."""
    came = in_two(cache=0.04, cache_fused=0.02, cache_compiled=0.04, cache_fused_compiled=0.02)
    assert came.stacked.fixes == ("cache", "fused")
    assert came.stacked.ratio.speedup == pytest.approx(5.0, rel=0.05)
    assert not came.stacked.together, "one on top of the other"
    assert came.found["cache"].speedup == pytest.approx(2.5, rel=0.05)
    fused, compiled = came.found["fused"], came.found["compiled"]
    assert (fused.outcome, fused.on_top) == (Outcome.KEPT, ("cache",))
    assert fused.speedup == pytest.approx(2.0, rel=0.05)
    assert (compiled.outcome, compiled.on_top) == (Outcome.NO_EFFECT, ("cache",))
    assert came.legs == 7  # the script, its control and the cache, then that with its own
    assert "measured on top of cache" in fused.why


def test_where_the_input_is_not_repaired_the_step_is_tried_as_it_is(in_two):
    came = in_two(cache=0.1, fused=0.08, compiled=0.1, fused_compiled=0.08)
    assert came.stacked.fixes == ("fused",)
    assert came.found["fused"].on_top == ()
    assert [came.found[name].outcome for name in ("cache", "compiled")] == [Outcome.NO_EFFECT] * 2
    assert came.legs == 5


def test_where_steps_do_not_wait_there_is_one_round(in_two):
    came = in_two(freed=False, cache=0.09, fused=0.05, cache_fused=0.045, compiled=0.1)
    assert set(came.stacked.fixes) == {"cache", "fused"}
    assert came.found["fused"].on_top == ()


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ({"seconds": 16.5}, "late"),
        ({"broken": True}, "with cache the script base breaks"),
    ],
)
def test_what_cannot_be_tried_on_top_leaves_what_was_kept(in_two, how, reason):
    came = in_two(**how, cache=0.04, cache_fused=0.02)
    assert came.stacked.fixes == ("cache",)
    others = [came.found[name] for name in ("fused", "compiled")]
    assert [(one.outcome, one.reason) for one in others] == [(Outcome.NOT_TRIED, reason)] * 2
