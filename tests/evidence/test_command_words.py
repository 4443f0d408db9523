"""The words a training script may have got its options from."""

from __future__ import annotations

from dataclasses import replace

from kit.evidence import machine
from recordings import FIT, recording, steps
from trainperf import evidence


def reached(command: list[str], argv: list[str]) -> bool:
    made = recording({"e": "hello", "argv": argv}, FIT, *steps("real", [0.1] * 4))
    made = replace(made, run=replace(made.run, command=tuple(command)))
    return bool(evidence.read(made, machine()).facts["command_reaches_script"])


def test_words_of_a_module_are_those_behind_its_name() -> None:
    argv = ["python", "-X", "dev", "-m", "train", "-c", "a.json"]
    assert reached(["python", "-m", "train", "-c", "a.json"], argv)
    assert not reached(["make", "a.json"], argv)
