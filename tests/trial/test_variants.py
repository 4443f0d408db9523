"""A fix that can be made in several ways: the best way is kept, the others are named."""

from dataclasses import replace

from trainperf.model import Equivalence, Finding, Outcome, Ratio, Run
from trainperf.recording.run import Epoch
from trainperf.trial.candidates import Candidate
from trainperf.trial.outcome import Baseline, Measured, Start
from trainperf.trial.parity import Band
from trainperf.trial.rounds import sort_out

RUN = Run(("python", "train.py"), "/project", "train.py")
BASELINE = Baseline(0.1, 0.0, None, Band(None, None), None)


def tried(fix, speedup, variant="", failure=""):
    found = Finding(fix, "input", fix, "", 2.0, "", Equivalence.EXACT, data={"way": variant})
    candidate = Candidate(
        (fix,), RUN, Equivalence.EXACT, 2.0, 0, variant, found if variant else None
    )
    ratio = None if failure else Ratio(speedup, speedup * 0.98, speedup * 1.02, 12, 96)
    return Measured(candidate, ratio, None, failure)


def sorted_out(*pairs):
    return sort_out(pairs, lambda _: BASELINE, "late")


def test_what_costs_more_once_than_the_training_saves_is_not_kept():
    slow = replace(tried("a", 2.0), start=Start(40.0))
    beside = replace(BASELINE, start=Start(10.0))
    for steps, outcome in [(100, Outcome.LOSES), (10_000, Outcome.KEPT), (None, Outcome.KEPT)]:
        found = sort_out([slow], lambda _: beside, "late", steps)
        assert found.found["a"].outcome is outcome
        assert len(found.winners) == (outcome is Outcome.KEPT)
    found = sort_out([slow], lambda _: beside, "late", 100)
    even = found.found["a"].break_even_steps
    assert found.found["a"].reason == (
        f"the 30.0 s that it costs once are earned back after {even:,} steps, "
        "and this training has 100"
    )


def test_the_fastest_way_wins_and_the_others_say_so():
    found = sorted_out(
        tried("a", 1.5, "workers=1"), tried("a", 1.9, "workers=2"), tried("a", 1.7, "workers=4")
    )
    assert found.found["a"].variant == "workers=2"
    assert [(one.variant, one.outcome, one.reason) for one in found.others] == [
        ("workers=1", Outcome.REDUNDANT, "workers=2 gives more"),
        ("workers=4", Outcome.REDUNDANT, "workers=2 gives more"),
    ]
    assert [one.candidate.fixes for one in found.winners] == [("a",)]
    assert found.choices["a"].data == {"way": "workers=2"}


def test_a_way_that_is_not_kept_never_beats_one_that_is():
    found = sorted_out(tried("a", 1.2, "workers=1"), tried("a", 3.0, "workers=2", "it crashed"))
    assert found.found["a"].variant == "workers=1"
    assert [(one.variant, one.outcome) for one in found.others] == [("workers=2", Outcome.FAILED)]


def test_what_changes_the_experiment_is_measured_and_not_kept():
    measured = tried("a", 3.2)
    found = apart(measured)
    assert (found.found["a"].outcome, found.found["a"].kept) == (Outcome.CHANGES, False)
    assert found.found["a"].speedup == 3.2
    assert "trainperf fix --only a" in found.found["a"].reason
    assert found.winners == ()
    found = apart(tried("a", 0.9))
    assert found.found["a"].outcome is Outcome.SLOWER


def apart(*pairs):
    return sorted_out(
        *(replace(one, candidate=replace(one.candidate, apart=True)) for one in pairs)
    )


def test_of_ways_that_change_the_experiment_the_one_that_gives_most_is_chosen():
    found = apart(tried("a", 1.5, "batch=16"), tried("a", 2.0, "batch=32"))
    assert (found.found["a"].variant, found.found["a"].outcome) == ("batch=32", Outcome.CHANGES)
    (other,) = found.others
    assert (other.outcome, other.reason) == (Outcome.CHANGES, "batch=32 gives more")
    assert found.choices["a"].data == {"way": "batch=32"}
    assert found.winners == ()


def test_of_two_ways_the_one_wins_with_which_the_whole_training_ends_sooner():
    beside = replace(BASELINE, start=Start(10.0))
    pairs = [tried("a", 2.0, "whole"), tried("a", 1.9, "parts")]
    whole, parts = (
        replace(one, start=Start(s)) for one, s in zip(pairs, (70.0, 40.0), strict=True)
    )
    for steps, better in [(2000, "parts"), (100_000, "whole"), (None, "whole")]:
        found = sort_out([whole, parts], lambda _: beside, "late", steps)
        assert found.found["a"].variant == better
        assert found.choices["a"].data["way"] == better
    found = sort_out([whole, parts], lambda _: beside, "late", 2000)
    assert [(one.variant, one.outcome, one.reason) for one in found.others] == [
        (
            "whole",
            Outcome.REDUNDANT,
            "parts costs less once, and the whole training ends sooner with it",
        )
    ]


def test_winners_stand_in_the_order_of_what_the_whole_training_takes_with_them():
    dear, plain = tried("dear", 1.9), tried("plain", 1.8)
    started = [replace(dear, start=Start(9.0)), replace(plain, start=Start(5.1))]
    for steps, first in [(None, "dear"), (200, "plain"), (20_000, "dear")]:
        beside = replace(BASELINE, start=Start(5.0))
        found = sort_out(started, lambda _, known=beside: known, "late", steps)
        assert found.winners[0].name == first
    # slices of whole epochs and of steps: by what each saves of the whole training
    epoch = Epoch(20, 4.0)
    shares = [
        replace(dear, candidate=replace(dear.candidate, share=0.3)),
        replace(plain, candidate=replace(plain.candidate, share=0.9, holds=epoch)),
    ]
    found = sort_out(shares, lambda _: BASELINE, "late", 200)
    assert [one.name for one in found.winners] == ["plain", "dear"]
