"""Which processes of a job take turns, and what is said of one that is lost: pure parts."""

import pytest

from trainperf.trial.legs.faults import Ended, unpatched, why
from trainperf.trial.ranks import obstacle

LOOP = {"e": "loop", "t": 2.0}
HELLO = {"e": "hello", "t": 0.0}


def rank(number, size=2, host="here", **fields):
    return {
        "e": "rank", "t": 1.0, "rank": number, "world_size": size, "host": host,
        "launcher": "torchrun", "tied": True, **fields,
    }  # fmt: skip


def reason(*given, **gone):
    return str(why(*given, **gone))


def job(*places, trains=True):
    return {100 + n: [HELLO, place, *([LOOP] if trains else [])] for n, place in enumerate(places)}


def error(text, at, kind="ValueError"):
    return {"e": "error", "t": at, "type": kind, "text": text}


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        ({1: [LOOP], 2: [LOOP]}, "2 processes train, and which of them belong together"),
        ({1: [rank(0), LOOP], 2: [LOOP]}, "2 processes train, and which"),
        (job(rank(0), rank(1, host="there")), "run on several hosts"),
        (job(rank(0, host="there"), rank(1, host="there")), "run on several hosts"),
        (job(rank(0, 4), rank(1, 4)), "has 4 ranks, and 2 of them were seen to train here"),
        (job(rank(0)), "has 2 ranks, and 1 of them"),
        (job(rank(0), rank(0)), "has 2 ranks, and 2 of them"),
        (job(rank(0, tied=False), rank(1, tied=False)), "do not exchange gradients"),
        (job(*(rank(n, 300) for n in range(300))), "up to 256 can take turns"),
    ],
)
def test_what_cannot_take_turns_has_its_reason(events, reason):
    assert reason in obstacle(events, "here")


def test_the_first_error_of_several_ranks_is_the_cause(tmp_path):
    events = job(rank(0), rank(1))
    events[100].append(error("connection closed by peer", 9.0, "RuntimeError"))
    events[101].append(error("bad sample\nmore", 8.0))
    assert reason(1, events, tmp_path, 2) == "fails on rank 1: ValueError: bad sample"


def test_what_torchrun_prints_tells_how_a_rank_was_lost(tmp_path):
    events = job(rank(0), rank(1))
    (tmp_path / "output.log").write_text(
        "Signal 15 (SIGTERM) received by PID 100\n  Signal 9 (SIGKILL) received by PID 101\n"
    )
    lost = "lost rank 1, killed by SIGKILL, as when memory runs out"
    assert reason(1, events, tmp_path, 2) == lost
    assert reason(None, events, tmp_path, 2, gone=[100, 101]) == lost


def test_of_ranks_that_are_gone_at_once_the_first_to_fail_is_the_cause(tmp_path):
    events = job(rank(0), rank(1))
    events[100].append(error("connection closed by peer", 9.0, "RuntimeError"))
    events[101] += [error("bad sample", 8.0), error("at exit", 10.0)]
    events[7] = [HELLO, error("a helper, long ago", 1.0)]
    cause = "fails on rank 1: ValueError: bad sample"
    for gone in ([100, 101], [101, 100], [100]):
        assert reason(None, events, tmp_path, 2, gone=gone) == cause
    (tmp_path / "output.log").write_text("Signal 6 (SIGABRT) received by PID 100\n")
    assert reason(None, events, tmp_path, 2, gone=[100, 101]) == cause


def test_a_rank_whose_loop_ended_is_not_lost(tmp_path):
    events = job(rank(0), rank(1))
    assert reason(None, events, tmp_path, 2, gone=[101]) == (
        "lost rank 1, which was killed or ended without an error"
    )
    events[101].append({"e": "exit", "t": 9.0})
    assert isinstance(why(None, events, tmp_path, 2, gone=[101]), Ended)


def test_each_rank_has_to_run_the_changed_file(tmp_path):
    patched = {"e": "patched", "file": "/p/train.py"}
    events = job(rank(0), rank(1))
    events[100].append(patched)
    assert unpatched(["/p/train.py"], events) == "/p/train.py"
    events[101].append(patched)
    assert unpatched(["/p/train.py"], events) is None
    assert unpatched(["/p/other.py"], events) == "/p/other.py"
