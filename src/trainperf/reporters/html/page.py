"""The page: every section of the report as values that a template only has to place."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from trainperf.model import INPUT_BOUND_BELOW, Diagnosis, Machine, Measure
from trainperf.model import words as units
from trainperf.report.document import DATA, HOST, MODEL, Document, Page, Words
from trainperf.report.plain import one_line
from trainperf.report.sections import closing, experiment
from trainperf.report.sections._shares import shares
from trainperf.report.sections.money import dollars
from trainperf.report.whole import document, sections
from trainperf.reporters.html import timeline
from trainperf.reporters.html.code import Line, patch_lines, survives
from trainperf.reporters.html.drawing import percent, plots
from trainperf.reporters.html.markup import clipped, prose
from trainperf.reporters.html.sheet import Shown, View, shown, view

DRAWN = ("One step", "Data alone")
"""The facts of the terminal's that the page shows as figures and bars."""

PARTS = {
    "step": "A step",
    "timeline": "The observed run",
    "changes": "What to change",
    "trials": "Tried on the script itself",
    "together": "The kept changes together",
    "training": "The whole training",
    "patch": "The patch",
    "next": "Next",
    "experiment": experiment.HEADING,
    "practices": "Time to accuracy",
    "input": "Input, stage by stage",
    "job": "The job and its ranks",
    "costs": "Where else the time goes",
    "machine": "The machine",
    "storage": "Where the data lies",
    "ignored": "Left out, as a comment says",
    "not-measured": "Not measured",
    "notes": "Notes",
}
"""The parts of the page, by id: their headings. A section of the report names the one it is in."""

TIMES = (
    ("As it is", "the loop as the script runs it", "step_s", "real_", "ink"),
    ("Data already there", "the same step, its batch at hand", "resident_s", "resident_", MODEL),
    ("Data alone", "the input without the model", "input_s", "input_", DATA),
    ("Host work", "Python and callbacks, within the step", "host_s", "host_", HOST),
)
"""The times of a step: name, what it is, its seconds, its measure, and the fill of its bar."""

ROOM = 0.09
"""Share of the bar of a step from which a part has room for its number."""


@dataclass(frozen=True)
class Tile:
    """A figure that a reader looks for first."""

    name: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class Piece:
    """A part of the bar of a step, with its row in the legend."""

    name: str
    fill: str
    x: str
    width: str
    middle: str
    seconds: str
    share: str
    label: str = ""


@dataclass(frozen=True)
class Patched:
    """The edits of the patch: their lines, and whether a page can carry them unharmed."""

    edits: str
    lines: list[Line]
    copyable: bool
    by_cells: bool


@dataclass(frozen=True)
class Part:
    """A part of the page, with the sections of the report that it holds as they are."""

    id: str
    title: str
    views: list[View]


def context(diagnosis: Diagnosis, saved: str = "", patch_file: str = "") -> dict[str, Any]:
    """Everything that the template places; a section without content is None or empty."""
    whole = document(diagnosis, saved=saved, patch_file=patch_file)
    spent = view(whole, "spent")
    drawn = {
        "timeline": timeline.drawn(diagnosis.timeline),
        "patch": _patch(diagnosis),
        "bar": bar(diagnosis),
    }
    return {
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
        "parts": [one for one in _parts(whole, diagnosis) if one.views or drawn.get(one.id)],
        "plots": plots(diagnosis),
        **drawn,
        "spent": Markup(" ").join(one.text for one in spent.blocks) if spent else "",
    }


def _parts(whole: Document, diagnosis: Diagnosis) -> Iterator[Part]:
    for id_, title in PARTS.items():
        views = [view(whole, section.name) for section in sections() if section.side == id_]
        if id_ == "step":
            views = [view(whole, "lines"), view(whole, "parts"), times(diagnosis), _seen(whole)]
        if id_ == "machine":
            rows = _machine(diagnosis.evidence.machine)
            box = [Shown("fact", prose(told), label) for label, told in rows]
            views.append(View("What it is", tuple(box)))
        yield Part(id_, title, [one for one in views if one is not None])


def bar(diagnosis: Diagnosis) -> list[Piece]:
    """The real step split as in the terminal; empty where it cannot be split."""
    split = shares(diagnosis)
    if len(split) < 2:
        return []
    whole = sum(seconds for _, seconds, _ in split)
    pieces, start = [], 0.0
    for name, seconds, tone in split:
        share = seconds / whole
        said = units.share(share)
        pieces.append(
            Piece(
                name=name,
                fill=tone,
                x=percent(start),
                width=percent(share),
                middle=percent(start + share / 2),
                seconds=units.seconds(seconds),
                share=said,
                label=said if share >= ROOM else "",
            )
        )
        start += share
    return pieces


def times(diagnosis: Diagnosis) -> View | None:
    """The times that were taken, on one scale from 0."""
    page = Page()
    longest = max(getattr(diagnosis, seconds) or 0.0 for _, _, seconds, _, _ in TIMES)
    if longest <= 0:
        page.prose("No step was timed.")
        return shown(page.blocks)
    rows: list[list[Words | str]] = []
    lengths: list[tuple[float, str]] = []
    for name, what, seconds, measure, fill in TIMES:
        value = getattr(diagnosis, seconds)
        if value is None:
            continue
        noise = diagnosis.noise if seconds == "step_s" else None
        figure = units.seconds(value) + (f" ± {units.share(noise)}" if noise is not None else "")
        found = getattr(diagnosis.evidence.times, measure)
        rows.append([name, what, figure, _blocks(found) if isinstance(found, Measure) else ""])
        lengths.append((value / longest, fill))
    page.heading("The times it is computed from")
    page.table(rows, right=(2,), lengths=lengths)
    return shown(page.blocks)


def _blocks(measure: Measure) -> str:
    means = measure.blocks
    if len(means) < 2:
        return ""
    least, most = units.seconds(min(means)), units.seconds(max(means))
    return f"{units.count(len(means), 'block')}: {least} to {most}"


def _seen(whole: Document) -> View | None:
    """What was seen of the step, but for what the page shows as figures and bars."""
    facts = view(whole, "step")
    kept = [one for one in facts.blocks if one.label not in DRAWN] if facts else []
    return View("What was seen", tuple(kept)) if kept else None


def _state(diagnosis: Diagnosis) -> str:
    if diagnosis.verdict.healthy:
        return "healthy"
    if diagnosis.verdict.grade == "not examined":
        return "unknown"
    return "slow" if diagnosis.step_s is not None else "unknown"


def _tiles(diagnosis: Diagnosis) -> list[Tile]:
    stack, cost, loop = diagnosis.stack, diagnosis.cost, diagnosis.evidence.loop
    whole, tiles = diagnosis.training, []
    if diagnosis.step_s is not None:
        noise = "" if diagnosis.noise is None else f"± {units.share(diagnosis.noise)}"
        tiles.append(Tile("One step", units.seconds(diagnosis.step_s), noise))
    if (samples := diagnosis.per_s(loop.batch_size)) is not None:
        tiles.append(Tile("Rate", units.number(samples), "samples/s"))
    if (tokens := diagnosis.per_s(loop.real_tokens or loop.tokens)) is not None:
        real = "real " if loop.real_tokens else ""
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
    patch = diagnosis.patch
    if patch is None or not patch.diff:
        return None
    return Patched(
        edits=units.count(closing.edits_in(patch.shown), "edit"),
        lines=patch_lines(patch.shown),
        copyable=survives(patch.diff) and not patch.cells,
        by_cells=bool(patch.cells),
    )


def _machine(box: Machine) -> Iterator[tuple[str, str]]:
    """The box as far as a process in it can see."""
    cores = units.cores(box.cores)
    if box.visible_cores > box.cores:
        cores = f"{box.cores:.3g} of {units.cores(box.visible_cores)}"
    yield "Processor", f"{box.cpu_model}, {cores}" if box.cpu_model else cores
    memory = units.size(box.memory_total)
    if box.memory_limit < box.memory_total:
        memory = f"{units.size(box.memory_limit)} of {memory} (limited)"
    yield "Memory", f"{memory}, {units.size(box.memory_available)} available at the start"
    for gpu in box.gpus:
        total = "" if gpu.memory_total is None else f", {units.size(gpu.memory_total)}"
        yield f"GPU {gpu.index}", gpu.name + total
    if box.driver:
        yield "Driver", box.driver + (f", CUDA up to {box.driver_cuda}" if box.driver_cuda else "")
    container = f", in {box.container}" if box.container else ""
    yield "System", f"{box.os}, Python {box.python}{container}"
