"""How well `real` agrees with the step time of the same script unobserved.

`real` is what the report says; the script's own is the mean of the steps that it
stamped in a run without trainperf. Runs take turns. Target: within 3 %.

    python benchmarks/agreement.py [PAIRS]
"""

from __future__ import annotations

import statistics
import sys

from _runs import LONG_FIT, LONG_LOOP, SHORT_FIT, STARVED_FIT, Workload, machine, native, observed

from trainperf.evidence import read
from trainperf.machine import inspect_machine

WORKLOADS = (SHORT_FIT, LONG_FIT, LONG_LOOP, STARVED_FIT)
SECONDS = 6.0
TARGET = 0.03


def compare(workload: Workload, pairs: int) -> None:
    """Run `pairs` pairs and print their figures."""
    box = inspect_machine()
    ratios, own = [], []
    for index in range(pairs):
        runs = {}
        for kind in ("native", "observed") if index % 2 == 0 else ("observed", "native"):
            if kind == "native":
                runs[kind] = float(native(workload, SECONDS).steps.mean())
            else:
                runs[kind] = read(observed(workload).recording, box).times.real
        own.append(runs["native"])
        ratios.append(runs["observed"] / runs["native"])
    error = statistics.median(ratios) - 1
    print(
        f"{workload.name:22} own mean {statistics.median(own) * 1e3:8.3f} ms: real is off by "
        f"{error:+6.1%} (pairs {min(ratios) - 1:+.1%} to {max(ratios) - 1:+.1%}; unobserved runs "
        f"among themselves {max(own) / min(own) - 1:.1%}); target ±{TARGET:.0%}: "
        f"{'met' if abs(error) <= TARGET else 'MISSED'}",
        flush=True,
    )


if __name__ == "__main__":
    print(machine())
    for workload in WORKLOADS:
        compare(workload, int(sys.argv[1]) if len(sys.argv) > 1 else 5)
