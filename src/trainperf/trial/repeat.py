"""What was kept, once more in fresh processes and in the user's own environment.

Two processes of one script differ by 10 to 35 % for their whole life on a shared machine: where
their memory lies, and who was there when they chose their kernels, decides. A gain that a second
pair of processes does not repeat is none of the change.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from trainperf.model import Ratio, Training
from trainperf.trial.budget import Bench, Clock, Costs
from trainperf.trial.candidates import SMALLEST_GAIN, Candidate
from trainperf.trial.contest import Contest
from trainperf.trial.legs.faults import LegFailed, NotCompared
from trainperf.trial.queue import PROCESSES, Queue
from trainperf.trial.ratio import FEWEST, of_two

FAR_BEYOND = 2.0
"""From this gain on one more pair of processes tells enough."""
PAIRS = 8
PAIRS_S = 15.0
"""So many pairs of slices each process with the changes has, fewer where they take longer."""
AGAIN = 2
"""So many times as many pairs where neighbours leave open whether there is a gain."""
WHOLE_RUNS_S = 60.0
"""Plain runs of the whole script are made in place of this where they take no longer."""
MARGIN = 1.15
"""A whole run may take so much longer than the ledger says: what follows the last step."""
SLACK = 1.3
"""Starting and comparing may take so many times what they are expected to."""


@dataclass(frozen=True)
class Repeated:
    """The speed-ups of pairs of fresh processes, the unchanged script's and the changed one's.

    `ratio` is that of both together, its interval as wide as they lie apart at least; None where
    they could not be compared: then `reason` says why, and whether the change has `failed`.
    """

    ratio: Ratio | None
    pairs: tuple[float, ...] = ()
    reason: str = ""
    failed: bool = False

    @property
    def stands(self) -> bool:
        """Whether each pair of processes shows the gain again, and none may be as large a loss."""
        if self.ratio is None or min(self.pairs) <= 1 + SMALLEST_GAIN:
            return False
        return self.ratio.low > 1 / self.ratio.speedup


def needed_s(costs: Costs, processes: int = 2) -> float:
    """Seconds that repeating takes with so many processes, half of them of the changed script."""
    return SLACK * (costs.starting(processes) + costs.comparing(processes - 1, _pairs(costs)))


def _pairs(costs: Costs) -> int:
    return max(FEWEST, min(PAIRS, int(PAIRS_S / costs.comparing(1, 1))))


def left_to_whole_runs(training: Training | None, share: float, speedup: float, s: float) -> bool:
    """Whether plain runs of the whole script, A B B A, are short and fit into `s` seconds.

    Of the training the changes shorten a `share`, by `speedup`.
    """
    if training is None or training.seconds_now is None:
        return False
    both = training.seconds_now * (2 - share * (1 - 1 / speedup))
    return 2 * MARGIN * both <= min(WHOLE_RUNS_S, s)


def repeat(bench: Bench, candidate: Candidate, clock: Clock, low: float = 1.0) -> Repeated:
    """Compare two fresh processes of the script with two of it changed, in turns.

    Where there is no time for so many, or the gain of at least `low` is far beyond what processes
    differ by, one of each: that is the second pair, after that of the trials.
    """
    costs = bench.costs.holding(candidate.holds)

    def compared(contest: Contest, _: float) -> bool:
        told = contest.ratio is not None and (contest.candidate is None or contest.ratio.low > 1)
        return len(contest.pairs) >= _pairs(costs) * (1 if told else AGAIN)

    two = low < FAR_BEYOND and needed_s(costs, 4) <= clock.left
    twice = [replace(candidate, variant=process) for process in PROCESSES[: 1 + two]]
    try:
        with Queue(bench, compared, controlled=two) as queue:
            found = queue.compare(twice, clock)
            control = queue.baseline(candidate.holds).control
    except LegFailed as fault:
        return Repeated(None, reason=clock.reason if clock.over() else f"the script {fault}")
    for measured in found:
        if measured.failure and not measured.late:
            failed = not isinstance(measured.failure, NotCompared)
            return Repeated(None, reason=str(measured.failure), failed=failed)
    ratios = [measured.ratio for measured in found if measured.ratio is not None]
    if not ratios:
        return Repeated(None, reason=clock.reason)
    if len(ratios) == 1:
        return Repeated(ratios[0], (ratios[0].speedup,))
    twin = control.speedup if control is not None and bench.costs.slots > 1 else 1.0
    return Repeated(*of_two(ratios[0], ratios[1], twin))
