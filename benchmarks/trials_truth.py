"""The reported speed-up against the same patch applied by hand, both scripts run plainly.

Each script is diagnosed in a copy of its folder. The patch goes into a second copy by
`git apply`, then both run without trainperf, alternately (A B B A), with a number of
epochs that gives enough steps. Their time is taken from outside: the moments at which
their lines "epoch N" arrive. What comes before the second of them is left out, so that
neither start-up nor the first epoch's tracing counts.

Two of the report's figures are held against it: `measured`, the speed-up of a step, and
`epoch`, the report's time of an epoch before over after, which has what comes between
epochs as well, as the plain runs have. Targets for `measured`: median error at most
3 %, 90th percentile at most 8 %.

The examples are given `--longer` times their data (8 by default), as what comes between
epochs weighs far more in their short epochs than in a training of hours.

    python benchmarks/trials_truth.py [--runs N] [--steps N] [--seconds S] [SCRIPT …]
"""

from __future__ import annotations

import argparse
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from _trials import EXAMPLES, QUIET, diagnosis, foot, head, parser, verdict, why_nothing

MEDIAN_TARGET, P90_TARGET = 0.03, 0.08
SCRIPTS = ("slow_images.py", "eager_loop.py", "tiny_steps.py")
EPOCHS = re.compile(r"\b(EPOCHS = |epochs=)\d+\b")
DATA = re.compile(r"\b(ROWS = |per_class=)([\d_]+)\b")
LINE = re.compile(rb"\s*epoch (\d+)", re.IGNORECASE)
LEFT_OUT = 2
"""Epochs of a run that are not timed: the first, and the first or last besides, as the
script prints its line before or after."""


@dataclass(frozen=True)
class Compared:
    """A reported speed-up, of the step and of the epoch, and that of plain runs."""

    measured: float
    epoch: float
    plain: float


def compare(script: Path, given: argparse.Namespace) -> Compared | None:
    """Diagnose `script`, patch a copy, run both plainly; print and return the figures."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        original = _copy(script, folder / "original")
        _lengthen(original, given.longer)
        report = diagnosis(original, folder, "--budget", given.budget)
        stack = report["stack"]
        if stack is None:
            print(f"{script.name:18} {why_nothing(report)}", flush=True)
            return None
        patched = _copy(script, folder / "patched")
        _lengthen(patched, given.longer)
        _apply(folder / "fixes.diff", patched.parent)
        epochs = _epochs(report, given.steps, given.seconds)
        for one in (original, patched):
            _set_epochs(one, epochs)
        plain = [
            _round(original, patched, epochs, report["patch"]["environment"])
            for _ in range(given.runs)
        ]
    return _print(script, report, plain, epochs - LEFT_OUT)


def _copy(script: Path, folder: Path) -> Path:
    shutil.copytree(script.parent, folder, ignore=shutil.ignore_patterns("__pycache__"))
    return folder / script.name


def _apply(diff: Path, folder: Path) -> None:
    """Apply the patch as its reader would; nothing happens if it holds no edit."""
    if not diff.exists() or not diff.read_bytes():
        return
    before = {one: one.read_bytes() for one in folder.glob("*.py")}
    env = {**os.environ, "GIT_CEILING_DIRECTORIES": str(folder.parent)}
    subprocess.run(["git", "apply", str(diff)], cwd=folder, env=env, check=True)
    if all(one.read_bytes() == content for one, content in before.items()):
        raise SystemExit(f"git apply changed nothing in {folder}")


def _epochs(report: dict[str, Any], steps: int, seconds: float) -> int:
    """How many epochs give at least so many steps, and seconds of the faster script."""
    length, epoch_s = report["loop"]["epoch_steps"], report["stack"]["after_epoch_s"]
    if not length or not epoch_s:
        raise SystemExit(f"{report['script']}: the length of its epoch was not seen")
    return LEFT_OUT + max(1, math.ceil(steps / length), math.ceil(seconds / epoch_s))


def _lengthen(script: Path, times: int) -> None:
    """Give the script `times` the data: examples have epochs of seconds, trainings of hours."""
    text, hits = DATA.subn(
        lambda found: f"{found[1]}{int(found[2]) * times}", script.read_text(encoding="utf-8")
    )
    if hits != 1:
        raise SystemExit(f"{script.name} sets the size of its data {hits} times, not once")
    script.write_text(text, encoding="utf-8")


def _set_epochs(script: Path, epochs: int) -> None:
    text, hits = EPOCHS.subn(rf"\g<1>{epochs}", script.read_text(encoding="utf-8"))
    if hits != 1:
        raise SystemExit(f"{script.name} sets its epochs {hits} times, not once")
    script.write_text(text, encoding="utf-8")


def _round(
    original: Path, patched: Path, epochs: int, environment: dict[str, str]
) -> tuple[float, float]:
    """Seconds of an epoch of the original and of the patched script, run A B B A."""
    took: dict[Path, list[float]] = {original: [], patched: []}
    for script in (original, patched, patched, original):
        changed = environment if script is patched else {}
        took[script].append(_plain_s(script, epochs, changed) / (epochs - LEFT_OUT))
    return statistics.fmean(took[original]), statistics.fmean(took[patched])


def _plain_s(script: Path, epochs: int, environment: dict[str, str]) -> float:
    """Seconds that all but the `LEFT_OUT` epochs of a plain run take."""
    env = {**os.environ, **QUIET, "PYTHONUNBUFFERED": "1", **environment}
    stamps: dict[int, float] = {}
    with subprocess.Popen(
        [sys.executable, script.name],
        cwd=script.parent,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            now, epoch = time.perf_counter(), LINE.match(line)
            if epoch is not None:
                stamps.setdefault(int(epoch[1]), now)
    if process.returncode or sorted(stamps) != list(range(1, epochs + 1)):
        raise SystemExit(
            f"{script}: ended with status {process.returncode} after the lines of epochs "
            f"{sorted(stamps)}, not of 1 to {epochs}"
        )
    return stamps[epochs] - stamps[LEFT_OUT]


def _print(
    script: Path, report: dict[str, Any], rounds: list[tuple[float, float]], epochs: int
) -> Compared:
    stack, length = report["stack"], report["loop"]["epoch_steps"]
    ratios = [before / after for before, after in rounds]
    plain = statistics.geometric_mean(ratios)
    epoch = stack["before_epoch_s"] / stack["after_epoch_s"]
    bounds = {one["fix"]: one["bound"] for one in report["trials"]}
    fixes = ", ".join(
        fix + (f" (at most {bounds[fix]:.3g}×)" if bounds.get(fix) else "")
        for fix in stack["fixes"]
    )
    inside = "in" if stack["low"] <= plain <= stack["high"] else "not in"
    before, after = (statistics.fmean(times) / length * 1e3 for times in zip(*rounds, strict=True))
    indent = " " * 18
    errors = stack["speedup"] / plain - 1, epoch / plain - 1
    print(
        f"{script.name:18} {fixes}\n"
        f"{indent} measured {stack['speedup']:.3f}× ({stack['low']:.3f} to {stack['high']:.3f}), "
        f"epoch {epoch:.3f}×; plain {plain:.3f}× ({min(ratios):.3f} to {max(ratios):.3f} over "
        f"{len(rounds)} rounds), {inside} the interval\n"
        f"{indent} error {errors[0]:+.1%}, of the epoch {errors[1]:+.1%}; "
        f"a step before: {stack['before_step_s'] * 1e3:.4g} ms, plain {before:.4g} ms; after: "
        f"{stack['after_step_s'] * 1e3:.4g} ms, plain {after:.4g} ms "
        f"({epochs * length * 2 * len(rounds)} steps each)",
        flush=True,
    )
    return Compared(stack["speedup"], epoch, plain)


def summary(found: list[Compared]) -> None:
    """Print the median and the 90th percentile of the errors."""
    if not found:
        print("no script to compare")
        return
    errors = [abs(one.measured / one.plain - 1) for one in found]
    of_epochs = [abs(one.epoch / one.plain - 1) for one in found]
    middle, high = np.quantile(errors, (0.5, 0.9))
    print(
        f"{len(found)} scripts: median error {middle:.1%} (target {MEDIAN_TARGET:.0%}: "
        f"{verdict(middle <= MEDIAN_TARGET)}), 90th percentile {high:.1%} (target "
        f"{P90_TARGET:.0%}: {verdict(high <= P90_TARGET)}); of the epoch "
        f"{np.quantile(of_epochs, 0.5):.1%} and {np.quantile(of_epochs, 0.9):.1%}"
    )


if __name__ == "__main__":
    options = parser(__doc__, 2, "rounds A B B A of plain runs")
    options.add_argument("scripts", nargs="*", type=Path, metavar="SCRIPT")
    options.add_argument("--steps", type=int, default=1000, help="timed in a plain run, at least")
    options.add_argument("--seconds", type=float, default=15.0, help="timed in one, at least")
    options.add_argument("--longer", type=int, default=8, help="times the data of an example")
    options.add_argument("--budget", default="3min", help="of each diagnosis [default: 3min]")
    given = options.parse_args()
    began = time.monotonic()
    head()
    chosen = given.scripts or [EXAMPLES / name for name in SCRIPTS]
    made = [compare(script.resolve(), given) for script in chosen]
    summary([one for one in made if one is not None])
    foot(began)
