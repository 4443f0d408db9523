"""Changes that were measured to be faster, and that make the training another one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trainperf.model.findings import Finding, Patch

WorkUnit = Literal["real tokens", "samples", "steps"]


@dataclass(frozen=True)
class ExperimentWay:
    """One way to make a change that alters the experiment, as it was measured.

    `variant` says which, where there are several ("batch=64"). `speedup` with `low` and `high` is
    work per second over that of the script as it is, as in `Trial`; `after_per_s` with its limits
    is that work per second.
    """

    variant: str
    speedup: float
    low: float
    high: float
    pairs: int
    steps: int
    after_per_s: float
    after_low_per_s: float
    after_high_per_s: float


@dataclass(frozen=True)
class ExperimentChange:
    """A change that is faster and makes the training another one: in no patch unless asked for.

    `why` says what makes it another one: what the change does, or how the losses of one that was
    to keep the numbers differed (`losses_differ`). `before_per_s` is the work per second of the
    script as it is, in the trials: in samples, or in steps of the script as it is where the size
    of its batches is not known (`unit`). Of `ways` the first is the one that `finding` and
    `patch`, which holds nothing else, make: `trainperf fix --only ID`.
    """

    finding: Finding
    why: str
    losses_differ: bool
    unit: WorkUnit
    before_per_s: float
    ways: tuple[ExperimentWay, ...]
    patch: Patch
