"""What the hooks cost per step, against an unobserved run of the same script.

Unobserved and observed runs take turns; each stamps its own steps. Per pair the
medians of the step times are compared, and the median of the pairs is the figure.
Targets: at most 5 % at steps of about 1.4 ms, at most 1 % at about 10 ms.

    python benchmarks/overhead.py [PAIRS]
"""

from __future__ import annotations

import statistics
import sys

import numpy as np
from _runs import LONG_FIT, LONG_LOOP, SHORT_FIT, SHORT_LOOP, Workload, machine, native, observed

TARGETS = ((SHORT_FIT, 0.05), (SHORT_LOOP, 0.05), (LONG_FIT, 0.01), (LONG_LOOP, 0.01))
SECONDS = 5.0


def compare(workload: Workload, pairs: int, target: float) -> None:
    """Run `pairs` pairs and print their figures."""
    ratios, plain, seen = [], [], []
    for index in range(pairs):
        if index % 2 == 0:
            before, during = native(workload, SECONDS).steps, observed(workload).steps
        else:
            during, before = observed(workload).steps, native(workload, SECONDS).steps
        plain.append(float(np.median(before)))
        seen.append(float(np.median(during)))
        ratios.append(seen[-1] / plain[-1])
    cost = statistics.median(ratios) - 1
    spread = max(plain) / min(plain) - 1
    print(
        f"{workload.name:22} {statistics.median(plain) * 1e3:8.3f} ms unobserved, "
        f"{statistics.median(seen) * 1e3:8.3f} ms observed: {cost:+6.1%} "
        f"(pairs {min(ratios) - 1:+.1%} to {max(ratios) - 1:+.1%}; unobserved runs among "
        f"themselves {spread:.1%}); target {target:.0%}: {'met' if cost <= target else 'MISSED'}",
        flush=True,
    )


if __name__ == "__main__":
    print(machine())
    for workload, target in TARGETS:
        compare(workload, int(sys.argv[1]) if len(sys.argv) > 1 else 5, target)
