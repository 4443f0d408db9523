"""Garbage collections are timed one by one, and the interpreter is left as it was."""

import gc

from trainperf.child.process.collecting import Collections


def test_collections_of_steps_that_count_are_counted_and_timed():
    seen, before = Collections(), list(gc.callbacks)
    kept = [[number] for number in range(300_000)]
    seen.watch()
    gc.collect()
    seen.step_ended(False)
    gc.collect(0)
    seen.step_ended(True)
    young = dict(seen.counted())
    gc.collect()
    seen.step_ended(True)
    seen.end()
    seen.end()

    assert (young["full"], young["steps"]) == (0, 1)
    assert seen.counted()["seconds"] > 2 * young["seconds"]
    assert (seen.counted()["full"], seen.counted()["steps"]) == (1, 2)
    assert len(kept) == 300_000
    assert gc.callbacks == before
