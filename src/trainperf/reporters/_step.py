"""The first screen: what the verdict is, and the step taken apart."""

from __future__ import annotations

from rich.text import Text

from trainperf.model import (
    INPUT_BOUND_BELOW,
    Device,
    Diagnosis,
    Ending,
    Framework,
    Loop,
    Machine,
    ReportedTimes,
    StartUp,
    Verdict,
)
from trainperf.model import words as units
from trainperf.model.parallel import GONE
from trainperf.reporters import _money
from trainperf.reporters._paper import Paper
from trainperf.reporters._places import place
from trainperf.reporters._shares import Part, shares

LABEL = 16
"""Columns of the labels at the left of the facts."""

_PARTIAL = {
    Ending.FAILED: "The script failed",
    Ending.SIGNALLED: "The script was killed by a signal",
    Ending.STALLED: "The script stood still and was stopped",
    Ending.OUT_OF_BUDGET: "The time allowed ran out",
    Ending.INTERRUPTED: "Interrupted",
}

_WITH_OUTPUT = (Ending.FAILED, Ending.SIGNALLED, Ending.STALLED)

_FRAMEWORKS = {"tensorflow": "TensorFlow", "torch": "PyTorch"}


def partial(diagnosis: Diagnosis, paper: Paper) -> None:
    """Say that the run ended early, and so that the numbers are partial."""
    if diagnosis.ending not in _PARTIAL:
        return
    what = _PARTIAL[diagnosis.ending]
    if diagnosis.times.real_s is None:
        text = f"{what} before a step could be timed."
    else:
        text = f"{what}: the measurements are partial, taken before that."
    paper.prose(paper.say(text, "bold red"))


def verdict(diagnosis: Diagnosis, paper: Paper) -> None:
    """Print the answer, in one sentence."""
    style = "bold green" if diagnosis.verdict.healthy else "bold"
    paper.prose(paper.say(diagnosis.verdict.text, style))


def last_output(diagnosis: Diagnosis, paper: Paper) -> None:
    """Print the last lines of the script's output, where it ended badly."""
    if diagnosis.ending in _WITH_OUTPUT and diagnosis.output_tail.strip():
        rank, told = _of_a_rank(diagnosis)
        whose = "the script" if rank is None else f"rank {rank}"
        paper.heading(f"Last output of {whose}")
        paper.output(told)


def _of_a_rank(diagnosis: Diagnosis) -> tuple[int | None, str]:
    """The rank that failed of itself and its own last lines; all lines where there is none.

    PyTorch puts "[rank1]:" before each line of an error in a process group. What torchrun
    says after it, of all ranks, does not tell the error.
    """
    lines = diagnosis.output_tail.split("\n")
    for one in () if diagnosis.parallel is None else diagnosis.parallel.ranks:
        if not one.ended.startswith("failed") or GONE in one.ended:
            continue
        if own := [line for line in lines if line.startswith(f"[rank{one.rank}]:")]:
            return one.rank, "\n".join(own)
    return None, diagnosis.output_tail


def step(diagnosis: Diagnosis, paper: Paper) -> None:
    """Print the step taken apart, and what was measured on what."""
    paper.line()
    times = diagnosis.times
    if times.real_s is not None:
        _fact(paper, "One step", _one_step(times))
        _taken_apart(shares(diagnosis), paper)
    if diagnosis.verdict.utilization is not None:
        _fact(paper, "Utilisation", _utilization(diagnosis.verdict, paper))
    if times.input_s is not None:
        _fact(paper, "Data alone", f"{units.seconds(times.input_s)} for each step")
    if diagnosis.loop is not None:
        _fact(paper, "Loop", _loop(diagnosis.loop, diagnosis.framework, diagnosis.cwd))
    if diagnosis.framework.name:
        _fact(paper, "Framework", _framework(diagnosis.framework))
    _fact(paper, "Device", _device(diagnosis.device, diagnosis.machine))
    if told := _money.instance(diagnosis.machine):
        _fact(paper, "Instance", told)
    if times.steps:
        _fact(paper, "Measured", _measured(diagnosis))
    if times.startup_s is not None:
        _fact(paper, "Start-up", _startup(diagnosis.startup, times.startup_s))


def _fact(paper: Paper, label: str, text: Text | str) -> None:
    paper.prose(text, indent=2, first=paper.raw(f"{label:<{LABEL}}", "dim"))


def _one_step(times: ReportedTimes) -> str:
    assert times.real_s is not None
    noise = "" if times.noise is None else f" ± {units.share(times.noise)}"
    rate = times.samples_per_s
    speed = "" if rate is None else f", {units.rate(rate, 'samples')}"
    return f"{units.seconds(times.real_s)}{noise}{speed}"


def _taken_apart(parts: list[Part], paper: Paper) -> None:
    if len(parts) < 2:
        return
    indent = 2 + LABEL
    width = min(60, paper.width - indent)
    if width >= 10:
        bar = paper.bar([(seconds, sign, style) for _, seconds, sign, style in parts], width)
        paper.line(bar, indent)
    whole = sum(seconds for _, seconds, _, _ in parts)
    rows = [
        (paper.raw(sign, style), name, units.seconds(seconds), units.share(seconds / whole))
        for name, seconds, sign, style in parts
    ]
    paper.table(rows, right=(2, 3), elastic=(1,), indent=indent)


def _utilization(verdict: Verdict, paper: Paper) -> Text:
    """Say it against the line; below it, the data is blamed only where the verdict does."""
    assert verdict.utilization is not None
    line = units.share(INPUT_BOUND_BELOW)
    figure = units.share(verdict.utilization)
    if verdict.utilization < INPUT_BOUND_BELOW:
        short = ": the data does not keep up" if verdict.bottleneck in ("input", "storage") else ""
        return paper.say(figure, "bold yellow") + paper.raw(f", below the {line} line{short}")
    return paper.say(figure, "bold green") + paper.raw(
        f", above the {line} line: the data keeps up"
    )


def _loop(loop: Loop, framework: Framework, cwd: str) -> str:
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
    parts = [kinds.get(loop.kind, loop.kind)]
    if loop.where is not None:
        parts[0] += f" at {place(loop.where, cwd)}"
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


def _framework(framework: Framework) -> str:
    text = f"{_FRAMEWORKS.get(framework.name, framework.name)} {framework.version}"
    if framework.keras:
        text += f", {'tf_keras' if framework.legacy_keras else 'Keras'} {framework.keras}"
    return text


def _device(device: Device, machine: Machine) -> str:
    cores = units.cores(machine.cores)
    if machine.visible_cores > machine.cores:
        cores = f"{machine.cores:.3g} of {units.cores(machine.visible_cores)}"
    if device.kind == "GPU":
        times = f"{device.count} × " if device.count > 1 else ""
        return f"{times}{device.name}, {cores}"
    return f"CPU only: {device.name}, {cores}" if device.name else f"CPU only: {cores}"


def _measured(diagnosis: Diagnosis) -> str:
    times = diagnosis.times
    blocks = len(times.spread.get("real", ()))
    text = units.count(times.steps, "step")
    if blocks:
        text += f" in {units.count(blocks, 'block')}"
    return text


def _startup(startup: StartUp | None, total: float) -> str:
    told = []
    if startup is not None:
        if startup.imports_s is not None:
            told.append(f"imports {units.seconds(startup.imports_s)}")
        if startup.setup_s is not None:
            also = " and first step" if startup.first_step_s is None else ""
            told.append(f"set-up{also} {units.seconds(startup.setup_s)}")
        if startup.evaluation_s is not None:
            told.append(f"evaluation {units.seconds(startup.evaluation_s)} of that")
        if startup.first_step_s is not None:
            told.append(f"first step {units.seconds(startup.first_step_s)}")
        if startup.tracing_s is not None:
            of_that = "" if startup.first_step_s is None else " of that"
            told.append(f"tracing {units.seconds(startup.tracing_s)}{of_that}")
    parts = f": {', '.join(told)}" if told else ""
    return f"{units.seconds(total)} to the end of the first step{parts}"
