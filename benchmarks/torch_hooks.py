"""Measures the cost of the PyTorch hooks per step, against unobserved runs of one script.

As `overhead.py`, for PyTorch: runs take turns A B B A, where A is unobserved and B
observed, and each stamps its own steps. The hooks' cost is taken from steps that do
next to nothing, in microseconds; then steps of about 1.4 and 10 ms are compared end
to end. Targets: at most 5 % at 1.4 ms, at most 1 % at 10 ms.

    python benchmarks/torch_hooks.py [ROUNDS]
"""

from __future__ import annotations

import statistics
import sys

import numpy as np
from _runs import Workload, machine, native, observed

TARGETS = ((1.4e-3, 0.05), (10e-3, 0.01))
SECONDS = 3.0
MEASURE_S = 4.0
SCRIPT = "torch_loop.py"
EMPTY = Workload("next to nothing", SCRIPT, ("--width", "8", "--batch", "8"))
SHORT = Workload("short step", SCRIPT, ("--width", "320", "--batch", "120"))
LONG = Workload("long step", SCRIPT, ("--width", "512", "--batch", "384"))
"""About 1.4 and 10 ms on one core of an AMD EPYC."""


def round_of(workload: Workload) -> tuple[tuple[float, float], tuple[float, float]]:
    """Median steps of runs A B B A: the two unobserved ones, the two observed ones."""
    first = float(np.median(native(workload, SECONDS).steps))
    during = [float(np.median(observed(workload, MEASURE_S).steps)) for _ in range(2)]
    last = float(np.median(native(workload, SECONDS).steps))
    return (first, last), (during[0], during[1])


def verdict(share: float, target: float) -> str:
    """A share beside its target."""
    return f"{share:+.1%} (target {target:.0%}: {'met' if share <= target else 'MISSED'})"


def hooks_alone(rounds: int) -> None:
    """Print what the hooks add to a step that does next to nothing."""
    runs = [round_of(EMPTY) for _ in range(rounds)]
    added = [statistics.mean(during) - statistics.mean(plain) for plain, during in runs]
    middle = statistics.median(added)
    step = statistics.median(statistics.mean(plain) for plain, _ in runs)
    shares = ", ".join(
        f"at {length * 1e3:g} ms {verdict(middle / length, target)}" for length, target in TARGETS
    )
    print(
        f"{EMPTY.name:16} hooks add {middle * 1e6:4.0f} µs to a step of {step * 1e6:.0f} µs "
        f"(rounds {min(added) * 1e6:.0f} to {max(added) * 1e6:.0f} µs): {shares}",
        flush=True,
    )


def end_to_end(workload: Workload, rounds: int, target: float) -> None:
    """Print what observing adds to a real step."""
    runs = [round_of(workload) for _ in range(rounds)]
    ratios = [statistics.mean(during) / statistics.mean(plain) - 1 for plain, during in runs]
    steps = [step for plain, _ in runs for step in plain]
    print(
        f"{workload.name:16} {statistics.median(steps) * 1e3:7.3f} ms unobserved: "
        f"{verdict(statistics.median(ratios), target)} (rounds {min(ratios):+.1%} to "
        f"{max(ratios):+.1%}; unobserved runs differ by {max(steps) / min(steps) - 1:.1%})",
        flush=True,
    )


if __name__ == "__main__":
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    print(machine())
    hooks_alone(rounds)
    for workload, (_, target) in zip((SHORT, LONG), TARGETS, strict=True):
        end_to_end(workload, rounds, target)
