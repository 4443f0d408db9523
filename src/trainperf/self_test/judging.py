"""From what was planted and measured to whether the measuring holds here. Pure."""

from __future__ import annotations

import datetime
import json
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import trainperf
from trainperf.machine.doctor.checks import Check, Status
from trainperf.model import Diagnosis, Outcome, Trial, Trials
from trainperf.model.encoding import encoded
from trainperf.model.words import ratio, seconds, share

STEP = 0.03
"""How far a measured step may lie from that of the plain run."""
REPAIR = 0.05
"""How far a measured speed-up may lie from that of plain runs."""
SAME = 0.02
"""How far from 1 a script may lie against itself."""
BUSY = 0.3
"""Where others kept more cores busy, a figure outside its band says nothing."""
KEPT = (
    "ending", "verdict", "trials", "trying", "stack", "control", "overhead", "not_measured",
    "notes", "seconds",
)  # fmt: skip
OF_EVIDENCE = ("device", "times", "startup", "use")


@dataclass(frozen=True)
class Figure:
    """One number that is known, and what trainperf measured of it.

    `expected` comes `from_` a plain run, or is planted. `measured` may lie off by the share
    `allowed`. `others` are the cores that other programs kept busy meanwhile, None where that is
    not told.
    """

    name: str
    unit: Literal["s", "×"]
    expected: float
    measured: float | None
    allowed: float
    others: float | None = None
    from_: str = ""

    @property
    def off(self) -> float | None:
        """By which share the measured number is larger than the expected one."""
        return None if self.measured is None else self.measured / self.expected - 1

    @property
    def status(self) -> Status:
        """Whether it holds; unknown where others were in the way, or time was missing."""
        if self.off is None:
            return "unknown"
        if abs(self.off) <= self.allowed:
            return "ok"
        return "unknown" if (self.others or 0.0) > BUSY else "problem"

    def check(self) -> Check:
        """It as a line of the report."""
        words, advice = ratio if self.unit == "×" else seconds, ""
        from_ = f" ({self.from_})" if self.from_ else ""
        text = f"expected {words(self.expected)}{from_}"
        if self.measured is None or self.off is None:
            return Check(self.name, self.status, f"{text}, the time was over")
        text += f", measured {words(self.measured)}: {self.off * 100:+.1f} %"
        text += f", may be off by {share(self.allowed)}"
        if self.status == "unknown":
            text += f"; others kept {self.others:.1f} cores busy"
            advice = "try again where nothing else runs"
        return Check(self.name, self.status, text, advice)


@dataclass(frozen=True)
class SelfTest:
    """The outcome of the self-test: figures, other checks, the diagnoses for a bug report."""

    framework: str
    version: str
    device: str
    figures: tuple[Figure, ...]
    checks: tuple[Check, ...]
    seconds: float
    diagnoses: dict[str, Diagnosis] = field(default_factory=dict)

    @property
    def lines(self) -> tuple[Check, ...]:
        """All of it, a line each."""
        return (*(figure.check() for figure in self.figures), *self.checks)

    @property
    def holds(self) -> bool | None:
        """Whether the measuring holds on this machine; None where it cannot be told."""
        found = {line.status for line in self.lines}
        if "problem" in found:
            return False
        return None if "unknown" in found else True

    @property
    def conclusion(self) -> str:
        """That as a sentence."""
        on = f"with {self.framework} {self.version} on {self.device}"
        if self.holds:
            return f"The measuring holds here, {on}."
        if self.holds is None:
            return f"Whether the measuring holds here, {on}, could not be told."
        return (
            f"The measuring does not hold here, {on}. Please report it, "
            "with the file that --json FILE writes."
        )


def nothing_kept(name: str, trials: Sequence[Trial], trying: Trials | None) -> Check:
    """A planted cause whose repair was not kept; unknown where there was no time to try it."""
    came = [
        f"{trial.name}: {trial.outcome}{f', {trial.reason}' if trial.reason else ''}"
        for trial in trials
    ]
    late = all(trial.outcome is Outcome.NOT_TRIED for trial in trials)
    why = "; ".join(came) or (trying.reason if trying is not None else "nothing was tried")
    unknown = late and trying is not None and trying.budget_needed_s is not None
    advice = "try again where nothing else runs" if unknown else ""
    text = f"expected a repair, none was kept: {why}"
    return Check(name, "unknown" if unknown else "problem", text, advice)


def as_json(test: SelfTest) -> str:
    """All of a self-test; keys are added, not renamed."""
    whole = {
        "format": 2,
        "trainperf": trainperf.__version__,
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "os": platform.platform(),
        "framework": test.framework,
        "framework_version": test.version,
        "device": test.device,
        "holds": test.holds,
        "seconds": round(test.seconds, 1),
        "lines": [asdict(line) for line in test.lines],
        "figures": [
            {**asdict(figure), "off": figure.off, "status": figure.status}
            for figure in test.figures
        ],
        "diagnoses": {name: _reported(found) for name, found in test.diagnoses.items()},
    }
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def _reported(diagnosis: Diagnosis) -> Any:
    """What of a diagnosis says how it was measured, as plain values; nothing names the machine."""
    evidence = diagnosis.evidence
    parts = {name: getattr(diagnosis, name) for name in KEPT}
    parts |= {name: getattr(evidence, name) for name in OF_EVIDENCE}
    parts["machine"] = replace(evidence.machine, hostname="")
    parts["findings"] = [finding.id for finding in diagnosis.findings]
    return encoded(parts)
