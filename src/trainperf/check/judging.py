"""Whether a script got slower: two sets of runs, and how fast the machine was beside them.

What else runs on a machine makes steps slower, never faster. So of all runs the
fastest block of consecutive steps stands for the script: it is what the neighbours
disturbed least. One undisturbed run is enough to pass; an alarm needs every run, and that
the runs differ by more than they do among themselves.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from trainperf.check.running import Repeat
from trainperf.model import Answer
from trainperf.model.words import share

PROCESS = 0.015
"""Half the interval of any set of runs at least: two processes of one script differ by 1
to 2 % all their life, by where their memory happens to lie."""
CROWDED = 0.03
"""The same where other programs kept more than `BUSY` cores at work beside the best run: with
one core of two taken, the fastest blocks of one script lay up to 4 % apart."""
BUSY = 0.5
IDLE = 1.0
"""Cores without work beside the best run from which nobody had to wait for one."""
FEWER = 0.15
"""The share of its cores that a script must have lost beside others to have waited for them:
with six busy programs on two cores it lost a quarter, in an even step 54 % longer."""
SHARED = 1.0
"""By how much more processor time a step may take because of others, as a share of what it took:
two threads of one core share it, so that each is at worst half as fast. What takes more than
that computes more itself, whoever else is there."""
ONE_RUN = 0.03
"""The same where there is one run only, with none beside it to tell."""
OTHER_HOST = 0.10
"""The same where the baseline is of another host: two of one type are not equally fast, and
the calibration, a Python program, does not show all that another program feels of it. An
assumption: no two hosts of one type were at hand to measure."""
UNKNOWN = 0.10
"""The same where one run was timed in fewer than four blocks."""
ROUNDING = 1e-9
"""So that a step slower by the limit itself passes."""
MACHINE = 0.05
"""By how much the speed of the machine must differ before it is taken into account: the
calibration itself varies by 1 to 3 % between runs. For an alarm it always is."""
FOLLOWS = 1.5
"""How much of a difference above `MACHINE` a script may feel, at most: copies and large
matrices suffer more from a busy memory than the calibration does."""
STUDENT = (79.6, 11.1, 6.32, 4.91, 4.26, 3.90, 3.67, 3.51)
"""Student's t, one-sided 99.6 %, for 1, 2, … degrees of freedom."""
SEVERAL = 4
"""Runs from which the slowest is left out: a neighbour disturbed it."""


@dataclass(frozen=True)
class Judged:
    """Two sets of runs compared by their times: seconds per step, or per sample.

    `change` is relative, `before_noise` and `after_noise` are half the intervals as a share of
    the time, `between` half that of the change, by how the runs vary, of which `runs` were
    made now. `machine` is by how much the machine itself was slower than when the baseline was
    saved (0.1: a tenth), None where not known. `reason` says why it is undecided, `again` that
    another run may decide it.
    """

    outcome: Answer
    before_s: float
    after_s: float
    change: float
    before_noise: float
    after_noise: float
    between: float
    by_samples: bool
    runs: int
    machine: float | None
    again: bool = False
    reason: str = ""

    @property
    def noise(self) -> float:
        """Half the widest interval that counts: what disturbs a run does not let it pass.

        `between` is of the mean run: an alarm's mean lies beyond it, not its fastest.
        """
        if self.outcome == "passed":
            return self.before_noise
        own = max(self.before_noise, self.after_noise)
        return own if self.outcome == "failed" else max(own, self.between)


def judge(before: Sequence[Repeat], after: Sequence[Repeat], most: float) -> Judged:
    """Say whether `after` is slower than `before` by more than `most`, a share of 1.

    Failed: slower by more than that in two runs at least, the intervals do not meet, and
    so even if the machine's own speed is taken off. Passed: not slower by more than that,
    with the machine's own speed taken off as well, and the baseline itself is certain to
    `most`. Undecided otherwise. Where the batch is another one, times of samples are compared.
    """
    sizes = {run.batch_size for run in (*before, *after)}
    by_samples = len(sizes) > 1 and None not in sizes
    if by_samples:
        before, after = [*map(_of_a_sample, before)], [*map(_of_a_sample, after)]
    before, after = (sorted(runs, key=lambda run: run.fastest_s) for runs in (before, after))
    was, now = before[0], after[0]
    unrest = 0.0  # what takes a core away by turns shows within a run
    if was.agreement is not None and now.agreement is not None:
        unrest = now.agreement - was.agreement
    judged = Judged(
        outcome="undecided",
        before_s=was.fastest_s,
        after_s=now.fastest_s,
        change=now.fastest_s / was.fastest_s - 1,
        before_noise=noise(before),
        after_noise=max(noise(after), unrest),
        between=between(before, after),
        by_samples=by_samples,
        runs=len(after),
        machine=_machine(before, after),
    )
    slower = judged.change > most + ROUNDING
    reason = (_excused if slower else _unsure)(judged, before, after, most + ROUNDING)
    outcome: Answer = "undecided" if reason else "failed" if slower else "passed"
    return replace(judged, outcome=outcome, reason=reason, again=bool(reason) and slower)


def _of_a_sample(run: Repeat) -> Repeat:
    size = run.batch_size or 1
    return replace(run, fastest_s=run.fastest_s / size, mean_s=run.mean_s / size)


def noise(runs: Sequence[Repeat]) -> float:
    """Half the interval of the fastest time, as a share of it: how far the next run lies."""
    best, *others = sorted(runs, key=lambda run: run.fastest_s)
    if others:
        floor = CROWDED if (best.others or 0.0) > BUSY else PROCESS
        return max(floor, others[0].fastest_s / best.fastest_s - 1)
    return UNKNOWN if best.agreement is None else max(ONE_RUN, best.agreement)


def _excused(judged: Judged, before: Sequence[Repeat], after: Sequence[Repeat], most: float) -> str:
    """Why a script that seems slower by more than `most` may not be; "" if nothing says so."""
    slower = max(0.0, judged.machine or 0.0)
    felt = slower + (FOLLOWS - 1) * max(0.0, slower - MACHINE)
    own = (1 + judged.change) / (1 + felt) - 1
    apart = (1 + own) * least(judged.after_noise) > 1 + judged.before_noise
    here, there = ({name for run in runs for name in run.hosts} for runs in (after, before))
    if own <= most:
        return f"the machine itself was {share(slower)} slower"
    if _waited(before, after, most):
        return f"other programs kept {after[0].others:.1f} cores busy"
    if judged.runs < 2:
        return "there was time for one run only"
    if own <= most + OTHER_HOST and here and there and not here & there:
        return f"the baseline is of another host, which may differ by {share(OTHER_HOST)}"
    if not apart or _moved(before, after) <= judged.between:
        return f"noise ±{share(judged.noise)}"
    return ""


def _unsure(judged: Judged, before: Sequence[Repeat], after: Sequence[Repeat], most: float) -> str:
    """Why a script that seems as fast may be slower even so; "" if nothing says so."""
    faster = judged.machine if judged.machine is not None and judged.machine < -MACHINE else 0.0
    if (1 + judged.change) / (1 + faster) - 1 > most:
        return f"the machine itself was {share(-faster)} faster, which may hide a regression"
    certain = (1 + judged.change) * (1 + judged.before_noise) <= 1 + most
    if not certain and judged.before_noise > max(most, ONE_RUN):
        return f"the runs of the baseline differ by {share(judged.before_noise)}"
    return ""


def _waited(before: Sequence[Repeat], after: Sequence[Repeat], most: float) -> bool:
    """Whether other programs may have held it up: it computed no more, or got fewer cores.

    Processor time grows a little beside others too, by what they push out of the caches.
    """
    was, now = before[0], after[0]
    if (now.others or 0.0) <= BUSY or (now.idle or 0.0) >= IDLE:
        return False
    taken = [[run.cores * run.mean_s for run in runs if run.cores] for runs in (before, after)]
    computed = min(taken[1]) / min(taken[0]) - 1 if all(taken) else None
    if computed is not None and computed > SHARED:
        return False
    fewer = was.cores and now.cores is not None and now.cores / was.cores - 1 < -FEWER
    return bool(fewer) or (computed is not None and computed <= most + CROWDED)


def _machine(before: Sequence[Repeat], after: Sequence[Repeat]) -> float | None:
    """By how much the machine got slower, on as many cores as the script keeps busy."""
    speeds = [[run.speed for run in runs if run.speed is not None] for runs in (before, after)]
    if not all(speeds):
        return None
    busy = max((run.cores for run in (*before, *after) if run.cores is not None), default=None)
    one = busy is not None and busy <= 1.2
    was, now = (min(speed.one_s if one else speed.all_s for speed in side) for side in speeds)
    return now / was - 1


# ------------------------------------------------ how far two sets lie apart by chance


def between(before: Sequence[Repeat], after: Sequence[Repeat]) -> float:
    """Half the interval of the change between two sets of times, as a share.

    Student's interval of the difference of the logarithms, variance pooled: an alarm within
    it might well be a false one. By the gap of the two best runs alone, which must show it as
    well, scripts whose runs vary by 2 to 8 % gave a false alarm in 2 to 9 of a hundred checks;
    with this in 0.2 to 1.9 (simulated, 12 blocks a run, with the runs that a check makes).
    0.0 where there are too few runs to tell.
    """
    was, now = _logs(before), _logs(after)
    freedom = len(was) + len(now) - 2
    if freedom < 1:
        return 0.0
    squares = sum((log - statistics.fmean(side)) ** 2 for side in (was, now) for log in side)
    factor = STUDENT[min(freedom, len(STUDENT)) - 1]
    half = factor * math.sqrt(squares / freedom * (1 / len(was) + 1 / len(now)))
    return math.expm1(min(half, 1.0))


def _moved(before: Sequence[Repeat], after: Sequence[Repeat]) -> float:
    """The change from the one set to the other by their geometric means, as a share."""
    return math.expm1(statistics.fmean(_logs(after)) - statistics.fmean(_logs(before)))


def _logs(runs: Sequence[Repeat]) -> list[float]:
    """The logarithms of their times, without that of one which a neighbour disturbed."""
    ordered = sorted(math.log(run.fastest_s) for run in runs)
    return ordered[:-1] if len(ordered) >= SEVERAL else ordered


def least(noise: float) -> float:
    """Where an interval begins, as a share of its middle: above nothing, however wide it is.

    What takes three times as long now and then may take a third, but never no time at all.
    Differs from 1 - `noise` only for a noise above 39 %. With the power of 1.5, scripts whose
    runs vary by 50 % gave as many false alarms as with 1 - `noise`, by 100 % 3.5 of a hundred
    instead of 2.2, and what is five times as slow was caught (simulated as in `between`).
    """
    return max(1 - noise, math.pow(1 + noise, -1.5))
