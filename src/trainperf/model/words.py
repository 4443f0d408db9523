"""Quantities in words, the same in verdicts and in every report: three digits, and a unit."""

from __future__ import annotations

import math
import signal
from collections.abc import Iterable


def rounded(value: float, digits: int = 3) -> float:
    """Return `value` rounded to that many significant digits."""
    return float(f"{value:.{digits - 1}e}")


def number(value: float, digits: int = 3) -> str:
    """Write a number to that many significant digits, thousands set apart by commas."""
    value = rounded(value, digits)
    magnitude = math.floor(math.log10(abs(value))) if value else 0
    return f"{value:,.{max(0, digits - 1 - magnitude)}f}"


def seconds(value: float) -> str:
    """Write a time, given in seconds, in µs, ms or s; in minutes from ten of them."""
    size = abs(rounded(value))
    if size >= 600:
        return f"{number(value / 60)} min"
    if size < 5e-8:
        return "≈ 0"
    if size >= 1:
        return f"{number(value)} s"
    if size >= 1e-3:
        return f"{number(value * 1e3)} ms"
    return f"{number(value * 1e6)} µs"


def share(value: float) -> str:
    """Write a fraction of 1 as per cent: whole above 10 %, one decimal below."""
    percent = value * 100
    if 0 < percent < 0.1:
        return "<0.1 %"
    if percent >= 9.95 or percent == 0:
        return f"{percent:.0f} %"
    return f"{percent:.1f} %"


def ratio(value: float) -> str:
    """Write a measured speed-up: 0.83×, 1.35×, 12.4×."""
    return f"{number(value)}×" if value >= 1 else f"{value:.2f}×"


def bound(value: float) -> str:
    """Write an upper bound of a speed-up: 1.35×, 3.2×, 12×; a bound is no finer."""
    return f"{value:.2f}×" if value < 1.995 else f"{number(value, 2)}×"


def measured(speedup: float | None, low: float | None, high: float | None, words: str = "") -> str:
    """Write a measured speed-up with its interval: "1.92× (1.88 to 1.97)"; "" for None.

    `words` stand behind the speed-up. No digit is written that the interval does not
    bear: two decimals, one from a half width of 0.1, none from one of 1.
    """
    if speedup is None:
        return ""
    if low is None or high is None or low == high:
        return f"{ratio(speedup)}{words}"
    half, decimals = (high - low) / 2, 2
    if speedup >= 10 or (speedup >= 2 and half >= 0.1):
        decimals = 1
    if speedup >= 100 or (speedup >= 10 and half >= 1):
        decimals = 0
    value, least, most = (f"{figure:,.{decimals}f}" for figure in (speedup, low, high))
    return f"{value}×{words} ({least} to {most})"


def clock(value: float) -> str:
    """Write a time as one speaks of it: "12 min 10 s", "2 h 5 min", "41.3 s", "3 d 4 h"."""
    if value < 59.95:
        return seconds(value)
    whole = round(value)
    sizes = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))
    first = next(n for n, (_, size) in enumerate(sizes) if whole >= size)
    (unit, size), (small, least) = sizes[first], sizes[first + 1]
    many, rest = divmod(round(whole / least) * least, size)
    return f"{many} {unit} {rest // least} {small}" if rest >= least else f"{many} {unit}"


def budget(value: float) -> str:
    """Write a time as `--budget` takes it, rounded up: "40s", "5min"."""
    if value <= 90:
        return f"{math.ceil(value / 10) * 10}s"
    return f"{math.ceil(value / 60)}min"


def rate(value: float, of: str) -> str:
    """Write a rate: "232 samples/s"."""
    return f"{number(value)} {of}/s"


def size(value: float) -> str:
    """Write a number of bytes in KiB, MiB, GiB or TiB."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if rounded(value) < 1024:
            return f"{value:.0f} {unit}" if unit == "bytes" else f"{number(value)} {unit}"
        value /= 1024
    return f"{number(value)} TiB"


def count(many: int, thing: str) -> str:
    """Write a number of things: "1 step", "96 steps"."""
    return f"{many:,} {thing}" if many == 1 else f"{many:,} {thing}s"


def cores(value: float) -> str:
    """Write a number of processor cores: "8 cores", "1.5 cores"."""
    return "1 core" if value == 1 else f"{value:.3g} cores"


MOST_NAMED = 8
"""So many ranges of ranks are named; a list of a thousand helps nobody."""


def ranks(numbers: Iterable[int]) -> str:
    """Name ranks: "rank 3", "ranks 1, 4 to 6 and 9"."""
    ordered = sorted(set(numbers))
    ranges: list[list[int]] = []
    for rank in ordered:
        if ranges and rank == ranges[-1][-1] + 1:
            ranges[-1][1:] = [rank]
        else:
            ranges.append([rank])
    texts: list[str] = []
    for first, *more in ranges:
        if more and more[0] == first + 1:
            texts += [str(first), str(more[0])]
        else:
            texts.append(" to ".join(map(str, (first, *more))))
    if len(texts) > MOST_NAMED:
        return f"ranks {', '.join(texts[:MOST_NAMED])} and others, {len(ordered):,} in all"
    if len(ordered) == 1:
        return f"rank {texts[0]}"
    return f"ranks {' and '.join(filter(None, (', '.join(texts[:-1]), texts[-1])))}"


def signal_name(status: int) -> str:
    """Write the signal behind an exit status, as `kill -l` has it: -9 and 137 are "SIGKILL"."""
    number = -status if status < 0 else status - 128
    try:
        return signal.Signals(number).name
    except ValueError:  # one of the numbered ones
        return f"signal {number}"
