"""The real step split into what can be told apart: model, host, exchange, waiting."""

from __future__ import annotations

import math

from trainperf.model import Diagnosis, ReportedTimes
from trainperf.model.reported_parallel import ReportedParallel
from trainperf.report.document import DATA, EXCHANGE, HOST, MODEL, RANKS, UNEXPLAINED, Part

WORTH_NAMING = 0.05
"""Share of a step below which what neither model nor data explain is left out as noise."""

UNMEASURED = "ranks not measured"
"""The reason for waiting where the own step of some ranks is not known."""

EXPOSED = 0.10
"""An exchange of up to this share of a step is not worth naming where the noise hides it."""

NOT_DATA = 0.10
"""Share of a step from which a loss that nothing explains is not called waiting for data."""

BESIDE = ("evaluation", "other", "call", "loop")
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
    times, job = diagnosis.times, diagnosis.parallel
    real, resident = times.real_s, times.resident_s
    if real is None or resident is None or real <= 0:
        return []
    busy = min(resident, real)
    host = None if times.host_s is None else min(times.host_s, busy)
    compiling = min(real - busy, _compiling(diagnosis))
    gap = real - busy - compiling
    waiting = gap if times.input_s is None else min(gap, times.input_s)
    verdict = diagnosis.verdict
    blamed = verdict.bottleneck in ("input", "storage") or verdict.grade == "settled"
    open_ = job is None and gap >= NOT_DATA * real and not blamed
    waiting = 0.0 if open_ else waiting
    in_gap, in_step, late = _waits(times, job)
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
    lines, real = diagnosis.lines, diagnosis.times.real_s
    if lines is None or not real:
        return 0.0
    share = lines.kinds().get("compiling", 0.0) / lines.seconds
    return share * real if share >= WORTH_NAMING else 0.0


def _own(diagnosis: Diagnosis, counted: bool) -> tuple[str, float]:
    """The user's own function that takes most of a step, with its share.

    Not what is `counted` as host work, or as waiting for data.
    """
    first = diagnosis.findings[0] if diagnosis.findings else None
    if first is None or first.id != "own_function" or first.category == "input":
        return "", 0.0
    name, kind = str(first.data["name"]), first.data.get("kind")
    beside = kind == "small calls" or (kind in BESIDE and not counted)
    if not beside or len(name) > LONGEST_NAME:
        return "", 0.0
    return name, float(first.data.get("whole", first.data["share"]))


def _mixed(job: ReportedParallel | None, real: float) -> bool:
    """Whether an exchange that may matter is in the model's part: it was not told apart."""
    found = None if job is None else job.exchange
    if found is None or found.low_s:
        return False
    return found.high_s is None or found.high_s > EXPOSED * real


def _exchange(job: ReportedParallel | None) -> float:
    """Seconds of a step that the exchange takes; 0 where none stands out of the noise."""
    if job is None or job.exchange is None or not job.exchange.low_s:
        return 0.0
    return job.exchange.seconds_per_step or 0.0


def _waits(times: ReportedTimes, job: ReportedParallel | None) -> tuple[float, float, str]:
    """Seconds that the timed rank waits for a late one, for its input and for its step."""
    if job is None:
        return 0.0, 0.0, ""
    if not job.stragglers:
        known = sum(one.local_s is not None for one in job.ranks)
        some = 0 < known < job.expected
        return (math.inf, 0.0, UNMEASURED) if some else (0.0, 0.0, "")
    first = job.stragglers[0]
    own = next((one for one in job.ranks if one.real_s == times.real_s), None)
    waits = 0.0 if own is None or own.waits_s is None else own.waits_s
    name = f"rank {first.rank}"
    return (waits, 0.0, name) if first.phase == "input" else (0.0, waits, name)
