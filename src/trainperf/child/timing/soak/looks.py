"""Looks at a soak from time to time: what became more each time, and in which line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .held import Held, Scope, held, open_files
from .lines import grown_at

if TYPE_CHECKING:
    from ...process.process import Process

FIRST_S = 2.0
"""The second look comes so long after the first, each further one after twice the time."""
LOOKS = 3
"""So many looks in a row must find more of a thing."""
LEVELS_OFF = 0.5
"""What grows less than so many times as quickly as before is about to stop: a cache is full."""
LEAST = 0.02
"""Growth in a step below which nothing is said: once in 50 steps."""
MOST = 8
"""So many things are recorded, the quickest."""

FILES, FRAMEWORKS = "files", "framework"
Sizes = list[tuple[int, int]]
"""What a thing held: steps until then, and its size."""


class Looks:
    """What a training holds at a few moments.

    `counts` are the framework's own numbers: bytes of its allocator, nodes of its graph.
    """

    def __init__(self, process: Process, counts: Callable[[], Mapping[str, int]]) -> None:
        self._process = process
        self._counts = counts
        self._sizes: dict[Any, Sizes] = {}
        self._files: dict[str, int] | None = None
        self._next = self._wait = 0.0

    def __call__(self, steps: int) -> None:
        """Look, if it is time to; a fault of ours ends no training."""
        now = self._process.clock()
        if now < self._next:
            return
        try:
            self._look(steps)
        except Exception as error:
            self._process.failed("looking at what the training holds", error)
        self._wait = max(FIRST_S, 2 * self._wait)
        self._next = self._process.clock() + self._wait

    def _look(self, steps: int) -> None:
        files = open_files()
        if self._files is None:
            self._files = files
        names = held(sys._getframe(1))
        counts = dict(self._counts())
        sizes: dict[Any, int] = {key: one.size for key, one in names.items()}
        sizes |= {(FRAMEWORKS, name): many for name, many in counts.items()}
        sizes[FILES] = sum(files.values())
        self._sizes = {
            key: [*self._sizes.get(key, ()), (steps, size)] for key, size in sizes.items()
        }
        grown = sorted(
            (key for key, seen in self._sizes.items() if steadily(seen)),
            key=lambda key: -_pace(self._sizes[key]),
        )
        self._process.record.write(
            "held",
            n=steps,
            counts=counts,
            grown=[self._described(key, names, files) for key in grown[:MOST]],
        )
        self._process.record.flush()

    def _described(
        self, key: Any, names: Mapping[Any, Held], files: Mapping[str, int]
    ) -> dict[str, Any]:
        sizes = self._sizes[key]
        if key == FILES:
            return {
                "kind": FILES,
                "name": "open files",
                "sizes": sizes,
                "examples": list(_more(files, self._files or {})),
            }
        if key[0] == FRAMEWORKS:
            return {"kind": FRAMEWORKS, "name": key[1], "sizes": sizes}
        one = names[key]
        return {
            "kind": one.kind,
            "name": one.name,
            "sizes": sizes,
            "item": one.item,
            "graph": one.graph,
            "of": one.scope.cls,
            "where": grown_at(one.name, one.scope) if one.scope != Scope("") else None,
        }


def steadily(sizes: Sequence[tuple[int, int]]) -> bool:
    """Whether the last looks each found more, and the growth did not level off."""
    if len(sizes) < LOOKS:
        return False
    before, after = _pace(sizes[-3:-1]), _pace(sizes[-2:])
    return before > 0 and after >= max(LEAST, LEVELS_OFF * before)


def _pace(sizes: Sequence[tuple[int, int]]) -> float:
    """Growth in a step, from the last look but one to the last."""
    (n, size), (m, more) = sizes[-2:]
    return (more - size) / (m - n) if m > n else 0.0


def _more(files: Mapping[str, int], before: Mapping[str, int]) -> Iterator[str]:
    """The files of which more are open than at first, those opened most often first."""
    more = {path: many - before.get(path, 0) for path, many in files.items()}
    for path, many in sorted(more.items(), key=lambda each: -each[1])[:3]:
        if many > 0:
            yield path
