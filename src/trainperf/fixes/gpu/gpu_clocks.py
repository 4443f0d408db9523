"""Application clocks that hold a GPU below its highest clock."""

from __future__ import annotations

from trainperf.fixes import Fix
from trainperf.fixes.common.words import percent, worth_counted
from trainperf.fixes.gpu._health import bound_at_full_clock, card, clock, said, used
from trainperf.model import Equivalence, Evidence, Finding
from trainperf.recording.machine.machine import APPLICATION_CLOCKS

MOSTLY = 0.50
"""Share of the samples in which the driver must name the application clocks; our choice."""


SNIPPET = """\
# the pairs of clocks that it has
nvidia-smi -i {index} -q -d SUPPORTED_CLOCKS
# the highest one: memory, SMs
sudo nvidia-smi -i {index} -ac MEMORY,{most}"""


class ApplicationClocks(Fix):
    """Set the GPU's application clocks to the highest.

    ## Why it is slow
    Application clocks are what a GPU aims at under load. On some machines they are set,
    or left by default, far below what the card can do.

    ## What changes
    `nvidia-smi -ac` sets them, as root, until the driver is loaded anew. The script
    stays as it is. The card draws more power.

    ## When not to
    - Where they are set on purpose: for even times, or to save power.
    - Near the power cap the card will not keep the higher clock.
    """

    framework = "any"
    category = "environment"
    equivalence = Equivalence.ENVIRONMENT
    counted = True

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find the GPU that its application clocks hold back most."""
        found = [
            (*clock(gpu, use), gpu, (use.get("throttle_shares") or {}).get(APPLICATION_CLOCKS, 0.0))
            for gpu, use in used(evidence)
        ]
        held = [one for one in found if one[3] >= MOSTLY]
        if not held:
            return None
        now, most, gpu, share = min(held, key=lambda one: one[0] / one[1])
        bound = bound_at_full_clock(evidence, now, most)
        if not worth_counted(bound):
            return None
        set_to = gpu.application_clock_mhz
        at = "" if set_to is None else f" They are set to {set_to} MHz."
        return self.finding(
            title=f"{card(gpu)} is held at {now:.0f} of {most} MHz by its application clocks",
            text=f"The driver gave them as the reason in {percent(share)} of the samples while "
            f"the step ran.{at}{said(evidence)}",
            bound=bound,
            bound_basis="every kernel at the GPU's highest clock",
            advice="Set the highest application clocks with `nvidia-smi -ac`, or reset them with "
            "`nvidia-smi -rac` if somebody lowered them.",
            snippet=SNIPPET.replace("{index}", str(gpu.index)).replace("{most}", str(most)),
        )
