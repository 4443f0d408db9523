"""CUDA graphs of the script's: what is captured in them, and steps that are but a replay.

While a graph is captured nothing is done: the calls of the step are written down by CUDA.
So no update is counted then, and nothing of ours may wait, mark or queue work of its own,
which would end the capture or become part of the graph. The updates that were captured are
made at each `replay`; no hook of an optimizer and no backward call runs in Python there.
"""

from __future__ import annotations

import sys
import weakref
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


class Captured:
    """The updates that one graph makes at each replay, in their order."""

    def __init__(self) -> None:
        self.updates: list[Update] = []
        self.loss: Any = None

    def derives(self, loss: Any) -> None:
        """The gradient of `loss` is asked for, while the graph is captured."""
        if self.loss is None:
            self.loss = loss

    def update(self, optimizers: list[Any], key: Any) -> None:
        """Weights are updated, while the graph is captured."""
        known = tuple(weakref.ref(one) for one in optimizers)
        self.updates.append(Update(known, key, self.loss))
        self.loss = None


def watch(loops: Any, module: Any) -> None:
    """See graphs being captured and replayed; `module` is `torch.cuda.graphs`.

    `loops.captured` is that of the graph that is being captured.
    """
    said = False

    @around(loops.process, module.CUDAGraph, "capture_begin", ours=True)
    def capture_begin(original: Any, graph: Any, *args: Any, **kwargs: Any) -> None:
        original(graph, *args, **kwargs)
        loops.captured = graph._trainperf_captured = Captured()

    @around(loops.process, module.CUDAGraph, "capture_end", ours=True)
    def capture_end(original: Any, graph: Any) -> None:
        loops.captured = None
        original(graph)

    @around(loops.process, module.CUDAGraph, "replay")
    def replay(original: Any, graph: Any) -> None:
        nonlocal said
        original(graph)
        captured = getattr(graph, "_trainperf_captured", None)
        if captured is None or loops.passive():
            return
        if not captured.updates and not said:  # its steps may be updates of its own
            said = True
            loops.process.record.write("torch_replay")
        for update in captured.updates:
            alive = [one for each in update.optimizers if (one := each()) is not None]
            loops.replayed(alive, update.key, update.loss)
