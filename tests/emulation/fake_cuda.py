"""Put emulated devices behind `torch.cuda`, for a script that imports this: models stay on the CPU.

    import fake_cuda
    cuda = fake_cuda.install(devices=1)
    cuda.launch(0.150)              # work of 150 ms is queued on the current device and stream
    cuda.item()                     # the host waits for it, as `.item()` would

trainperf, in the same process, then finds CUDA initialised and times by its events.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
import types
from collections.abc import Callable, Iterator
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from emulation.device import DEPTH, Device, Event, Stream


class Cuda:
    """The devices, the current one, and the stream in use on each."""

    def __init__(self, devices: int, depth: int, clock: Any, sleep: Any, put: Any) -> None:
        self._put = put
        self.devices = [Device(clock, sleep, depth) for _ in range(devices)]
        self.used = {0}
        self.start: Callable[[], object] = lambda: None
        self.current = 0
        self.on = [device.default for device in self.devices]
        self.capturing = False

    def launch(self, seconds: float, device: int | None = None) -> None:
        """Queue work on a device, the current one if none is named."""
        index = self.current if device is None else device
        start, self.start = self.start, lambda: None
        start()
        self.used.add(index)
        self.devices[index].launch(seconds, self.on[index])

    def copies(self, seconds: float, pinned: bool = False) -> None:
        """Let a copy to the device "meta" take so long; of pageable memory, it is waited for."""
        import torch

        plain = torch.Tensor.to

        def to(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            if args == ("meta",):
                self.launch(seconds)
                if not pinned:
                    self.item()
            return plain(tensor, *args, **kwargs)

        torch.Tensor.to = to

    def graphs(self, seconds: float, strict: bool = False) -> None:
        """Let what a `torch.cuda.CUDAGraph` captures be run, and each replay take so long.

        `strict`: what waits in a capture fails, as on a GPU, where that ends the capture.
        """
        import torch

        def capture(on: bool) -> Callable[..., None]:
            return lambda graph, **how: setattr(self, "capturing", on)

        def only_outside(owner: Any, name: str) -> None:
            wait = getattr(owner, name)

            def call(*given: Any) -> Any:
                assert not self.capturing, f"{name} while a graph is captured"
                return wait(*given)

            self._put(owner, name, call)

        calls = {
            "__new__": lambda cls, keep_graph: object.__new__(cls),
            "__init__": lambda graph: None,
            "capture_begin": capture(True),
            "capture_end": capture(False),
            "replay": lambda graph: self.launch(seconds),
        }
        for name, does in calls.items():
            self._put(torch._C._CUDAGraph, name, does)
        if strict:
            only_outside(torch.cuda.Event, "query")
            only_outside(torch.cuda.Event, "synchronize")
            only_outside(torch.cuda, "synchronize")

    def item(self, device: int | None = None) -> None:
        """Let the host wait for the stream in use, as reading a number does."""
        self.on[self.current if device is None else device].synchronize()

    def beside(self) -> _Stream:
        """Another stream of the current device, as `torch.cuda.Stream()` makes it."""
        return _Stream(self.devices[self.current].stream(), self.current)

    @contextlib.contextmanager
    def stream(self, stream: Stream | _Stream) -> Iterator[None]:
        """Queue on another stream of the current device."""
        stream = stream.emulated if isinstance(stream, _Stream) else stream
        before, self.on[self.current] = self.on[self.current], stream
        try:
            yield
        finally:
            self.on[self.current] = before


class _Event:
    """`torch.cuda.Event(enable_timing=True)`."""

    cuda: Cuda

    def __init__(self, enable_timing: bool = False, **others: Any) -> None:
        self._passes: Event | None = None

    def record(self, stream: _Stream | None = None) -> None:
        of = self.cuda.on[self.cuda.current] if stream is None else stream.emulated
        self._passes = of.record()

    def wait(self, stream: _Stream | None = None) -> None:
        of = self.cuda.on[self.cuda.current] if stream is None else stream.emulated
        if self._passes is not None:
            of.wait(self._passes)

    def query(self) -> bool:
        return self._passes is None or self._passes.query()

    def synchronize(self) -> None:
        if self._passes is not None:
            self._passes.synchronize()

    def elapsed_time(self, other: _Event) -> float:
        if self._passes is None or other._passes is None or not (self.query() and other.query()):
            raise RuntimeError("CUDA error: device not ready")
        return (other._passes.at - self._passes.at) * 1000


class _Stream:
    """`torch.cuda.Stream`, as far as it is asked here."""

    def __init__(self, emulated: Stream, device_index: int) -> None:
        self.emulated = emulated
        self.device_index = device_index
        self.cuda_stream = id(emulated)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Stream) and other.emulated is self.emulated

    def __hash__(self) -> int:
        return self.cuda_stream

    def synchronize(self) -> None:
        self.emulated.synchronize()

    def wait_stream(self, stream: _Stream) -> None:
        self.emulated.wait(stream.emulated.record())


def install(
    devices: int = 1,
    depth: int = DEPTH,
    clock: Any = time.monotonic,
    sleep: Any = time.sleep,
    put: Any = setattr,
) -> Cuda:
    """Replace what `torch.cuda` is asked for by emulated devices, and return them.

    `put` sets an attribute: `monkeypatch.setattr` takes all back after a test.
    """
    import torch

    cuda = Cuda(devices, depth, clock, sleep, put)
    event = type("Event", (_Event,), {"cuda": cuda})

    def synchronize(device: Any = None) -> None:
        cuda.devices[cuda.current if device is None else _index(device)].synchronize()

    def current_stream(device: Any = None) -> _Stream:
        index = cuda.current if device is None else _index(device)
        return _Stream(cuda.on[index], index)

    def default_stream(device: Any = None) -> _Stream:
        index = cuda.current if device is None else _index(device)
        return _Stream(cuda.devices[index].default, index)

    def properties(device: Any = None) -> Any:
        return types.SimpleNamespace(
            name="Emulated device",
            major=9,
            minor=0,
            total_memory=16 * 1024**3,
            multi_processor_count=132,
            uuid=f"0000000{0 if device is None else _index(device)}-0000-0000-0000-000000000000",
        )

    fakes = {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "device_count": lambda: len(cuda.devices),
        "current_device": lambda: cuda.current,
        "current_stream": current_stream,
        "default_stream": default_stream,
        "synchronize": synchronize,
        "Event": event,
        "Stream": _Stream,
        "is_current_stream_capturing": lambda: cuda.capturing,
        "get_device_properties": properties,
        "get_device_name": lambda device=None: "Emulated device",
        "get_device_capability": lambda device=None: (9, 0),
        "mem_get_info": lambda device=None: (8 * 1024**3, 16 * 1024**3),
        "memory_stats": lambda device=None: {},
        "memory_allocated": lambda device=None: 0,
        "memory_reserved": lambda device=None: 0,
        "max_memory_allocated": lambda device=None: 0,
        "max_memory_reserved": lambda device=None: 0,
        "get_sync_debug_mode": lambda: 0,
        "set_sync_debug_mode": lambda mode: None,
    }
    for name, fake in fakes.items():
        put(torch.cuda, name, fake)
    # As real work does where it is the first: a leg waits there until it is its turn. Itself it
    # does nothing, as the emulated devices count as initialised.
    cuda.start = lambda: torch.cuda._lazy_init()
    put(torch._C, "_cuda_hasPrimaryContext", lambda index: index in cuda.used)
    return cuda


def _index(device: Any) -> int:
    if isinstance(device, int):
        return device
    return int(getattr(device, "index", None) or 0)
