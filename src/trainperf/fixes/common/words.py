"""How fixes say numbers and places, and when a bound is worth saying at all."""

from __future__ import annotations

import os

from trainperf.model import Evidence, Site

SMALLEST_GAIN = 0.05
"""A bound below this is not worth a reader's time, however quiet the machine was."""

NOISES = 2.0
"""How many times the noise of the times a bound must exceed: below, it may be nothing."""


def ms(seconds: float) -> str:
    """Say a time with three figures: "61.2 ms", "1.40 s", "85 µs"."""
    size = abs(seconds)
    if size >= 0.9995:
        return f"{seconds:.2f} s" if size < 99.95 else f"{seconds:.0f} s"
    if size >= 0.9995e-3:
        value = seconds * 1e3
        return f"{value:.0f} ms" if abs(value) >= 99.95 else f"{value:.1f} ms"
    return f"{seconds * 1e6:.0f} µs"


def percent(share: float) -> str:
    """Say a share of 1 in whole percent: "69 %"; "<1 %" for what rounds to nothing."""
    if 0 < share < 0.005:
        return "<1 %"
    return f"{share * 100:.0f} %"


def at(site: Site | None) -> str:
    """Say a place as a reader looks it up: "train.py:14"; nothing if it is not known."""
    if site is None:
        return ""
    return f"{os.path.basename(site.file)}:{site.line}"


def times(ratio: float) -> str:
    """Say a ratio: "3.2×", "15×", and "1.05×" where one decimal would say nothing."""
    if ratio >= 9.95:
        return f"{ratio:.0f}×"
    return f"{ratio:.1f}×" if ratio >= 1.95 else f"{ratio:.2f}×"


def worth_counted(bound: float) -> bool:
    """Say whether a speed-up of at most `bound` is worth a word, whatever the times' noise.

    For causes that the kernel or the driver counts, and that may themselves be the noise.
    """
    return bound > 1 + SMALLEST_GAIN


def worth(evidence: Evidence, bound: float) -> bool:
    """Say whether a speed-up of at most `bound` stands out of the noise of the times.

    The line is 1 + the larger of 5 % and twice the relative noise of the measured
    step. Raises nothing: unknown noise counts as 10 % (`Times.noise`).
    """
    return bound > 1 + max(SMALLEST_GAIN, NOISES * evidence.times.noise)
