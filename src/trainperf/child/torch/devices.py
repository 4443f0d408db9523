"""CUDA as a PyTorch process uses it: the memory that it takes and holds, the graphs it captures."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from ..process.patching import around
from ..timing.device import HostClock, Mark
from ..timing.probing import available


def record_memory(driver: Any) -> None:
    """Record what the script took of each GPU until now, before anything is probed.

    `reserved_peak` is what PyTorch's allocator held at most, in bytes, and `free` what nobody
    has now: what a process needs to run beside itself, also where NVML does not answer.
    """
    for index in _used():
        cuda = _cuda()
        stats = cuda.memory_stats(index)
        free, total = cuda.mem_get_info(index)
        reserved = int(stats.get("reserved_bytes.all.current", 0))
        # As NVML writes it: "GPU-", or "MIG-" for a slice of one.
        uuid = str(cuda.get_device_properties(index).uuid)
        driver.record.write(
            "gpu_memory",
            index=index,
            uuid=uuid if uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}",
            total=int(total),
            free=int(free),
            reserved=reserved,
            # The peak may have been reset by the script.
            reserved_peak=max(reserved, int(stats.get("reserved_bytes.all.peak", 0))),
            allocated_peak=int(stats.get("allocated_bytes.all.peak", 0)),
            retries=int(stats.get("num_alloc_retries", 0)),
        )


def retries() -> int:
    """How often an allocation failed on any GPU until cached memory was given back.

    An allocation that fails for good is no retry: the program learns of it.
    """
    return sum(_cuda().memory_stats(each).get("num_alloc_retries", 0) for each in _used())


def spare(device: Any) -> int | None:
    """Bytes that can still be allocated where tensors of this device lie; None: not known.

    On a GPU what nobody has, and what the allocator holds without using it. Of the host's memory
    each rank has a part: they allocate at the same time.
    """
    if device.type == "cpu":
        left = available()
        return None if left is None else left // processes()
    if device.type != "cuda":
        return None
    cuda = _cuda()
    free, _ = cuda.mem_get_info(device)
    return int(free + cuda.memory_reserved(device) - cuda.memory_allocated(device))


def processes() -> int:
    """How many processes train together, as `torch.distributed` has it."""
    dist = distributed()
    return 1 if dist is None else int(dist.get_world_size())


def distributed() -> Any:
    """`torch.distributed` where a process group was initialised, else None."""
    module: Any = sys.modules["torch"].distributed
    return module if module.is_available() and module.is_initialized() else None


def _used() -> list[int]:
    """The GPUs that hold something of this process: to ask another would open it."""
    cuda = _cuda()
    if not cuda.is_initialized():
        return []
    return [each for each in range(cuda.device_count()) if cuda.memory_reserved(each)]


def _cuda() -> Any:
    return sys.modules["torch"].cuda


# CUDA graphs of the script's: what is captured in them, and steps that are but a replay.
#
# While a graph is captured nothing is done: the calls of the step are written down by CUDA. So no
# update is counted then, and nothing of ours may wait, mark or queue work of its own, which would
# end the capture or become part of the graph. The updates that were captured are made at each
# `replay`; no hook of an optimizer and no backward call runs in Python there.


def capturing() -> bool:
    """Whether a graph is captured on the stream in use: what is called is not done now."""
    return bool(_cuda().is_initialized() and _cuda().is_current_stream_capturing())


def watch_graphs(loops: Any, module: Any) -> None:
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


# Their clock.

MOST_STREAMS = 8
"""So many streams of all devices are marked; what runs on further ones is waited for only."""
ANCHOR_S = 2.0
"""Events tell the time since another in single precision: it is no older, so as to keep µs."""


class TorchClock(HostClock):
    """All CUDA devices that this process has a context on; the CPU has nothing queued.

    Marks are CUDA events on the default stream of each device, and on each other stream on which
    weights were updated: not on those beside a step. `at` is when the last passed.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__(clock)
        self._indices: tuple[int, ...] = ()
        self._streams: dict[tuple[int, int], Any] = {}
        self._anchor: Mark | None = None

    @property
    def name(self) -> str:
        return "CUDA events" if self.asynchronous else super().name

    @property
    def asynchronous(self) -> bool:
        return bool(_cuda().is_initialized())

    def mark(self) -> Mark:
        """A time stamp behind the work queued so far; while a stream captures, the host's."""
        if not self.asynchronous or capturing():
            return Mark(self._clock())
        if self._anchor is None or self._streams.keys() != (self._anchor.queued or {}).keys():
            self.wait()  # once for each stream that is new
        return Mark(self._clock(), self._events(), self._anchor)

    def at(self, mark: Mark) -> float:
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
        return all(event.query() for event in (mark.queued or {}).values())

    def wait(self) -> None:
        """Wait until all that was queued is done; nothing to do on the CPU.

        `torch.cuda.synchronize()` by itself waits for the current device only: a script on
        `cuda:1`, or with a model on several, queues work elsewhere. While a stream captures
        nothing may wait: it would end the capture.
        """
        if not self.asynchronous or capturing():
            return
        self._indices = _in_use()
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
            self._indices = _in_use()
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


def _in_use() -> tuple[int, ...]:
    """The devices with a context of this process; to ask another would make it one."""
    cuda = _cuda()
    has_context = sys.modules["torch"]._C._cuda_hasPrimaryContext
    return tuple(index for index in range(cuda.device_count()) if has_context(index))
