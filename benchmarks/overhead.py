"""What the hooks cost per step, against an unobserved run of the same script.

Unobserved and observed runs take turns; each stamps its own steps. Per pair the
medians of the step times are compared, and the median of the pairs is the figure.
On a machine with neighbours the quickest tenth of the steps is the better witness:
those are the steps that nobody disturbed, and hooks cost the same in every step.
Targets: at most 5 % at steps of about 1.4 ms, at most 1 % at about 10 ms.

    python benchmarks/overhead.py [PAIRS]
"""

from __future__ import annotations

import statistics
import sys

import numpy as np
from _runs import LONG_FIT, LONG_LOOP, SHORT_FIT, SHORT_LOOP, Workload, machine, native, observed

TARGETS = ((SHORT_FIT, 0.05), (SHORT_LOOP, 0.05), (LONG_FIT, 0.01), (LONG_LOOP, 0.01))
SECONDS = 4.0
MEASURE_S = 5.0


def pair(workload: Workload, index: int) -> tuple[np.ndarray, np.ndarray]:
    """Steps of an unobserved and an observed run, in an order that changes."""
    if index % 2 == 0:
        before = native(workload, SECONDS).steps
        return before, observed(workload, MEASURE_S).steps
    during = observed(workload, MEASURE_S).steps
    return native(workload, SECONDS).steps, during


def compare(workload: Workload, pairs: int, target: float) -> None:
    """Run `pairs` pairs and print their figures."""
    runs = [pair(workload, index) for index in range(pairs)]
    print(f"{workload.name}, target {target:.0%}")
    for name, percentile in (("median step", 50), ("undisturbed steps", 10)):
        plain = [float(np.percentile(steps, percentile)) for steps, _ in runs]
        seen = [float(np.percentile(steps, percentile)) for _, steps in runs]
        ratios = [after / before - 1 for before, after in zip(plain, seen, strict=True)]
        cost = statistics.median(ratios)
        print(
            f"  {name:18} {statistics.median(plain) * 1e3:7.3f} ms unobserved, "
            f"{statistics.median(seen) * 1e3:7.3f} ms observed: {cost:+6.1%} "
            f"(pairs {min(ratios):+.1%} to {max(ratios):+.1%}; unobserved runs differ by "
            f"{max(plain) / min(plain) - 1:.1%}): {'met' if cost <= target else 'MISSED'}",
            flush=True,
        )


if __name__ == "__main__":
    print(machine())
    for workload, target in TARGETS:
        compare(workload, int(sys.argv[1]) if len(sys.argv) > 1 else 5, target)
