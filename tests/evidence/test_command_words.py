"""The words a training script may have got its options from."""

from __future__ import annotations

from recordings import FIT, recording, steps
from trainperf import evidence
from trainperf.fixes.common.cases import machine


def test_the_words_are_those_of_the_command_and_of_what_it_started() -> None:
    made = recording(
        {"e": "hello", "argv": ["train.py", "--workers", "4"]},
        FIT,
        *steps("real", [0.1] * 4),
    )
    found = evidence.read(made, machine()).facts["command_words"]
    assert found == ["python", "train.py", "train.py", "--workers", "4"]


def test_a_process_that_does_not_say_its_words_adds_none() -> None:
    made = recording({"e": "hello"}, FIT, *steps("real", [0.1] * 4))
    assert evidence.read(made, machine()).facts["command_words"] == ["python", "train.py"]
