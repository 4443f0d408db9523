"""The words a training script may have got its options from."""

from __future__ import annotations

from dataclasses import replace

from fixes.cases.common.cases import machine
from recordings import FIT, recording, steps
from trainperf import evidence


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


def reached(command: list[str], argv: list[str]) -> bool:
    made = recording({"e": "hello", "argv": argv}, FIT, *steps("real", [0.1] * 4))
    made = replace(made, run=replace(made.run, command=tuple(command)))
    return bool(evidence.read(made, machine()).facts["command_reaches_script"])


def test_words_behind_the_command_reach_a_script_that_had_the_last_ones() -> None:
    argv = ["/usr/bin/python", "-u", "train.py", "--epochs", "3"]
    assert reached(["python", "train.py", "--epochs", "3"], argv)
    assert reached(["torchrun", "--nproc_per_node", "2", "train.py", "--epochs", "3"], argv)
    assert not reached(["bash", "run.sh"], argv)
    assert not reached(["bash", "run.sh", "3"], argv)


def test_words_of_a_module_are_those_behind_its_name() -> None:
    argv = ["python", "-X", "dev", "-m", "train", "-c", "a.json"]
    assert reached(["python", "-m", "train", "-c", "a.json"], argv)
    assert not reached(["make", "a.json"], argv)


def test_a_script_without_words_is_the_last_one_itself() -> None:
    assert reached(["python", "train.py"], ["python", "train.py"])
    assert not reached(["bash", "run.sh"], ["python", "train.py"])
    assert not reached(["python", "train.py"], [])
