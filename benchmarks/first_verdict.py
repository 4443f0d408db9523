"""How long the report takes, beyond what the script itself needs to its first step.

From the start of `trainperf diagnose` at default settings to its end, less the time
from the script's start to the end of its first step in an unobserved run. Target: at
most 15 s.

    python benchmarks/first_verdict.py [RUNS]
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _runs import (
    EPOCHS_FIT,
    LONG_LOOP,
    SHORT_FIT,
    STARVED_FIT,
    Workload,
    command_of,
    machine,
    native,
)

TARGET_S = 15.0


def diagnosis_s(workload: Workload) -> float:
    """Seconds from the command to its end, the report printed."""
    with tempfile.TemporaryDirectory() as folder:
        (_, *script), _ = command_of(workload, Path(folder), 120.0)
        began = time.perf_counter()
        subprocess.run(
            [
                sys.executable,
                "-m",
                "trainperf",
                "diagnose",
                "--no-trials",
                "--output-dir",
                folder,
                *script,
            ],
            check=True,
            capture_output=True,
        )
        return time.perf_counter() - began


def compare(workload: Workload, runs: int) -> None:
    """Time `runs` diagnoses and print their figures."""
    whole, first = [], []
    for _ in range(runs):
        first.append(native(workload, 0.5).to_first_step_s)
        whole.append(diagnosis_s(workload))
    beyond = statistics.median(whole) - statistics.median(first)
    print(
        f"{workload.name:22} {statistics.median(whole):5.1f} s to the report, "
        f"{statistics.median(first):4.1f} s to the script's own first step: {beyond:5.1f} s beyond "
        f"(slowest run {max(whole) - statistics.median(first):.1f} s); "
        f"target {TARGET_S:.0f} s: {'met' if beyond <= TARGET_S else 'MISSED'}",
        flush=True,
    )


if __name__ == "__main__":
    print(machine())
    for workload in (SHORT_FIT, LONG_LOOP, STARVED_FIT, EPOCHS_FIT):
        compare(workload, int(sys.argv[1]) if len(sys.argv) > 1 else 3)
