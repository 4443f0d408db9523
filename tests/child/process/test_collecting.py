"""Garbage collections are timed one by one, and the interpreter is left as it was."""

import gc

from trainperf.child.process.collecting import Collections


def test_collections_of_all_objects_are_counted_and_timed():
    seen, before = Collections(), list(gc.callbacks)
    kept = [[number] for number in range(300_000)]
    seen.watch()
    gc.collect(0)
    young, none_full = seen.take()
    gc.collect()
    whole, full = seen.take()
    seen.end()
    seen.end()

    assert (none_full, full) == (0, 1)
    assert whole > young >= 0
    assert len(kept) == 300_000
    assert seen.take() == (0.0, 0)
    assert gc.callbacks == before
