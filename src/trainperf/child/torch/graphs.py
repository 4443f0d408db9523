"""CUDA graphs of the script's: what is captured in them, and steps that are but a replay.

While a graph is captured nothing is done: the calls of the step are written down by CUDA.
So no update is counted then, and nothing of ours may wait, mark or queue work of its own,
which would end the capture or become part of the graph. The updates that were captured are
made at each `replay`; no hook of an optimizer and no backward call runs in Python there.
"""

from __future__ import annotations

import sys
from typing import Any

from ..process.patching import around


def capturing() -> bool:
    """Whether a graph is captured on the stream in use: what is called is not done now."""
    cuda: Any = sys.modules["torch"].cuda
    return bool(cuda.is_initialized() and cuda.is_current_stream_capturing())


def watch(loops: Any, module: Any) -> None:
    """See graphs being captured and replayed; `module` is `torch.cuda.graphs`.

    `loops.captured` are the updates of the graph that is being captured.
    """

    @around(loops.process, module.CUDAGraph, "capture_begin", ours=True)
    def capture_begin(original: Any, graph: Any, *args: Any, **kwargs: Any) -> None:
        original(graph, *args, **kwargs)
        loops.captured = graph._trainperf_captured = []

    @around(loops.process, module.CUDAGraph, "capture_end", ours=True)
    def capture_end(original: Any, graph: Any) -> None:
        loops.captured = loops.captured_loss = None
        original(graph)

    @around(loops.process, module.CUDAGraph, "replay")
    def replay(original: Any, graph: Any) -> None:
        original(graph)
        captured = getattr(graph, "_trainperf_captured", None)
        if captured is not None and not loops.passive():
            loops.replayed(captured)
