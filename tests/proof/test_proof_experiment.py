"""What is refused before anything is run, and what becomes a candidate."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from fixes.case_text import evidence_of
from recordings import recording
from trainperf.changes import Change
from trainperf.diagnose import Request
from trainperf.errors import NothingToCompare, TrainperfError
from trainperf.model import Ending, Equivalence, Evidence, Outcome, Run, Trials
from trainperf.proof import compare_with, try_changes
from trainperf.proof.experiment import (
    Experiment,
    Looked,
    _candidates,
    _whole,
    by_whole_runs,
    proofs_of,
)
from trainperf.run.launch import Finished
from trainperf.trial import Tried, planning
from trainperf.trial.budget import END_S, Clock
from trainperf.whole_training.plain_runs import Script


@pytest.fixture
def request_(tmp_path: Path) -> Request:
    """A script in a repository, that would write a file if it was run."""
    (tmp_path / "train.py").write_text("open('ran', 'w')\n")
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    for words in (("init", "-q"), ("add", "."), (*who, "commit", "-qm", "one")):
        subprocess.run(("git", *words), cwd=tmp_path, check=True)
    run = Run((sys.executable, "train.py"), str(tmp_path), "train.py")
    return Request(run, tmp_path / "runs")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (Change(rev="HEAD"), "HEAD changes nothing"),
        (Change(rev="nope"), "there is no revision nope"),
        (Change(fixes=("no_such_fix",)), "--fix no_such_fix: there is none"),
        (Change(diffs=("none.diff",)), "cannot be read"),
    ],
)
def test_a_change_that_cannot_be_made_ends_it_before_anything_is_run(
    request_: Request, change: Change, says: str
) -> None:
    with pytest.raises(TrainperfError, match=says):
        try_changes(request_, lambda event: None, [change], 1.0)
    assert not Path(request_.run.cwd, "ran").exists()


def test_a_tree_that_is_the_revision_passes_without_a_run(request_: Request) -> None:
    with pytest.raises(NothingToCompare, match="no file differs from HEAD") as raised:
        compare_with(request_, lambda event: None, "HEAD", 0.05, False)
    assert raised.value.exit_code == 0
    assert not Path(request_.run.cwd, "ran").exists()


def of_batch(size: int | None) -> Evidence:
    return evidence_of(f"torch_healthy | loop.batch_size = {json.dumps(size)}")


def looked(size: int | None = 32, **fields) -> Looked:
    run = Run(("python", "train.py"), "/", "train.py", sources={"/a.py": b"x"})
    made = Looked("a", Change(name="a"), run, of_batch(size))
    return replace(made, **fields)


@pytest.mark.parametrize(
    ("before", "after", "work"), [(32, 32, 1), (32, 64, 2), (None, 64, 1), (32, None, 1)]
)
def test_a_step_counts_by_the_samples_it_holds(before, after, work):
    (candidate,) = _candidates([looked(after)], of_batch(before), False, 0.02)
    assert candidate.work == work


def test_a_change_is_judged_by_its_losses_and_another_batch_is_another_experiment():
    same, other = looked(32), looked(64)
    (candidate,) = _candidates([same], of_batch(32), False, 0.02)
    assert (candidate.equivalence, candidate.apart) == (Equivalence.NUMERICS, False)
    assert (candidate.difference, candidate.run) == (0.02, same.run)
    (candidate,) = _candidates([other], of_batch(32), False, 0.02)
    assert (candidate.equivalence, candidate.apart) == (Equivalence.SEMANTICS, True)
    (candidate,) = _candidates([other], of_batch(32), True, 0.02)
    assert (candidate.equivalence, candidate.apart) == (Equivalence.SEMANTICS, False)


def test_what_could_not_be_looked_at_is_no_candidate():
    assert not list(_candidates([looked(reason="fails")], of_batch(32), False, 0.02))


# ---------------------------------------------------------------- a training that ends by itself

PLAIN = Run(("python", "train.py"), "/w", "train.py")
FAST = Looked("fast", Change(name="fast"), replace(PLAIN, sources={"/w/train.py": b"fast"}))
THREADS = Looked("threads", Change(name="threads"), replace(PLAIN, env={"OMP_NUM_THREADS": "1"}))


def ended(tmp_path, *changes, left=900.0, fails="", losses=("0.5",)):
    """What whole runs make of the changes: each makes the script of 100 s twice as fast."""
    now, printed = [0.0], iter([f"loss: {one}" for one in losses] * 99)

    def start(run, folder, limit_s, interrupted):
        changed = (run.sources != {}) + ("OMP_NUM_THREADS" in run.env)
        seconds = 100.0 / 2**changed
        now[0] += seconds
        return Finished(seconds, int(bool(changed and fails)), fails or next(printed))

    clock = Clock(left + END_S, lambda: False, lambda: now[0])
    tried = Tried(Trials("none", reason=planning.ENDS), ended=True)
    seen = recording(ending=Ending.FINISHED)
    made = Experiment(seen, of_batch(32), changes, tried, 0.0, False)
    return by_whole_runs(made, Script(PLAIN, tmp_path, clock, lambda *_: None, start))


def test_changes_of_a_training_that_ends_by_itself_are_proved_by_whole_runs(tmp_path):
    made = ended(tmp_path, FAST, THREADS, left=9000.0)
    first, second, both = proofs_of(made, 1.5)
    assert first.text == second.text == "Faster and trains the same: 2.00×."
    assert (first.proven, both.name, both.speedup) == (True, "fast + threads", 4.0)
    assert [trial.basis for trial in made.tried.trials] == ["whole runs"] * 3
    assert made.tried.control.floor == 0.05
    whole = _whole(made, (first, second, both))
    assert (whole.basis, whole.seconds_now, whole.seconds_after) == ("whole runs", 100.0, 25.0)
    assert not proofs_of(made, 2.5)[0].proven


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"fails": "ValueError: no"}, "With the change the script ended with exit status 1: Value"),
        ({"left": 250.0}, "Faster and trains the same: 2.0× (1.5 to 2.7)."),  # a run of each
        ({"left": 100.0}, f"Cannot tell: {planning.ENDS}, and whole runs would take 230 s."),
        ({"losses": ("0.5", "0.9", "0.9", "0.5")}, "Faster, but it trains something else: "),
    ],
)
def test_what_whole_runs_cannot_tell_or_show_otherwise_is_said(tmp_path, given, says):
    made = ended(tmp_path, FAST, **given)
    (proof,) = proofs_of(made, 1.0)
    assert proof.text.startswith(says)
    assert made.tried.trials[0].outcome is not Outcome.NOT_TRIED or made.as_it_is == []
