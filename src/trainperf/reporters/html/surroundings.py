"""The machine, its container and its price, in words."""

from __future__ import annotations

from collections.abc import Iterator

from trainperf.model import ContainerUse, Cost, Gpu, Machine
from trainperf.model import words as units
from trainperf.report.plain import one_line
from trainperf.report.sections.money import dollars, instance
from trainperf.reporters.html.markup import clipped

Fact = tuple[str, str]
"""A label and what is said under it."""


def machine(box: Machine, known: Cost | None = None) -> list[Fact]:
    """The box as far as a process in it can see; its price where no cost names it."""
    facts = [one for one in _instance(box) if known is None or one[0] != "Price"]
    cores = units.cores(box.cores)
    if box.visible_cores > box.cores:
        limit = f" (a quota of {units.cores(box.quota_cores)})" if box.quota_cores else ""
        cores = f"{box.cores:.3g} of {units.cores(box.visible_cores)}{limit}"
    facts.append(("Processor", f"{box.cpu_model}, {cores}" if box.cpu_model else cores))
    if box.omp_num_threads is not None:
        facts.append(("OMP_NUM_THREADS", box.omp_num_threads))
    memory = units.size(box.memory_total)
    if box.memory_limit < box.memory_total:
        memory = f"{units.size(box.memory_limit)} of {memory} (limited)"
    facts.append(("Memory", f"{memory}, {units.size(box.memory_available)} available at the start"))
    if box.swap_total:
        used = "" if box.swap_used is None else f", {units.size(box.swap_used)} used"
        facts.append(("Swap", f"{units.size(box.swap_total)}{used}"))
    if box.shm_total is not None:
        free = "" if box.shm_free is None else f", {units.size(box.shm_free)} free"
        facts.append(("/dev/shm", f"{units.size(box.shm_total)}{free}"))
    facts += [(f"GPU {gpu.index}", _gpu(gpu)) for gpu in box.gpus]
    if box.gpu_reason:
        facts.append(("No GPU seen" if not box.gpus else "Other GPUs", box.gpu_reason))
    if box.driver:
        cuda = f", CUDA up to {box.driver_cuda}" if box.driver_cuda else ""
        facts.append(("Driver", f"{box.driver}{cuda}"))
    if box.container:
        facts.append(("Container", box.container))
    facts.append(("System", f"{box.os}, Python {box.python}"))
    return short(facts)


def _instance(box: Machine) -> Iterator[Fact]:
    if box.instance is not None:
        by = f" (told by {box.instance.source})" if box.instance.source else ""
        yield "Instance", instance(box) + by
        kind = box.instance.type
        if kind is not None and kind.vcpus_per_gpu is not None:
            yield "For each GPU", f"{kind.vcpus_per_gpu:.3g} vCPUs"
        if kind is not None and kind.nvme_bytes:
            yield "Local NVMe", units.size(kind.nvme_bytes)
    elif box.instance_reason:
        yield "Instance", f"not known: {box.instance_reason}"
    if box.price is not None:
        yield "Price", f"{dollars(box.price.per_hour)} an hour for a host ({box.price.source})"
    elif box.price_reason and (box.instance or box.price_reason != box.instance_reason):
        yield "Price", f"not known: {box.price_reason}"


def _gpu(gpu: Gpu) -> str:
    told = [gpu.name]
    if gpu.memory_total is not None:
        told.append(units.size(gpu.memory_total))
    if gpu.compute_capability:
        told.append(f"compute capability {gpu.compute_capability}")
    if gpu.pcie_generation is not None and gpu.pcie_width is not None:
        told.append(f"PCIe {gpu.pcie_generation} ×{gpu.pcie_width}")
    if gpu.power_limit_w is not None:
        told.append(f"power limit {gpu.power_limit_w:.0f} W")
    if gpu.mig:
        told.append("split by MIG")
    if gpu.persistence is False:
        told.append("persistence mode off")
    if gpu.ecc_errors:
        told.append(units.count(gpu.ecc_errors, "uncorrected memory error"))
    if gpu.other_processes:
        busy = "" if gpu.busy_before is None else f", {units.share(gpu.busy_before)} busy"
        told.append(f"open in {gpu.other_processes} other processes before the run{busy}")
    return ", ".join(told)


def container(use: ContainerUse | None) -> list[Fact]:
    """The counts of the control groups while the script was observed."""
    if use is None:
        return []
    facts = []
    if use.quota_cores is not None:
        facts.append(("CPU quota", units.cores(use.quota_cores)))
    if use.throttled_share is not None:
        stopped = "" if use.throttled_s is None else f", {units.seconds(use.throttled_s)} in all"
        facts.append(("Throttled", f"in {units.share(use.throttled_share)} of periods{stopped}"))
    for name, share in (
        ("Waiting for a core", use.cpu_pressure),
        ("Waiting for memory", use.memory_pressure),
        ("Waiting for disks", use.io_pressure),
    ):
        if share is not None:
            whose = "of the whole machine" if use.pressure_of == "machine" else "of the container"
            facts.append((name, f"some task {whose}, {units.share(share)} of the time"))
    if use.memory_peak is not None:
        of = ""
        if use.memory_limit:
            part = units.share(use.memory_peak / use.memory_limit)
            of = f" of {units.size(use.memory_limit)} allowed ({part})"
        facts.append(("Memory peak", f"{units.size(use.memory_peak)}{of}"))
    events = [f"{name} {many:,}" for name, many in use.memory_events if many]
    if events:
        facts.append(("Memory events", ", ".join(events)))
    for name, moved in (("Swapped in", use.swapped_in), ("Swapped out", use.swapped_out)):
        if moved:
            facts.append((name, units.size(moved)))
    if facts:
        facts.append(("Counted for", units.seconds(use.seconds)))
    return short(facts)


def cost(known: Cost | None) -> list[Fact]:
    """The cost of training here, from the price and the measured times."""
    if known is None:
        return []
    hosts = f", {units.count(known.hosts, 'host')}" if known.hosts > 1 else ""
    facts = [("Price", f"{dollars(known.price.per_hour)} an hour{hosts} ({known.price.source})")]
    for name, before, after in (
        ("An epoch", known.epoch_before, known.epoch_after),
        ("A million samples", known.million_samples_before, known.million_samples_after),
    ):
        if before is not None:
            then = "" if after is None else f" → {dollars(after)} with the kept changes"
            facts.append((name, f"{dollars(before)}{then}"))
    return short(facts)


def short(facts: list[Fact]) -> list[Fact]:
    """The facts on one line each, the longest cut."""
    return [(label, clipped(one_line(text), 600)) for label, text in facts]
