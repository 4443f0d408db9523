"""The changes that stay kept for the whole training."""

from dataclasses import replace

import pytest

from trainperf.model import Item, Length, Outcome, Patch, Run, Stack, Training, Trial, Trials
from trainperf.trial import Tried
from trainperf.trial.budget import Clock
from trainperf.whole_training import confirming
from trainperf.whole_training.plain_runs import PlainRuns

BEFORE = Training(
    Length(100, "100 steps"), seconds_now=12.0, items=(Item("steps", "training steps", 99, 12.0),)
)
KEPT = Trial("tf_prefetch", Outcome.KEPT, "", 2.0, 1.9, 2.1, 12, 60, kept=True)
SLOWER = Trial("tf_cache", Outcome.SLOWER, "", 0.9, 0.8, 0.95, 12, 60)
STACK = Stack(("tf_prefetch",), 2.0, 1.9, 2.1, 12, 60, None, 0.12, 0.06, once_seconds=0.0)
TRIED = Tried(
    Trials("side by side"), (KEPT, SLOWER), None, STACK, Patch("diff", ("tf_prefetch",), root="/w")
)
RUN = Run(("python", "train.py"), "/w", "train.py")


@pytest.fixture
def confirm(monkeypatch, tmp_path):
    def confirmed(runs, tried=TRIED, before=BEFORE):
        monkeypatch.setattr(confirming, "plain_runs", lambda *_: runs)
        clock = Clock(100.0, lambda: False, lambda: 0.0)
        return confirming.confirm(tried, before, RUN, tmp_path, clock, lambda event: None)

    return confirmed


def test_without_plain_runs_the_ledger_tells(confirm):
    tried, whole = confirm(PlainRuns(reason="whole runs would take 300 s"))
    assert tried == TRIED
    assert (whole.basis, whole.seconds_after) == ("ledger", 6.0)


def test_the_start_is_that_of_the_script_once_its_files_are_in_memory(confirm):
    slow = replace(
        BEFORE, seconds_now=20.0, items=(Item("start", "imports", 1, 10.0), *BEFORE.items)
    )
    _, whole = confirm(PlainRuns(reason="out of time"), replace(TRIED, start_s=3.0), slow)
    _, first = confirm(PlainRuns(reason="out of time"), TRIED, slow)
    starts = [sum(i.now_s for i in one.items if i.part == "start") for one in (whole, first)]
    assert starts[0] == pytest.approx(3.0)
    assert first.seconds_now - whole.seconds_now == pytest.approx(starts[1] - 3.0)


def test_plain_runs_tell_where_there_are_any(confirm):
    tried, whole = confirm(PlainRuns((12.0, 7.0, 7.2, 12.2)))
    assert tried == TRIED
    assert (whole.basis, whole.seconds_after) == ("whole runs", 7.1)


def test_a_patch_that_fails_in_the_whole_script_is_not_kept(confirm):
    tried, whole = confirm(PlainRuns(failure="ended with exit status 1: KeyError: 'x'"))
    first = tried.trials[0]
    assert (first.kept, first.outcome) == (False, Outcome.FAILED)
    assert "whole script it ended with exit status 1: KeyError: 'x'" in first.reason
    assert tried.trials[1] == SLOWER
    assert (tried.stack, tried.patch.diff, tried.patch.findings) == (None, "", ())
    assert whole.seconds_after is None


def test_a_patch_that_makes_the_whole_script_longer_is_not_kept(confirm):
    tried, _ = confirm(PlainRuns((12.0, 13.0, 13.1, 12.2)))
    assert tried.trials[0].outcome is Outcome.LOSES
    assert tried.trials[0].reason == (
        "the whole script took 13.0 s and 13.1 s with it, 12.0 s and 12.2 s without"
    )


def test_where_nothing_was_kept_nothing_is_run(confirm):
    tried, whole = confirm(None, replace(TRIED, stack=None))
    assert (tried.stack, whole.seconds_after) == (None, None)
    assert confirm(None, before=None) == (TRIED, None)
