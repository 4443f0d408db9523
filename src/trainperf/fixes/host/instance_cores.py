"""An AWS instance with too few cores for its GPU."""

from __future__ import annotations

from dataclasses import dataclass

from trainperf.errors import NotMeasured
from trainperf.fixes import Fix
from trainperf.fixes.common.words import ms, percent, times, worth
from trainperf.fixes.host._instance_types import (
    change_said,
    has_all_cores,
    here,
    price_said,
    same_gpus,
)
from trainperf.model import Equivalence, Evidence, Finding, Instance, InstanceType

BUSY = 0.85
"""Share of the cores that the script must keep busy, with and without the model, for more
of them to be what it lacks. Below, the input is not parallel enough, or waits itself."""

SAMPLES = 5
"""Samples of a phase, each good to a tenth of a core, from which its mean is used."""

MOSTLY = 0.50
"""Share of a step's CPU time that must be the input's."""


@dataclass(frozen=True)
class _Demand:
    """CPU time of a step in core-seconds, the input's part of it, and the cores busy."""

    work_s: float
    input_share: float
    busy: float


@dataclass(frozen=True)
class _Offer:
    """A type with more vCPUs, and the throughput it gives at most."""

    kind: InstanceType
    speedup: float


class InstanceWithMoreCores(Fix):
    """Take an instance with more cores for the same GPU.

    ## Why it is slow
    AWS sells one GPU with 4 to 64 vCPUs. Decoding and augmenting take the time of cores.
    Where all of them are busy and the GPU still waits, no worker count and no
    `num_parallel_calls` helps any more: the machine has too few.

    ## What changes
    The same script runs on a larger instance with the same GPU. How many cores it needs
    is measured: the CPU time of a step over the time the GPU takes for it. That input
    work spreads evenly over cores is assumed, and that a vCPU there (a hyperthread) does
    what one does here.

    ## When not to
    - First make the input cheaper: decode once and store the result, cache, resize the
      images beforehand, decode on the GPU. That costs nothing by the hour.
    - Compare the prices: where the larger instance costs more than it is faster, an epoch
      is sooner done, but not cheaper.
    - In a container that may use only some of the cores, lift that limit first.
    """

    category = "environment"
    equivalence = Equivalence.ENVIRONMENT
    framework = "any"

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find an input that keeps every core busy while the GPU waits for it."""
        instance, own = here(evidence)
        if not evidence.input_bound or not has_all_cores(evidence, own):
            return None
        demand = _demand(evidence)
        if demand is None:
            return None
        offers = [
            _Offer(kind, _speedup(evidence, demand, kind))
            for kind in same_gpus(instance)
            if kind.vcpus > own.vcpus
        ]
        needed = demand.work_s / evidence.times.resident
        best = next((one for one in offers if one.kind.vcpus >= needed), None)
        best = best or (offers[-1] if offers else None)
        if best is None or not worth(evidence, best.speedup):
            return None
        return self.finding(
            title=f"{instance.name} has {own.vcpus} vCPUs; keeping the {_gpus(own)} busy takes "
            f"{needed:.0f}",
            text=_text(evidence, instance, own, demand, needed)
            + f" {_offered(evidence, best, needed)}{_between(offers, best)}",
            bound=best.speedup,
            bound_basis=f"at most: CPU time of a step spread evenly over the {best.kind.vcpus} "
            f"vCPUs of {best.kind.name}",
            advice="First make the input cheaper (cache, decode once, smaller images). Then take "
            f"{best.kind.name}, {price_said(evidence, best.kind.name)}.{_dearer(instance, best)}",
            snippet=change_said(instance, best.kind.name),
            data={
                "cores_needed": round(needed, 1),
                "offers": [
                    {
                        "name": one.kind.name,
                        "vcpus": one.kind.vcpus,
                        "speedup": round(one.speedup, 3),
                        "price_ratio": instance.price_ratio(one.kind.name),
                    }
                    for one in offers
                ],
            },
        )


def _demand(evidence: Evidence) -> _Demand | None:
    """Return the CPU time of a step; None where cores are idle or the input is not what takes it.

    It is taken from the real phase, where buffers are in their steady state. The input
    phase must agree that the input takes most of it. Raises `NotMeasured`.
    """
    busy, alone = _busy(evidence, "real"), _busy(evidence, "input")
    if min(busy, alone) < BUSY * evidence.machine.cores:
        return None
    work = busy * evidence.times.real
    share = min(1.0, alone * evidence.times.input / work)
    return None if share < MOSTLY else _Demand(work, share, busy)


def _busy(evidence: Evidence, phase: str) -> float:
    use = evidence.phase(phase)
    if use.cpu_cores is None or use.samples < SAMPLES:
        raise NotMeasured(f"the cores busy in phase {phase} were not sampled often enough")
    return use.cpu_cores


def _speedup(evidence: Evidence, demand: _Demand, kind: InstanceType) -> float:
    """Throughput on `kind` over that here, at most: no faster than its cores are more."""
    step_s = max(evidence.times.resident, demand.work_s / kind.vcpus)
    return min(evidence.times.real / step_s, kind.vcpus / evidence.machine.cores)


def _text(
    evidence: Evidence, instance: Instance, own: InstanceType, demand: _Demand, needed: float
) -> str:
    times = evidence.times
    return (
        f"A step takes {ms(demand.work_s)} of CPU time, {percent(demand.input_share)} of it for "
        f"the input, and {ms(times.resident)} when its batch is there: {needed:.0f} cores must "
        f"work to keep the {_gpus(own)} busy. {instance.name} has {own.vcpus} vCPUs, and "
        f"{demand.busy:.1f} of them are busy."
    )


def _offered(evidence: Evidence, best: _Offer, needed: float) -> str:
    kind = best.kind
    short = "" if kind.vcpus >= needed else ", the most with this GPU"
    return (
        f"{kind.name} has {kind.vcpus}{short}: at most {times(best.speedup)} the throughput, "
        f"{price_said(evidence, kind.name)}. This assumes that the work spreads evenly over cores."
    )


def _between(offers: list[_Offer], best: _Offer) -> str:
    """Say what the sizes below the one that is advised give; "" where there are none."""
    smaller = {one.kind.vcpus: one for one in reversed(offers) if one.kind.vcpus < best.kind.vcpus}
    told = [
        f"{smaller[vcpus].kind.name} {times(smaller[vcpus].speedup)}" for vcpus in sorted(smaller)
    ]
    return f" Sizes between give less: {', '.join(told)}." if told else ""


def _dearer(instance: Instance, best: _Offer) -> str:
    """Warn where the price grows by more than the throughput can."""
    ratio = instance.price_ratio(best.kind.name)
    if ratio is None or ratio <= best.speedup:
        return ""
    return " An epoch is done sooner there, and costs more."


def _gpus(kind: InstanceType) -> str:
    return kind.gpu if kind.gpus == 1 else f"{kind.gpus} × {kind.gpu}"
