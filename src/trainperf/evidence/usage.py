"""How busy host and GPUs were in each phase."""

from __future__ import annotations

import bisect
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import Any

from trainperf.evidence.events import Observed
from trainperf.model import Device, GpuSample, HostSample, PhaseUse, Recording, Sample

PHASES = ("real", "resident", "input")


def usage(
    recording: Recording, observed: Observed, device: Device | None = None
) -> tuple[PhaseUse, ...]:
    """Mean use of cores, memory, disk and GPUs per phase, for phases with samples.

    Of a GPU in MIG mode of which `device` uses one slice, the memory is that of the slice.
    """
    slices = {gpu.index: gpu.slice for gpu in (() if device is None else device.used)}
    marks = [(event["t"], event["p"]) for event in observed.of("phase")]
    times = [t for t, _ in marks]
    groups: dict[str, list[Sample]] = {}
    for sample in recording.samples:
        index = bisect.bisect_right(times, sample.t) - 1
        if index >= 0:
            groups.setdefault(marks[index][1], []).append(sample)
    return tuple(
        _use(phase, groups[phase], slices, faults(observed, phase))
        for phase in PHASES
        if phase in groups
    )


def faults(observed: Observed, phase: str) -> float | None:
    """Pages of memory a second that the kernel made for the script's process in a phase."""
    marks = observed.of("phase")
    pages = seconds = 0.0
    for mark, after in pairwise(marks):
        if mark["p"] == phase and "faults" in mark and "faults" in after:
            pages += after["faults"] - mark["faults"]
            seconds += after["t"] - mark["t"]
    return pages / seconds if seconds > 0 else None


def _use(
    phase: str,
    samples: list[Sample],
    slices: Mapping[int | None, int | None],
    faults_s: float | None,
) -> PhaseUse:
    hosts = [sample.host for sample in samples if sample.host is not None]
    indices = sorted({gpu.index for sample in samples for gpu in sample.gpus})
    return PhaseUse(
        phase=phase,
        samples=len(samples),
        cpu_cores=_mean(hosts, lambda host: host.cpu_cores),
        machine_cpu_cores=_mean(hosts, lambda host: host.machine_cpu_cores),
        rss_peak=max((host.rss for host in hosts), default=None),
        read_bytes_s=_mean(hosts, lambda host: host.read_bytes_s),
        gpu=tuple(_gpu(index, samples, slices.get(index)) for index in indices),
        throttled_share=_throttled(hosts),
        others_cores=_mean(hosts, lambda host: host.others_cores),
        waited=waited(hosts),
        faults_s=faults_s,
    )


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


def _throttled(hosts: list[HostSample]) -> float | None:
    """The share of the periods of the CPU quota in which it was used up."""
    counted = [
        (host.quota_periods, host.quota_throttled)
        for host in hosts
        if host.quota_periods is not None and host.quota_throttled is not None
    ]
    periods = sum(each for each, _ in counted)
    return sum(throttled for _, throttled in counted) / periods if periods else None


def _gpu(index: int, samples: list[Sample], place: int | None) -> dict[str, Any]:
    own = [gpu for sample in samples for gpu in sample.gpus if gpu.index == index]
    fields = (
        "utilization_percent",
        "power_w",
        "sm_clock_mhz",
        "sm_active",
        "tensor_active",
        "dram_active",
        "pcie_rx_bytes_s",
        "pcie_tx_bytes_s",
    )
    use: dict[str, Any] = {"index": index, "samples": len(own)}
    for name in fields:
        values = [value for gpu in own if (value := getattr(gpu, name)) is not None]
        use[name] = statistics.fmean(values) if values else None
    memory = [used for gpu in own if (used := _memory(gpu, place)) is not None]
    use["memory_used_peak"] = max(memory) if memory else None
    known = [gpu.throttle for gpu in own if gpu.throttle is not None]
    use["throttle"] = sorted({reason for reasons in known for reason in reasons}) if known else None
    use["throttle_shares"] = _shares(known) if known else None
    use["pcie_generation"] = _highest(gpu.pcie_generation for gpu in own)
    use["pcie_width"] = _highest(gpu.pcie_width for gpu in own)
    return use


def _memory(gpu: GpuSample, place: int | None) -> int | None:
    if place is None:
        return gpu.memory_used
    return gpu.slices_used[place] if place < len(gpu.slices_used) else None


def _shares(known: list[tuple[str, ...]]) -> dict[str, float]:
    """In which share of the samples each reason for a lower clock was given."""
    counts = Counter(reason for reasons in known for reason in set(reasons))
    return {reason: count / len(known) for reason, count in sorted(counts.items())}


def _highest(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)


def _mean(hosts: Iterable[HostSample], read: Callable[[HostSample], float | None]) -> float | None:
    values = [value for host in hosts if (value := read(host)) is not None]
    return statistics.fmean(values) if values else None
