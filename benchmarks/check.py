"""Measures how often `trainperf check` errs: on an unchanged script, and on a planted 10 %.

A baseline is saved of a script whose step is 40 equal units of work. Then checks take
turns: unchanged, four units more in the step, unchanged, four more in its input. Of an
unchanged script none may fail; of a planted regression each must.

With `--load N`, so many processes keep a core busy while the checks run, and did not
while the baseline was saved: what then cannot be told must be said to be undecided.

    python benchmarks/check.py [--runs 10] [--planted 10] [--load 0]
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from _runs import SCRIPTS, machine

CHECK = (sys.executable, "-m", "trainperf", "check", "-q")
SCRIPT = str(SCRIPTS / "units.py")
PLANTED = ({"UNITS_STEP": "24"}, {"UNITS_INPUT": "24"})
ANSWERS = ("passed", "cannot tell", "failed")


@dataclass(frozen=True)
class Answer:
    """The answer of one check, and its seconds."""

    said: str
    change: str
    seconds: float


def check(folder: Path, *words: str, **env: str) -> Answer:
    """Run one check and read its last line."""
    began = time.monotonic()
    done = subprocess.run(
        [*CHECK, "--output-dir", str(folder / "runs"), *words, SCRIPT],
        env={**os.environ, "OMP_NUM_THREADS": "1", **env},
        capture_output=True,
        text=True,
        check=False,
    )
    line = (done.stdout.strip() or done.stderr.strip()).split("\n")[-1]
    print(f"  {' '.join(env) or 'unchanged':12} exit {done.returncode}  {line}", flush=True)
    change = re.search(r"\(([+-][0-9.]+ %)", line)
    said = next((one for one in ANSWERS if f"check {one}" in line), "error")
    return Answer(said, change[1] if change else "?", time.monotonic() - began)


def told(name: str, answers: list[Answer], wanted: str) -> None:
    """Print how many said what."""
    counts = ", ".join(f"{sum(one.said == said for one in answers)} {said}" for said in ANSWERS)
    changes = sorted((one.change for one in answers), key=lambda one: float(one.split()[0]))
    seconds = sorted(one.seconds for one in answers)
    right = sum(one.said == wanted for one in answers)
    print(
        f"{name:22} {right} of {len(answers)} {wanted} ({counts}); change {changes[0]} to "
        f"{changes[-1]}; {seconds[len(seconds) // 2]:.0f} s a check, at most {seconds[-1]:.0f} s",
        flush=True,
    )


def main() -> None:
    """Save a baseline, run the checks, print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=10, help="checks of the unchanged script")
    parser.add_argument("--planted", type=int, default=10, help="checks of a regression")
    parser.add_argument("--load", type=int, default=0, help="processes beside the checks")
    asked = parser.parse_args()
    print(machine(), flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = str(folder / "baseline.json")
        check(folder, "--save-baseline", file)
        busy = [
            subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(asked.load)
        ]
        try:
            same, slower = [], []
            for index in range(max(asked.runs, asked.planted)):
                if index < asked.runs:
                    same.append(check(folder, "--baseline", file))
                if index < asked.planted:
                    slower.append(check(folder, "--baseline", file, **PLANTED[index % 2]))
        finally:
            for one in busy:
                one.kill()
                one.wait()
    if same:
        told("unchanged", same, "passed")
    if slower:
        told("10 % more work", slower, "failed")
    print(f"load at the end {os.getloadavg()[0]:.2f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
