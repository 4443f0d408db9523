"""A PCIe link that is narrower or slower under load than the card's own."""

from __future__ import annotations

from typing import Any

from trainperf.fixes import Fix
from trainperf.fixes.common.words import percent, worth
from trainperf.fixes.gpu._health import LEAST_SAMPLES, card, on_used
from trainperf.model import Equivalence, Evidence, Finding, Gpu

LANE = {1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}
"""Bytes per second of one PCIe lane, one way, by generation.

2.5 and 5 GT/s at 8 of 10 bits; 8, 16 and 32 GT/s at 128 of 130 bits; 64 GT/s in flits of
242 of 256 bytes (PCI Express Base Specification).
"""

LOADED = 20.0
"""Utilisation in percent from which the link must have been woken up; our choice."""


SNIPPET = """\
nvidia-smi -i {index} -q -d PCIE
sudo lspci -vv -d 10de: | grep -E 'LnkCap|LnkSta'"""


class PcieLink(Fix):
    """Give the GPU a PCIe link of its full width and speed.

    ## Why it is slow
    Batches go to the GPU over PCIe. A card in a slot with fewer lanes, on a riser that
    fails, or with a worn contact, runs with a link of half or a quarter of the rate.

    ## What changes
    Nothing in the script: the card goes into another slot, or the machine is changed.

    ## When not to
    - Where little is copied, the link does not matter.
    - An idle card lowers the speed of its link by itself; only a loaded one is judged.
    """

    framework = "any"
    category = "environment"
    equivalence = Equivalence.ENVIRONMENT

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find a link below the card's own that copies keep busy; all GPUs of the run count."""
        cards = {gpu.index: gpu for gpu in on_used(evidence)}
        found = [
            one
            for use in evidence.phase("real").gpu
            if (gpu := cards.get(use.get("index", -1))) and (one := _narrow(gpu, use))
        ]
        if not found:
            return None
        saved, gpu, said, busy = max(found, key=lambda one: one[0])
        bound = evidence.bound_if_step_saves(evidence.times.real * saved)
        if not worth(evidence, bound):
            return None
        return self.finding(
            title=f"{card(gpu)} has a PCIe link below its own",
            text=f"Under load its link was {said}. Copies kept it busy for {percent(busy)} of the "
            "time at least.",
            bound=bound,
            bound_basis="the same copies at the full rate of the card's link",
            advice="Look at the slot, the riser and the BIOS; on a cloud machine, stop and start "
            "the instance.",
            snippet=SNIPPET.replace("{index}", str(gpu.index)),
        )


def _narrow(gpu: Gpu, use: dict[str, Any]) -> tuple[float, Gpu, str, float] | None:
    """The share of the time a full link saves, the card, both links, and how busy it was."""
    generation, width = use.get("pcie_generation"), use.get("pcie_width")
    rates = [use.get(name) for name in ("pcie_rx_bytes_s", "pcie_tx_bytes_s")]
    most = max((rate for rate in rates if rate is not None), default=None)
    now = _rate(generation, width)
    full = _rate(gpu.pcie_generation, gpu.pcie_width)
    loaded = (use.get("utilization_percent") or 0.0) >= LOADED
    if most is None or now is None or full is None or not loaded or now >= full:
        return None
    if use.get("samples", 0) < LEAST_SAMPLES:
        return None
    busy = min(1.0, most / now)
    said = (
        f"PCIe {generation} x{width} ({now / 1e9:.1f} GB/s), that of the card is PCIe "
        f"{gpu.pcie_generation} x{gpu.pcie_width} ({full / 1e9:.1f} GB/s)"
    )
    return busy * (1 - now / full), gpu, said, busy


def _rate(generation: int | None, width: int | None) -> float | None:
    lane = None if generation is None else LANE.get(generation)
    return None if lane is None or not width else lane * width
