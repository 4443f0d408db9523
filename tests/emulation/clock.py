"""Device clocks of an emulated device: one with marks queued behind its work, one without."""

from __future__ import annotations

from emulation.device import Device, Event
from trainperf.child.timing.device import Mark


class MarkedClock:
    """Marks are events of the device's default stream, as CUDA's are."""

    name = "the emulated device's events"
    asynchronous = True
    marks = True

    def __init__(self, *devices: Device) -> None:
        self._devices = devices

    def mark(self) -> Mark:
        host = self._devices[0].clock()
        return Mark(host, {i: one.default.record() for i, one in enumerate(self._devices)})

    def at(self, mark: Mark) -> float:
        events: list[Event] = list((mark.queued or {}).values())
        for event in events:
            event.synchronize()
        return max(event.at for event in events)

    def passed(self, mark: Mark) -> bool:
        return all(event.query() for event in (mark.queued or {}).values())

    def wait(self) -> None:
        for device in self._devices:
            device.synchronize()


class UnmarkedClock:
    """Marks are the host's moments, as with TensorFlow on a GPU."""

    name = "the host's clock, from two lengths in turn"
    asynchronous = True
    marks = False

    def __init__(self, *devices: Device) -> None:
        self._devices = devices

    def mark(self) -> Mark:
        return Mark(self._devices[0].clock())

    def at(self, mark: Mark) -> float:
        return mark.host

    def passed(self, mark: Mark) -> bool:
        return True

    def wait(self) -> None:
        for device in self._devices:
            device.synchronize()
