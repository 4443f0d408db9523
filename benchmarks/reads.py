"""Measures the cost of counting files: of each open, and of all else that Python audits.

The hook is one that Python calls for each audit event; it cannot be taken away again, so
each case is timed before it is set and after. Nanoseconds, the least of several runs. In a
worker process, what it writes ten times a second is in the figure.

    python benchmarks/reads.py
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
import timeit
from collections.abc import Callable
from types import SimpleNamespace

from trainperf.child.reads.files import FileReads

FILES = 1000
ROUNDS = 7


def cases(folder: str) -> dict[str, tuple[Callable[[], object], int]]:
    """The functions to time, and how often each does its work in one call."""
    paths = [os.path.join(folder, f"{number}.bin") for number in range(FILES)]
    for path in paths:
        with open(path, "wb") as file:
            file.write(b"x" * 1000)

    def descriptors() -> None:
        for path in paths:
            os.close(os.open(path, os.O_RDONLY))

    def files() -> None:
        for path in paths:
            with open(path, "rb") as file:
                file.read()

    def names() -> None:
        for path in paths:
            id(path)

    def frames() -> None:
        for _ in paths:
            sys._getframe()

    return {
        "os.open, os.close": (descriptors, FILES),
        "open, read, close": (files, FILES),
        "id() (audited too)": (names, FILES),
        "sys._getframe()": (frames, FILES),
    }


def timed(made: dict[str, tuple[Callable[[], object], int]]) -> dict[str, float]:
    """Nanoseconds of each case, the least of some runs."""
    return {
        name: min(timeit.repeat(case, number=3, repeat=ROUNDS)) / 3 / many * 1e9
        for name, (case, many) in made.items()
    }


def main() -> None:
    """Print each case without the hook, with it, counting, and in a worker."""
    with tempfile.TemporaryDirectory() as run, tempfile.TemporaryDirectory() as folder:
        observer: object = SimpleNamespace(
            settings={"folder": run, "leg": None}, off=False, failed=print
        )
        made = cases(folder)
        without = timed(made)
        reads = FileReads(observer)  # type: ignore[arg-type]
        reads.install()
        idle = timed(made)
        reads.begin()
        reads.mark()
        counting = timed(made)
        reads.serve(os.getppid())
        worker = timed(made)
        print(f"{'':22}{'without':>10}{'idle':>10}{'counting':>10}{'worker':>10}   ns each")
        for name, value in without.items():
            row = "".join(f"{one[name]:10.0f}" for one in (idle, counting, worker))
            print(f"{name:22}{value:10.0f}{row}")
        began = time.perf_counter()
        reads._flush(time.monotonic())
        print(f"one line of a worker: {(time.perf_counter() - began) * 1e6:.0f} µs")


if __name__ == "__main__":
    main()
