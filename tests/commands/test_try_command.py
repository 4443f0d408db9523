"""The command line of `trainperf try`: what is a change, what is refused, and the exit status."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from reporters.samples import INPUT_BOUND
from trainperf import proof
from trainperf.changes import Change
from trainperf.commands import session
from trainperf.commands.try_ import try_
from trainperf.errors import TrainperfError
from trainperf.model import Ending, Proof


class Asked:
    """Takes the place of a run: keeps what was asked for, and gives an answer."""

    def __init__(self) -> None:
        self.changes: tuple[Change, ...] = ()
        self.at_least = 0.0
        self.diagnosis = replace(INPUT_BOUND, proofs=(Proof("a", "faster", "Faster.", True),))
        self.output = ""

    def run(self, target: Any, settings: Any, console: Any, pipeline: Any) -> Any:
        pipeline(None, on_event=None)
        self.target = target
        return self.diagnosis, settings.output_dir / "run", None

    def prove(self, request: Any, on_event: Any, changes: Any, at_least: float) -> Any:
        self.changes, self.at_least = tuple(changes), at_least
        return self.diagnosis, None

    def __call__(self, *words: str) -> int:
        done = CliRunner().invoke(try_, words)
        self.output = done.output
        if isinstance(done.exception, TrainperfError):
            self.output = f"{done.exception} {done.exception.hint}"
            return done.exception.exit_code
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return done.exit_code


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Asked:
    made = Asked()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRAINPERF_OUTPUT_DIR", str(tmp_path / "runs"))
    (tmp_path / "train.py").write_text("x = 1\n")
    monkeypatch.setattr(session, "run", made.run)
    monkeypatch.setattr(proof, "try_changes", made.prove)
    return made


def test_unnamed_options_are_one_change_and_named_ones_stand_beside_it(asked: Asked) -> None:
    one = ("--diff", "a.diff", "--env", "X=1", "--set", "lr=2")
    more = ("--change", "b=--diff b.diff", "--change", "c=--fix some-id")
    assert asked(*one, *more, "--at-least", "1.05", "--", "train.py", "--env", "own") == 0
    assert asked.changes == (
        Change(diffs=("a.diff",), environment=("X=1",), arguments=("lr=2",)),
        Change("b", diffs=("b.diff",)),
        Change("c", fixes=("some_id",)),
    )
    assert asked.at_least == 1.05
    assert asked.target.command[1:] == ("train.py", "--env", "own")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--", "train.py"), "which change?"),
        (("--rev", "HEAD"), "which script?"),
        (("--rev", "HEAD", "--", "nope.py"), "nope.py: there is no such file"),
        (("--change", "--diff a", "--", "train.py"), "a name is missing"),
        (("--change", "a=", "--", "train.py"), "--change a has no change in it"),
        (("--change", "a=--diff 'x", "--", "train.py"), "No closing quotation"),
        (("--change", "a=--rev x", "--change", "a=--rev y", "--", "train.py"), "have one name"),
    ],
)
def test_wrong_usage_is_said(asked: Asked, words: tuple[str, ...], says: str) -> None:
    assert asked(*words) == 2
    assert says in asked.output
    assert asked.changes == ()


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"proofs": (Proof("a", "slower", "Slower."),)}, 1),
        ({"proofs": (Proof("a", "cannot tell", "Cannot tell."),)}, 2),
        ({"proofs": (Proof("a", "failed", "It fails."),)}, 3),
        ({"proofs": (), "ending": Ending.FAILED}, 3),
        ({"proofs": (), "ending": Ending.OUT_OF_BUDGET}, 2),
        ({"proofs": (), "ending": Ending.INTERRUPTED}, 130),
    ],
)
def test_the_exit_status_is_the_answer(asked: Asked, fields: dict[str, Any], status: int) -> None:
    asked.diagnosis = replace(asked.diagnosis, **fields)
    assert asked("--rev", "HEAD", "--", "train.py") == status
