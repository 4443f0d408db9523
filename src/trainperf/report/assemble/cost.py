"""The cost of training here, before and after the changes."""

from __future__ import annotations

from dataclasses import replace

from trainperf.model import Cost, Evidence, Measure, Stack

HOUR_S = 3600.0
MILLION = 1e6


def cost(evidence: Evidence) -> Cost | None:
    """The cost of a million samples and of an epoch now; None where no price is known.

    US dollars: the price of an hour for each host, times hosts, times measured time. What
    passes between epochs is in both, where the length of an epoch is known.
    """
    machine, real = evidence.machine, evidence.times.real_
    if machine.price is None or not isinstance(real, Measure) or real.seconds <= 0:
        return None
    loop, hosts = evidence.loop, _hosts(evidence)
    per_s = machine.price.per_hour * hosts / HOUR_S
    epoch_s = _epoch_s(evidence, real.seconds)
    each_s = epoch_s / loop.epoch_steps if epoch_s and loop.epoch_steps else real.seconds
    return Cost(
        price=machine.price,
        hosts=hosts,
        million_samples_before=MILLION / loop.batch_size * each_s * per_s
        if loop.batch_size
        else None,
        epoch_before=None if epoch_s is None else epoch_s * per_s,
    )


def cost_after(before: Cost | None, stack: Stack | None) -> Cost | None:
    """The cost with what the kept fixes of `stack` make of it, by their measured speed-up.

    By that of an epoch where the stack has one: what passes between epochs does not get
    shorter with its steps.
    """
    if before is None or stack is None or not stack.fixes:
        return before
    million, epoch = before.million_samples_before, before.epoch_before
    share = None
    if stack.before_epoch_s and stack.after_epoch_s is not None:
        share = stack.after_epoch_s / stack.before_epoch_s
    return replace(
        before,
        million_samples_after=None if million is None else million * (share or 1 / stack.speedup),
        epoch_after=None if epoch is None or share is None else epoch * share,
    )


def _hosts(evidence: Evidence) -> int:
    """The hosts that are paid for: those SageMaker started, or those that ranks run on."""
    instance, job = evidence.machine.instance, evidence.parallel_
    return max(1, instance.hosts if instance else 1, job.hosts if job else 1)


def _epoch_s(evidence: Evidence, step_s: float) -> float | None:
    """Seconds of an epoch and of what passes until the next; None: its length is not known."""
    if not evidence.loop.epoch_steps:
        return None
    between = evidence.between_epochs
    return evidence.loop.epoch_steps * step_s + (between.seconds if between else 0.0)
