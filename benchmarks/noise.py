"""Diagnoses beside busy neighbours against the quiet one: the first cause, and what was kept.

Each script is diagnosed once on the machine as it is, which should be quiet, and once beside each
kind of neighbours:

    steady    processes that compute without end
    bursty    processes that compute for a second or two, and sleep as long
    apart     steady ones in sessions of their own, at the lowest priority: where the kernel groups
              processes by session (`kernel.sched_autogroup_enabled`) that is no priority at all

A script passes beside them if the first finding and the kept fixes are those of the quiet
diagnosis. Target: 90 % of them. What was left of the budget while something was still to be
tried is printed as well; the target is none that one more start would have fitted into.

    python benchmarks/noise.py [--neighbours N …] [--kinds KIND …] [--budget TIME] [SCRIPT …]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _trials import EXAMPLES, diagnosis, foot, head, verdict

TARGET = 0.9
SCRIPTS = (
    "slow_images.py",
    "eager_loop.py",
    "tiny_steps.py",
    "torch_slow_transform.py",
    "torch_small_kernels.py",
    "healthy.py",
)
STEADY = "while True: pass"
BURSTY = """
import random, time
while True:
    until = time.monotonic() + random.uniform(1.0, 2.0)
    while time.monotonic() < until:
        pass
    time.sleep(random.uniform(1.0, 2.0))
"""
KINDS = {"steady": STEADY, "bursty": BURSTY, "apart": "import os; os.nice(19)\n" + STEADY}


@dataclass(frozen=True)
class Said:
    """A diagnosis in short: the first finding, the kept fixes, what they give, its times."""

    first: str
    kept: frozenset[str]
    text: str

    def agrees(self, other: Said) -> bool:
        """Whether another diagnosis says the same of the cause and of the repair."""
        return self.first == other.first and self.kept == other.kept


@contextmanager
def neighbours(kind: str, many: int) -> Iterator[None]:
    """Run so many busy processes of a kind meanwhile."""
    started = [
        subprocess.Popen([sys.executable, "-c", KINDS[kind]], start_new_session=kind == "apart")
        for _ in range(many)
    ]
    try:
        yield
    finally:
        for one in started:
            one.kill()
            one.wait()


def said(script: Path, budget: str) -> Said:
    """Diagnose the script, and read what the report says."""
    with tempfile.TemporaryDirectory() as name:
        report = diagnosis(script, Path(name), "--budget", budget)
    findings, stack = report["findings"], report["stack"]
    kept = frozenset(stack["fixes"]) if stack else frozenset()
    gain = f"{stack['speedup']:.2f}× ({stack['low']:.2f} to {stack['high']:.2f})" if stack else "–"
    grade = report["verdict"].get("grade", "")
    return Said(
        findings[0]["id"] if findings else "–",
        kept,
        f"{grade}, {gain}, {report['seconds']:.0f} s{_left(report)}",
    )


def _left(report: dict[str, Any]) -> str:
    late = [one["fix"] for one in report["trials"] if "budget" in one["reason"]]
    return f", {len(late)} not tried for want of time" if late else ""


def compare(script: Path, given: argparse.Namespace) -> list[bool]:
    """Diagnose a script quiet and beside each kind of neighbours; print and return who agrees."""
    quiet = said(script, given.budget)
    _print(script.name, "quiet", quiet, "")
    found = []
    for kind in given.kinds:
        for many in given.neighbours:
            with neighbours(kind, many):
                beside = said(script, given.budget)
            found.append(beside.agrees(quiet))
            _print("", f"{many} {kind}", beside, "same" if found[-1] else "OTHER")
    return found


def _print(script: str, beside: str, one: Said, agrees: str) -> None:
    kept = ", ".join(sorted(one.kept)) or "nothing"
    print(f"{script:24} {beside:9} {agrees:6} {one.first}; kept {kept}; {one.text}", flush=True)


if __name__ == "__main__":
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("scripts", nargs="*", type=Path, metavar="SCRIPT")
    options.add_argument("--neighbours", type=int, nargs="+", default=[2, 4])
    options.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    options.add_argument("--budget", default="3min", help="of each diagnosis [default: 3min]")
    given = options.parse_args()
    began = time.monotonic()
    head()
    chosen = given.scripts or [EXAMPLES / name for name in SCRIPTS]
    made = [one for script in chosen for one in compare(script.resolve(), given)]
    if made:
        share = sum(made) / len(made)
        print(f"{share:.0%} as when quiet (target {TARGET:.0%}: {verdict(share >= TARGET)})")
    foot(began)
