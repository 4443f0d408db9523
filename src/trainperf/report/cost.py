"""What training costs here, before and after the changes."""

from __future__ import annotations

from dataclasses import replace

from trainperf.model import Cost, Evidence, Measure, Stack

HOUR_S = 3600.0
MILLION = 1e6


def cost(evidence: Evidence) -> Cost | None:
    """What a million samples and an epoch cost now; None where no price is known."""
    machine, real = evidence.machine, evidence.times.real_
    if machine.price is None or not isinstance(real, Measure):
        return None
    loop, between = evidence.loop, evidence.between_epochs
    hosts = machine.instance.hosts if machine.instance is not None else 1
    per_s = machine.price.per_hour * hosts / HOUR_S
    samples_s = loop.batch_size / real.seconds if loop.batch_size else None
    epoch_s = None
    if loop.epoch_steps:
        epoch_s = loop.epoch_steps * real.seconds + (between.seconds if between else 0.0)
    return Cost(
        price=machine.price,
        hosts=hosts,
        million_samples_before=MILLION / samples_s * per_s if samples_s else None,
        epoch_before=epoch_s * per_s if epoch_s else None,
    )


def cost_after(before: Cost | None, stack: Stack | None) -> Cost | None:
    """The cost with what the kept fixes of `stack` make of it, by their measured speed-up.

    An epoch's is that of the stack where it has one: what passes between epochs does not
    get shorter with its steps.
    """
    if before is None or stack is None or not stack.fixes:
        return before
    million, epoch = before.million_samples_before, before.epoch_before
    share = None
    if stack.before_epoch_s and stack.after_epoch_s:
        share = stack.after_epoch_s / stack.before_epoch_s
    return replace(
        before,
        million_samples_after=None if million is None else million / stack.speedup,
        epoch_after=None if epoch is None or share is None else epoch * share,
    )
