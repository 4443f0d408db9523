"""The user's processes and the machine around them, through psutil."""

from __future__ import annotations

import time

import psutil

from trainperf.recording.run import HostSample
from trainperf.samplers.container import Quota, most_throttled
from trainperf.samplers.contention import CoreTimes, RunQueue, core_times
from trainperf.samplers.process_tree import ProcessTree


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
        self._time = time.monotonic()
        self._totals = self._tree.read()
        self._machine_cpu = _machine_cpu_seconds()
        self._cores = core_times()
        self._queue = RunQueue()
        self._queue.read(self._tree.pids)
        self._quota = Quota()
        self._throttling = self._quota.read()

    def sample(self) -> HostSample | None:
        """Return one sample, or None when no process of the tree is left."""
        now = time.monotonic()
        elapsed = now - self._time
        totals = self._tree.read()
        if totals.processes == 0 or elapsed <= 0:
            return None
        machine_cpu = _machine_cpu_seconds()
        queued = self._queue.read(self._tree.pids)
        allowed = core_times()
        throttling = self._quota.read()
        passed = most_throttled(self._throttling, throttling)
        cores = (totals.cpu_s - self._totals.cpu_s) / elapsed
        sample = HostSample(
            cpu_cores=cores,
            # The machine does at least what the tree does; its counter may lag a tick.
            machine_cpu_cores=max(cores, (machine_cpu - self._machine_cpu) / elapsed),
            rss=totals.rss,
            processes=totals.processes,
            threads=totals.threads,
            read_bytes_s=_rate(totals.read_bytes, self._totals.read_bytes, elapsed),
            others_cores=_others(self._cores, allowed, cores, elapsed),
            threads_running=None if queued is None else queued.running_s / elapsed,
            threads_waiting=None if queued is None else queued.waiting_s / elapsed,
            quota_periods=None if passed is None else passed.periods,
            quota_throttled=None if passed is None else passed.throttled,
        )
        self._throttling, self._cores = throttling, allowed
        self._time, self._totals = now, totals
        self._machine_cpu = machine_cpu
        return sample


def _rate(now: int | None, before: int | None, elapsed: float) -> float | None:
    if now is None or before is None:
        return None
    return max(0.0, (now - before) / elapsed)


def _others(
    before: CoreTimes | None, now: CoreTimes | None, own: float, elapsed: float
) -> float | None:
    """Cores that others took of those the script may use, a hypervisor's among them."""
    if before is None or now is None:
        return None
    taken = now.busy_s - before.busy_s + now.stolen_s - before.stolen_s
    return max(0.0, taken / elapsed - own)


def _machine_cpu_seconds() -> float:
    # Steal is what the hypervisor gave to others, guest time is in user time already.
    times = psutil.cpu_times()
    busy = times.user + times.nice + times.system + times.irq + times.softirq
    return float(busy)
