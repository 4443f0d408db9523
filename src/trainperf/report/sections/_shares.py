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

BESIDE = ("call", "loop")
"""Kinds of the user's own work that are no part of the model, nor of its input."""

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
    busy = min(resident, real)
    host = None if diagnosis.host_s is None else min(diagnosis.host_s, busy)
    compiling = min(real - busy, _compiling(diagnosis))
    gap = real - busy - compiling
    waiting = gap if alone is None else min(gap, alone)
    verdict = diagnosis.verdict
    blamed = verdict.bottleneck in ("input", "storage") or verdict.grade == "settled"
    open_ = job is None and gap >= NOT_DATA * real and not blamed
    waiting = 0.0 if open_ else waiting
    in_gap, in_step, late = _waits(real, job)
    others = min(gap - waiting, in_gap)
    if gap - waiting - others < WORTH_NAMING * real and not open_:
        waiting = gap - others
    model = busy - (host or 0.0)
    beside = others if late == UNMEASURED else 0.0  # counted in the exchange by difference
    exchange = min(max(0.0, _exchange(job) - beside), model)
    held_up = min(in_step, model - exchange)
    name = "model and exchange" if _mixed(job, real) else "model"
    own, seconds = _own(diagnosis, counted=host is not None)
    known = real - max(0.0, gap - waiting - others)  # a pause of the machine is nobody's share
    seconds = min(seconds * known, model - exchange - held_up)
    parts: list[Part] = [(name, model - exchange - held_up - seconds, MODEL)]
    if seconds > 0:
        parts.append((f"your own {own}", seconds, HOST))
    if host is not None:
        parts.append(("host work: Python, callbacks", host, HOST))
    if compiling > 0:
        parts.append(("tracing and compiling", compiling, HOST))
    if exchange > 0:
        parts.append(("exchange of gradients", exchange, EXCHANGE))
    if others + held_up > 0:
        parts.append((f"waiting for {late}", others + held_up, RANKS))
    if not open_:
        parts.append(("waiting for data", waiting, DATA))
    if gap - waiting - others > 1e-9:
        parts.append(("not explained", gap - waiting - others, UNEXPLAINED))
    return parts


def _compiling(diagnosis: Diagnosis) -> float:
    """Seconds of a step that traces and first runs take, which no resident step has; 0 if few."""
    lines, real = known(diagnosis.evidence.lines_), diagnosis.step_s
    if lines is None or not real:
        return 0.0
    share = sum(line.of("compiling") for line in lines.lines) / lines.seconds
    return share * real if share >= WORTH_NAMING else 0.0


def _own(diagnosis: Diagnosis, counted: bool) -> tuple[str, float]:
    """The user's own function that takes most of a step, with its share.

    Not what is `counted` as host work, or as waiting for data.
    """
    first = diagnosis.findings[0] if diagnosis.findings else None
    own = None if first is None or first.category == "input" else first.own
    if own is None or len(own.name) > LONGEST_NAME:
        return "", 0.0
    beside = own.kind == "small calls" or (own.kind in BESIDE and not counted)
    return (own.name, own.share) if beside else ("", 0.0)


def _mixed(job: Parallel | None, real: float) -> bool:
    """Whether an exchange that may matter is in the model's part: it was not told apart."""
    if job is None or job.exchange is None:
        return False
    cost = known(job.exchange.seconds_)
    if cost is not None and cost.low:
        return False
    return cost is None or cost.high is None or cost.high > EXPOSED * real


def _exchange(job: Parallel | None) -> float:
    """Seconds of a step that the exchange takes; 0 where none stands out of the noise."""
    cost = None if job is None or job.exchange is None else known(job.exchange.seconds_)
    return cost.seconds if cost is not None and cost.low else 0.0


def _waits(real: float, job: Parallel | None) -> tuple[float, float, str]:
    """Seconds that the timed rank waits for a late one, for its input and for its step."""
    if job is None:
        return 0.0, 0.0, ""
    if not job.stragglers:
        timed = sum(isinstance(rank.local, Measure) for rank in job.processes)
        some = 0 < timed < job.expected
        return (math.inf, 0.0, UNMEASURED) if some else (0.0, 0.0, "")
    first = job.stragglers[0]
    same = (one for one in job.processes if (step := known(one.real)) and step.seconds == real)
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
