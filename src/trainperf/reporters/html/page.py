"""The page: every section of the report as values that a template only has to place."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from markupsafe import Markup

from trainperf.model import INPUT_BOUND_BELOW, ContainerUse, Cost, Diagnosis, Gpu, Machine
from trainperf.model import words as units
from trainperf.model.diagnosis import Ignored
from trainperf.report.document import Document
from trainperf.report.plain import one_line, place, plain
from trainperf.report.sections import closing, experiment, parts
from trainperf.report.sections.money import dollars, instance
from trainperf.report.whole import document
from trainperf.reporters.html import step, timeline
from trainperf.reporters.html.changes import changes, together, together_with
from trainperf.reporters.html.code import Line, coloured, patch_lines, survives
from trainperf.reporters.html.markup import clipped, prose
from trainperf.reporters.html.sheet import Shown, View, view

DRAWN = ("One step", "Data alone")
"""The facts of the terminal's that the page shows as figures and bars."""

_Fact = tuple[str, str]
"""A label and what is said under it."""


@dataclass(frozen=True)
class Tile:
    """A figure that a reader looks for first."""

    name: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class Patched:
    """The patch: its lines, and whether a page can carry it unharmed."""

    edits: str
    lines: list[Line]
    copyable: bool
    by_cells: bool
    skipped: list[tuple[str, Markup]]
    environment: Markup | None
    command: Markup | None


@dataclass(frozen=True)
class Command:
    """A command that leads on, and what it does."""

    what: str
    command: Markup


PLACED = {
    *("partial", "absent", "verdict", "answer", "output", "outside", "step", "parts", "syncs"),
    *("ranks", "exchange", "scaling", "operators", "devices", "storage", "objects", "limits"),
    *("stages", "between", "callbacks", "functions", "findings", "remains", "trials", "stack"),
    *("training", "experiment", "practices", "not_measured", "notes", "ignored"),
    *("logs", "next", "money", "spent", "proofs"),
}
"""The sections of a report that the page has a place for, or draws in its own way."""
CONTENTS = (
    ("step", "The step", lambda page: True),
    ("timeline", "The observed run", lambda page: page["timeline"]),
    ("changes", "What to change", lambda page: page["advised"]),
    ("trials", "Tried", lambda page: page["changes"].tried),
    ("together", "Together", lambda page: page["together"]),
    ("training", "The whole training", lambda page: page["training"]),
    ("patch", "The patch", lambda page: page["patch"]),
    ("experiment", "Another experiment", lambda page: page["changes"].experiments),
    ("next", "Next", lambda page: page["next"]),
    ("input", "Input", lambda page: page["input"]),
    ("job", "Ranks", lambda page: page["job"]),
    ("costs", "Other costs", lambda page: page["operators"] or page["costs"]),
    ("machine", "The machine", lambda page: True),
    ("storage", "Storage", lambda page: page["volumes"] or page["buckets"]),
    ("not-measured", "Not measured", lambda page: page["not_measured"]),
)
"""The sections that the contents name, in the order of the page, each with when it is there."""


def context(diagnosis: Diagnosis, saved: str = "", patch_file: str = "") -> dict[str, Any]:
    """Everything that the template places; a section without content is None or empty."""
    page = _context(diagnosis, document(diagnosis), saved)
    page["next"] = _next(diagnosis, saved, patch_file)
    page["saved"] = bool(saved)
    page["advised"] = page["changes"].advice or page["none_known"] or page["remains"]
    page["contents"] = [(id, name) for id, name, there in CONTENTS if there(page)]
    return page


def _context(diagnosis: Diagnosis, whole: Document, saved: str) -> dict[str, Any]:
    facts = view(whole, "step")
    rest = [] if facts is None else [one for one in facts.facts if one.label not in DRAWN]
    changed = changes(diagnosis, saved)
    return {
        "title": _title(diagnosis),
        "command": clipped(one_line(" ".join(diagnosis.command)), 300),
        "created": clipped(one_line(diagnosis.created), 40),
        "version": clipped(one_line(diagnosis.trainperf_version), 40),
        "format_version": diagnosis.format_version,
        "verdict": prose(diagnosis.verdict.text),
        "state": _state(diagnosis),
        "partial": view(whole, "partial", "absent"),
        "answer": view(whole, "proofs") or _answer(whole),
        "output": view(whole, "output"),
        "tiles": _tiles(diagnosis),
        "bar": step.bar(diagnosis),
        "by_parts": step.by_parts(diagnosis),
        "by_parts_how": prose(parts.how(diagnosis)) if diagnosis.step_parts else None,
        "times": step.times(diagnosis),
        "noise": None if diagnosis.times.noise is None else units.share(diagnosis.times.noise),
        "facts": rest,
        "timeline": timeline.drawn(diagnosis.timeline),
        "changes": changed,
        "apart": (experiment.HEADING, prose(experiment.IN_NO_PATCH)),
        "none_known": None if diagnosis.findings else view(whole, "findings", "remains"),
        "remains": view(whole, "remains") if diagnosis.findings else None,
        "together": together(diagnosis),
        "training": view(whole, "training", bars=True),
        "patch": _patch(diagnosis),
        "input": _sections(whole, "stages"),
        "job": _sections(whole, "ranks", "exchange", "scaling"),
        "costs": _sections(
            whole, "outside", "syncs", "logs", "between", "callbacks", "functions", *_others(whole)
        ),
        "operators": step.by_operators(diagnosis),
        "operators_how": view(whole, "operators"),
        "busy": _sections(whole, "devices"),
        "machine": _machine_facts(diagnosis.machine, diagnosis.cost),
        "limits": view(whole, "limits"),
        "container": _container_facts(diagnosis.container),
        "cost": _cost_facts(diagnosis.cost),
        "no_cost": None if diagnosis.cost else view(whole, "money"),
        "volumes": _volumes(view(whole, "storage")),
        "buckets": view(whole, "objects"),
        "ignored": [_left_out(one, diagnosis.cwd) for one in diagnosis.ignored],
        "not_measured": view(whole, "not_measured"),
        "notes": view(whole, "notes"),
        "spent": _spent(diagnosis, whole),
    }


def _others(whole: Document) -> Iterator[str]:
    """The sections that have no place of their own on the page."""
    return (one.name for one in whole.sections if one.name not in PLACED)


def _sections(whole: Document, *names: str) -> list[View]:
    found = (view(whole, name) for name in names)
    return [section for section in found if section is not None]


def _state(diagnosis: Diagnosis) -> str:
    if diagnosis.verdict.healthy:
        return "healthy"
    if diagnosis.verdict.grade == "not examined":
        return "unknown"
    return "slow" if diagnosis.times.real_s is not None else "unknown"


def _tiles(diagnosis: Diagnosis) -> list[Tile]:
    times, stack, cost = diagnosis.times, diagnosis.stack, diagnosis.cost
    whole, tiles = diagnosis.training, []
    if times.real_s is not None:
        noise = "" if times.noise is None else f"± {units.share(times.noise)}"
        tiles.append(Tile("One step", units.seconds(times.real_s), noise))
    if times.samples_per_s is not None:
        tiles.append(Tile("Rate", units.number(times.samples_per_s), "samples/s"))
    if (tokens := times.real_tokens_per_s or times.tokens_per_s) is not None:
        real = "real " if times.real_tokens_per_s else ""
        tiles.append(Tile("Tokens", units.number(tokens), f"{real}tokens/s"))
    if diagnosis.verdict.utilization is not None:
        share = units.share(diagnosis.verdict.utilization)
        side = "below" if diagnosis.verdict.utilization < INPUT_BOUND_BELOW else "above"
        line = f"{side} the {units.share(INPUT_BOUND_BELOW)} line"
        tiles.append(Tile("Utilisation", share, line))
    if stack is not None and stack.fixes:
        many = len(stack.fixes)
        words = "With the change" if many == 1 else f"With the {many} changes"
        value, _, rest = units.measured(stack.speedup, stack.low, stack.high).partition(" ")
        tiles.append(Tile(words, value, f"as fast {rest}, a step"))
    if whole is not None and whole.seconds_now is not None:
        after = "" if whole.seconds_after is None else f"→ {units.clock(whole.seconds_after)}"
        tiles.append(Tile("The whole training", units.clock(whole.seconds_now), after))
    if cost is not None and cost.epoch_before is not None:
        after = "" if cost.epoch_after is None else dollars(cost.epoch_after)
        then = f"→ {after} {together_with(stack)}" if after else ""
        tiles.append(Tile("Cost of an epoch", dollars(cost.epoch_before), then))
    return tiles


def _answer(whole: Document) -> View | None:
    """The answer: it ends the terminal's report, and stands above the figures here."""
    section = view(whole, "answer")
    if section is None:
        return None
    blocks = (replace(one, text=one.text.replace(" above", " below")) for one in section.blocks)
    return replace(section, blocks=tuple(blocks))


def _title(diagnosis: Diagnosis) -> str:
    """The script; of a job, what its launcher starts, as its command stands below."""
    script = one_line(diagnosis.script)
    command = [one_line(word) for word in diagnosis.command]
    if script and script in (shlex.join(diagnosis.command), " ".join(command)):
        started = next((word for word in command if word.endswith(".py")), "")
        script = started or script
    return clipped(script, 80) or "a training script"


def _next(diagnosis: Diagnosis, saved: str, patch_file: str) -> list[Command]:
    then = closing.commands(diagnosis, saved, patch_file, "print this report on a terminal")
    return [Command(what[:1].upper() + what[1:], Markup.escape(plain(one))) for one, what in then]


def _volumes(section: View | None) -> list[View]:
    """The volumes each for itself: the facts of one begin with where it is."""
    groups: list[list[Shown]] = []
    for block in () if section is None else section.blocks:
        if not groups or block.label == "Where" or block.kind != groups[-1][0].kind:
            groups.append([])
        groups[-1].append(block)
    return [View("", tuple(group)) for group in groups]


def _spent(diagnosis: Diagnosis, whole: Document) -> Markup:
    """The time of trainperf itself."""
    section = view(whole, "spent")
    if section is None:  # the terminal has it on a line, which a sheet drops
        return prose(f"Diagnosed in {units.seconds(diagnosis.seconds)}.")
    return Markup(" ").join(block.text for block in section.blocks)


def _left_out(one: Ignored, cwd: str) -> tuple[Markup, str]:
    """A finding that a comment says to leave out, and where the comment stands."""
    return prose(one.finding.title), clipped(one_line(place(one.comment, cwd)))


def _patch(diagnosis: Diagnosis) -> Patched | None:
    patch, skipped = diagnosis.patch, closing.left_out(diagnosis)
    if patch is None:
        return None
    if not (patch.diff or skipped or patch.environment or patch.arguments):
        return None
    line = closing.command_line(diagnosis) if patch.arguments else ""
    return Patched(
        edits=units.count(closing.edits_in(patch.shown), "edit"),
        lines=patch_lines(patch.shown) if patch.diff else [],
        copyable=survives(patch.diff) and not patch.cells,
        by_cells=bool(patch.cells),
        skipped=[(clipped(one_line(one.what)), prose(one.reason)) for one in skipped],
        environment=coloured(closing.exports(patch), "bash") if patch.environment else None,
        command=coloured(line, "bash") if line else None,
    )


def _machine_facts(box: Machine, known: Cost | None = None) -> list[_Fact]:
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
    return _short(facts)


def _instance(box: Machine) -> Iterator[_Fact]:
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


def _container_facts(use: ContainerUse | None) -> list[_Fact]:
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
    return _short(facts)


def _cost_facts(known: Cost | None) -> list[_Fact]:
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
    return _short(facts)


def _short(facts: list[_Fact]) -> list[_Fact]:
    """The facts on one line each, the longest cut."""
    return [(label, clipped(one_line(text), 600)) for label, text in facts]
