"""The machine while the script trained: how busy it was, its memory, a job beside it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trainperf.model import Diagnosis, Machine, PhaseUse, Torch
from trainperf.model import words as units
from trainperf.report.document import STEP, Page, Section

LEAST_READ = 100 * 1024
"""Bytes a second below which what is read from a disk is not worth a word."""

STOOD_STILL = 0.01
"""Share of the time in which tasks waited for memory from which it is worth a word; our choice."""

NEAR = 0.90
"""Share of the memory limit from which its use is worth a line; our choice."""


def running(diagnosis: Diagnosis, page: Page) -> None:
    """Print what is to be known of the running job that was diagnosed."""
    job = diagnosis.running
    if job is None:
        return
    page.heading("The running job")
    since = job.began.replace("T", " ").replace("+00:00", " UTC")
    who = f"Process {job.pid}, started by process {job.started_by}, runs since {since}"
    if job.ended:
        text = f"{who}, and ended while this diagnosis was made."
    else:
        busy = "" if job.cores is None else f": it kept {units.cores(round(job.cores, 1))} busy"
        text = f"{who} and shared the machine with this diagnosis{busy}. Times may be longer."
    page.prose(text, indent=2)


def devices(diagnosis: Diagnosis, page: Page) -> None:
    """Print how busy GPUs and host were while the script trained, and the GPU's memory."""
    evidence = diagnosis.evidence
    use = next((use for use in evidence.use if use.phase == "real"), None)
    used = {one.index for one in evidence.device.used}
    every = not used or None in used or evidence.parallel_ is not None
    gpus = [gpu for gpu in (use.gpu if use else ()) if every or gpu["index"] in used]
    rows = [(f"GPU {gpu['index']}", "; ".join(_gpu(gpu))) for gpu in gpus]
    rows.append(("Memory", "; ".join(_device_memory(evidence.torch_))))
    rows.append(("Host", "" if use is None else "; ".join(_host(use, evidence.machine))))
    if any(told for _, told in rows):
        page.heading("Machine")
        page.facts(rows)


def _host(use: PhaseUse, machine: Machine) -> Iterator[str]:
    if use.cpu_cores is not None:
        yield f"{use.cpu_cores:.2g} of {units.cores(machine.cores)} busy"
    if use.rss_peak is not None:
        yield f"memory {units.size(use.rss_peak)}"
    if use.read_bytes_s is not None and use.read_bytes_s >= LEAST_READ:
        yield f"reading {units.size(use.read_bytes_s)}/s"


def _device_memory(torch: Torch | None) -> Iterator[str]:
    """Say what the framework's allocator counted on the GPU."""
    memory = {} if torch is None else torch.memory
    if (reserved := memory.get("reserved_peak")) is not None:
        total = memory.get("total")
        of = f" of {units.size(total)} ({units.share(reserved / total)})" if total else ""
        yield f"PyTorch reserved {units.size(reserved)}{of}"
    if retries := memory.get("retries"):
        yield f"emptied its cache to find room {units.count(retries, 'time')}"


def _gpu(gpu: dict[str, Any]) -> Iterator[str]:
    """Say in words what is known of a GPU; what the driver did not say is left out."""
    if (busy := gpu.get("utilization_percent")) is not None:
        yield f"a kernel ran {busy:.0f} % of the time"
    for key, words in (("sm_active", "SMs active"), ("tensor_active", "tensor cores")):
        if (value := gpu.get(key)) is not None:
            yield f"{words} {units.share(value)}"
    if (used := gpu.get("memory_used_peak")) is not None:
        yield f"memory {units.size(used)}"
    if throttle := gpu.get("throttle_shares"):
        yield f"slowed down by {', '.join(throttle)}"


def limits(diagnosis: Diagnosis, page: Page) -> None:
    """Print what the limits of memory cost the run; a CPU quota has a finding."""
    use, told = diagnosis.evidence.container, []
    if use is None:
        return
    if use.memory_limit and use.memory_peak and use.memory_peak >= NEAR * use.memory_limit:
        most, limit = units.size(use.memory_peak), units.size(use.memory_limit)
        told.append(f"{most} of {limit} used at most")
    if kills := dict(use.memory_events).get("oom_kill"):
        told.append(f"the kernel ended {kills} process{'es' if kills > 1 else ''}")
    if (waited := use.memory_pressure or 0.0) >= STOOD_STILL:
        told.append(f"a task waited for memory in {units.share(waited)} of the time")
    if use.swapped_in:
        told.append(f"{units.size(use.swapped_in)} read back from swap by the whole machine")
    page.items("Memory is short", told)


SECTIONS = (
    Section("running", STEP, running, True),
    Section("devices", STEP + 110, devices, side="machine"),
    Section("limits", STEP + 115, limits, True, side="machine"),
)
