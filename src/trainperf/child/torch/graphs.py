"""CUDA graphs of the script's: what is captured in them, and steps that are but a replay.

While a graph is captured nothing is done: the calls of the step are written down by CUDA.
So no update is counted then, and nothing of ours may wait, mark or queue work of its own,
which would end the capture or become part of the graph. The updates that were captured are
made at each `replay`; no hook of an optimizer and no backward call runs in Python there.
"""

from __future__ import annotations

import sys
import weakref
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..process.patching import around


def capturing() -> bool:
    """Whether a graph is captured on the stream in use: what is called is not done now."""
    cuda: Any = sys.modules["torch"].cuda
    return bool(cuda.is_initialized() and cuda.is_current_stream_capturing())


class Update(NamedTuple):
    """An update of weights in a graph: by which optimizers, and the loss before it.

    `key` names the update as that of a step without a graph.
    """

    optimizers: tuple[weakref.ref[Any], ...]
    key: Any
    loss: Any


@dataclass
class Captured:
    """The updates that one graph makes at each replay, in their order."""

    updates: list[Update] = field(default_factory=list)
    loss: Any = None


class Graphs:
    """The graphs of a process. `current` is the one that is being captured."""

    def __init__(self, loops: Any) -> None:
        self._loops = loops
        self._told = False
        self.current: Captured | None = None

    def watch(self, module: Any) -> None:
        """See graphs being captured and replayed; `module` is `torch.cuda.graphs`."""

        @around(self._loops.process, module.CUDAGraph, "capture_begin", ours=True)
        def capture_begin(original: Any, graph: Any, *args: Any, **kwargs: Any) -> None:
            original(graph, *args, **kwargs)
            self.current = graph._trainperf_captured = Captured()

        @around(self._loops.process, module.CUDAGraph, "capture_end", ours=True)
        def capture_end(original: Any, graph: Any) -> None:
            self.current = None
            original(graph)

        @around(self._loops.process, module.CUDAGraph, "replay")
        def replay(original: Any, graph: Any) -> None:
            original(graph)
            captured = getattr(graph, "_trainperf_captured", None)
            if captured is None or self._loops.passive():
                return
            if not captured.updates and not self._told:  # its steps may be updates of its own
                self._told = True
                self._loops.process.record.write("torch_replay")
            for update in captured.updates:
                alive = [one for each in update.optimizers if (one := each()) is not None]
                self._loops.replayed(alive, update.key, update.loss)

    def derives(self, loss: Any) -> None:
        """The gradient of `loss` is asked for in the graph that is being captured."""
        if self.current is not None and self.current.loss is None:
            self.current.loss = loss

    def updates(self, optimizers: list[Any], key: Any) -> None:
        """Weights are updated in the graph that is being captured."""
        if self.current is not None:
            known = tuple(weakref.ref(one) for one in optimizers)
            self.current.updates.append(Update(known, key, self.current.loss))
            self.current.loss = None
