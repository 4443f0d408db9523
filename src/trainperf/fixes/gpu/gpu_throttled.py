"""A GPU that slows itself down: heat, or a power supply that gives out."""

from __future__ import annotations

from typing import Any

from trainperf.errors import NotMeasured
from trainperf.fixes import Fix
from trainperf.fixes.common.words import percent, worth_counted
from trainperf.fixes.gpu._health import bound_at_full_clock, card, clock, said, used
from trainperf.model import Equivalence, Evidence, Finding, Gpu
from trainperf.recording.machine.machine import HARMFUL

OFTEN = 0.10
"""Share of the samples in which a GPU must have been slowed down; our choice."""


SNIPPET = """\
nvidia-smi -i {index} -q -d TEMPERATURE,POWER,PERFORMANCE,CLOCK
nvidia-smi -i {index} --query-gpu=clocks.sm,temperature.gpu,power.draw --format=csv -l 1"""

MEANS = {
    "hardware thermal slowdown": "it is too hot: look at its cooling, and at its neighbours",
    "software thermal slowdown": "it is too hot: look at its cooling, and at its neighbours",
    "power brake": "the machine's power supply told it to: look at the supply",
    "hardware slowdown": "its hardware told it to: heat, or power that gives out",
}


class ThrottledGpu(Fix):
    """Let the GPU run at its full clock: cool it, and give it power.

    ## Why it is slow
    A GPU that gets too hot, or whose power supply gives out, lowers its clock to
    protect itself. Every kernel takes longer by as much. The driver tells the reason.

    ## What changes
    Nothing in the script: the machine must be repaired, or another one taken. On a
    cloud machine, stop the instance and start it again: it comes up elsewhere.

    ## When not to
    A GPU at its power cap is well: it works as hard as its board permits.
    """

    framework = "any"
    category = "environment"
    equivalence = Equivalence.ENVIRONMENT
    counted = True

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find the slowest GPU that gave a reason that means harm, and ran below its clock."""
        found = [one for pair in used(evidence) if (one := _slowed(*pair)) is not None]
        if not found:
            return None
        now, most, gpu, shares = min(found, key=lambda one: one[0] / one[1])
        bound = bound_at_full_clock(evidence, now, most)
        if not worth_counted(bound):
            return None
        reason = max(shares, key=lambda name: (shares[name], name))
        told = ", ".join(f"{name} ({percent(shares[name])})" for name in sorted(shares))
        return self.finding(
            title=f"{card(gpu)} slows itself down: {reason}",
            text=f"While it trained, its clock was {now:.0f} of {most} MHz. In so many of the "
            f"samples the driver gave as the reason: {told}.{said(evidence)}",
            bound=bound,
            bound_basis="every kernel at the GPU's highest clock",
            advice=f"{MEANS[reason][:1].upper()}{MEANS[reason][1:]}. On a cloud machine, stop and "
            "start the instance.",
            snippet=SNIPPET.replace("{index}", str(gpu.index)),
        )


def _slowed(gpu: Gpu, use: dict[str, Any]) -> tuple[float, int, Gpu, dict[str, float]] | None:
    """Clock, highest clock, card and reasons of a GPU that was slowed down; None if it was not."""
    shares = {
        name: share for name, share in (use.get("throttle_shares") or {}).items() if name in HARMFUL
    }
    if max(shares.values(), default=0.0) < OFTEN:
        return None
    try:
        now, most = clock(gpu, use)
    except NotMeasured:
        return None
    return now, most, gpu, shares
