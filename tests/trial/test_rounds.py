"""What is put together and when; the input first, where steps wait for it."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from kit.simulated import Machine
from trainperf.model import Equivalence, Finding, Outcome, Ratio, Run, Trials
from trainperf.trial import rounds
from trainperf.trial.budget import Costs
from trainperf.trial.candidates import Candidate, Changes
from trainperf.trial.outcome import Baseline, Measured, control_of
from trainperf.trial.parity import Band
from trainperf.trial.planning import Freed, Plan, Subject
from trainperf.trial.rounds import in_rounds

RUN = Run(("python", "train.py"), "/home/me", "train.py")
QUIET = Baseline(
    0.1, 0.0, None, Band(None, None), control_of(Ratio(1.0, 0.99, 1.01, 8, 24), Band(None, None))
)


def alone(fix, speedup, variant="", width=0.02, **fields):
    """A fix that was measured alone, its interval so wide to either side."""
    made = Candidate((fix,), RUN, Equivalence.EXACT, None, 0, variant, **fields)
    found = Ratio(speedup, speedup * (1 - width), speedup * (1 + width), 8, 24)
    return Measured(made, found, None)


def needless(measured, candidates):
    engine = SimpleNamespace(baseline=lambda holds=None: QUIET)
    costs = Costs(5.0, 0.1, epoch_s=None, cores=2, slots=8)
    return rounds._rest(engine, costs, 2.3, measured, candidates)[1]


def test_no_other_change_of_the_input_is_tried_once_it_is_as_good_as_free():
    def of_input(fix, speedup, variant="", **fields):
        return alone(fix, speedup, variant, input=True, most=2.3, hope=2.3, **fields)

    three, four = of_input("workers", 2.26, "3"), of_input("workers", 2.0, "4")
    prefetch, model = of_input("prefetch", 1.0).candidate, alone("fused", 1.0).candidate
    asked = [four.candidate, prefetch, model, replace(prefetch, fixes=("unknown",), most=None)]
    told = {
        "workers (4)": "workers (3) gives as much as it could",
        "prefetch": "workers (3) gives all that a faster input can",
    }
    assert needless([three], asked) == told
    assert needless([four], asked) == {}
    assert needless([], asked) == {}


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
    assert came.legs == 4  # beside the script, its control and the cache
    assert "measured on top of cache" in fused.why


def test_where_the_input_is_not_repaired_the_step_is_tried_as_it_is(in_two):
    came = in_two(cache=0.1, fused=0.08, compiled=0.1, fused_compiled=0.08)
    assert came.stacked.fixes == ("fused",)
    assert came.found["fused"].on_top == ()
    assert [came.found[name].outcome for name in ("cache", "compiled")] == [Outcome.NO_EFFECT] * 2
    assert came.legs == 0


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
