"""The changes that stay kept for the whole training, and those that only whole runs show."""

import json
from dataclasses import replace

import pytest

from trainperf.fixes import by_id
from trainperf.model import (
    Equivalence,
    Finding,
    Item,
    Length,
    Outcome,
    Patch,
    Run,
    Site,
    Stack,
    Training,
    Trial,
    Trials,
    TurnGain,
)
from trainperf.patch.patch import Edits
from trainperf.trial import Tried, planning
from trainperf.trial.budget import Clock
from trainperf.trial.legs.faults import LegFailed, OutOfTime
from trainperf.whole_training import Found, confirming, reserved_s
from trainperf.whole_training.plain_runs import PlainRuns

BEFORE = Training(
    Length(100, "100 steps"),
    seconds_now=12.0,
    items=(
        Item("steps", "training steps", 99, 4.0),
        Item("between", "prediction (predict)", 4, 8.0),
    ),
)
KEPT = Trial("tf_interleave_parallel", Outcome.KEPT, "", 2.0, 1.9, 2.1, 12, 60, kept=True)
SLOWER = Trial("tf_cache", Outcome.SLOWER, "", 0.9, 0.8, 0.95, 12, 60)
OPEN = Trial("keras_predict_in_loop", Outcome.NOT_TRIED, "it lies outside", bound=3.0)
STACK = Stack(("tf_interleave_parallel",), 2.0, 1.9, 2.1, 12, 60, 0.12, 0.06, once_seconds=0.0)
NOTHING = Tried(Trials("none"), (OPEN,))
SOURCE = """\
for epoch in range(3):
    model.fit(x, y)
    for one in many:
        p = model.predict(one, verbose=0)[0]
"""


@pytest.fixture
def script(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(SOURCE)
    return script


@pytest.fixture
def predicts(script):
    return Finding(
        id="keras_predict_in_loop",
        category="host",
        title="`predict` in a loop",
        text="",
        advice="",
        equivalence=Equivalence.EXACT,
        bound=3.0,
        bound_basis="all of them",
        where=(Site(str(script), 4, col=12, end_line=4, end_col=41),),
        rewritable=True,
        data={"rows": [1]},
        slices="none",
    )


@pytest.fixture
def kept(script):
    return Tried(
        Trials("side by side"),
        (KEPT, SLOWER),
        None,
        STACK,
        Patch("diff", ("tf_interleave_parallel",), root=str(script.parent)),
    )


@pytest.fixture
def confirm(monkeypatch, tmp_path, kept):
    def confirmed(
        runs, tried=kept, before=BEFORE, findings=(), left=100.0, observed_s=None, fails=None
    ):
        asked, confirmed.ran = [], []

        def runner(script, versions, once=False):
            asked.append(versions)
            confirmed.left = script.clock.left
            return runs[len(asked) - 1] if isinstance(runs, list) else runs

        monkeypatch.setattr(confirming, "plain_runs", runner)
        clock = Clock(left, lambda: False, lambda: 0.0)
        found = Found(tuple(findings), Edits(tmp_path, by_id()))
        run = Run(("python", "train.py"), str(tmp_path), "train.py")
        came = confirming.confirm(
            tried, found, before, run, tmp_path, clock, lambda event: None, 60.0, observed_s,
            lambda findings, ids: confirmed.ran.append(ids) or fails,
        )  # fmt: skip
        confirmed.asked = asked
        return came

    return confirmed


def test_the_start_is_that_of_the_script_once_its_files_are_in_memory(confirm, kept):
    slow = replace(
        BEFORE, seconds_now=20.0, items=(Item("start", "imports", 1, 10.0), *BEFORE.items)
    )
    _, whole = confirm(PlainRuns(reason="out of time"), replace(kept, start_s=3.0), slow)
    _, first = confirm(PlainRuns(reason="out of time"), kept, slow)
    starts = [sum(i.now_s for i in one.items if i.part == "start") for one in (whole, first)]
    assert starts[0] == pytest.approx(3.0)
    assert first.seconds_now - whole.seconds_now == pytest.approx(starts[1] - 3.0)


def test_a_patch_that_fails_in_the_whole_script_is_not_kept(confirm):
    tried, whole = confirm(PlainRuns(failure="ended with exit status 1: KeyError: 'x'"))
    first = tried.trials[0]
    assert (first.kept, first.outcome) == (False, Outcome.FAILED)
    assert "whole script it ended with exit status 1: KeyError: 'x'" in first.reason
    assert tried.trials[1] == SLOWER
    assert (tried.stack, tried.patch.diff, tried.patch.findings) == (None, "", ())
    assert whole.seconds_after is None


def test_a_patch_that_makes_the_whole_script_longer_is_not_kept(confirm):
    tried, _ = confirm(PlainRuns(((12.0, 12.2), (13.0, 13.1))))
    assert tried.trials[0].outcome is Outcome.LOSES
    assert tried.trials[0].reason == (
        "the whole script took 13.0 s and 13.1 s with it, 12.0 s and 12.2 s without"
    )


@pytest.mark.parametrize(("after", "stays"), [((11.9, 12.0), False), ((11.8, 11.8), True)])
def test_a_patch_with_which_the_whole_script_takes_as_long_is_not_kept(confirm, after, stays):
    tried, whole = confirm(PlainRuns(((12.0, 12.0), after)))
    assert (tried.trials[0].kept, whole.basis == "whole runs") == (stays, stays)


def test_longer_runs_than_are_asked_for_are_made_only_for_what_nothing_else_shows(
    confirm, kept, predicts
):
    confirm(PlainRuns(reason="out of time"), kept, left=500.0)
    assert confirm.left == pytest.approx(60.0)
    both = replace(kept, trials=(KEPT, OPEN), patch=replace(kept.patch, findings=()))
    confirm(PlainRuns(reason="out of time"), both, findings=[predicts], left=500.0)
    assert confirm.left > 450.0


def test_where_nothing_was_kept_and_nothing_is_open_nothing_is_run(confirm, kept):
    tried, whole = confirm(None, replace(kept, stack=None))
    assert (tried.stack, whole.seconds_after, confirm.asked) == (None, None, [])
    assert confirm(None, before=None) == (kept, None)


def test_what_lies_outside_the_steps_is_tried_by_whole_runs(confirm, predicts, script):
    tried, whole = confirm(PlainRuns(((12.0, 12.4), (4.0, 4.2))), NOTHING, findings=[predicts])
    (trial,) = tried.trials
    assert (trial.outcome, trial.kept, trial.basis) == (Outcome.KEPT, True, "whole runs")
    assert trial.speedup == pytest.approx(24.4 / 8.2)
    assert (trial.low, trial.high) == pytest.approx((12.0 / 4.2, 12.4 / 4.0))
    assert "predict_on_batch" in tried.patch.diff
    assert b"predict_on_batch" in tried.sources[str(script)]
    assert (whole.seconds_now, whole.seconds_after) == (12.2, 4.1)


@pytest.mark.parametrize(
    ("after", "outcome"),
    [
        ((11.0, 11.9), Outcome.NO_EFFECT),  # within what two runs lie apart
        ((14.0, 15.0), Outcome.SLOWER),
    ],
)
def test_what_whole_runs_do_not_show_clearly_is_not_kept(confirm, predicts, after, outcome):
    tried, whole = confirm(PlainRuns(((12.0, 12.4), after)), NOTHING, findings=[predicts])
    assert (tried.trials[0].outcome, tried.patch) == (outcome, None)
    assert (whole.basis, whole.seconds_after) == ("ledger", None)


def test_an_addition_stands_on_what_the_trials_kept(confirm, predicts, kept):
    both = replace(kept, trials=(KEPT, OPEN), patch=replace(kept.patch, findings=()))
    runs = PlainRuns(((12.0, 12.4), (10.0, 10.2), (2.0, 2.1)))
    tried, whole = confirm(runs, both, findings=[predicts])
    first, second = tried.trials
    assert (first, second.kept) == (KEPT, True)
    assert second.speedup == pytest.approx(20.2 / 4.1)
    assert whole.seconds_after == pytest.approx(2.05)
    assert whole.items == BEFORE.items, "with the first alone they would not add up to that"
    assert len(confirm.asked[0]) == 3


@pytest.mark.parametrize(
    "change",
    [
        {"bound": 1.2},  # less than two runs of one script may lie apart
        {"rewritable": False},
        {"equivalence": Equivalence.SEMANTICS},
        {"equivalence": Equivalence.NUMERICS},  # no losses are told by a plain run
        {"where": (Site("/nowhere/train.py", 4),)},
    ],
)
def test_what_cannot_show_or_be_made_is_not_run(confirm, predicts, change):
    tried, _ = confirm(None, NOTHING, findings=[replace(predicts, **change)])
    assert (tried, confirm.asked) == (NOTHING, [])


@pytest.mark.parametrize(
    ("left", "kept_back"),
    [
        (120.0, 2 * 1.15 * (12.0 + 4.0)),
        (60.0, 1.15 * (12.0 + 4.0)),  # two runs of each take more than half of it
        (30.0, 0.0),  # so does one of each
    ],
)
def test_time_is_kept_back_for_what_lies_outside_the_steps(predicts, tmp_path, left, kept_back):
    found = Found((predicts,), Edits(tmp_path, by_id()))
    assert reserved_s(found, BEFORE, left) == pytest.approx(kept_back)
    in_steps = replace(predicts, slices="steps")
    assert reserved_s(replace(found, findings=(in_steps,)), BEFORE, left) == 0.0
    unknown = Training(None, reason="endless")
    assert reserved_s(found, unknown, left) == 0.0
    # what an epoch has to fill first shows in no step where nobody waits for that
    cache = replace(found, findings=(replace(in_steps, id="tf_cache"),))
    assert reserved_s(cache, BEFORE, left, epoch_s=60.0) == 0.0
    assert (reserved_s(cache, BEFORE, left, epoch_s=1e6) > 0) == (kept_back > 0)
    assert reserved_s(cache, BEFORE, left) == reserved_s(cache, BEFORE, left, epoch_s=1e6)


@pytest.fixture
def timed(predicts):
    """`predict` takes all that stands between the fits, and 1/4 of it in place."""
    return replace(predicts, in_place=TurnGain(2.0, 1.9, 2.1, 12, ((4.0, 3.2, 5.0),)))


@pytest.fixture
def lasting(predicts):
    """A training in which `predict` takes two thirds, too long to be run whole."""
    (where,) = predicts.where
    steps, between = BEFORE.items
    return replace(BEFORE, items=(steps, replace(between, where=where)))


TOO_LONG = PlainRuns(reason="whole runs would take 300 s")


def test_what_was_timed_in_place_is_kept_without_whole_runs(confirm, timed, lasting, script):
    tried, whole = confirm(TOO_LONG, NOTHING, lasting, [timed])
    (trial,) = tried.trials
    assert (trial.outcome, trial.kept, trial.basis) == (Outcome.KEPT, True, "calls")
    assert (trial.speedup, trial.low, trial.high, trial.pairs) == (2.0, 1.9, 2.1, 12)
    assert b"predict_on_batch" in tried.sources[str(script)]
    # 8 s of calls become 2
    assert [one.after_s for one in whole.items] == [4.0, 2.0]
    assert (whole.basis, whole.seconds_after) == ("ledger", pytest.approx(6.0))
    assert (whole.low, whole.high) == pytest.approx((12.0 - 6.4, 12.0 - 5.5))
    assert whole.reason == "whole runs would take 300 s"
    assert confirm.ran == [("keras_predict_in_loop",)]


@pytest.mark.parametrize(
    ("fails", "outcome"),
    [
        (LegFailed("fails: AttributeError: no attribute 'numpy'"), Outcome.FAILED),
        (OutOfTime("was not run: out of budget"), Outcome.NOT_TRIED),
    ],
)
def test_what_was_timed_in_place_and_does_not_run_is_not_kept(
    confirm, timed, lasting, fails, outcome
):
    tried, whole = confirm(TOO_LONG, NOTHING, lasting, [timed], 20.0, fails=fails)
    (trial,) = tried.trials
    assert (trial.outcome, trial.kept, trial.late) == (
        outcome,
        False,
        outcome is not Outcome.FAILED,
    )
    assert trial.reason.endswith(f"but the changed script {fails}")
    assert (tried.patch.diff, tried.sources) == ("", {}), (
        "nor is it in a patch of what was not tried"
    )
    assert [one.after_s for one in whole.items] == [None, None]


@pytest.mark.parametrize(
    "change",
    [
        {"in_place": None, "slices": "none"},
        {"where": (Site("/nowhere/train.py", 4),)},
        {"rewritable": False},
    ],
)
def test_what_was_not_timed_in_place_or_cannot_be_made_is_not_kept(confirm, timed, lasting, change):
    tried, _ = confirm(TOO_LONG, NOTHING, lasting, [replace(timed, **change)], left=20.0)
    assert not tried.trials[0].kept
    assert tried.patch is None


def test_what_saves_next_to_nothing_of_the_training_is_not_kept(confirm, kept):
    little = replace(kept, stack=replace(STACK, speedup=1.05, low=1.04, high=1.06))
    tried, whole = confirm(None, little)
    assert (tried.trials[0].kept, tried.trials[0].outcome) == (False, Outcome.LOSES)
    assert tried.trials[0].reason == (
        "it saves 190 ms of the 12.0 s that the training steps and what stands between them take"
    )
    assert (tried.stack, tried.patch.findings, whole) == (None, (), BEFORE)
    alone = replace(BEFORE, seconds_now=4.0, items=BEFORE.items[:1])
    assert confirm(TOO_LONG, little, alone)[0].trials[0].kept


def test_a_place_that_cannot_be_edited_gives_nothing(confirm, timed, lasting, script):
    told = SOURCE + "    q = model.predict(x, callbacks=[c])\n"
    script.write_text(told)
    ratio = (4.0, 3.2, 5.0)
    second = Site(str(script), 5, col=8, end_line=5, end_col=39)
    both = replace(
        timed,
        where=(*timed.where, second),
        data={"rows": [1, 1]},
        in_place=replace(timed.in_place, ratios=(ratio, ratio)),
    )
    tried, _ = confirm(TOO_LONG, NOTHING, lasting, [both], left=20.0)
    assert tried.trials[0].outcome is Outcome.NOT_TRIED
    script.write_text(told.replace(", callbacks=[c]", ""))
    fits = replace(second, end_col=24)
    both = replace(both, where=(*timed.where, fits))
    assert confirm(TOO_LONG, NOTHING, lasting, [both])[0].trials[0].kept


def test_places_of_a_notebook_are_judged_by_the_lines_of_its_cells(
    confirm, timed, lasting, tmp_path
):
    book = tmp_path / "train.ipynb"
    cells = [{"cell_type": "code", "source": text} for text in ("import numpy as np\n", SOURCE)]
    book.write_text(json.dumps({"cells": [*cells, cells[1]], "nbformat": 4, "metadata": {}}))
    ratio = (4.0, 3.2, 5.0)
    places = [Site(str(book), at, col=12, end_line=at, end_col=41) for at in (2004, 3004)]
    both = replace(timed, where=tuple(places), data={"rows": [1, 1]})
    both = replace(both, in_place=replace(timed.in_place, ratios=(ratio, ratio)))
    assert confirm(TOO_LONG, NOTHING, lasting, [both])[0].trials[0].kept
    left = json.dumps({"cells": cells, "nbformat": 4, "metadata": {}})
    book.write_text(left)  # of the second place there is nothing to be edited
    assert not confirm(TOO_LONG, NOTHING, lasting, [both], left=20.0)[0].trials[0].kept


# ----------------------------------------------------- a training that ends by itself

UNKNOWN = Training(None, reason="the run ended before it was known how long it is to be")
ENDED = Tried(
    Trials("none", reason=planning.ENDS), (replace(OPEN, reason=planning.ENDS),), ended=True
)


@pytest.fixture
def rounds(predicts):
    """The same edit, told to round otherwise; its bound says nothing of the whole training."""
    return replace(predicts, equivalence=Equivalence.NUMERICS, slices="steps", bound=None)


def test_a_training_that_ends_by_itself_is_tried_by_whole_runs(confirm, rounds, script):
    printed = (("loss: 0.5",) * 2,) * 2
    runs = PlainRuns(((12.0, 12.4), (4.0, 4.2)), printed=printed)
    tried, whole = confirm([runs], ENDED, UNKNOWN, [rounds], observed_s=15.0)
    (trial,) = tried.trials
    assert (trial.kept, trial.same, trial.basis) == (True, True, "whole runs")
    assert b"predict_on_batch" in tried.sources[str(script)]
    assert [version.expected_s for version in confirm.asked[0]] == [15.0, 1.5]
    assert (whole.seconds_now, whole.seconds_after) == (12.2, 4.1), "the estimate is not printed"
    assert tried.trying.reason == planning.BY_WHOLE_RUNS


def test_without_time_for_whole_runs_it_says_what_they_would_take(confirm, rounds):
    tried, _ = confirm([], ENDED, UNKNOWN, [rounds], left=18.0, observed_s=15.0)
    assert confirm.asked == []
    assert tried.trials[0].reason == f"{planning.ENDS}, and whole runs would take 38 s"


def test_what_is_left_after_one_that_does_not_pay_is_tried_without_it(confirm, rounds, monkeypatch):
    asked = [replace(rounds, id="tf_retracing"), rounds]
    trials = (Trial("tf_retracing", Outcome.NOT_TRIED, planning.ENDS), *ENDED.trials)

    def additions(found, tried, *_):
        untried = {trial.fix for trial in tried.trials if trial.outcome is Outcome.NOT_TRIED}
        return [confirming.Version(4.0, adds=one) for one in asked if one.id in untried]

    monkeypatch.setattr(confirming, "additions", additions)
    unprinted = (("", ""),) * 3
    runs = [
        PlainRuns(((12.0, 12.4), (12.1, 12.5), (4.0, 4.2)), printed=unprinted),
        PlainRuns(((12.2, 12.4), (4.0, 4.2)), printed=unprinted),
    ]
    tried, whole = confirm(runs, replace(ENDED, trials=trials), UNKNOWN, asked, 500.0, 15.0)
    assert [one.outcome for one in tried.trials] == [Outcome.NO_EFFECT, Outcome.KEPT]
    assert tried.trials[1].reason == "its losses could not be compared"
    assert [len(versions) for versions in confirm.asked] == [3, 2]
    assert (whole.seconds_now, whole.seconds_after) == (12.2, 4.1)
