"""Numbers have three significant digits and a unit."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from trainperf.model import words as units
from trainperf.settings import duration

SECONDS = {
    0.0: "≈ 0",
    0.0000001234: "0.123 µs",
    0.0009996: "1.00 ms",
    0.0009994: "999 µs",
    0.9999: "1.00 s",
    6.3149: "6.31 s",
    99.96: "100 s",
    1234: "20.6 min",
}
"""The unit is chosen after rounding."""
CLOCK = {
    0.2: "200 ms",
    59.94: "59.9 s",
    59.96: "1 min",
    730.2: "12 min 10 s",
    3599.6: "1 h",
    7520.0: "2 h 5 min",
    3 * 86400 + 4.4 * 3600: "3 d 4 h",
}
WORDS = [
    *((units.seconds, seconds, text) for seconds, text in SECONDS.items()),
    *((units.clock, seconds, text) for seconds, text in CLOCK.items()),
    (units.share, 0.0, "0 %"),
    (units.share, 0.0002, "<0.1 %"),
    (units.share, 0.0094, "0.9 %"),
    (units.share, 0.0996, "10 %"),
    (units.share, 1.0, "100 %"),
    (units.bound, 1.04, "1.04×"),
    (units.bound, 1.996, "2.0×"),
    (units.bound, 12.4, "12×"),
    (units.ratio, 0.834, "0.83×"),
    (units.ratio, 2.942, "2.94×"),
    (units.ratio, 12.44, "12.4×"),
]


@pytest.mark.parametrize(("function", "value", "text"), WORDS)
def test_a_number_has_its_digits_and_its_unit(
    function: Callable[[float], str], value: float, text: str
) -> None:
    assert function(value) == text


@pytest.mark.parametrize(
    ("speedup", "low", "high", "text"),
    [
        (1.92, 1.876, 1.969, "1.92× (1.88 to 1.97)"),
        (1.35, 1.2, 1.5, "1.35× (1.20 to 1.50)"),
        (3.412, 3.291, 3.519, "3.4× (3.3 to 3.5)"),
        (12.44, 12.11, 12.69, "12.4× (12.1 to 12.7)"),
        (25.4, 21.7, 29.4, "25× (22 to 29)"),
        (1234.0, 1200.0, 1300.0, "1,234× (1,200 to 1,300)"),
        (0.834, None, None, "0.83×"),
    ],
)
def test_an_interval_decides_how_many_digits_a_measurement_bears(
    speedup: float, low: float | None, high: float | None, text: str
) -> None:
    assert units.measured(speedup, low, high) == text


@pytest.mark.parametrize(
    ("value", "text"), [(31, "40s"), (90, "90s"), (91, "2min"), (281, "5min"), (300, "5min")]
)
def test_a_budget_is_rounded_up_to_what_can_be_typed(value: float, text: str) -> None:
    assert units.budget(value) == text
    assert duration(text) >= value


def test_rates_sizes_and_counts_carry_their_unit() -> None:
    assert units.rate(12345.6, "samples") == "12,300 samples/s"
    assert units.size(512) == "512 bytes"
    assert units.size(1.4 * 1024**3) == "1.40 GiB"
    assert units.size(3.2 * 1024**5) == "3,280 TiB"
    assert units.count(1, "step") == "1 step"
    assert units.count(2502, "step") == "2,502 steps"
    assert units.cores(1.5) == "1.5 cores"
    assert units.cores(1) == "1 core"
