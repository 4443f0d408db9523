"""The worker processes of a `DataLoader`: they record nothing; how long they take to start."""

from __future__ import annotations

import sys
import time
from typing import Any

from ...process.patching import replace

LEAST_S = 1.0
"""With less time left no workers are started: ending them can take a moment as well."""


def watch(loops: Any, module: Any) -> None:
    """Have worker processes record nothing; `module` is torch's `_utils.worker`.

    The wrapper stands under the original's name: spawn and forkserver pickle it by that
    name, and find the wrapper of the worker's own training there.
    """

    def make(original: Any) -> Any:
        def _worker_loop(*args: Any, **kwargs: Any) -> Any:
            try:
                if sys.modules["multiprocessing"].parent_process() is not None:
                    loops.training.helps()
            except Exception:
                pass  # a worker has nobody to tell
            return original(*args, **kwargs)

        return _worker_loop

    replace(module, "_worker_loop", make)


def first_batch_s(loader: Any, deadline: float) -> float:
    """Seconds from opening a loader with workers to its first batch; `deadline` bounds it.

    Its workers are started once more beside the user's own, and ended again. The caller puts the
    random streams back, the loader's own generator is put back here. Raises RuntimeError with why.
    """
    if getattr(loader, "persistent_workers", False):
        raise RuntimeError("its workers are kept, and start but once")
    left = deadline - time.monotonic()
    if left < LEAST_S:
        raise RuntimeError("no time was left to start workers once more")
    generator = loader.generator
    state = generator.get_state() if generator is not None else None
    iterator: Any = None
    try:
        began = time.monotonic()
        iterator = loader._get_iterator()
        if not iterator._timeout:
            iterator._timeout = max(LEAST_S, deadline - time.monotonic())
        next(iterator)
        return time.monotonic() - began
    except StopIteration:
        raise RuntimeError("it has no batch") from None
    finally:
        if iterator is not None:
            shut_down(iterator)
        if state is not None:
            generator.set_state(state)


def shut_down(iterator: Any) -> None:
    """End the workers of an iterator now, rather than when it is collected."""
    close = getattr(iterator, "_shutdown_workers", None)
    if close is not None:
        close()
        # What `Process` keeps for joining would else live as long as the iterator's cycle.
        iterator._task_info = {}
