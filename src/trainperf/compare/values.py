"""The values of a comparison of two diagnoses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Unit = Literal["s", "samples/s", "share", "cores", "bytes"]
State = Literal["new", "no longer ignored", "changed", "ignored", "gone", "still"]


@dataclass(frozen=True)
class Amount:
    """A figure with its interval, `low` and `high` None where its noise is not known."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Change:
    """One figure in both diagnoses; `before` or `after` is None where it was not measured.

    `change` is the relative change (0.1: a tenth more), None where one is missing or
    zero. `outside` says whether each lies outside the other's interval and the two
    intervals do not meet, None where that cannot be said: `reason` says why.
    """

    name: str
    unit: Unit
    before: Amount | None
    after: Amount | None
    change: float | None = None
    outside: bool | None = None
    reason: str = ""


@dataclass(frozen=True)
class Difference:
    """Something said in words that is not the same in both; "" where it is not known."""

    name: str
    before: str
    after: str


@dataclass(frozen=True)
class FindingChange:
    """A finding of either diagnosis, and its bounds, None where it has none or is not there.

    "ignored" is still there: a comment in the source says to leave it out, and did not before.
    """

    id: str
    title: str
    state: State
    before: float | None
    after: float | None


@dataclass(frozen=True)
class TrialChange:
    """The outcome of a fix that was tried in either diagnosis; "" where it was not."""

    fix: str
    before: str
    after: str
    speedup_before: float | None
    speedup_after: float | None


@dataclass(frozen=True)
class Side:
    """One of the two diagnoses, as it is named."""

    script: str
    created: str
    verdict: str
    bottleneck: str


@dataclass(frozen=True)
class Comparison:
    """The differences between two diagnoses, the first of which is the earlier state.

    `basis` says what the speed is compared by: seconds of a step, or samples per second
    where the batch size is not the same. `refusals` say why times must not be compared
    at all, `remarks` what else a reader must know, `neighbours` those of other programs.
    Lists hold what is in either diagnosis, changed or not, but for `machine` and
    `settings`, which hold differences.
    """

    before: Side
    after: Side
    basis: Literal["step", "samples"]
    times: tuple[Change, ...]
    stages: tuple[Change, ...]
    step_parts: tuple[Change, ...]
    utilization: tuple[Change, ...]
    findings: tuple[FindingChange, ...]
    trials: tuple[TrialChange, ...]
    settings: tuple[Difference, ...]
    machine: tuple[Difference, ...]
    refusals: tuple[str, ...]
    remarks: tuple[str, ...]
    neighbours: tuple[str, ...] = ()

    @property
    def figures(self) -> tuple[Change, ...]:
        """Every figure that was compared."""
        return (*self.times, *self.stages, *self.step_parts, *self.utilization)

    @property
    def changed(self) -> bool:
        """Whether anything is different beyond the noise."""
        return bool(
            any(one.outside for one in self.figures)
            or any(one.state != "still" for one in self.findings)
            or any(one.before != one.after for one in self.trials)
            or self.settings
            or self.machine
            or self.before.bottleneck != self.after.bottleneck
        )
