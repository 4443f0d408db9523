"""Files a second of `trainperf lint`, over a folder of yours or this repository.

python benchmarks/lint.py [FOLDER] [--rounds 3]

Prints the whole time of the command in a fresh process (start included) and the rate;
the fastest round is the one least disturbed by what else the machine does.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path


def main() -> None:
    """Time the command on a folder and on nothing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", default=str(Path(__file__).parents[1]))
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    start = min(_seconds([str(Path(__file__).parent / "help.py")])[0] for _ in range(given.rounds))
    rounds = [_seconds([given.folder]) for _ in range(given.rounds)]
    seconds, found = min(rounds, key=lambda each: each[0])
    files = found["files"]
    print(f"start   {start * 1e3:.0f} ms (one file without a framework)")
    print(f"whole   {seconds:.2f} s for {files} files, {files / seconds:.0f} files/s")
    print(f"places  {len(found['found'])}, not read {len(found['unread'])}")


def _seconds(paths: list[str]) -> tuple[float, dict[str, list[object]]]:
    command = [sys.executable, "-m", "trainperf", "lint", "--output-format", "json", *paths]
    began = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return time.perf_counter() - began, json.loads(done.stdout)


if __name__ == "__main__":
    main()
