"""The values of a check: runs of a script, the speed of the machine, a baseline."""

from __future__ import annotations

from dataclasses import dataclass

from trainperf.check import spread
from trainperf.model import Answer, Diagnosis, Reason


@dataclass(frozen=True)
class Speed:
    """How fast the machine is at one moment: seconds of a fixed piece of work.

    `one_s` on one core, `all_s` on as many as the process may use at the same time; the
    fastest of several goes.
    """

    one_s: float
    all_s: float


@dataclass(frozen=True)
class Repeat:
    """One run of the script; seconds per step.

    `fastest_s` is the mean of the fastest run of consecutive steps, `mean_s` that of all
    steps with `noise`, half its interval as a share of it. `agreement` is how far the
    fastest quarter of the runs of steps reaches above `fastest_s`, as a share of it.
    `cores` is what the script kept busy, `others` what other programs did meanwhile, `idle`
    what nobody did. `bounds` stand beside `findings`. `hosts` are names of the machine:
    its own, and that of its last start, which the containers on it have in common.
    None where not measured.
    """

    fastest_s: float
    mean_s: float
    noise: float | None = None
    agreement: float | None = None
    batch_size: int | None = None
    cores: float | None = None
    others: float | None = None
    utilization: float | None = None
    findings: tuple[str, ...] = ()
    speed: Speed | None = None
    bounds: tuple[float | None, ...] = ()
    idle: float | None = None
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Baseline(Diagnosis):
    """A saved diagnosis with every run that it was made of; its file is a report as well."""

    repeats: tuple[Repeat, ...] = ()


@dataclass(frozen=True)
class Criteria:
    """The criteria of a check, as shares of 1. `least` is None where no utilisation is asked for.

    `fail_on` is "none", "any" or the speed-up from which a new finding fails the check.
    """

    most: float = 0.05
    least: float | None = None
    fail_on: str | float = "none"


@dataclass(frozen=True)
class Judged:
    """Two sets of runs compared by their times: seconds per step, or per sample.

    `change` is relative, `before_noise` and `after_noise` are half the intervals as a share of
    the time, `between` half that of the change, by how the runs vary, of which `runs` were
    made now. `elsewhere` is by how much a change must be greater as the hosts are not the
    same. `machine` is by how much the machine itself was slower than when the baseline was
    saved (0.1: a tenth), None where not known. `others` is how many cores other programs kept
    busy beside the best run, `others_before` the same of the baseline, `idle` how many nobody
    did, `computed` the relative change of the processor time of a step, `added` the same as a
    share of the step before, `cores` the relative change of the cores it kept busy. `reason`
    says why it is undecided, `again` that another run may decide it. `remark` is what else was
    seen.
    """

    outcome: Answer
    before_s: float
    after_s: float
    change: float
    before_noise: float
    after_noise: float
    between: float = 0.0
    elsewhere: float = 0.0
    by_samples: bool = False
    runs: int = 1
    machine: float | None = None
    others: float | None = None
    others_before: float | None = None
    idle: float | None = None
    computed: float | None = None
    added: float | None = None
    cores: float | None = None
    again: bool = False
    reason: str = ""
    remark: str = ""

    @property
    def interval(self) -> tuple[float, float | None]:
        """Where the change lies, by the noise of both sides; None where it has no upper end."""
        low = (1 + self.change) * spread.least(self.after_noise) / (1 + self.before_noise) - 1
        if self.before_noise >= 1:
            return low, None
        return low, (1 + self.change) * (1 + self.after_noise) / (1 - self.before_noise) - 1

    @property
    def noise(self) -> float:
        """Half the widest interval that counts: what disturbs a run does not let it pass.

        `between` is of the mean run: an alarm's mean lies beyond it, not its fastest.
        """
        if self.outcome == "passed":
            return self.before_noise
        own = max(self.before_noise, self.after_noise)
        return own if self.outcome == "failed" else max(own, self.between)


@dataclass(frozen=True)
class Checked:
    """The answer of a check: `line` is the last one printed, `reasons` what it rests on."""

    outcome: Answer
    line: str
    times: Judged
    reasons: tuple[Reason, ...] = ()

    @property
    def failures(self) -> tuple[str, ...]:
        """The reasons why it fails, in sentences."""
        return tuple(one.text for one in self.reasons if one.outcome == "failed")
