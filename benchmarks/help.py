"""How long `trainperf --help` takes: the median of 20 runs. Target: at most 150 ms.

python benchmarks/help.py
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

from _runs import machine

TARGET_S = 0.150
PROGRAM = Path(sysconfig.get_path("scripts")) / "trainperf"


def seconds(*command: str) -> float:
    """How long one run of `command` takes."""
    began = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - began


if __name__ == "__main__":
    print(machine())
    bare = statistics.median(seconds(sys.executable, "-c", "pass") for _ in range(20))
    times = [seconds(str(PROGRAM), "--help") for _ in range(20)]
    middle = statistics.median(times)
    print(
        f"trainperf --help {middle * 1e3:.0f} ms ({min(times) * 1e3:.0f} to "
        f"{max(times) * 1e3:.0f} ms; a bare Python {bare * 1e3:.0f} ms); "
        f"target {TARGET_S * 1e3:.0f} ms: {'met' if middle <= TARGET_S else 'MISSED'}"
    )
