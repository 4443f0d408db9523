from recordings import FIT, observed
from trainperf.evidence.stacks import functions


def count(function, n, line=5, thread="main", into="", start=1):
    return {
        "thread": thread,
        "file": "train.py",
        "def": start,
        "function": function,
        "line": line,
        "into": into,
        "n": n,
    }


def stacks(*counts, total=100):
    return {"e": "stacks", "total": total, "counts": list(counts)}


def test_the_call_that_holds_the_loop_is_left_out():
    where = {"file": "train.py", "line": 20, "end_line": 22, "function": "main"}
    made = observed({**FIT, "where": where}, stacks(count("main", 90, 21), count("load", 9)))
    assert [cost.name for cost in functions(made)] == ["load"]


def test_workers_and_the_main_thread_are_told_apart():
    made = observed(FIT, stacks(count("load", 60, thread="worker"), count("load", 20)))
    assert [(cost.thread, cost.share) for cost in functions(made)] == [
        ("worker", 0.6),
        ("main", 0.2),
    ]
