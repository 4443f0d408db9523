"""The first screen: what the verdict is, and the step taken apart."""

from __future__ import annotations

import math
from collections.abc import Iterator

from trainperf.model import (
    WORTH_NAMING,
    Device,
    Diagnosis,
    Ending,
    Framework,
    Machine,
    Measure,
    Parallel,
    Probe,
    Rank,
    known,
)
from trainperf.model import words as units
from trainperf.report.document import (
    ALARM,
    DATA,
    EXCHANGE,
    GOOD,
    HOST,
    LABEL,
    MODEL,
    RANKS,
    STEP,
    STRONG,
    UNEXPLAINED,
    Bar,
    Output,
    Page,
    Part,
    Section,
    say,
)
from trainperf.report.plain import place, plain

UNMEASURED = "ranks not measured"
"""The reason for waiting where the own step of some ranks is not known."""

EXPOSED = 0.10
"""An exchange of up to this share of a step is not worth naming where the noise hides it."""

NOT_DATA = 0.10
"""Share of a step from which a loss that nothing explains is not called waiting for data."""

OF_THE_DATA = ("input", "storage")
"""Sides of a verdict that say what a step waits for."""

HOST_WORK = {True: "host work: Python, callbacks", False: "host work: the loop's own Python"}
"""How it is called, without PyTorch and with it."""

LONGEST_NAME = 40
"""A line that stands for itself has a longer name than the bar has room for."""


def shares(diagnosis: Diagnosis) -> list[Part]:
    """Split the real step into parts, as the verdict has it; empty if it cannot be split.

    What a step loses is put down to the data only where it was found to wait for that: not
    under a verdict that is merely probable and names something else. The user's own function
    that takes most of a step is a part of its own.

    The resident step of a job of several ranks holds their exchange, and the wait for a rank
    whose own work takes longer; the wait for one whose input is late is in the real step only.
    """
    job, alone = diagnosis.evidence.parallel_, diagnosis.input_s
    real, resident = diagnosis.step_s, diagnosis.resident_s
    if real is None or resident is None or real <= 0:
        return []
    busy, verdict = min(resident, real), diagnosis.verdict
    name, share = _own(diagnosis)
    host_s = diagnosis.host_s
    if verdict.bottleneck == "host" and host_s is None and not share:
        host_s = _beside_model(diagnosis) * busy
    host = min(host_s or 0.0, busy)
    compiling = min(real - busy, _compiling(diagnosis))
    gap = real - busy - compiling
    waiting = gap if alone is None else min(gap, alone)
    blamed = verdict.bottleneck in OF_THE_DATA or verdict.grade == "settled"
    open_ = job is None and gap >= NOT_DATA * real and not blamed
    waiting = 0.0 if open_ else waiting
    in_gap, in_step, late = _waits(real, job)
    others = min(gap - waiting, in_gap)
    if gap - waiting - others < WORTH_NAMING * real and not open_:
        waiting = gap - others
    cost, name_of_model = None if job is None else job.exchange_cost, "model"
    if job is not None and job.exchange is not None:  # told apart, or not worth it
        apart = cost is not None and (cost.low or (cost.high or math.inf) <= EXPOSED * real)
        name_of_model += "" if apart else " and exchange"
    exchange = cost.seconds if cost is not None and cost.low else 0.0
    if late == UNMEASURED:  # counted in the exchange by difference
        exchange = max(0.0, exchange - others)
    model = busy - host
    exchange = min(exchange, model)
    held_up = min(in_step, model - exchange)
    # a pause of the machine is nobody's share
    explained = real - max(0.0, gap - waiting - others)
    own = min(share * explained, model - exchange - held_up)
    between = diagnosis.evidence.loop.kind == "call" and verdict.bottleneck not in OF_THE_DATA
    parts: list[Part] = [
        (name_of_model, model - exchange - held_up - own, MODEL),
        (f"your own {name}", own, HOST),
        (HOST_WORK[diagnosis.evidence.torch_ is None], host, HOST),
        ("tracing and compiling", compiling, HOST),
        ("exchange of gradients", exchange, EXCHANGE),
        (f"waiting for {late}", others + held_up, RANKS),
        ("the rest of the loop" if between else "waiting for data", waiting, DATA),
        ("not explained", gap - waiting - others, UNEXPLAINED),
    ]
    shown = {MODEL} if open_ else {MODEL, DATA}
    return [part for part in parts if part[1] > 1e-9 or part[2] in shown]


def _beside_model(diagnosis: Diagnosis) -> float:
    """The share of a resident step of PyTorch that is none of its model's; 0 if not known."""
    torch = diagnosis.evidence.torch_
    split = () if torch is None else known(torch.split_) or ()
    whole = sum(part.seconds for part in split if part.name != "input")
    of_model = ("forward", "backward", "optimizer", "graph")
    model = sum(part.seconds for part in split if part.name in of_model)
    return 1 - model / whole if whole else 0.0


def _compiling(diagnosis: Diagnosis) -> float:
    """Seconds of a step that traces and first runs take, which no resident step has; 0 if few."""
    lines, real = known(diagnosis.evidence.lines_), diagnosis.step_s
    if lines is None or not real:
        return 0.0
    share = sum(line.of("compiling") for line in lines.lines) / lines.seconds
    return share * real if share >= WORTH_NAMING else 0.0


def _own(diagnosis: Diagnosis) -> tuple[str, float]:
    """The user's own function that takes most of a step, with its share.

    Not what is counted as host work, or as waiting for data.
    """
    first = diagnosis.findings[0] if diagnosis.findings else None
    own = None if first is None or first.category == "input" else first.own
    if own is None or len(own.name) > LONGEST_NAME:
        return "", 0.0
    beside = own.kind in ("call", "loop") and diagnosis.host_s is None
    return (own.name, own.share) if own.kind == "small calls" or beside else ("", 0.0)


def _waits(real: float, job: Parallel | None) -> tuple[float, float, str]:
    """Seconds that the timed rank waits for a late one, for its input and for its step."""
    if job is None:
        return 0.0, 0.0, ""
    if not job.stragglers:
        timed = sum(isinstance(rank.local, Measure) for rank in job.processes)
        some = 0 < timed < job.expected
        return (math.inf, 0.0, UNMEASURED) if some else (0.0, 0.0, "")
    first = job.stragglers[0]
    same = (rank for rank in job.processes if (step := known(rank.real)) and step.seconds == real)
    own = next(same, None)
    waits = 0.0 if own is None else waits_s(own, job) or 0.0
    name = f"rank {first.rank}"
    return (waits, 0.0, name) if first.phase == "input" else (0.0, waits, name)


def waits_s(rank: Rank, job: Parallel) -> float | None:
    """Seconds of a step that a rank waits for the slowest, by the step without the exchange."""
    own = [one.local.seconds for one in job.processes if isinstance(one.local, Measure)]
    if len(own) < 2 or not isinstance(rank.local, Measure):
        return None
    waits = max(own) - rank.local.seconds
    if isinstance(rank.real, Measure):  # the slowest's was timed on other samples
        waits = max(0.0, min(waits, rank.real.seconds - rank.local.seconds))
    return waits


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
    loop, framework = diagnosis.evidence.loop, diagnosis.evidence.framework
    where = loop.head or loop.where
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
