"""Samples of host and GPUs at a steady pace, from a thread of the parent."""

from __future__ import annotations

import threading
import time

from trainperf.recording.machine.machine import Gpu
from trainperf.recording.run import GpuSample, HostSample, Link, Sample
from trainperf.samplers import links
from trainperf.samplers.host import HostSampler
from trainperf.samplers.nvml import NvmlSampler

LIMIT = 6000
"""Samples kept at most: ten minutes of ten a second, some 10 MB with eight GPUs."""

_IDLE_SHARE = 19  # rest 19 times what a sample took: at most 5 % of one core
_ANSWER_S = 5.0  # how long a driver that hangs may hold up `stop`


class Sampling:
    """Samples the process tree of `pid`, and all GPUs, every `interval` seconds.

    Use it as a context manager around the run. Each sample is stamped with
    `time.monotonic()`, the clock of the steps. When `limit` samples are kept, every
    second one is dropped and the interval doubled, so that what is kept is spread
    evenly over the whole run; `note` says so. Nothing here raises.
    """

    def __init__(self, pid: int, interval: float = 0.1, limit: int = LIMIT) -> None:
        """Take the baseline of the process tree; the GPUs are opened by the thread."""
        self.interval = interval
        self.gpus: tuple[Gpu, ...] = ()
        self.gpu_reason = "the NVIDIA driver has not answered"
        self.gpu_link: Link | None = None
        self.lost: dict[int, str] = {}
        self._limit = max(2, limit)
        self._samples: list[Sample] = []
        self._nvml: NvmlSampler | None = None
        self._host: HostSampler | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="trainperf-sampling", daemon=True)
        self._first_interval = interval
        try:
            self._host = HostSampler(pid)
        except Exception:  # no /proc, say: then there are only GPU samples
            pass

    def __enter__(self) -> Sampling:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    @property
    def samples(self) -> tuple[Sample, ...]:
        """The samples until now, in order of time."""
        return tuple(self._samples)

    @property
    def note(self) -> str:
        """A note on the samples for the reader; empty if there is none."""
        notes = [f"GPU {index}: {why}" for index, why in sorted(self.lost.items())]
        if self.interval > self._first_interval:
            notes.append(
                f"a long run: of the samples, one every {self.interval:g} s was kept"
                f" (taken every {self._first_interval:g} s at first)"
            )
        return "; ".join(notes)

    def stop(self) -> None:
        """End the thread and close the GPUs. A second call does nothing."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(timeout=_ANSWER_S)

    def take(self) -> None:
        """Take one sample now. The thread does this; tests may."""
        # Stamped first: the counters read below describe the time up to here.
        at = time.monotonic()
        host = self._take_host()
        gpus: tuple[GpuSample, ...] = ()
        if self._nvml is not None:
            gpus = self._nvml.sample()
            self.lost = dict(self._nvml.lost)
        self._samples.append(Sample(t=at, host=host, gpus=gpus))
        if len(self._samples) >= self._limit:
            self._samples = self._samples[::2]
            self.interval *= 2

    def _take_host(self) -> HostSample | None:
        if self._host is None:
            return None
        try:
            return self._host.sample()
        except Exception:
            return None

    def _work(self) -> None:
        with NvmlSampler() as self._nvml:
            self.gpus, self.gpu_reason = self._nvml.gpus, self._nvml.reason
            self.lost = dict(self._nvml.lost)
            self.gpu_link = links.between([gpu.index for gpu in self.gpus])
            due = time.monotonic()
            while not self._stop.is_set():
                before = time.thread_time()
                self.take()
                rest = _IDLE_SHARE * (time.thread_time() - before)
                due += self.interval
                self._stop.wait(max(due - time.monotonic(), rest))
                due = max(due, time.monotonic() - self.interval)
