"""How far independent diagnoses of one and the same script differ in what they promise.

The figure is the speed-up of the report's last line: all kept fixes together. Target:
the largest at most 1.10 times the smallest.

    python benchmarks/trials_spread.py [--runs N] [--script FILE] [--budget TIME]
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from _trials import EXAMPLES, diagnosis, foot, head, parser, verdict, why_nothing

TARGET = 1.10


def one_run(script: Path, budget: str, number: int) -> tuple[float, tuple[str, ...]] | None:
    """Diagnose `script`; print and return the reported speed-up and its fixes."""
    with tempfile.TemporaryDirectory() as folder:
        report = diagnosis(script, Path(folder), "--budget", budget)
    stack, control = report["stack"], report["control"]
    if stack is None:
        print(f"{number:3}  {why_nothing(report)}", flush=True)
        return None
    noise = f"{control['low']:.3f} to {control['high']:.3f}" if control else "not measured"
    print(
        f"{number:3} {stack['speedup']:8.3f} {stack['low']:7.3f} {stack['high']:7.3f} "
        f"{stack['pairs']:6} {report['seconds']:5.0f} s  control {noise}  "
        f"{', '.join(stack['fixes'])}",
        flush=True,
    )
    return stack["speedup"], tuple(sorted(stack["fixes"]))


def summary(found: list[tuple[float, tuple[str, ...]]], runs: int) -> None:
    """Print the largest over the smallest, and whether the same fixes were kept."""
    if len(found) < 2:
        print(f"{len(found)} of {runs} diagnoses kept something: no spread to tell")
        return
    speedups = [speedup for speedup, _ in found]
    over = max(speedups) / min(speedups)
    sets = {fixes for _, fixes in found}
    print(
        f"{min(speedups):.3f} to {max(speedups):.3f}: max/min {over:.3f}, target {TARGET:.2f}: "
        f"{verdict(over <= TARGET and len(found) == runs)}; {len(found)} of {runs} diagnoses kept "
        f"something, {'all the same fixes' if len(sets) == 1 else f'{len(sets)} different sets'}"
    )


if __name__ == "__main__":
    options = parser(__doc__, 5, "diagnoses")
    options.add_argument("--script", type=Path, default=EXAMPLES / "tiny_steps.py")
    options.add_argument("--budget", default="3min", help="of each diagnosis [default: 3min]")
    given = options.parse_args()
    began = time.monotonic()
    head()
    print(f"{given.script.name}\nrun speed-up     low    high  pairs    took")
    made = [
        one_run(given.script.resolve(), given.budget, number) for number in range(1, given.runs + 1)
    ]
    summary([one for one in made if one is not None], given.runs)
    foot(began)
