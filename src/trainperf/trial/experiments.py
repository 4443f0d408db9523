"""Which fixes are faster and make the training another one. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from trainperf.model import Outcome, Trial
from trainperf.trial.candidates import Candidate
from trainperf.trial.outcome import Baseline, Measured, floor
from trainperf.trial.parity import Losses


def of_another(
    trials: Iterable[Trial],
    measured: Sequence[Measured],
    candidates: Sequence[Candidate],
    baseline: Baseline,
) -> Iterator[Trial]:
    """Those of the trials whose fix makes another experiment of the script, and pays.

    Those that change it by what they are, and those that were to keep its numbers but trained
    otherwise. One whose losses are no numbers any more trains nothing, and is none of them.
    """
    broken = {
        (one.fixes[0], one.variant)
        for found, one in zip(measured, candidates, strict=True)
        if not _finite(found.losses) and _finite(baseline.losses)
    }
    least = 1 + floor(baseline.control)
    for one in trials:
        differs = one.outcome is Outcome.LOSSES_DIFFER and (one.low or 0.0) > least
        if (differs or one.outcome is Outcome.CHANGES) and (one.fix, one.variant) not in broken:
            yield one


def _finite(losses: Losses | None) -> bool:
    values: Mapping[int, float] = {} if losses is None else losses.values
    return all(math.isfinite(one) for one in values.values())
