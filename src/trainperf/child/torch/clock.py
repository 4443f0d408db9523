"""The clock of the CUDA devices that a PyTorch loop uses."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from ..timing.device.clock import Mark
from .graphs import capturing

MOST_STREAMS = 8
"""So many streams of all devices are marked; what runs on further ones is waited for only."""

ANCHOR_S = 2.0
"""Events tell the time since another in single precision: it is no older, so as to keep µs."""


class TorchClock:
    """All CUDA devices that this process has a context on; the CPU has nothing queued.

    Marks are CUDA events on the default stream of each device, and on each other stream on which
    weights were updated: not on those beside a step. `at` is when the last passed.
    """

    marks = True

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._indices: tuple[int, ...] = ()
        self._streams: dict[tuple[int, int], Any] = {}
        self._anchor: Mark | None = None

    @property
    def name(self) -> str:
        """Whose clock the times are from."""
        return "CUDA events" if self.asynchronous else "the host's clock"

    @property
    def asynchronous(self) -> bool:
        """Whether CUDA is in use."""
        return bool(_cuda().is_initialized())

    def mark(self) -> Mark:
        """A time stamp behind the work queued so far; while a stream captures, the host's."""
        if not self.asynchronous or capturing():
            return Mark(self._clock())
        if self._anchor is None or self._streams.keys() != (self._anchor.queued or {}).keys():
            self.wait()  # once for each stream that is new
        return Mark(self._clock(), self._events(), self._anchor)

    def at(self, mark: Mark) -> float:
        """When the last device passed it, in seconds of the host's clock; waits until then."""
        if not mark.queued or mark.anchor is None:
            return mark.host
        since = mark.anchor.queued or {}
        passed = [mark.anchor.host]
        for key, event in mark.queued.items():
            event.synchronize()
            if key in since:
                passed.append(mark.anchor.host + since[key].elapsed_time(event) / 1000)
        return max(passed) if len(passed) > 1 else mark.host

    def passed(self, mark: Mark) -> bool:
        """Whether all devices have passed it; waits for none."""
        return all(event.query() for event in (mark.queued or {}).values())

    def wait(self) -> None:
        """Wait until all that was queued is done; nothing to do on the CPU.

        `torch.cuda.synchronize()` by itself waits for the current device only: a script on
        `cuda:1`, or with a model on several, queues work elsewhere. While a stream captures
        nothing may wait: it would end the capture.
        """
        if not self.asynchronous or capturing():
            return
        self._indices = in_use()
        for index in self._indices:
            self._sees(index, _cuda().default_stream(index))
        for index in self._indices:
            _cuda().synchronize(index)
        anchor, now = self._anchor, self._clock()
        known = {} if anchor is None else anchor.queued or {}
        if anchor is None or now - anchor.host > ANCHOR_S or self._streams.keys() != known.keys():
            self._anchor = Mark(now, self._events())

    def see_streams(self) -> None:
        """Weights are updated on the streams in use: what is queued on them is behind the marks."""
        if not self.asynchronous or capturing():
            return
        if not self._indices:
            self._indices = in_use()
        for index in self._indices:
            self._sees(index, _cuda().current_stream(index))

    def _sees(self, index: int, stream: Any) -> None:
        key = (index, stream.cuda_stream)
        if key not in self._streams and len(self._streams) < MOST_STREAMS:
            self._streams[key] = stream

    def _events(self) -> dict[tuple[int, int], Any]:
        events = {}
        for key, stream in self._streams.items():
            events[key] = _cuda().Event(enable_timing=True)
            events[key].record(stream)
        return events


def in_use() -> tuple[int, ...]:
    """The devices with a context of this process; to ask another would make it one."""
    cuda = _cuda()
    has_context = getattr(sys.modules["torch"]._C, "_cuda_hasPrimaryContext", None)
    if has_context is None:
        return (cuda.current_device(),)
    return tuple(index for index in range(cuda.device_count()) if has_context(index))


def _cuda() -> Any:
    return sys.modules["torch"].cuda
