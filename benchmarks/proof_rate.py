"""How many candidates a diagnosis decides, how fast, and what of its trials is comparing.

Diagnoses scripts of `examples/` and `tests/real/` one after another with the default budget, each
in a folder of its own, and prints a row for each: seconds of the diagnosis and of its trials,
candidates with an edit and how many were decided (by slices, in the loop, or as they could not
matter), decided ones per minute of trials, whether the first finding with an edit was tried, the
share of the trials in which slices were compared, and what was kept.

    python benchmarks/proof_rate.py [--json FILE] [SCRIPT…]
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from _trials import EXAMPLES, diagnosis, foot, head, verdict

REAL = EXAMPLES.parent / "tests" / "real"
SCRIPTS = (
    *(EXAMPLES / f"{name}.py" for name in ("tiny_steps", "eager_loop", "checkpoint_every_batch")),
    *(EXAMPLES / f"{name}.py" for name in ("generator", "healthy", "rnn_padded_text")),
    *(EXAMPLES / f"{name}.py" for name in ("torch_healthy", "torch_small_kernels")),
    *(EXAMPLES / f"{name}.py" for name in ("torch_step_logging", "torch_slow_transform")),
    *(REAL / f"{name}.py" for name in ("null_context", "inline_tape", "config_object")),
)
NO_EDIT = ("no edit can be written", "what it saves lies", "what it saves shows")
"""How the reasons begin of those that no slice of steps can show."""
NO_MATTER = ("it saves at most", "it saves nothing of a step")
AS_GOOD = "gives all that a faster input can"


@dataclass(frozen=True)
class Row:
    """A diagnosis in figures; seconds, and milliseconds for the step."""

    script: str
    step_ms: float
    seconds: float
    trying_s: float
    candidates: int
    decided: int
    no_matter: int
    in_the_loop: int
    first_tried: bool
    compared: float
    kept: str

    @property
    def a_minute(self) -> float:
        """Decided candidates for each minute of trials."""
        return 60 * self.decided / self.trying_s if self.trying_s else 0.0

    def __str__(self) -> str:
        first = "yes" if self.first_tried else "NO"
        told = f"{self.decided} of {self.candidates} ({self.in_the_loop}, {self.no_matter})"
        return (
            f"| {self.script} | {self.step_ms:.1f} | {self.seconds:.0f} | {self.trying_s:.0f} | "
            f"{told} | {self.a_minute:.1f} | {first} | {100 * self.compared:.0f} % | {self.kept} |"
        )


def row(script: str, report: dict[str, Any]) -> Row:
    """The figures of a report."""
    trying, findings = report["trying"] or {}, report["findings"]
    tried = {one["fix"]: one for one in report["trials"]}
    edits = {
        fix: one
        for fix, one in tried.items()
        if not (one["outcome"] == "not tried" and one["reason"].startswith(NO_EDIT))
    }
    reasons = [one["reason"] for one in edits.values()]
    no_matter = sum(one.startswith(NO_MATTER) or one.endswith(AS_GOOD) for one in reasons)
    decided = sum(one["outcome"] != "not tried" for one in edits.values()) + no_matter
    first = next((one["id"] for one in findings if one["id"] in edits), None)
    stack = report["stack"]
    kept = "–"
    if stack is not None:
        kept = f"{', '.join(stack['fixes'])} {stack['speedup']:.2f}×"
    return Row(
        script=script,
        step_ms=1e3 * report["evidence"]["times"]["real"].get("seconds", 0.0),
        seconds=report["seconds"],
        trying_s=trying.get("seconds", 0.0),
        candidates=len(edits),
        decided=decided,
        no_matter=no_matter,
        in_the_loop=sum(one.get("basis") == "in the loop" for one in edits.values()),
        first_tried=first is None or tried[first]["outcome"] != "not tried",
        compared=trying.get("compared_s", 0.0) / (trying.get("seconds") or 1.0),
        kept=kept,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scripts", nargs="*", type=Path, metavar="SCRIPT")
    parser.add_argument("--json", type=Path, help="write the rows to this file as well")
    asked = parser.parse_args()
    head()
    began, rows = time.monotonic(), list[Row]()
    print(
        "| script | ms a step | diagnosis, s | trials, s | decided (in the loop, no matter) |",
        end="",
    )
    print(" a minute | first | compared | kept |\n|---|---|---|---|---|---|---|---|---|")
    for script in asked.scripts or SCRIPTS:
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / "work" / script.name
            copy.parent.mkdir()
            shutil.copy(script, copy)
            rows.append(row(script.stem, diagnosis(copy, Path(folder))))
        print(rows[-1], flush=True)
        if asked.json:
            asked.json.write_text(json.dumps([asdict(one) for one in rows], indent=1))
    _sum_up(rows)
    foot(began)


def _sum_up(rows: list[Row]) -> None:
    candidates = sum(one.candidates for one in rows)
    share = sum(one.decided for one in rows) / max(1, candidates)
    print(f"decided: {100 * share:.0f} % of {candidates}; {verdict(share >= 0.9)} (90 %)")
    usual = [one.a_minute for one in rows if 10 <= one.step_ms <= 300 and one.candidates]
    if usual:
        rate = statistics.median(usual)
        print(f"a minute, steps of 10 to 300 ms: median {rate:.1f}; {verdict(rate >= 5)} (5)")
    first = all(one.first_tried for one in rows)
    print(f"first finding tried: {verdict(first)} (always)")
    long = [one.compared for one in rows if one.step_ms > 10 and one.candidates]
    if long:
        part = statistics.median(long)
        print(
            f"compared, steps above 10 ms: median {100 * part:.0f} %; {verdict(part >= 0.4)} (40 %)"
        )
    took = statistics.median(one.seconds for one in rows)
    print(f"whole diagnosis: median {took:.0f} s; {verdict(took <= 100)} (100 s)")


if __name__ == "__main__":
    main()
