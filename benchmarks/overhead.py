"""Measures the cost of the hooks per step, against an unobserved run of the same script.

Unobserved and observed runs take turns; each stamps its own steps. Hooks do the same
work in every step, however long the step is. So their cost is taken from steps that
do next to nothing, where it is the largest part, in microseconds; then real steps of
about 1.4 and 10 ms are compared end to end. On a machine whose speed comes and goes
the first is the better witness. Targets: at most 5 % at 1.4 ms, at most 1 % at 10 ms.

    python benchmarks/overhead.py [PAIRS]
"""

from __future__ import annotations

import statistics
import sys

import numpy as np
from _runs import (
    EMPTY_FIT,
    EMPTY_LOOP,
    LONG_FIT,
    LONG_LOOP,
    SHORT_FIT,
    SHORT_LOOP,
    Workload,
    machine,
    native,
    observed,
)

TARGETS = ((1.4e-3, 0.05), (10e-3, 0.01))
SECONDS = 3.0
MEASURE_S = 4.0


def medians(workload: Workload, index: int) -> tuple[float, float]:
    """Median step of an unobserved and of an observed run, in an order that changes."""
    if index % 2 == 0:
        before = native(workload, SECONDS).steps
        during = observed(workload, MEASURE_S).steps
    else:
        during = observed(workload, MEASURE_S).steps
        before = native(workload, SECONDS).steps
    return float(np.median(before)), float(np.median(during))


def verdict(share: float, target: float) -> str:
    """A share beside its target."""
    return f"{share:+.1%} (target {target:.0%}: {'met' if share <= target else 'MISSED'})"


def hooks_alone(workload: Workload, pairs: int) -> None:
    """Print what the hooks add to a step that does next to nothing."""
    runs = [medians(workload, index) for index in range(pairs)]
    added = [during - before for before, during in runs]
    middle = statistics.median(added)
    shares = ", ".join(
        f"at {step * 1e3:g} ms {verdict(middle / step, target)}" for step, target in TARGETS
    )
    print(
        f"{workload.name:20} hooks add {middle * 1e6:4.0f} µs to a step of "
        f"{statistics.median(before for before, _ in runs) * 1e6:.0f} µs "
        f"(pairs {min(added) * 1e6:.0f} to {max(added) * 1e6:.0f} µs): {shares}",
        flush=True,
    )


def end_to_end(workload: Workload, pairs: int, target: float) -> None:
    """Print what observing adds to a real step."""
    runs = [medians(workload, index) for index in range(pairs)]
    plain = [before for before, _ in runs]
    ratios = [during / before - 1 for before, during in runs]
    print(
        f"{workload.name:20} {statistics.median(plain) * 1e3:7.3f} ms unobserved: "
        f"{verdict(statistics.median(ratios), target)} (pairs {min(ratios):+.1%} to "
        f"{max(ratios):+.1%}; unobserved runs differ by {max(plain) / min(plain) - 1:.1%})",
        flush=True,
    )


if __name__ == "__main__":
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    print(machine())
    for workload in (EMPTY_FIT, EMPTY_LOOP):
        hooks_alone(workload, pairs)
    for workload, (_, target) in zip((SHORT_FIT, LONG_FIT), TARGETS, strict=True):
        end_to_end(workload, pairs, target)
    for workload, (_, target) in zip((SHORT_LOOP, LONG_LOOP), TARGETS, strict=True):
        end_to_end(workload, pairs, target)
