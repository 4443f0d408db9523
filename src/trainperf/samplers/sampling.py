"""Samples of host and GPUs at a steady pace, from a thread of the parent."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from dataclasses import dataclass

import psutil

from trainperf.recording.machine.machine import Gpu
from trainperf.recording.run import GpuSample, HostSample, Sample
from trainperf.samplers.container import Quota, Throttling, most_throttled
from trainperf.samplers.contention import RunQueue, busy_seconds, taken_seconds
from trainperf.samplers.nvml import NvmlSampler
from trainperf.samplers.process_tree import ProcessTree, Totals


class HostSampler:
    """Samples the process tree that starts at `pid`, and the machine.

    Rates are means since the last sample, or since the sampler was made. The kernel
    counts CPU time in ticks of 10 ms: one sample of 0.1 s is good to a tenth of a
    core, the mean of many is exact. Resident memory is the sum over processes, so
    pages shared by forked workers count once for each. Reads are those that reached
    storage, not those the page cache answered. The CPU quota is that of the
    groups above this process, which its children share.
    """

    def __init__(self, pid: int) -> None:
        """Take the baseline. A `pid` that is gone is no error: samples are None."""
        self._tree = ProcessTree(pid)
        self._queue = RunQueue()
        self._quota = Quota()
        self._last = self._read()

    def sample(self) -> HostSample | None:
        """Return one sample, or None when no process of the tree is left."""
        before, now = self._last, self._read()
        elapsed = now.at - before.at
        if now.totals.processes == 0 or elapsed <= 0:
            return None
        self._last = now
        passed = most_throttled(before.throttling, now.throttling)
        cores = (now.totals.cpu_s - before.totals.cpu_s) / elapsed
        taken = _rate(now.taken_s, before.taken_s, elapsed)
        running, waiting = now.queued or (None, None)
        return HostSample(
            cpu_cores=cores,
            # The machine does at least what the tree does; its counter may lag a tick.
            machine_cpu_cores=max(cores, (now.machine_s - before.machine_s) / elapsed),
            rss=now.totals.rss,
            processes=now.totals.processes,
            threads=now.totals.threads,
            read_bytes_s=_rate(now.totals.read_bytes, before.totals.read_bytes, elapsed),
            others_cores=None if taken is None else max(0.0, taken - cores),
            threads_running=None if running is None else running / elapsed,
            threads_waiting=None if waiting is None else waiting / elapsed,
            quota_periods=None if passed is None else passed.periods,
            quota_throttled=None if passed is None else passed.throttled,
        )

    def _read(self) -> _Reading:
        return _Reading(
            at=time.monotonic(),
            totals=self._tree.read(),
            machine_s=busy_seconds(psutil.cpu_times()),
            queued=self._queue.read(self._tree.pids),
            taken_s=taken_seconds(),
            throttling=self._quota.read(),
        )


@dataclass(frozen=True)
class _Reading:
    """Counters of the process tree, the machine and its cores at a moment."""

    at: float
    totals: Totals
    machine_s: float
    queued: tuple[float, float] | None
    taken_s: float | None
    throttling: tuple[Throttling | None, ...]


def _rate(now: float | None, before: float | None, elapsed: float) -> float | None:
    return None if now is None or before is None else max(0.0, (now - before) / elapsed)


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
        self.lost: dict[int, str] = {}
        self._limit = max(2, limit)
        self._samples: list[Sample] = []
        self._nvml: NvmlSampler | None = None
        self._host: HostSampler | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="trainperf-sampling", daemon=True)
        self._first_interval = interval
        with suppress(Exception):  # no /proc, say: then there are only GPU samples
            self._host = HostSampler(pid)

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
        host = None
        with suppress(Exception):
            host = None if self._host is None else self._host.sample()
        gpus: tuple[GpuSample, ...] = ()
        if self._nvml is not None:
            gpus = self._nvml.sample()
            self.lost = dict(self._nvml.lost)
        self._samples.append(Sample(t=at, host=host, gpus=gpus))
        if len(self._samples) >= self._limit:
            self._samples = self._samples[::2]
            self.interval *= 2

    def _work(self) -> None:
        with NvmlSampler() as self._nvml:
            self.gpus, self.gpu_reason = self._nvml.gpus, self._nvml.reason
            self.lost = dict(self._nvml.lost)
            due = time.monotonic()
            while not self._stop.is_set():
                before = time.thread_time()
                self.take()
                rest = _IDLE_SHARE * (time.thread_time() - before)
                due += self.interval
                self._stop.wait(max(due - time.monotonic(), rest))
                due = max(due, time.monotonic() - self.interval)
