import math
from dataclasses import replace

import pytest

from trainperf.model import Equivalence, Ratio, Run
from trainperf.recording.run import Epoch
from trainperf.trial.budget import Clock
from trainperf.trial.candidates import Candidate
from trainperf.trial.legs.faults import LegFailed, OutOfTime
from trainperf.trial.outcome import Baseline, Measured, control_of
from trainperf.trial.parity import Band, Losses
from trainperf.trial.ratio import Pair
from trainperf.trial.stack import Means, on_top, stack

RUN = Run(("python", "train.py"), "/home/me", "train.py")
LOSSES = Losses("loss", {n: 2.0 / n for n in range(1, 21)}, "fit")
OTHER = Losses("loss", {n: 3.0 / n for n in range(1, 21)}, "fit")
CONTROL = control_of(Ratio(1.0, 0.99, 1.01, 8, 24), Band(True, 0.0))
BASELINE = Baseline(0.1, 1e-5, LOSSES, Band(True, 0.0), CONTROL)


def named(name):
    """The candidate of the fixes in a name."""
    return Candidate(tuple(name.split("+")), RUN, Equivalence.EXACT, None, 0)


def measured(name, speedup, losses=LOSSES, failure="", with_pairs=True):
    """Measured at `speedup` in eight pairs, give or take half a per cent."""
    rates = [speedup * math.exp(0.005 * (-1) ** n) for n in range(8)]
    pairs = tuple(Pair(rate, 1.0, 1.0, 3) for rate in rates) if with_pairs else ()
    found = Ratio(speedup, speedup * 0.995, speedup * 1.005, 8, 24)
    return Measured(named(name), found, losses, failure, None, pairs)


def late(name):
    return Measured(named(name), failure=OutOfTime())


class Bench:
    """Fixes that speed up by a factor each, and what goes wrong with some of them.

    `alone` holds what each gives alone. `share` names pairs that share one gain: the
    second gives nothing on top of the first. `breaks` gives for a set of fixes the way
    every stack that holds it goes wrong; `room` is how many stacks there is time for.
    """

    def __init__(self, alone, share=(), breaks=None, clash=None, room=100, with_pairs=True):
        self.alone = alone
        self.share = share
        self.breaks = breaks or {}
        self.clash = clash
        self.room = room
        self.with_pairs = with_pairs
        self.asked = []
        self.interrupted = False
        self.clock = Clock(1000.0, lambda: self.interrupted, lambda: 0.0)

    def join(self, ids):
        if self.clash is not None and set(self.clash) <= set(ids):
            return "both edit the same call"
        return Candidate(tuple(ids), RUN, Equivalence.EXACT, None, 0)

    def speedup(self, fixes):
        whole = 1.0
        for fix in fixes:
            if not any(fix == late and early in fixes for early, late in self.share):
                whole *= self.alone[fix]
        return whole

    def compare(self, candidates, clock):
        assert clock is self.clock
        self.asked.append([one.name for one in candidates])
        return [self.one(candidate) for candidate in candidates]

    def one(self, candidate):
        if self.room == 0:
            return late(candidate.name)
        self.room -= 1
        for fixes, how in self.breaks.items():
            if set(fixes) <= set(candidate.fixes):
                if how == "losses":
                    return measured(candidate.name, 9.0, OTHER)
                if how == "later":
                    return measured(candidate.name, 9.0, failure="was killed by SIGKILL")
                return Measured(candidate, None, None, how)
        return measured(candidate.name, self.speedup(candidate.fixes), with_pairs=self.with_pairs)

    def means(self, holds):
        return Means(holds, BASELINE, self.join, self.compare, self.clock)

    def stack(self):
        winners = [
            measured(name, gain, with_pairs=self.with_pairs)
            for name, gain in sorted(self.alone.items(), key=lambda item: -item[1])
        ]
        return stack(winners, self.means)


def reasons(found):
    return {name: drop.reason for name, drop in found.dropped.items()}


NO_TIME = "not measured on top of "
GIVES = "on top of a it gives "
ABC = {"a": 2.0, "b": 1.5, "c": 1.3}
ABCD = {**ABC, "d": 1.2}
IN_FOUR = ["a+b", "a+b+c", "a+b+c+d"]


@pytest.mark.parametrize(
    ("how", "fixes", "dropped", "asked"),
    [
        ({"alone": {}}, "", {}, []),
        ({"alone": {"a": 1.5}}, "a", {}, []),
        ({"alone": {"c": 1.2, "a": 2.0, "b": 1.5}}, "abc", {}, [["a+b", "a+b+c"]]),
        # one that adds nothing goes, and the others are measured again without it
        (
            {"alone": {"a": 2.0, "b": 1.5}, "share": ["ab"]},
            "a",
            {"b": GIVES + "1.00× ("},
            [["a+b"]],
        ),
        ({"alone": {"a": 2.0, "b": 1.015}}, "a", {"b": GIVES}, [["a+b"]]),
        ({"alone": ABC, "share": ["ab"]}, "ac", {"b": GIVES}, [["a+b", "a+b+c"], ["a+c"]]),
        ({"alone": {"a": 2.0, "b": 1.5, "c": 1.01}, "with_pairs": False}, "ab", {"c": ""}, None),
        # one that breaks it does not cost those after it
        *(
            (
                {"alone": ABCD, "breaks": {"ab": how}},
                "acd",
                {"b": f"together with a: {reason}"},
                [IN_FOUR, ["a+c", "a+c+d"]],
            )
            for how, reason in (
                ("losses", "losses part at step 1: 2 against 3"),
                ("fails: ValueError: no", "fails: ValueError: no"),
                ("later", "was killed by SIGKILL"),
            )
        ),
        ({"alone": {"a": 2.0, "b": 1.5}, "breaks": {"ab": "losses"}}, "a", {"b": ""}, [["a+b"]]),
        (
            {
                "alone": {"a": 2.0, "b": 1.6, "c": 1.5, "d": 1.4, "e": 1.3},
                "breaks": {"b": "fails: ValueError: b", "cd": "losses"},
            },
            "ace",
            {"b": "", "d": "together with a, c: losses part"},
            None,
        ),
        (
            {"alone": ABCD, "share": ["ab"], "breaks": {"c": "fails: ValueError: c"}},
            "ad",
            {"b": "", "c": ""},
            [IN_FOUR, ["a+d"]],
        ),
        # no time
        (
            {"alone": ABCD, "share": ["ab", "ad"], "room": 3},
            "abc",
            {"d": ""},
            [IN_FOUR, ["a+c"]],
        ),
        (
            {"alone": ABC, "breaks": {"b": "losses"}, "room": 2},
            "a",
            {"b": "", "c": NO_TIME + "a: out of budget"},
            None,
        ),
        ({"alone": ABCD, "room": 2}, "abc", {"d": NO_TIME + "a, b, c: out of budget"}, None),
        # two that edit the same place
        (
            {"alone": ABC, "clash": "ab"},
            "ac",
            {"b": "does not go together with a: both edit the same call"},
            [["a+c"]],
        ),
    ],
)
def test_winners_are_put_together_as_far_as_they_pay(how, fixes, dropped, asked):
    bench = Bench(**how)
    found = bench.stack()
    assert found.fixes == tuple(fixes)
    assert reasons(found).keys() == dropped.keys()
    assert all(reasons(found)[name].startswith(reason) for name, reason in dropped.items())
    assert asked is None or bench.asked == asked
    if not fixes:
        assert found.ratio is None
    elif "room" not in how or not how.get("share"):
        assert found.ratio.speedup == pytest.approx(bench.speedup(fixes), rel=0.001)


@pytest.mark.parametrize("how", ["losses", "fails: ValueError: no"])
def test_what_remains_is_not_kept_unseen_if_it_breaks_when_measured_again(how):
    class Bench2(Bench):
        def one(self, candidate):
            self.breaks = {("a", "c"): how} if "b" not in candidate.fixes else {}
            return super().one(candidate)

    found = Bench2({"a": 2.0, "b": 1.5, "c": 1.3}, share=[("a", "b")]).stack()
    assert found.fixes == ("a", "b", "c")


def test_when_the_unchanged_script_has_ended_what_was_measured_stays():
    bench = Bench({"a": 2.0, "b": 1.5})

    def compare(candidates, clock):
        raise LegFailed("was killed by SIGKILL")

    winners = [measured("a", 2.0), measured("b", 1.5)]
    found = stack(winners, lambda holds: replace(bench.means(holds), compare=compare))
    assert (found.fixes, found.ratio.speedup) == (("a",), 2.0)
    assert reasons(found) == {
        "b": "not measured on top of a: the script as it is was killed by SIGKILL"
    }


def test_pairs_of_the_same_rounds_cancel_what_both_stacks_have_in_common():
    noise = [1.3, 0.7, 1.2, 0.8, 1.1, 0.9]
    one = Measured(named("x"), None, None, pairs=tuple(Pair(3.0 * by, 1.0, 1.0, 3) for by in noise))
    other = Measured(
        named("y"), None, None, pairs=tuple(Pair(2.0 * by, 1.0, 1.0, 3) for by in noise)
    )
    more = on_top(one, other)
    assert (more.low, more.speedup, more.high) == pytest.approx((1.5, 1.5, 1.5))


EPOCH = Epoch(20, 4.0)


def stacked_in_two_kinds(gains, asked=None):
    """Two that show in steps, the better one first, and one that shows in whole epochs alone."""

    def means(holds):
        def compare(candidates, _):
            if asked is not None:
                asked.append((holds, [one.name for one in candidates]))
            return [
                replace(measured(one.name, gains[one.name, holds]), candidate=one)
                if (one.name, holds) in gains
                else late(one.name)
                for one in candidates
            ]

        def join(ids):
            return Candidate(tuple(ids), RUN, Equivalence.EXACT, None, 0, holds=holds)

        return Means(holds, BASELINE, join, compare, Clock(1e3, lambda: False, lambda: 0.0))

    longer = replace(measured("input", 1.5), candidate=replace(named("input"), holds=EPOCH))
    winners = [measured("a", 2.0), longer, measured("b", 1.2)]
    return stack(winners, means)


def test_what_shows_in_longer_slices_comes_last_on_what_is_measured_again_in_them():
    gains, asked = {("a+b", None): 2.4, ("a+b", EPOCH): 1.8, ("a+b+input", EPOCH): 2.7}, []
    found = stacked_in_two_kinds(gains, asked)
    assert (found.fixes, found.holds) == (("a", "b", "input"), EPOCH)
    assert found.ratio.speedup == pytest.approx(2.7)
    assert asked == [(None, ["a+b"]), (EPOCH, ["a+b", "a+b+input"])]


def test_a_partner_that_gives_nothing_alone_stays_where_it_pays_on_top():
    bench = Bench({"autocast": 2.0})
    bench.alone["layout"] = 1.4  # on top
    winners = [measured("autocast", 2.0)]
    found = stack(winners, bench.means, ["layout"])
    assert found.fixes == ("autocast", "layout")
    assert found.ratio.speedup == pytest.approx(2.8, rel=0.01)
    assert found.gains["layout"].speedup == pytest.approx(1.4, rel=0.01)


@pytest.mark.parametrize("more", [0.8, 1.4])
def test_a_partner_is_kept_for_a_gain_that_is_sure_only(more):
    """Not in a stack with what adds nothing, which could not be measured without that."""
    bench = Bench({"autocast": 2.0, "idle": 1.5}, share=[("autocast", "idle")], room=2)
    winners = [measured("autocast", 2.0), measured("idle", 1.5)]
    bench.alone["layout"] = more
    found = stack(winners, bench.means, ["layout"])
    assert found.fixes == ("autocast",)
    wide = Bench({"autocast": 2.0}, with_pairs=False)
    wide.one = lambda candidate: Measured(candidate, Ratio(2.0 * more, 1.9, 3.0, 8, 24), LOSSES)
    assert stack(winners[:1], wide.means, ["layout"]).fixes == ("autocast",)
