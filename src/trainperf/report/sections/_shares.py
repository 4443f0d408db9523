"""The real step split into what can be told apart: model, host, exchange, waiting."""

from __future__ import annotations

import math

from trainperf.model import Diagnosis, Measure, Parallel, Rank, known
from trainperf.report.document import DATA, EXCHANGE, HOST, MODEL, RANKS, UNEXPLAINED, Part

WORTH_NAMING = 0.05
"""Share of a step below which what neither model nor data explain is left out as noise."""

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
    cost = None if job is None or job.exchange is None else known(job.exchange.seconds_)
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
        (_model_name(job, real), model - exchange - held_up - own, MODEL),
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


def _model_name(job: Parallel | None, real: float) -> str:
    """The model; with the exchange that may matter and was not told apart."""
    if job is None or job.exchange is None:
        return "model"
    cost = known(job.exchange.seconds_)
    apart = cost is not None and (cost.low or (cost.high or math.inf) <= EXPOSED * real)
    return "model" if apart else "model and exchange"


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
