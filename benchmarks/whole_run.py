"""The ledger of the whole training against plain runs of the whole script, before and after.

Each script is diagnosed in a copy of its folder, with time for whole plain runs of it beyond the
budget: as it is, with the patch, with the patch, as it is. Their seconds, from the start of the
process to its end, are held against what the report would have said without them: the ledger
now, the ledger with the kept changes, and how many times as fast the whole becomes. Targets,
over all figures: median error at most 3 %, 90th percentile at most 8 %.

The steady ratio of the steps stands beside them: what a report of steps alone would have said.

    python benchmarks/whole_run.py [--budget TIME] [SCRIPT …]
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from _trials import EXAMPLES, diagnosis, foot, head, parser, verdict, why_nothing

MEDIAN_TARGET, P90_TARGET = 0.03, 0.08
SCRIPTS = (
    *("checkpoint_every_batch", "eager_loop", "generator", "numpy_batches", "retracing"),
    *("rnn_padded_text", "slow_images", "small_files", "tiny_steps", "torch_memmap_gpt"),
    *("torch_python_collate", "torch_slow_transform", "torch_small_kernels"),
    "torch_step_logging",
)


@dataclass(frozen=True)
class Compared:
    """The ledger of a script beside its plain runs, in seconds."""

    now: float
    after: float
    plain_now: float
    plain_after: float

    @property
    def errors(self) -> tuple[float, float, float]:
        """Relative errors of the seconds now, the seconds after, and their ratio."""
        now, after = self.now / self.plain_now, self.after / self.plain_after
        return now - 1, after - 1, now / after - 1


def compare(script: Path, given: argparse.Namespace) -> Compared | None:
    """Diagnose a copy of `script`; print and return the ledger beside its plain runs."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        shutil.copytree(script.parent, folder / "own", ignore=shutil.ignore_patterns("__pycache__"))
        options = ("--budget", given.budget, "--full-run", given.full_run)
        report = diagnosis(folder / "own" / script.name, folder, *options)
    whole = report["training"]
    if report["stack"] is None or not whole["runs"]:
        why = why_nothing(report) if report["stack"] is None else whole["reason"]
        print(f"{script.name:26} {why}", flush=True)
        return None
    return _print(script.name, report, whole)


def _print(name: str, report: dict[str, Any], whole: dict[str, Any]) -> Compared | None:
    first, changed, again, last = whole["runs"]
    plain_now, plain_after = statistics.fmean((first, last)), statistics.fmean((changed, again))
    stack = report["stack"]
    told = f"{', '.join(stack['fixes'])}: steps {stack['speedup']:.2f}×"
    if any(one["after_s"] is None for one in whole["items"]) or not whole["items"]:
        print(f"{name:26} {told}; no ledger of it", flush=True)
        return None
    now = sum(one["now_s"] for one in whole["items"])
    after = sum(one["after_s"] for one in whole["items"])
    found = Compared(now, after, plain_now, plain_after)
    print(
        f"{name:26} {told}, whole {now / after:.2f}×, plain {plain_now / plain_after:.2f}×\n"
        f"{'':26} now {now:.1f} s, plain {first:.1f} and {last:.1f}; after {after:.1f} s, plain "
        f"{changed:.1f} and {again:.1f}; errors {', '.join(f'{e:+.1%}' for e in found.errors)}",
        flush=True,
    )
    return found


def summary(found: list[Compared]) -> None:
    """Print the median and the 90th percentile of all errors, and of each figure."""
    if not found:
        print("no script to compare")
        return
    errors = np.abs([one.errors for one in found])
    middle, high = np.quantile(errors, (0.5, 0.9))
    each = ", ".join(
        f"{name} {np.median(column):.1%} and {np.quantile(column, 0.9):.1%}"
        for name, column in zip(("now", "after", "ratio"), errors.T, strict=True)
    )
    print(
        f"{len(found)} scripts: median error {middle:.1%} (target {MEDIAN_TARGET:.0%}: "
        f"{verdict(middle <= MEDIAN_TARGET)}), 90th percentile {high:.1%} (target "
        f"{P90_TARGET:.0%}: {verdict(high <= P90_TARGET)}); {each}"
    )


if __name__ == "__main__":
    options = parser(__doc__)
    options.add_argument("scripts", nargs="*", type=Path, metavar="SCRIPT")
    options.add_argument("--budget", default="3min", help="of each diagnosis [default: 3min]")
    options.add_argument("--full-run", default="10min", help="for plain runs [default: 10min]")
    given = options.parse_args()
    began = time.monotonic()
    head()
    chosen = given.scripts or [EXAMPLES / f"{name}.py" for name in SCRIPTS]
    made = [compare(script.resolve(), given) for script in chosen]
    summary([one for one in made if one is not None])
    foot(began)
