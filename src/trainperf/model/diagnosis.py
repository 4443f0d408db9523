"""The answer: everything a report is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trainperf.model.basics import Site, known
from trainperf.model.evidence import Evidence
from trainperf.model.facts import Loop
from trainperf.model.findings import (
    Category,
    Control,
    Finding,
    NotTaken,
    Patch,
    Proof,
    Stack,
    Trial,
    Trials,
)
from trainperf.model.timing import Measure
from trainperf.model.training import Training
from trainperf.recording.machine.instance import Cost
from trainperf.recording.run import Ending

Grade = Literal["settled", "probable", "not examined"]
"""How sure a verdict is. A probable one rests on times that vary, or on what no clock disturbs;
of one that was not examined, the text says what was not, and what would examine it."""

Bottleneck = Literal[Category, "none"]

WorkUnit = Literal["real tokens", "samples", "steps"]


Answer = Literal["passed", "failed", "undecided"]
"""The outcomes of a check; "undecided" is printed as "cannot tell"."""


@dataclass(frozen=True)
class Compared:
    """The baseline of a check: a file, and the runs that are saved in it.

    `sha256` is of the file's bytes as they were read, in hexadecimal. `runs` is how many runs
    of the script it holds.
    """

    file: str
    sha256: str
    created: str
    trainperf_version: str
    script: str
    hostname: str
    runs: int


@dataclass(frozen=True)
class CheckedTimes:
    """The times that were compared: seconds of the fastest steps, of a sample, of a run.

    `change` is relative (0.1: a tenth slower).
    """

    basis: Literal["step", "sample", "whole run"]
    before_s: float
    after_s: float
    change: float


@dataclass(frozen=True)
class Reason:
    """One thing that decides a check, or is only said with it (`outcome` "passed").

    `value` is the figure that was judged and `limit` what it was held against: for "time" the
    relative change, for "utilization" the share. None where there is none.
    """

    kind: Literal["time", "utilization"]
    outcome: Answer
    text: str
    value: float | None = None
    limit: float | None = None


@dataclass(frozen=True)
class Check:
    """The answer of a check: the worst of its reasons, and what the command exits with."""

    outcome: Answer
    exit_status: int
    text: str
    reasons: tuple[Reason, ...]
    times: CheckedTimes | None
    runs: int
    baseline: Compared


@dataclass(frozen=True)
class ExperimentChange:
    """A change that is faster and makes the training another one: in no patch unless asked for.

    `why` says what makes it another one: what the change does, or how the losses of one that was
    to keep the numbers differed (`losses_differ`). `before_per_s` is the work per second of the
    script as it is, or with the fixes `on_top` of which it was tried: in samples, or in steps of
    the script as it is where the size of its batches is not known (`unit`). Of `ways`, the trials
    that were faster, the first is the one that `finding` and `patch`, which holds nothing else,
    make: `trainperf fix --only ID`.
    """

    finding: Finding
    why: str
    losses_differ: bool
    unit: WorkUnit
    before_per_s: float
    ways: tuple[Trial, ...]
    patch: Patch


@dataclass(frozen=True)
class Verdict:
    """The answer in one sentence, and which side of the step it points to.

    `healthy` means that nothing worth repairing was found, by all probes and trials that
    apply. `utilization` is the accelerator utilisation against the 90 % line, None if not
    measured. `grade` says how sure the answer is.
    """

    bottleneck: Bottleneck
    text: str
    utilization: float | None = None
    healthy: bool = False
    grade: Grade = "settled"


@dataclass(frozen=True)
class TraceFile:
    """The Chrome trace that `--trace` wrote of so many steps, or the `reason` why there is none.

    `note` is what is to be said of it.
    """

    file: str
    steps: int = 0
    note: str = ""
    reason: str = ""


@dataclass(frozen=True)
class TraceRead:
    """The profiler's trace that a diagnosis was read off, with nothing run: so many `steps` of it.

    `workers` says that worker processes made the batches; `pageable_s` are seconds of a step in
    copies to the GPU out of memory that is not pinned.
    """

    file: str
    steps: int
    workers: bool = False
    pageable_s: float = 0.0


@dataclass(frozen=True)
class RunningJob:
    """The job whose command was diagnosed, and what it took of the machine meanwhile.

    `pid` is the process that was asked for, `started_by` the one whose command was run: its
    launcher or parent, where it is another. `began` is ISO 8601, UTC. `cores` is how many it kept
    busy while it was diagnosed, None if that was not seen.
    """

    pid: int
    started_by: int
    began: str
    ended: bool
    cores: float | None


@dataclass(frozen=True)
class Overhead:
    """What trainperf's own hooks took of each step of the trials' unchanged script: a `share`."""

    share: float | None


@dataclass(frozen=True)
class Ignored:
    """A finding that a comment in the source says to leave out, and where the comment is."""

    finding: Finding
    comment: Site


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """Everything a report is made of. The only thing reporters see; saved as JSON.

    The fields are the keys of the JSON report (docs/report-format.md). `evidence` is of the
    observed run; where no training loop was seen, it holds what is known without one.
    """

    format_version: int
    trainperf_version: str
    created: str  # ISO 8601, UTC
    script: str
    command: tuple[str, ...]
    cwd: str
    ending: Ending
    verdict: Verdict
    evidence: Evidence
    findings: tuple[Finding, ...] = ()  # ranked, best first
    trials: tuple[Trial, ...] = ()
    trying: Trials | None = None  # how the trials were made; None: not asked for
    stack: Stack | None = None
    control: Control | None = None
    overhead: Overhead | None = None
    patch: Patch | None = None
    not_measured: tuple[NotTaken, ...] = ()
    notes: tuple[str, ...] = ()  # what was seen that a reader should know
    seconds: float = 0.0  # what the whole diagnosis took
    output_tail: str = ""  # the script's last output, where it failed
    cost: Cost | None = None  # None: no price is known
    ignored: tuple[Ignored, ...] = ()  # as `# trainperf: ignore` says
    check: Check | None = None  # None: nothing was checked
    trace: TraceFile | None = None  # None: none was asked for
    read_from: TraceRead | None = None  # None: a script was run
    training: Training | None = None  # None: no loop was seen
    experiment_changes: tuple[ExperimentChange, ...] = ()  # faster, but another training
    running: RunningJob | None = None  # None: what was diagnosed was started for it alone
    proofs: tuple[Proof, ...] = ()  # of the changes that were to be proved; the combined one last
    ended_by: str = ""  # the signal that killed the script, and what that usually means

    @property
    def loop(self) -> Loop | None:
        """The training loop that was timed; None where none was seen."""
        return self.evidence.loop if self.evidence.loop.kind else None

    @property
    def real(self) -> Measure | None:
        """The step of the loop as it is; None where none was timed."""
        return known(self.evidence.times.real_)

    @property
    def step_s(self) -> float | None:
        """Seconds of it."""
        return None if self.real is None else self.real.seconds

    @property
    def resident_s(self) -> float | None:
        """Seconds of a step whose batch is already there."""
        resident = known(self.evidence.times.resident_)
        return None if resident is None else resident.seconds

    @property
    def input_s(self) -> float | None:
        """Seconds that the input takes for a step by itself."""
        alone = known(self.evidence.times.input_)
        return None if alone is None else alone.seconds

    @property
    def noise(self) -> float | None:
        """Half of its 95 % interval as a share of it; None where that is not known."""
        return None if self.real is None or self.real.low is None else self.real.noise

    @property
    def host_s(self) -> float | None:
        """Seconds of host work in it, timed in resident steps, which may have been slower."""
        host = known(self.evidence.times.host_)
        if host is None or self.step_s is None or self.resident_s is None:
            return host
        return host * min(1.0, self.step_s / max(self.resident_s, host, 1e-9))

    def per_s(self, amount: float | None) -> float | None:
        """How many are done in a second, with that amount in each step; None if not known."""
        return amount / self.step_s if self.step_s and amount else None
