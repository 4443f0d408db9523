"""Whether a script got slower: two sets of runs, and how fast the machine was beside them.

What else runs on a machine makes steps slower, never faster. So of all runs the
fastest block of consecutive steps stands for the script: it is what the neighbours
disturbed least. One undisturbed run is enough to pass; an alarm needs every run, and that
the runs differ by more than they do among themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from trainperf.check import spread
from trainperf.check.values import Judged, Repeat
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


def judge(before: Sequence[Repeat], after: Sequence[Repeat], most: float) -> Judged:
    """Say whether `after` is slower than `before` by more than `most`, a share of 1.

    Failed: slower by more than that in two runs at least, the intervals do not meet, and
    so even if the machine's own speed is taken off. Passed: not slower by more than that,
    with the machine's own speed taken off as well, and the baseline itself is certain to
    `most`. Undecided otherwise.
    """
    by_samples = _other_batch(before, after)
    was, now = (_fastest(runs, by_samples) for runs in (before, after))
    judged = Judged(
        outcome="undecided",
        before_s=was,
        after_s=now,
        change=now / was - 1,
        before_noise=noise(before, by_samples),
        after_noise=max(noise(after, by_samples), _unrest(before, after, by_samples)),
        between=spread.between(*_times(before, after, by_samples)),
        elsewhere=_elsewhere(before, after),
        by_samples=by_samples,
        runs=len(after),
        machine=_machine(before, after),
        others=_best(after, by_samples).others,
        others_before=_best(before, by_samples).others,
        idle=_best(after, by_samples).idle,
        computed=_computed(before, after, by_samples),
        added=_added(before, after, by_samples),
        cores=_cores(before, after, by_samples),
        remark=_mean(before, after, most, by_samples),
    )
    moved = spread.change(*_times(before, after, by_samples))
    slower, reason = judged.change > most + ROUNDING, ""
    if slower:
        reason = _excused(judged, moved, most + ROUNDING)
    else:
        reason = _unsure(judged, most + ROUNDING)
    outcome: Answer = "undecided" if reason else "failed" if slower else "passed"
    again = outcome == "undecided" and (slower or _computed_more(judged, most))
    return replace(judged, outcome=outcome, reason=reason, again=again)


def noise(runs: Sequence[Repeat], by_samples: bool = False) -> float:
    """Half the interval of the fastest time, as a share of it: how far the next run lies."""
    best, *others = sorted(runs, key=lambda one: _seconds(one, by_samples))
    if others:
        least = CROWDED if (best.others or 0.0) > BUSY else PROCESS
        return max(least, _seconds(others[0], by_samples) / _seconds(best, by_samples) - 1)
    agreement = best.agreement
    return UNKNOWN if agreement is None else max(ONE_RUN, agreement)


def _unrest(before: Sequence[Repeat], after: Sequence[Repeat], by_samples: bool) -> float:
    """By how much more the blocks of the best run vary than those of the baseline's best.

    What takes a core away does so by turns: it shows within a run, before two runs agree
    on it by chance.
    """
    was, now = (_best(runs, by_samples) for runs in (before, after))
    if was.agreement is None or now.agreement is None:
        return 0.0
    return now.agreement - was.agreement


def _excused(judged: Judged, moved: float, most: float) -> str:
    """Why a script that seems slower by more than `most` may not be; "" if nothing says so."""
    slower = max(0.0, judged.machine or 0.0)
    felt = slower + (FOLLOWS - 1) * max(0.0, slower - MACHINE)
    own = (1 + judged.change) / (1 + felt) - 1
    apart = (1 + own) * spread.least(judged.after_noise) > 1 + judged.before_noise
    if own <= most:
        return f"the machine itself was {share(slower)} slower"
    if _waited(judged, most):
        return f"other programs kept {judged.others:.1f} cores busy"
    if judged.runs < 2:
        return "there was time for one run only"
    if own <= most + judged.elsewhere and judged.elsewhere:
        return f"the baseline is of another host, which may differ by {share(OTHER_HOST)}"
    if not apart or moved <= judged.between:
        return f"noise ±{share(judged.noise)}"
    return ""


def _unsure(judged: Judged, most: float) -> str:
    """Why a script that seems as fast may be slower even so; "" if nothing says so."""
    faster = judged.machine if judged.machine is not None and judged.machine < -MACHINE else 0.0
    if (1 + judged.change) / (1 + faster) - 1 > most:
        return f"the machine itself was {share(-faster)} faster, which may hide a regression"
    if _computed_more(judged, most):
        return (
            f"a step computed {share(judged.added or 0.0)} of its time more, and other "
            f"programs kept {judged.others_before:.1f} cores busy beside the baseline"
        )
    certain = (1 + judged.change) * (1 + judged.before_noise) <= 1 + most
    if not certain and judged.before_noise > max(most, ONE_RUN):
        return f"the runs of the baseline differ by {share(judged.before_noise)}"
    return ""


def _computed_more(judged: Judged, most: float) -> bool:
    """Whether the script computes more than beside a baseline that waited for other programs."""
    crowded = (judged.others_before or 0.0) > BUSY
    return crowded and judged.added is not None and judged.added > most + CROWDED


def _waited(judged: Judged, most: float) -> bool:
    """Whether other programs may have held it up: it computed no more, or got fewer cores.

    Processor time grows a little beside others too, by what they push out of the caches.
    """
    if (judged.others or 0.0) <= BUSY or (judged.idle or 0.0) >= IDLE:
        return False
    if judged.computed is not None and judged.computed > SHARED:
        return False
    no_more = judged.computed is not None and judged.computed <= most + CROWDED
    return no_more or (judged.cores is not None and judged.cores < -FEWER)


def _elsewhere(before: Sequence[Repeat], after: Sequence[Repeat]) -> float:
    """The least noise of two sets of runs that were not made on one host."""
    here, there = ({name for one in runs for name in one.hosts} for runs in (after, before))
    return OTHER_HOST if here and there and not here & there else 0.0


def _times(
    before: Sequence[Repeat], after: Sequence[Repeat], by_samples: bool
) -> tuple[list[float], list[float]]:
    was, now = ([_seconds(one, by_samples) for one in runs] for runs in (before, after))
    return was, now


def _machine(before: Sequence[Repeat], after: Sequence[Repeat]) -> float | None:
    """By how much the machine got slower, on as many cores as the script keeps busy."""
    speeds = [[one.speed for one in runs if one.speed is not None] for runs in (before, after)]
    if not all(speeds):
        return None
    busy = max((one.cores for one in (*before, *after) if one.cores is not None), default=None)
    if busy is not None and busy <= 1.2:
        was, now = (min(one.one_s for one in side) for side in speeds)
    else:
        was, now = (min(one.all_s for one in side) for side in speeds)
    return now / was - 1


def _computed(before: Sequence[Repeat], after: Sequence[Repeat], by_samples: bool) -> float | None:
    """By how much more a step computes: processor time, which waiting for a core does not take."""
    was, now = (_processor_s(runs, by_samples) for runs in (before, after))
    return now / was - 1 if was and now else None


def _added(before: Sequence[Repeat], after: Sequence[Repeat], by_samples: bool) -> float | None:
    """The processor time that a step takes more, as a share of the step as it was.

    A script that sleeps computes next to nothing, and that varies by as much as itself.
    """
    was, now = (_processor_s(runs, by_samples) for runs in (before, after))
    return (now - was) / _fastest(before, by_samples) if was and now else None


def _processor_s(runs: Sequence[Repeat], by_samples: bool) -> float | None:
    taken = [one.cores * _seconds(one, by_samples, mean=True) for one in runs if one.cores]
    return min(taken, default=None)


def _cores(before: Sequence[Repeat], after: Sequence[Repeat], by_samples: bool) -> float | None:
    """By how much more cores it kept busy in its best run."""
    was, now = (_best(runs, by_samples).cores for runs in (before, after))
    return now / was - 1 if was and now is not None else None


def _mean(before: Sequence[Repeat], after: Sequence[Repeat], most: float, by_samples: bool) -> str:
    """Say where the mean step got slower and the fastest did not: something now and then."""
    was = min(before, key=lambda one: _seconds(one, by_samples, mean=True))
    now = min(after, key=lambda one: _seconds(one, by_samples, mean=True))
    if was.noise is None or now.noise is None:
        return ""
    first, second = (_seconds(one, by_samples, mean=True) for one in (was, now))
    fastest = _fastest(after, by_samples) / _fastest(before, by_samples) - 1
    apart = second * (1 - now.noise) > first * (1 + max(was.noise, PROCESS))
    if not apart or second / first - 1 <= most or fastest > most:
        return ""
    return (
        f"the mean step took {share(second / first - 1)} longer, the fastest steps did not: "
        "other programs, or something that comes now and then"
    )


def _other_batch(before: Sequence[Repeat], after: Sequence[Repeat]) -> bool:
    sizes = {one.batch_size for one in (*before, *after)}
    return len(sizes) > 1 and None not in sizes


def _best(runs: Sequence[Repeat], by_samples: bool) -> Repeat:
    return min(runs, key=lambda one: _seconds(one, by_samples))


def _fastest(runs: Sequence[Repeat], by_samples: bool) -> float:
    return _seconds(_best(runs, by_samples), by_samples)


def _seconds(run: Repeat, by_samples: bool, mean: bool = False) -> float:
    seconds = run.mean_s if mean else run.fastest_s
    return seconds / run.batch_size if by_samples and run.batch_size else seconds
