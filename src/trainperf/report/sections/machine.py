"""The machine while the script trained: how busy it was, its memory, its data, a job beside it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trainperf.model import Diagnosis, Machine, Objects, PhaseUse, Reads, Torch
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


SHOWN = 4
"""Volumes that are shown, those with most files first."""

KINDS = {
    "ebs": "EBS",
    "nvme": "local NVMe",
    "tmpfs": "memory",
    "overlay": "container's own layer",
    "nfs": "NFS",
    "efs": "EFS",
    "lustre": "Lustre",
}
"""Kinds of volumes, where the name that a recording has is not the usual one."""


def storage(diagnosis: Diagnosis, page: Page) -> None:
    """Print each volume and bucket that was read from; nothing where no file was seen."""
    reads, buckets = diagnosis.evidence.reads[:SHOWN], diagnosis.evidence.objects
    told = [*map(_volume, reads), *map(_bucket, buckets)]
    page.items("Where the data lies", ["; ".join(facts) for facts in told])


def _volume(reads: Reads) -> Iterator[str]:
    volume = reads.volume
    device = "" if volume.device == volume.filesystem else volume.device
    kind = KINDS.get(volume.kind, volume.kind)
    what = ", ".join(filter(None, (kind, volume.filesystem, device)))
    yield f"{volume.mount or 'mount not known'}: {what or 'not known'}"
    if volume.limit_bytes_s is not None:
        yield f"at most {units.size(volume.limit_bytes_s)}/s ({volume.limit_basis})"
    more = "more than " if reads.at_least else ""
    yield f"{more}{units.count(reads.files, 'file')}, {units.size(reads.total_bytes)}"
    if reads.bytes_per_step is not None:
        yield f"each step reads {units.size(reads.bytes_per_step)}"
    if reads.needed_bytes_s is not None:
        yield f"{units.size(reads.needed_bytes_s)}/s if it never waited"
    if reads.cold_bytes_s is None:
        yield f"speed not measured: {reads.reason or 'no file was read'}"
    else:
        cold = f"not in memory: {units.size(reads.cold_bytes_s)}/s by one reader"
        four = reads.cold_parallel_bytes_s
        yield cold if four is None else f"{cold}, {units.size(four)}/s by four"


def _bucket(bucket: Objects) -> Iterator[str]:
    """A bucket, and the script's own requests to it."""
    region = f", {bucket.region}" if bucket.region else ""
    yield f"s3://{bucket.bucket}/{bucket.prefix}{region}"
    if not bucket.requests:
        yield "named in the script; no request by boto3 or s3fs was seen"
    if bucket.requests_per_step is not None:
        yield f"{units.number(bucket.requests_per_step)} requests for each batch"
    if bucket.request_s is not None:
        yield f"{units.seconds(bucket.request_s)} until the response"
    if bucket.concurrency is not None:
        yield f"{units.number(bucket.concurrency, 2)} at once"
    if bucket.mean_object_bytes is not None:
        yield f"objects of {units.size(bucket.mean_object_bytes)} on average"
    yield from (f"{name} {units.count(many, 'time')}" for name, many in bucket.errors)


SECTIONS = (
    Section("running", STEP, running, True),
    Section("devices", STEP + 110, devices, side="machine"),
    Section("limits", STEP + 115, limits, True, side="machine"),
    Section("storage", STEP + 120, storage, side="machine"),
)
