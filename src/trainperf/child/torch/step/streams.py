"""The streams of a step on a GPU: the one it computes on, and those beside it.

A copy on a stream of its own goes on while the step computes. What it costs the step is how
long that has to wait for it: nothing, if it is hidden.
"""

from __future__ import annotations

from typing import Any


class Streams:
    """Tells where a step computes, from a boundary on; `copied` names the streams beside it.

    Nothing is asked of a program that does not use CUDA.
    """

    def __init__(self, torch: Any) -> None:
        self._cuda = torch.cuda
        self._computes: dict[int, int] = {}
        self.copied: set[int] = set()
        self.used = bool(torch.cuda.is_initialized())

    def computes(self) -> None:
        """The step computes on the stream that is in use now."""
        if self.used:
            self._computes[self._cuda.current_device()] = self._in_use()

    def beside_step(self) -> bool:
        """Whether what is queued now is queued beside the step."""
        if not self.used:
            return False
        computes = self._computes.get(self._cuda.current_device())
        return computes is not None and computes != self._in_use()

    def copies(self) -> None:
        """Something is copied on the stream that is in use now."""
        self.copied.add(self._in_use())

    def awaits_copies(self, one: Any, stream: Any = None, event: Any = None) -> bool:
        """Whether a call lets the step wait for copies beside it, on the stream it computes on.

        The call is `one.wait_stream(stream)`, `one.wait_event(event)`, or `one.wait(stream)` of
        an event. Which stream an event is of is not known: it counts if anything was copied
        beside the step.
        """
        waits, awaited = one, event if stream is None else stream
        if not hasattr(one, "cuda_stream"):
            waits, awaited = self._cuda.current_stream() if stream is None else stream, one
        if getattr(waits, "cuda_stream", None) not in self._computes.values():
            return False
        other = getattr(awaited, "cuda_stream", None)
        return bool(self.copied) if other is None else other in self.copied

    def _in_use(self) -> int:
        return int(self._cuda.current_stream().cuda_stream)
