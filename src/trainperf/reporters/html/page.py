"""The page: every section of the report as values that a template only has to place."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from trainperf.model import INPUT_BOUND_BELOW, ContainerUse, Diagnosis, Gpu, Machine
from trainperf.model import words as units
from trainperf.report.document import Commands, Document
from trainperf.report.plain import one_line
from trainperf.report.sections import closing, experiment
from trainperf.report.sections.money import dollars, instance
from trainperf.report.whole import document
from trainperf.reporters.html import step, timeline
from trainperf.reporters.html.changes import changes
from trainperf.reporters.html.code import Line, coloured, patch_lines, survives
from trainperf.reporters.html.markup import clipped, prose
from trainperf.reporters.html.sheet import Shown, View, view

DRAWN = ("One step", "Data alone")
"""The facts of the terminal's that the page shows as figures and bars."""

_Fact = tuple[str, str]
"""A label and what is said under it."""

OWN = {
    *("partial", "absent", "verdict", "answer", "output", "step", "parts", "findings", "remains"),
    *("trials", "experiment", "practices", "next", "spent", "proofs"),
}
"""The sections of a report that the page draws in its own way."""

COSTS = ("outside", "operators", "syncs", "logs", "between", "callbacks", "functions")
GROUPS = (
    ("together", "The kept changes together", ("stack",)),
    ("training", "The whole training", ("training",)),
    ("input", "Input, stage by stage", ("stages",)),
    ("job", "The job and its ranks", ("ranks", "exchange", "scaling")),
    ("costs", "Where else the time goes", COSTS),
    ("machine", "The machine", ("devices", "limits", "money")),
    ("storage", "Where the data lies", ("storage", "objects")),
    ("ignored", "Left out, as a comment says", ("ignored",)),
    ("not-measured", "Not measured", ("not_measured",)),
    ("notes", "Notes", ("notes",)),
)
"""The parts of the page that hold sections as they are: id, heading, sections."""

ELSEWHERE = (
    ("step", "The step", ""),
    ("timeline", "The observed run", "timeline"),
    ("changes", "What to change", "advised"),
    ("trials", "Tried", "tried"),
    ("patch", "The patch", "patch"),
    ("experiment", "Another experiment", "experiments"),
    ("next", "Next", "next"),
)
"""The other parts that the contents name, and the value without which they are not there."""

EARLY = ("together", "training")
"""Groups that stand behind the trials; the others come last."""


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
class Group:
    """A part of the page that holds sections of the report as they are."""

    id: str
    title: str
    views: list[View]


def context(diagnosis: Diagnosis, saved: str = "", patch_file: str = "") -> dict[str, Any]:
    """Everything that the template places; a section without content is None or empty."""
    whole = document(diagnosis, saved=saved, patch_file=patch_file)
    facts, changed, groups = view(whole, "step"), changes(diagnosis, saved), _groups(whole)
    machine = next(one for one in groups if one.id == "machine").views
    machine += _facts("What the kernel counted meanwhile", _counted(diagnosis.container))
    machine += _facts("What it is", _machine(diagnosis.machine))
    none_known = None if diagnosis.findings else view(whole, "findings", "remains")
    remains = view(whole, "remains") if diagnosis.findings else None
    page = {
        "title": _title(diagnosis),
        "command": clipped(one_line(" ".join(diagnosis.command)), 300),
        "created": diagnosis.created,
        "version": diagnosis.trainperf_version,
        "format_version": diagnosis.format_version,
        "verdict": prose(diagnosis.verdict.text),
        "state": _state(diagnosis),
        "partial": view(whole, "partial", "absent"),
        "answer": view(whole, "proofs") or view(whole, "answer"),
        "output": view(whole, "output"),
        "tiles": _tiles(diagnosis),
        "bar": step.bar(diagnosis),
        "parts": view(whole, "parts"),
        "times": step.times(diagnosis),
        "noise": None if diagnosis.times.noise is None else units.share(diagnosis.times.noise),
        "facts": [one for one in facts.facts if one.label not in DRAWN] if facts else [],
        "timeline": timeline.drawn(diagnosis.timeline),
        "changes": changed,
        "advised": bool(changed.advice or none_known or remains),
        "tried": changed.tried,
        "experiments": changed.experiments,
        "apart": (experiment.HEADING, prose(experiment.IN_NO_PATCH)),
        "none_known": none_known,
        "remains": remains,
        "patch": _patch(diagnosis),
        "next": _next(whole),
        "saved": bool(saved),
        "groups": [one for one in groups if one.views],
        "spent": Markup(" ").join(one.text for one in spent.blocks)
        if (spent := view(whole, "spent"))
        else "",
    }
    parts = [(id_, name) for id_, name, needs in ELSEWHERE if not needs or page[needs]]
    at = next((n for n, (id_, _) in enumerate(parts) if id_ in ("patch", "experiment", "next")), 99)
    early = [(one.id, one.title) for one in groups if one.views and one.id in EARLY]
    late = [(one.id, one.title) for one in groups if one.views and one.id not in EARLY]
    return {**page, "early": EARLY, "contents": [*parts[:at], *early, *parts[at:], *late]}


def _groups(whole: Document) -> list[Group]:
    placed = OWN.union(*(names for _, _, names in GROUPS))
    others = tuple(one.name for one in whole.sections if one.name not in placed)
    return [
        Group(id_, title, [found for name in given if (found := view(whole, name)) is not None])
        for id_, title, names in GROUPS
        for given in ((*names, *others) if id_ == "costs" else names,)
    ]


def _facts(heading: str, facts: list[_Fact]) -> list[View]:
    shown = tuple(Shown("fact", prose(told), label) for label, told in facts)
    return [View(heading, shown)] if shown else []


def _next(whole: Document) -> list[tuple[str, str]]:
    """The commands that lead on, each behind what it does."""
    section = whole.section("next")
    blocks = () if section is None else section.blocks
    rows = [row for block in blocks if isinstance(block, Commands) for row in block.rows]
    return [(what[:1].upper() + what[1:], command) for command, what in rows]


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
        then = f"→ {after} with the changes" if after else ""
        tiles.append(Tile("Cost of an epoch", dollars(cost.epoch_before), then))
    return tiles


def _title(diagnosis: Diagnosis) -> str:
    """The script; of a job, what its launcher starts, as its command stands below."""
    script = one_line(diagnosis.script)
    command = [one_line(word) for word in diagnosis.command]
    if script and script in (shlex.join(diagnosis.command), " ".join(command)):
        started = next((word for word in command if word.endswith(".py")), "")
        script = started or script
    return clipped(script, 80) or "a training script"


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
        skipped=[(one_line(one.what), prose(one.reason)) for one in skipped],
        environment=coloured(closing.exports(patch), "bash") if patch.environment else None,
        command=coloured(line, "bash") if line else None,
    )


def _machine(box: Machine) -> list[_Fact]:
    """The box as far as a process in it can see."""
    facts = list(_instance(box))
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
    return facts


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


def _counted(use: ContainerUse | None) -> list[_Fact]:
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
    return facts
