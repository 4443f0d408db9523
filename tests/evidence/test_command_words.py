"""The words a training script may have got its options from."""

from __future__ import annotations

from dataclasses import replace

import zoo
from trainperf import evidence


def reached(command: list[str], argv: list[str]) -> bool:
    recorded = zoo.load("torch_healthy")
    run = replace(recorded.recording.run, command=tuple(command))
    events = {
        pid: tuple({**event, "argv": argv} if event["e"] == "hello" else event for event in events)
        for pid, events in recorded.recording.events.items()
    }
    made = replace(recorded.recording, run=run, events=events)
    return bool(evidence.read(made, recorded.machine).facts["command_reaches_script"])


def test_words_of_a_module_are_those_behind_its_name() -> None:
    argv = ["python", "-X", "dev", "-m", "train", "-c", "a.json"]
    assert reached(["python", "-m", "train", "-c", "a.json"], argv)
    assert not reached(["make", "a.json"], argv)
