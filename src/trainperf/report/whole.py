"""A `Diagnosis` as a `Document`: its sections in their order, those without content left out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from trainperf.model import Diagnosis, known
from trainperf.report.document import Document, Page, Section
from trainperf.report.sections import (
    closing,
    costs,
    devices,
    exchange,
    experiment,
    findings,
    lines,
    money,
    parallel,
    parts,
    proofs,
    running,
    step,
    storage,
    training,
    trials,
)

Writer = Callable[[Diagnosis, Page], None]

AROUND = 0.2
"""Share of the run outside its steps from which a short report says where it goes."""

PROVEN = ("partial", "verdict", "output", "proofs", "stack", "notes", "next")
"""The sections of a short report on changes that were to be proved."""


@dataclass(frozen=True)
class _Part:
    """A section: what the whole report writes, and a short one where it is `when` it bears."""

    name: str
    write: Writer
    short: Writer | None = None
    when: Callable[[Diagnosis], bool] = lambda diagnosis: True


def _both(
    name: str, write: Writer, when: Callable[[Diagnosis], bool] = lambda diagnosis: True
) -> _Part:
    return _Part(name, write, write, when)


def _around(diagnosis: Diagnosis) -> bool:
    turn = known(diagnosis.evidence.outside_)
    return turn is not None and turn.share >= AROUND


def _synchronised(diagnosis: Diagnosis) -> bool:
    return diagnosis.verdict.bottleneck == "sync"


def _waits(diagnosis: Diagnosis) -> bool:
    job = diagnosis.evidence.parallel_
    return (job is not None and bool(job.stragglers)) or _synchronised(diagnosis)


def _input(diagnosis: Diagnosis) -> bool:
    return diagnosis.verdict.bottleneck in ("input", "storage") and not diagnosis.findings


PARTS = (
    _both("partial", step.partial),
    _both("absent", parallel.absent),
    _both("verdict", step.verdict),
    _both("output", step.last_output),
    _Part("proofs", proofs.proofs),
    _both("running", running.running),
    _both("outside", training.outside, _around),
    _Part("step", step.step, step.short),
    _Part("lines", lines.tree, lines.short),
    _both("ranks", parallel.ranks, _waits),
    _both("exchange", exchange.exchange, _synchronised),
    _Part("scaling", parallel.scaling),
    _Part("parts", parts.step_parts),
    _Part("syncs", parts.sync_points),
    _Part("logs", parts.log_calls),
    _Part("operators", parts.operators),
    _Part("devices", devices.devices),
    _Part("storage", storage.storage),
    _Part("objects", storage.objects),
    _both("limits", devices.limits),
    _both("stages", costs.input_stages, _input),
    _Part("between", costs.between_epochs),
    _Part("callbacks", costs.callbacks),
    _both("over_time", costs.over_time),
    _Part("findings", findings.findings, findings.short),
    _both("remains", exchange.remains),
    _Part("trials", trials.trials, trials.short),
    _both("stack", trials.stack),
    _Part("training", training.training),
    _Part("experiment", experiment.experiment, experiment.short),
    _Part("practices", findings.practices),
    _Part("not_measured", closing.not_measured, closing.open_points),
    _Part("notes", closing.notes),
    _both("ignored", closing.ignored),
    _both("trace", closing.traced),
    _Part("next", closing.next_steps, closing.short_steps),
    _both("money", money.cost, lambda diagnosis: diagnosis.cost is not None),
    _Part("spent", closing.cost),
    _both("answer", closing.last_line),
)
"""The sections in their order."""

_NAMES = [part.name for part in PARTS]
_TOLD_APART = {"outside", "lines"}
TAKEN_APART = frozenset(_NAMES[_NAMES.index("running") : _NAMES.index("findings")]) - _TOLD_APART
"""The sections that tell where the time of a step goes: those before the findings."""


def document(diagnosis: Diagnosis, *, saved: str = "", patch_file: str = "") -> Document:
    """Return the whole report.

    `saved` is the name `trainperf show` finds the run by, `patch_file` the file the patch was
    written to; the commands that need them are named only if they are given.
    """
    found = [section(part.name, diagnosis, part.write, saved, patch_file) for part in PARTS]
    return Document(tuple(one for one in found if one.blocks))


def short(diagnosis: Diagnosis, *, saved: str = "", patch_file: str = "") -> Document:
    """Return what bears on the verdict and on the changes, all where no step was timed."""
    if diagnosis.step_s is None:
        return document(diagnosis, saved=saved, patch_file=patch_file)
    wanted: list[tuple[str, Writer]] = [
        (part.name, part.short) for part in PARTS if part.short is not None and part.when(diagnosis)
    ]
    if diagnosis.proofs:
        wanted = [(part.name, part.short or part.write) for part in PARTS if part.name in PROVEN]
    found = [section(name, diagnosis, write, saved, patch_file) for name, write in wanted]
    return Document(tuple(one for one in found if one.blocks))


def section(
    name: str, diagnosis: Diagnosis, write: Writer, saved: str = "", patch_file: str = ""
) -> Section:
    """Return what a writer writes, as a section of that name."""
    page = Page(saved=saved, patch_file=patch_file)
    write(diagnosis, page)
    return Section(name, tuple(page.blocks))
