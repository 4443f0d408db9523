"""How busy host and GPUs were in each phase."""

from __future__ import annotations

import bisect
import statistics
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from trainperf.evidence.events import Observed
from trainperf.model import Device, HostSample, PhaseUse, Recording, Sample

PHASES = ("real", "resident", "input")

OF_HOST = ("cpu_cores", "machine_cpu_cores", "read_bytes_s", "others_cores")
OF_GPU = (
    *("utilization_percent", "power_w", "sm_clock_mhz"),
    *("sm_active", "tensor_active", "dram_active"),
)
"""Fields of samples of which a phase has the mean."""


def usage(
    recording: Recording, observed: Observed, device: Device | None = None
) -> tuple[PhaseUse, ...]:
    """Mean use of cores, memory, disk and GPUs per phase, for phases with samples.

    Of a GPU in MIG mode of which `device` uses one slice, the memory is not known.
    """
    shared = {gpu.index for gpu in (() if device is None else device.used) if gpu.mig}
    marks = [(event["t"], event["p"]) for event in observed.of("phase")]
    times = [t for t, _ in marks]
    groups: dict[str, list[Sample]] = {}
    for sample in recording.samples:
        index = bisect.bisect_right(times, sample.t) - 1
        if index >= 0:
            groups.setdefault(marks[index][1], []).append(sample)
    found = []
    for phase in (phase for phase in PHASES if phase in groups):
        samples = groups[phase]
        hosts = [sample.host for sample in samples if sample.host is not None]
        indices = sorted({gpu.index for sample in samples for gpu in sample.gpus})
        periods = sum(host.quota_periods or 0 for host in hosts)
        used_up = sum(host.quota_throttled or 0 for host in hosts)
        found.append(
            PhaseUse(
                phase,
                len(samples),
                rss_peak=max((host.rss for host in hosts), default=None),
                gpu=tuple(_gpu(index, samples, index in shared) for index in indices),
                throttled_share=used_up / periods if periods else None,
                waited=waited(hosts),
                faults_s=faults(observed, phase),
                **{name: _mean(hosts, name) for name in OF_HOST},
            )
        )
    return tuple(found)


def faults(observed: Observed, phase: str) -> float | None:
    """Pages of memory a second that the kernel made for the script's process in a phase."""
    marks = observed.of("phase")
    pages = seconds = 0.0
    for mark, after in pairwise(marks):
        if mark["p"] == phase and "faults" in mark and "faults" in after:
            pages += after["faults"] - mark["faults"]
            seconds += after["t"] - mark["t"]
    return pages / seconds if seconds > 0 else None


def waited(hosts: Iterable[HostSample]) -> float | None:
    """The share of the time threads were ready to run that others kept them waiting.

    Threads of the script that wait for each other do not count: of all waiting, others
    have the part that they have of the cores that are busy.
    """
    ready = waits = 0.0
    for host in hosts:
        running, waiting, others = host.threads_running, host.threads_waiting, host.others_cores
        if running is None or waiting is None or others is None:
            continue
        ready += running + waiting
        waits += waiting * others / max(others + running, 1e-9)
    return waits / ready if ready > 0 else None


def _gpu(index: int, samples: list[Sample], shared: bool) -> dict[str, Any]:
    """The use of one GPU; none of the memory of one that is `shared` in slices."""
    own = [gpu for sample in samples for gpu in sample.gpus if gpu.index == index]
    memory = [] if shared else [gpu.memory_used for gpu in own]
    known = [gpu.throttle for gpu in own if gpu.throttle is not None]
    counts = Counter(reason for reasons in known for reason in set(reasons))
    return {
        "index": index,
        "samples": len(own),
        **{name: _mean(own, name) for name in OF_GPU},
        "memory_used_peak": max(filter(None, memory), default=None),
        "throttle": sorted(counts) if known else None,
        "throttle_shares": {name: counts[name] / len(known) for name in sorted(counts)}
        if known
        else None,
    }


def _mean(samples: Iterable[object], name: str) -> float | None:
    values = [value for sample in samples if (value := getattr(sample, name)) is not None]
    return statistics.fmean(values) if values else None
