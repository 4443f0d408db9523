"""The first screen: what the verdict is, and the step taken apart."""

from __future__ import annotations

from collections.abc import Iterator

from trainperf.model import Device, Diagnosis, Ending, Framework, Machine, Probe
from trainperf.model import words as units
from trainperf.report.document import (
    ALARM,
    GOOD,
    LABEL,
    STEP,
    STRONG,
    Bar,
    Output,
    Page,
    Section,
    say,
)
from trainperf.report.plain import place, plain
from trainperf.report.sections._shares import shares

PARTIAL = {
    Ending.FAILED: "The script failed",
    Ending.SIGNALLED: "The script was killed by a signal",
    Ending.STALLED: "The script stood still and was stopped",
    Ending.OUT_OF_BUDGET: "The time allowed ran out",
    Ending.INTERRUPTED: "Interrupted",
}

LINES = 20
"""Lines of the script's last output, as on a terminal."""

ALL_IT_CAN = 0.5
"""Share of a large product's rate from which a device, in a step without a finding, does so.

Well tuned trainings of large language models reach 46 to 52 % of the peak rate of their
accelerators (PaLM, https://arxiv.org/abs/2204.02311, table 3), and large products 80 to 90 %.
"""

SAME = 0.95
"""Share from which the rates are the same, as far as the noise of a probe lets on."""

UNITS = (("TFLOP/s", 1e12), ("GFLOP/s", 1e9), ("MFLOP/s", 1e6))

_FRAMEWORKS = {"tensorflow": "TensorFlow", "torch": "PyTorch"}

_LOOPS = {
    "fit": "Keras `fit`",
    "iterator": "a loop over a dataset",
    "call": "a loop that calls the training step",
    "update": "a loop that makes its own batches",
}


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
    if lines := output_of(diagnosis):
        page.heading("Last output of the script")
        page.add(Output(lines))


def output_of(diagnosis: Diagnosis) -> str:
    """Return the last lines of a script that ended badly; nothing for another.

    Those of a rank that failed of itself where it is known: PyTorch puts "[rank1]:" before each
    line of an error in a process group, and what torchrun says after it does not tell the error.
    """
    failed = any(proof.answer == "failed" for proof in diagnosis.proofs)
    if not (failed or diagnosis.ending.badly):
        return ""
    lines, job = plain(diagnosis.output_tail).strip().split("\n"), diagnosis.evidence.parallel_
    for rank in () if job is None else job.processes:
        own = [line for line in lines if line.startswith(f"[rank{rank.rank}]:")]
        if rank.ending == "failed" and own:
            lines = own
            break
    return "\n".join(lines[-LINES:])


def step(diagnosis: Diagnosis, page: Page) -> None:
    """Print what a step takes and is made of, in which loop and on what."""
    evidence = diagnosis.evidence
    if diagnosis.step_s is None and diagnosis.loop is None:
        return
    page.gap()
    if diagnosis.step_s is not None:
        noise = "" if diagnosis.noise is None else f" ± {units.share(diagnosis.noise)}"
        figure = f"{units.seconds(diagnosis.step_s)}{noise}"
        page.facts([("One step", ", ".join([figure, *rates(diagnosis)]))])
        if len(parts := shares(diagnosis)) > 1:
            page.add(Bar(tuple(parts), 2 + LABEL))
    instance, hosts = evidence.machine.instance, ""
    if instance is not None and instance.hosts > 1:
        hosts = f"{instance.hosts} × "
    computes = diagnosis.verdict.healthy or diagnosis.verdict.bottleneck == "model"
    facts = [
        ("Loop", "" if diagnosis.loop is None else _loop(diagnosis)),
        ("Device", _device(evidence.device, evidence.machine)),
        ("Framework", framework_line(evidence.framework) if page.full else ""),
        ("Instance", f"{hosts}{instance.name}" if page.full and instance else ""),
        ("Speed", _speed(diagnosis) if page.full or computes else ""),
    ]
    page.facts(facts)


def _speed(diagnosis: Diagnosis) -> str:
    """The rate of the model's products, and its share of that of one large product."""
    probe = diagnosis.evidence.probes.get("matmul_rate")
    if not isinstance(probe, Probe):
        return ""
    flops, of_product = probe.detail["flops"], probe.detail["product_flops"]
    reached = flops / probe.base_s
    share = reached / (of_product / probe.candidate_s)
    of = f"one large {probe.detail['dtype']} matrix product reaches here"
    compared = f"{units.share(share)} of what" if share < SAME else "what"
    unit, size = next(unit for unit in UNITS if reached >= unit[1] or unit is UNITS[-1])
    text = f"{units.number(reached / size)} {unit} in {probe.detail['of']}, {compared} {of}"
    if share >= ALL_IT_CAN and diagnosis.verdict.healthy:
        text += ": the device does what it can"
    return text


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


def _loop(diagnosis: Diagnosis) -> str:
    """The loop, where it stands: of one seen by its updates its head, where that is known."""
    loop, framework, where = diagnosis.evidence.loop, diagnosis.evidence.framework, None
    if loop.kind == "update" and diagnosis.training is not None:
        configured = diagnosis.training.configured
        where = None if configured is None else configured.where
    where = where or loop.where
    what = _LOOPS.get(loop.kind, loop.kind)
    if loop.input_kind == "DataLoader" and loop.kind == "iterator":
        what = "a loop over a `DataLoader`"
    if framework.on_other_backend and loop.kind == "fit":
        what += f" on {_FRAMEWORKS[framework.name]}"
    parts = [what if where is None else f"{what} at {place(where, diagnosis.cwd)}"]
    if loop.batch_size is not None:
        whole = "global batch" if loop.replicas > 1 else "batch"
        parts.append(f"{whole} of {loop.batch_size:,}")
    if loop.replicas > 1:
        parts.append(f"{loop.replicas} replicas ({loop.strategy or 'strategy not known'})")
    epochs = "epochs" if loop.epochs is None else units.count(loop.epochs, "epoch")
    if loop.epoch_steps is not None:
        parts.append(f"{epochs} of {units.count(loop.epoch_steps, 'step')}")
    elif loop.epochs is not None:
        parts.append(epochs)
    return ", ".join(parts)


def framework_line(framework: Framework) -> str:
    """The framework with its version; "" if none was seen."""
    if not framework.name:
        return ""
    text = f"{_FRAMEWORKS.get(framework.name, framework.name)} {framework.version}"
    if framework.on_other_backend:
        return f"Keras {framework.keras} on {text}"
    if framework.keras:
        text += f", Keras {framework.keras}"
    return text


def _device(device: Device, machine: Machine) -> str:
    """The device that trains, and the cores beside it."""
    if not machine.cores:  # of a trace it is not known
        return device.name or device.kind
    cores = units.cores(machine.cores)
    if machine.visible_cores > machine.cores:
        cores = f"{machine.cores:.3g} of {units.cores(machine.visible_cores)}"
    if device.kind == "GPU":
        times = f"{device.count} × " if device.count > 1 else ""
        return f"{times}{device.name}, {cores}"
    name = device.name or machine.cpu_model
    kind = "CPU only" if device.kind else "not known; the machine has"
    return f"{kind}: {name}, {cores}" if name else f"{kind}: {cores}"


SECTIONS = (
    Section("partial", 10, partial, True, side=""),
    Section("verdict", 30, verdict, True, side=""),
    Section("output", 40, last_output, True, side=""),
    Section("step", STEP + 20, step, True, side="step"),
)
