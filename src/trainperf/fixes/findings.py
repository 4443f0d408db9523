"""What fixes find, priced: what stands out of the noise is told, what may matter is tried."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from trainperf.errors import NotMeasured
from trainperf.fixes import Fix, all_fixes, by_id
from trainperf.fixes.cause import PROBE_LEAST, PROBED, UNTRIED, Cause, Saving, Unpriced
from trainperf.fixes.common.pipeline import input_at_most
from trainperf.fixes.common.step import at_most, step_may_matter
from trainperf.fixes.common.trainers import governed
from trainperf.fixes.common.words import SMALLEST_GAIN, measured_or, worth
from trainperf.model import (
    Category,
    Epoch,
    Evidence,
    Finding,
    Measure,
    Missing,
    Probe,
    Ratio,
    is_taken,
)
from trainperf.model.timing import WIDE
from trainperf.model.training import MOST_OF_IT
from trainperf.model.words import share as percent

Failed = Callable[[Fix, Exception], None]
"""Is told of a fix that failed."""


def in_the_loop(finding: Finding, evidence: Evidence) -> Ratio | None:
    """Return the speed-up of a step with the repair of `finding`, by the probe that ran it.

    It is of the step without its input, in PyTorch of forward and backward. None where no probe
    decides on the repair, or noise left its interval wide and near to 1.
    """
    fix = by_id().get(finding.id)
    made = None if fix is None else evidence.probes.get(fix.probed_by)
    if fix is None or not isinstance(made, Probe) or made.pairs < FEWEST_PAIRS:
        return None
    if made.vague and made.low <= WIDE and made.high >= 1 / WIDE:
        return None
    try:
        decided = fix.decided_by(made, finding, evidence)
    except NotMeasured:
        return None
    if not decided:
        return None
    return Ratio(made.ratio, made.low, made.high, made.pairs, made.steps)


FEWEST_PAIRS = 5
"""With fewer pairs of blocks a probe has no interval of its own."""


def shown_findings(
    evidence: Evidence, failed: Failed | None = None, among: Sequence[Fix] = ()
) -> tuple[Finding, ...]:
    """Return what stands out of the noise, of every fix for such a script or those `among` them.

    A fix that fails must not cost the reader the report: `failed` is told, if given.
    """
    calm = replace(evidence, times=evidence.times.as_if_exact())

    def ask(fix: Fix) -> Finding | None:
        at_ease = undisturbed(fix, fix.category, evidence)
        return _shown(fix, calm if at_ease else evidence, evidence)

    return _asked(evidence, ask, failed, among)


def findings_to_try(
    evidence: Evidence,
    found: Iterable[str],
    failed: Failed | None = None,
    among: Sequence[Fix] = (),
) -> tuple[Finding, ...]:
    """Return what is to be tried beside the findings with ids `found`, of fixes that can edit."""
    known = set(found)

    def ask(fix: Fix) -> Finding | None:
        writable = fix.rewrites or fix.sets_environment
        return _to_try(fix, evidence) if writable and fix.id not in known else None

    asked = _asked(evidence, ask, failed, among)
    return tuple(finding for finding in asked if finding.rewritable)


BEHIND = 1.25
"""A step that could run so many times as fast with free input may hide what is slow in itself."""


def with_free_input(evidence: Evidence) -> Evidence | None:
    """Return the evidence as if each batch were there, None where steps hardly wait for theirs.

    Where batches are made while the step computes (workers, `prefetch`), and it waits for them, no
    repair of the step shows before the input is repaired; else it shows as less than it is then.
    """
    times = evidence.times
    if not (is_taken(times.real_) and is_taken(times.resident_)):
        return None
    if times.real < BEHIND * times.resident or not evidence.as_if_exact().input_bound:
        return None
    return replace(evidence, times=times.input_free())


def _shown(fix: Fix, evidence: Evidence, noisy: Evidence) -> Finding | None:
    """What a fix finds that stands out of the noise, None where nothing does."""
    cause = fix.look(evidence)
    if cause is None or not cause.sure:
        return None
    saves = cause.saves
    if isinstance(saves, Unpriced):
        felt = saves.of == "other" or step_may_matter(evidence)
        return fix.found(cause, None, saves.basis) if felt else None
    made, bound = saves.probed(evidence), _bound(fix, cause, evidence)
    if bound is None or (made is not None and made.low < PROBE_LEAST):
        return None
    if not worth(evidence, bound) or (saves.of == "input" and not evidence.input_bound):
        return None
    return _within_noise(fix, cause, bound, noisy, by_probe=made is not None)


def _to_try(fix: Fix, evidence: Evidence) -> Finding | None:
    """What a fix would try for all that the noise allows, None where it cannot matter.

    What a probe shows to be slower stays: it needs no trial to say so. Where nobody would feel it
    if its part took no time at all, a probe of that part says no more.
    """
    cause = fix.look(evidence.favourable())
    if cause is None:
        return None
    saves, told = cause.saves, _look(fix, evidence) or cause  # in numbers as they were measured
    if not saves.may_matter(evidence):
        return None
    if isinstance(saves, Unpriced):
        return fix.found(told, None, saves.basis)
    made = saves.probed(evidence)
    if made is not None and made.vague and made.high > 1:
        made = None
    bounds = _at_best(fix, evidence, by_probe=made is not None)
    if not bounds:
        return _untried(fix, told, saves, evidence)
    parts = _at_best(fix, evidence, by_probe=False) if made is not None else bounds
    if parts and max(parts) <= 1 + SMALLEST_GAIN:
        return None
    told = replace(told, saves=saves)
    return _within_noise(fix, told, max(bounds), evidence, by_probe=made is not None)


def _untried(fix: Fix, cause: Cause, saves: Saving, evidence: Evidence) -> Finding:
    """The finding of which nothing was measured: what a part that costs nothing gives limits it."""
    if saves.of == "all" or fix.between_epochs or isinstance(cause.slices, Epoch):
        return fix.found(cause, None, UNTRIED)
    if saves.of == "input":
        basis, limit = "no step waits for its batch", _input_at_most
    else:
        basis, limit = "a step that costs nothing", at_most
    ends = [limit(on) for on in (evidence, *evidence.at_best())]
    limits = [end for end in ends if end is not None]
    if len(limits) < len(ends):
        return fix.found(cause, None, UNTRIED)
    exact = evidence.as_if_exact()
    middle = min(limit(exact) or max(limits), _bound_on(fix, exact) or math.inf)  # of its probe
    finding = fix.found(cause, middle, f"{basis}{_of_the_training(fix, cause, evidence)}")
    return replace(finding, at_best=max(middle, *limits))


def _input_at_most(evidence: Evidence) -> float | None:
    most = input_at_most(evidence)
    return None if math.isinf(most) else most


def _within_noise(
    fix: Fix, cause: Cause, seen: float, evidence: Evidence, *, by_probe: bool
) -> Finding:
    """The finding with what it gives at most, in the middle of the noise and at its end.

    The middle stands beside the verdict's figures, which are of the middle too. What noise hides
    there, and was `seen` elsewhere, is priced by its part alone.
    """
    exact = evidence.as_if_exact()
    middle = _bound_on(fix, exact)
    ends = _at_best(fix, evidence, by_probe=by_probe)
    best = max(seen, *ends, 0.0 if middle is None else _unevenly(fix, cause, middle, evidence))
    bound = min(best, _part_at_most(fix, cause, exact)) if middle is None else middle
    basis = PROBED if by_probe else cause.saves.basis
    finding = fix.found(
        cause,
        bound if bound < BEYOND else None,
        f"{basis}{_of_the_training(fix, cause, evidence)}",
    )
    return replace(finding, at_best=min(best, BEYOND))


def _unevenly(fix: Fix, cause: Cause, bound: float, evidence: Evidence) -> float:
    """Return a bound at the end where what goes took as long, and the rest as little, as may be.

    Both were timed with the noise of the step: the gain, which is the one by the other, has both.
    """
    real, saves = evidence.times.real_, cause.saves
    if isinstance(saves, Saving) and saves.ratio is not None:
        return bound
    if not isinstance(real, Measure) or not real.low or not real.high or bound <= 1:
        return bound
    limit = max(_part_at_most(fix, cause, end) for end in evidence.at_best())
    return max(bound, min(1 + (bound - 1) * real.high / real.low, limit))


def _look(fix: Fix, evidence: Evidence) -> Cause | None:
    return measured_or(None, lambda: fix.look(evidence))


def _at_best(fix: Fix, evidence: Evidence, *, by_probe: bool) -> list[float]:
    """What it gives at most at both favourable ends of the noise."""
    bounds = list[float | None]()
    for on in evidence.at_best():
        cause = _look(fix, on)
        if cause is None:
            continue
        bounds.append(_bound(fix, cause, on, by_probe=by_probe))
        if isinstance(cause.saves, Saving) and cause.saves.most is not None:
            most = replace(cause.saves, seconds=cause.saves.most, probe="")
            bounds.append(_bound(fix, replace(cause, saves=most), on))
    return [bound for bound in bounds if bound is not None]


def _bound_on(fix: Fix, evidence: Evidence) -> float | None:
    cause = _look(fix, evidence)
    return None if cause is None else _bound(fix, cause, evidence)


def _bound(fix: Fix, cause: Cause, evidence: Evidence, *, by_probe: bool = True) -> float | None:
    """The speed-up of a step at most, no more than if the part that it concerns took no time."""
    if isinstance(cause.saves, Unpriced):
        return None
    bound = cause.saves.bound(evidence, by_probe=by_probe)
    return None if bound is None else min(bound, _part_at_most(fix, cause, evidence))


def undisturbed(fix: Fix | None, category: Category, evidence: Evidence) -> bool:
    """Whether the noise of a step's times does not touch a cause: it is not compared with it.

    What was counted, and what lies between epochs, is not part of a step. What is lost to the
    input was set against the noise where the step was found to wait for it.
    """
    if fix is not None and (fix.counted or fix.between_epochs):
        return True
    return measured_or(False, lambda: category in ("input", "storage") and evidence.input_bound)


def _is_for(fix: Fix, evidence: Evidence) -> bool:
    """Whether a fix is for the script's framework.

    Where `fit` trains on PyTorch, its input may still be another framework's, and what
    changes a loop of one's own has no place.
    """
    framework = evidence.framework
    keras = framework.on_other_backend and evidence.loop.kind == "fit"
    family = type(fix).__module__.split(".")[-2]
    if fix.ahead and evidence.loop.opened_each is not None:
        return False
    if fix.framework == "any":
        return True
    if fix.framework == "keras":
        return keras or framework.name == "tensorflow"
    if keras and family in FEEDING:
        return evidence.loop.input_kind == FEEDING[family]
    return fix.framework == framework.name and not (keras and family in OWN_STEPS)


FEEDING = {"tf_data": "tf.data", "dataloader": "DataLoader"}
"""What feeds the loops that the fixes of a family are for."""
OWN_STEPS = ("torch_step", "precision")
"""Families whose fixes for PyTorch edit the step of a loop, which is Keras's own in `fit`."""


def _asked(
    evidence: Evidence,
    ask: Callable[[Fix], Finding | None],
    failed: Failed | None,
    among: Sequence[Fix],
) -> tuple[Finding, ...]:
    found = []
    for fix in among or all_fixes():
        if not _is_for(fix, evidence):
            continue
        try:
            finding = ask(fix)
            if finding is not None:
                found.append(governed(finding, evidence))
        except NotMeasured:
            continue
        except Exception as error:
            if failed is None:
                raise
            failed(fix, error)
    return tuple(found)


BEYOND = 1000.0
"""What leaves less than a thousandth of a step leaves what the times' errors are: no figure."""


def _of_the_training(fix: Fix, cause: Cause, evidence: Evidence) -> str:
    """Say which part of the training the steps are that a bound is of, where it is the smaller."""
    turn = evidence.outside_
    if isinstance(turn, Missing) or turn.turn == "step" or turn.share <= MOST_OF_IT:
        return ""
    if fix.between_epochs or fix.concerns == "outside" or cause.slices == "none":
        return ""
    return f"; of the steps, which take {percent(1 - turn.share)} of the time"


def _part_at_most(fix: Fix, cause: Cause, evidence: Evidence) -> float:
    """Return the speed-up if the part that a cause concerns took no time, at least 1.

    An input takes what a step waits for it and what copies of its batches take. Whatever happens
    to the step alone, it is no shorter than its input. Infinity where that is not known: what
    lies outside the steps, or was counted by samples of the stack, is priced without their times.
    """
    times, apart = evidence.times, fix.concerns in ("outside", "own work")
    apart = apart or fix.between_epochs or cause.slices != "steps"
    if apart or not is_taken(times.real_):
        return math.inf
    category = cause.category or fix.category
    of_step = isinstance(cause.saves, Saving) and cause.saves.of == "step"
    left = 0.0
    if category in ("input", "storage") and is_taken(times.resident_):
        left = times.resident - measured_or(0.0, lambda: evidence.torch.part("transfer").seconds)
    elif category in ("model", "host", "sync") and of_step and is_taken(times.input_):
        left = times.input
    return max(1.0, times.real / left) if left > 0 else math.inf
