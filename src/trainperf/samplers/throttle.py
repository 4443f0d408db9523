"""The reasons a GPU gives for not running at its full clock, in words."""

from __future__ import annotations

from trainperf.recording.machine.clocks import APPLICATION_CLOCKS, HARMFUL, POWER_CAP

__all__ = ["APPLICATION_CLOCKS", "HARMFUL", "POWER_CAP", "words"]

# The bits of nvmlClocksEventReasons in nvml.h (nvmlClocksThrottleReasons before driver
# 535, same values). Bit 1, "GPU idle", is left out: an idle GPU lacks work, not clock.
_IDLE = 0x1
_WORDS = {
    0x2: APPLICATION_CLOCKS,
    0x4: POWER_CAP,
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
    0x100: "display clocks",
}


def words(bits: int) -> tuple[str, ...]:
    """Return the reasons in `bits`, lowest bit first; bits without a name by number."""
    rest = bits & ~_IDLE
    found = []
    while rest:
        bit = rest & -rest
        found.append(_WORDS.get(bit, f"reason {bit:#x}"))
        rest ^= bit
    return tuple(found)
