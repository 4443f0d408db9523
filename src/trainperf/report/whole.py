"""A `Diagnosis` as a `Document`: its sections in their order, those without content left out."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from trainperf.model import Diagnosis
from trainperf.report.document import LEFT, RIGHT, Document, Page, Section
from trainperf.report.sections import (
    closing,
    costs,
    devices,
    exchange,
    experiment,
    findings,
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


def document(diagnosis: Diagnosis, *, saved: str = "", patch_file: str = "") -> Document:
    """Return the whole report.

    `saved` is the name `trainperf show` finds the run by, `patch_file` the file the patch was
    written to; the commands that need them are named only if they are given.
    """
    next_steps = partial(closing.next_steps, saved=saved, patch_file=patch_file)
    experiments = partial(experiment.experiment, saved=saved)
    sections = (
        section("partial", diagnosis, step.partial),
        section("absent", diagnosis, parallel.absent),
        section("verdict", diagnosis, step.verdict),
        section("output", diagnosis, step.last_output),
        section("proofs", diagnosis, proofs.proofs),
        section("outside", diagnosis, training.outside, side=LEFT),
        section("step", diagnosis, step.step, side=LEFT),
        section("ranks", diagnosis, parallel.ranks, side=LEFT),
        section("exchange", diagnosis, exchange.exchange, side=LEFT),
        section("scaling", diagnosis, parallel.scaling, side=LEFT),
        section("parts", diagnosis, parts.step_parts, side=LEFT),
        section("syncs", diagnosis, parts.sync_points, side=LEFT),
        section("logs", diagnosis, parts.log_calls, side=LEFT),
        section("operators", diagnosis, parts.operators, side=LEFT),
        section("running", diagnosis, running.running, side=RIGHT),
        section("devices", diagnosis, devices.devices, side=RIGHT),
        section("storage", diagnosis, storage.storage, side=RIGHT),
        section("objects", diagnosis, storage.objects, side=RIGHT),
        section("limits", diagnosis, devices.limits, side=RIGHT),
        section("stages", diagnosis, costs.input_stages, side=RIGHT),
        section("between", diagnosis, costs.between_epochs, side=RIGHT),
        section("callbacks", diagnosis, costs.callbacks, side=RIGHT),
        section("functions", diagnosis, costs.functions, side=RIGHT),
        section("over_time", diagnosis, costs.over_time, side=RIGHT),
        section("findings", diagnosis, findings.findings),
        section("remains", diagnosis, exchange.remains),
        section("trials", diagnosis, trials.trials),
        section("stack", diagnosis, trials.stack),
        section("training", diagnosis, training.training),
        section("experiment", diagnosis, experiments),
        section("practices", diagnosis, findings.practices),
        section("not_measured", diagnosis, closing.not_measured),
        section("notes", diagnosis, closing.notes),
        section("ignored", diagnosis, closing.ignored),
        section("trace", diagnosis, closing.traced),
        section("next", diagnosis, next_steps),
        section("money", diagnosis, money.cost),
        section("spent", diagnosis, closing.cost),
        section("answer", diagnosis, closing.last_line),
    )
    return Document(tuple(one for one in sections if one.blocks))


AROUND = 0.2
"""Share of the run outside its steps from which a short report says where it goes."""

INPUT = ("input", "storage")


def short(diagnosis: Diagnosis, *, saved: str = "", patch_file: str = "") -> Document:
    """Return what bears on the verdict and on the changes, all where no step was timed."""
    if diagnosis.times.real_s is None:
        return document(diagnosis, saved=saved, patch_file=patch_file)
    bottleneck, turn = diagnosis.verdict.bottleneck, diagnosis.outside
    next_steps = partial(closing.short_steps, saved=saved, patch_file=patch_file)
    around = turn is not None and turn.share >= AROUND
    late = diagnosis.parallel is not None and bool(diagnosis.parallel.stragglers)
    if diagnosis.proofs:
        return _answers(diagnosis, next_steps)
    wanted: tuple[tuple[str, Writer, bool], ...] = (
        ("partial", step.partial, True),
        ("absent", parallel.absent, True),
        ("verdict", step.verdict, True),
        ("output", step.last_output, True),
        ("running", running.running, True),
        ("outside", training.outside, around),
        ("step", step.short, True),
        ("ranks", parallel.ranks, late or bottleneck == "sync"),
        ("exchange", exchange.exchange, bottleneck == "sync"),
        ("limits", devices.limits, True),
        ("stages", costs.input_stages, bottleneck in INPUT and not diagnosis.findings),
        ("over_time", costs.over_time, True),
        ("findings", findings.short, True),
        ("remains", exchange.remains, True),
        ("trials", trials.short, True),
        ("stack", trials.stack, True),
        ("experiment", partial(experiment.short, saved=saved), True),
        ("open", closing.open_points, True),
        ("ignored", closing.ignored, True),
        ("trace", closing.traced, True),
        ("next", next_steps, True),
        ("money", money.cost, diagnosis.cost is not None),
        ("answer", closing.last_line, True),
    )
    found = [section(name, diagnosis, write) for name, write, bears in wanted if bears]
    return Document(tuple(one for one in found if one.blocks))


def _answers(diagnosis: Diagnosis, next_steps: Writer) -> Document:
    """The report on changes that were to be proved: the answer, and what stands behind it."""
    written = (
        section("partial", diagnosis, step.partial),
        section("verdict", diagnosis, step.verdict),
        section("output", diagnosis, step.last_output),
        section("proofs", diagnosis, proofs.proofs),
        section("stack", diagnosis, trials.stack),
        section("notes", diagnosis, closing.notes),
        section("next", diagnosis, next_steps),
    )
    return Document(tuple(part for part in written if part.blocks))


def section(name: str, diagnosis: Diagnosis, write: Writer, *, side: str = "") -> Section:
    """Return what a writer writes, as a section of that name."""
    page = Page()
    write(diagnosis, page)
    return Section(name, tuple(page.blocks), side=side)
