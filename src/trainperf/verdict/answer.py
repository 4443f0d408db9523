"""What a training is bound by, in the parts of its sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from trainperf.fixes import concern
from trainperf.fixes.common.words import times
from trainperf.model import Bottleneck, Category, Evidence, Finding, Grade, Verdict

SIDES: dict[Category, str] = {
    "input": "Input-bound",
    "storage": "Storage-bound",
    "model": "Model-bound",
    "host": "Host-bound",
    "sync": "Sync-bound",
    "memory": "Held up by memory",
    "environment": "Held back by the machine",
}
"""How a verdict begins, by the category of what it names."""


MATTERS = 0.10
"""Share of a step beyond which work is what it is bound by (XProf, tb_plugin: 10 %)."""


class Case(NamedTuple):
    """What a verdict is on: the evidence, and its findings, the first of most weight."""

    evidence: Evidence
    findings: tuple[Finding, ...] = ()

    @property
    def first(self) -> Finding | None:
        """The finding that is worth most; None without any."""
        return self.findings[0] if self.findings else None

    @property
    def gain(self) -> str:
        """What the first finding could make of a step; "" where it is of something else."""
        first = self.first
        if first is None or first.bound is None or concern(first) in ("outside", "epoch end"):
            return ""
        return f", and it could run up to {times(first.bound)} as fast"


@dataclass(frozen=True)
class Answer:
    """What a training is bound by; its sentence is `text`, `gain`, `tried`, `doubt` and "."

    `gain` is what a change could give, which is said until one was tried, and `tried` what came of
    those that were. `doubt` is why it is no more than probable, or what would examine it. `more`
    are the sentences after it. `names` is the id of the finding whose title stands in it.
    """

    side: Bottleneck
    text: str
    gain: str = ""
    tried: str = ""
    doubt: str = ""
    more: str = ""
    names: str = ""
    grade: Grade = "settled"
    healthy: bool = False

    def verdict(self, utilization: float | None) -> Verdict:
        """The verdict in whole sentences."""
        text = f"{self.text}{self.gain}{self.tried}{self.doubt}.{self.more}"
        return Verdict(self.side, text, utilization, self.healthy, self.grade)
