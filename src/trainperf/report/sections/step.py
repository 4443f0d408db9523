"""The first screen: what the verdict is, and the step taken apart."""

from __future__ import annotations

from collections.abc import Iterator

from trainperf.model import (
    INPUT_BOUND_BELOW,
    Device,
    Diagnosis,
    Ending,
    Framework,
    Machine,
    Measure,
    StartUp,
    Verdict,
)
from trainperf.model import words as units
from trainperf.model.parallel import GONE
from trainperf.report.document import (
    ALARM,
    GOOD,
    SHORT,
    STEP,
    STRONG,
    Bar,
    Output,
    Page,
    Section,
    Words,
    exactly,
    say,
)
from trainperf.report.plain import place, plain
from trainperf.report.sections import money as _money
from trainperf.report.sections._shares import shares

LABEL = 16
"""Columns of the labels at the left of the facts."""

HOST_CLOCK = "the host's clock"
"""Told in the whole report only: on a CPU there is no other."""

PARTIAL = {
    Ending.FAILED: "The script failed",
    Ending.SIGNALLED: "The script was killed by a signal",
    Ending.STALLED: "The script stood still and was stopped",
    Ending.OUT_OF_BUDGET: "The time allowed ran out",
    Ending.INTERRUPTED: "Interrupted",
}

WITH_OUTPUT = (Ending.FAILED, Ending.SIGNALLED, Ending.STALLED)

_FRAMEWORKS = {"tensorflow": "TensorFlow", "torch": "PyTorch"}


def partial(diagnosis: Diagnosis, page: Page) -> None:
    """Say that the run ended early, and so that the numbers are partial."""
    if told := ended_early(diagnosis):
        page.prose(say(told, ALARM))


def ended_early(diagnosis: Diagnosis) -> str:
    """The event that cut the run short, and how far its numbers go; "" if none did."""
    what = PARTIAL.get(diagnosis.ending)
    if what is None:
        return ""
    if diagnosis.ended_by:
        what = f"The script was killed by {diagnosis.ended_by}"
    if diagnosis.step_s is None:
        return f"{what} before a step could be timed."
    return f"{what}: the measurements are partial, taken before that."


def verdict(diagnosis: Diagnosis, page: Page) -> None:
    """Print the answer, in one sentence."""
    style = GOOD if diagnosis.verdict.healthy else STRONG
    page.prose(say(diagnosis.verdict.text, style))


def last_output(diagnosis: Diagnosis, page: Page) -> None:
    """Print the last lines of the script's output, where it ended badly."""
    failed = any(proof.answer == "failed" for proof in diagnosis.proofs)
    if (failed or diagnosis.ending in WITH_OUTPUT) and diagnosis.output_tail.strip():
        rank, told = of_a_rank(diagnosis)
        whose = "the script" if rank is None else f"rank {rank}"
        page.heading(f"Last output of {whose}")
        page.add(Output(_last_lines(told)))


def of_a_rank(diagnosis: Diagnosis) -> tuple[int | None, str]:
    """The rank that failed of itself and its own last lines; all lines where there is none.

    PyTorch puts "[rank1]:" before each line of an error in a process group. What torchrun
    says after it, of all ranks, does not tell the error.
    """
    lines, job = diagnosis.output_tail.split("\n"), diagnosis.evidence.parallel_
    for one in () if job is None else job.processes:
        if not one.ended.startswith("failed") or GONE in one.ended:
            continue
        if own := [line for line in lines if line.startswith(f"[rank{one.rank}]:")]:
            return one.rank, "\n".join(own)
    return None, diagnosis.output_tail


LINES = 20
"""Lines of the script's last output, as on a terminal."""


def output_of(diagnosis: Diagnosis) -> str:
    """Return the last lines of a script that ended badly; nothing for another."""
    if diagnosis.ending not in WITH_OUTPUT or not diagnosis.output_tail.strip():
        return ""
    return _last_lines(of_a_rank(diagnosis)[1])


def _last_lines(text: str) -> str:
    return "\n".join(plain(text).strip("\n").split("\n")[-LINES:])


def step(diagnosis: Diagnosis, page: Page) -> None:
    """Print the step taken apart, and what was measured on what."""
    page.gap()
    if diagnosis.step_s is not None:
        _time(diagnosis, page)
    if diagnosis.verdict.utilization is not None:
        page.fact("Utilisation", _utilization(diagnosis.verdict), LABEL)
    if diagnosis.input_s is not None:
        page.fact("Data alone", f"{units.seconds(diagnosis.input_s)} for each step", LABEL)
    if diagnosis.loop is not None:
        page.fact("Loop", _loop(diagnosis), LABEL)
    if diagnosis.evidence.framework.name:
        page.fact("Framework", framework_line(diagnosis.evidence.framework), LABEL)
    page.fact("Device", device_line(diagnosis.evidence.device, diagnosis.evidence.machine), LABEL)
    if told := _money.instance(diagnosis.evidence.machine):
        page.fact("Instance", told, LABEL)
    if diagnosis.real is not None:
        page.fact("Measured", _measured(diagnosis.real), LABEL)
        _clock(diagnosis, page)
    if diagnosis.evidence.startup is not None:
        page.fact("Start-up", _startup(diagnosis.evidence.startup), LABEL)


def short(diagnosis: Diagnosis, page: Page) -> None:
    """Write what a step takes and is made of, in which loop and on what."""
    page.gap()
    if diagnosis.step_s is not None:
        _time(diagnosis, page)
    if diagnosis.loop is not None:
        page.fact("Loop", _loop(diagnosis), LABEL)
    page.fact("Device", device_line(diagnosis.evidence.device, diagnosis.evidence.machine), LABEL)
    if diagnosis.loop is not None and diagnosis.loop.clock != HOST_CLOCK:
        _clock(diagnosis, page)


def _clock(diagnosis: Diagnosis, page: Page) -> None:
    if diagnosis.loop is not None and diagnosis.loop.clock:
        page.fact("Clock", f"times are from {diagnosis.loop.clock}", LABEL)


def _time(diagnosis: Diagnosis, page: Page) -> None:
    page.fact("One step", _one_step(diagnosis), LABEL)
    if len(parts := shares(diagnosis)) > 1:
        page.add(Bar(tuple(parts), 2 + LABEL))


def _one_step(diagnosis: Diagnosis) -> str:
    assert diagnosis.step_s is not None
    noise = "" if diagnosis.noise is None else f" ± {units.share(diagnosis.noise)}"
    return ", ".join([f"{units.seconds(diagnosis.step_s)}{noise}", *rates(diagnosis)])


def rates(diagnosis: Diagnosis) -> Iterator[str]:
    """The samples and tokens of a second, padding apart from real tokens."""
    loop = diagnosis.evidence.loop
    if (samples := diagnosis.per_s(loop.batch_size)) is not None:
        yield units.rate(samples, "samples")
    every, real = diagnosis.per_s(loop.tokens), diagnosis.per_s(loop.real_tokens)
    if every is None:
        return
    if real is None or real >= every:
        yield units.rate(every, "tokens")
    else:
        yield f"{units.rate(real, 'real tokens')} and {units.number(every - real)} of padding"


def _utilization(verdict: Verdict) -> Words:
    """Say it against the line; below it, the data is blamed only where the verdict does."""
    assert verdict.utilization is not None
    line = units.share(INPUT_BOUND_BELOW)
    figure = units.share(verdict.utilization)
    if verdict.utilization < INPUT_BOUND_BELOW:
        short = ": the data does not keep up" if verdict.bottleneck in ("input", "storage") else ""
        return say(figure, SHORT) + exactly(f", below the {line} line{short}")
    return say(figure, GOOD) + exactly(f", above the {line} line: the data keeps up")


def _loop(diagnosis: Diagnosis) -> str:
    """The loop, where it stands: of one seen by its updates its head, where that is known."""
    loop, framework, where = diagnosis.loop, diagnosis.evidence.framework, None
    assert loop is not None
    if loop.kind == "update" and diagnosis.training is not None:
        configured = diagnosis.training.configured
        where = None if configured is None else configured.where
    where = where or loop.where
    kinds = {
        "fit": "Keras `fit`",
        "iterator": "a loop over a dataset",
        "call": "a loop that calls the training step",
        "update": "seen by its weight updates only",
    }
    if framework.name == "torch":
        kinds["update"] = "a loop that makes its own batches"
    if loop.input_kind == "DataLoader":
        kinds["iterator"] = "a loop over a `DataLoader`"
    if framework.on_other_backend:
        kinds["fit"] += f" on {_FRAMEWORKS[framework.name]}"
    parts = [kinds.get(loop.kind, loop.kind)]
    if where is not None:
        parts[0] += f" at {place(where, diagnosis.cwd)}"
    if loop.batch_size is not None:
        whole = "global batch" if loop.replicas > 1 else "batch"
        parts.append(f"{whole} of {loop.batch_size:,}")
    if loop.replicas > 1:
        parts.append(f"{loop.replicas} replicas ({loop.strategy or 'strategy not known'})")
    if loop.epochs is not None:
        epochs = units.count(loop.epochs, "epoch")
        long = "" if loop.epoch_steps is None else f" of {units.count(loop.epoch_steps, 'step')}"
        parts.append(f"{epochs}{long}")
    elif loop.epoch_steps is not None:
        parts.append(f"epochs of {units.count(loop.epoch_steps, 'step')}")
    return ", ".join(parts)


def framework_line(framework: Framework) -> str:
    """The framework with its version; "" if none was seen."""
    if not framework.name:
        return ""
    text = f"{_FRAMEWORKS.get(framework.name, framework.name)} {framework.version}"
    if framework.on_other_backend:
        return f"Keras {framework.keras} on {text}"
    if framework.keras:
        text += f", {'tf_keras' if framework.legacy_keras else 'Keras'} {framework.keras}"
    return text


def device_line(device: Device, machine: Machine) -> str:
    if not machine.cores:  # of a trace it is not known
        return device.name or device.kind
    cores = units.cores(machine.cores)
    if machine.visible_cores > machine.cores:
        cores = f"{machine.cores:.3g} of {units.cores(machine.visible_cores)}"
    if device.kind == "GPU":
        times = f"{device.count} × " if device.count > 1 else ""
        return f"{times}{device.name}, {cores}"
    if not device.kind:
        return f"not known; the machine has {', '.join(filter(None, (machine.cpu_model, cores)))}"
    return f"CPU only: {device.name}, {cores}" if device.name else f"CPU only: {cores}"


def _measured(real: Measure) -> str:
    text = units.count(real.steps, "step")
    return f"{text} in {units.count(len(real.blocks), 'block')}" if real.blocks else text


def _startup(startup: StartUp) -> str:
    first = startup.first_step_s
    parts = (
        ("imports", startup.imports_s, ""),
        (f"set-up{' and first step' if first is None else ''}", startup.setup_s, ""),
        ("evaluation", startup.evaluation_s, " of that"),
        ("first step", first, ""),
        ("tracing", startup.tracing_s, "" if first is None else " of that"),
    )
    named = ", ".join(f"{what} {units.seconds(s)}{of}" for what, s, of in parts if s is not None)
    whole = f"{units.seconds(startup.to_first_step_s)} to the end of the first step"
    return f"{whole}: {named}" if named else whole


SECTIONS = (
    Section("partial", 10, partial, partial, side=""),
    Section("verdict", 30, verdict, verdict, side=""),
    Section("output", 40, last_output, last_output, side=""),
    Section("step", STEP + 20, step, short, side="step"),
)
