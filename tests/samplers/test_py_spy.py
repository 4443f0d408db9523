"""Stacks of a running job, as a stand-in for py-spy gives them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from trainperf.model import Site
from trainperf.samplers.py_spy import sample

THREADS = [
    {"os_thread_id": 8, "thread_name": "worker", "frames": []},
    {
        "os_thread_id": 7,
        "thread_name": "MainThread",
        "frames": [
            {"name": "select", "filename": "/usr/lib/python3.11/selectors.py", "line": 415},
            {"name": "next", "filename": "/home/me/venv/site-packages/torch/data.py", "line": 9},
            {"name": "train", "filename": "/home/me/train.py", "line": 21},
            {"name": "<module>", "filename": "/home/me/train.py", "line": 40},
        ],
    },
]
OWN = [{"os_thread_id": 7, "frames": [THREADS[1]["frames"][2]]}]


@pytest.fixture
def py_spy(tmp_path: Path) -> Path:
    """Gives what `1`, `2`, … hold in turn, and notes its arguments."""
    made = tmp_path / "py-spy"
    made.write_text(
        f'#!/bin/sh\ncd {tmp_path}\necho "$@" >> asked\n'
        "n=$(wc -l < asked)\n"
        'test -e "$n" || { echo "Error: Permission Denied" >&2; exit 1; }\n'
        'cat "$n"\n'
    )
    made.chmod(0o755)
    return made


def test_the_main_threads_places_are_counted_without_stopping_the_job(py_spy):
    for number, threads in enumerate((THREADS, OWN, THREADS, THREADS), 1):
        (py_spy.parent / str(number)).write_text(json.dumps(threads))
    found = sample(str(py_spy), 7, ["/home/me"], samples=4, every_s=0)
    assert not isinstance(found, str)
    assert (found.pid, found.samples) == (7, 4)
    first, second = found.places
    train = Site("/home/me/train.py", 21, "train")
    assert (first.share, first.where, first.inside) == (0.75, train, "select")
    assert (second.share, second.where, second.inside) == (0.25, train, "")
    asked = (py_spy.parent / "asked").read_text().splitlines()
    assert set(asked) == {"dump --pid 7 --json --nonblocking"}


def test_where_all_dumps_fail_the_reason_is_told_soon(py_spy):
    assert sample(str(py_spy), 7, ["/"], samples=20, every_s=0) == (
        "py-spy failed: Permission Denied"
    )
    assert len((py_spy.parent / "asked").read_text().splitlines()) == 3


def test_what_is_no_answer_is_a_reason(py_spy):
    for number, text in enumerate(("no json", "[]", "[{}]"), 1):
        (py_spy.parent / str(number)).write_text(text)
    assert sample(str(py_spy), 7, ["/"], every_s=0) == "py-spy gave no main thread"
    assert "could not be run" in str(sample(os.devnull, 7, ["/"], every_s=0))
