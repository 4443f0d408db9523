"""The exchange's cost to a step, what doing less of it can save, and NCCL's variables."""

from __future__ import annotations

from trainperf.errors import NotMeasured
from trainperf.fixes.common.step import bound_if_saved
from trainperf.fixes.common.words import SMALLEST_GAIN, ms, worth
from trainperf.fixes.torch_step._step import UNTRIED, part_seconds
from trainperf.model import Ddp, Evidence, Exchange, Missing, is_taken, taken
from trainperf.model.words import size

WORTH_CHANGING = 0.10
"""Share of a step from which its exchange is worth tuning (PyTorch's TensorBoard plugin)."""

AT_MOST_ALL = "no time spent on the exchange, but for what the backward cannot hide of it"
"""The basis of `bound_if_hidden`."""


def exchange(evidence: Evidence) -> Exchange:
    """Return how gradients are exchanged; raises `NotMeasured` where nothing was seen of it."""
    found = evidence.parallel.exchange
    if found is None:
        raise NotMeasured("no exchange of gradients was seen")
    return found


def exchange_seconds(evidence: Evidence) -> float:
    """Return the seconds of a step that the exchange adds; raises `NotMeasured`.

    A difference whose interval reaches down to nothing counts as not measured.
    """
    measured = taken(exchange(evidence).seconds_)
    if measured.seconds <= 0 or (measured.low is not None and measured.low <= 0):
        raise NotMeasured("what the exchange takes does not stand out of the noise")
    return measured.seconds


def exchange_at_most(evidence: Evidence) -> float:
    """Return the upper end of what the exchange adds to a step; raises `NotMeasured`.

    For causes that are certain by counting, whatever the noise: only their price is not.
    """
    measured = taken(exchange(evidence).seconds_)
    if measured.low is not None and measured.low > 0:
        return measured.seconds
    return measured.seconds if measured.high is None else measured.high


def exchange_share(evidence: Evidence) -> float:
    """Return the share of a step that the exchange takes; raises `NotMeasured`."""
    return exchange_seconds(evidence) / evidence.times.real


def bound_without(evidence: Evidence) -> float:
    """Upper bound of the speed-up without the exchange; raises `NotMeasured`."""
    return bound_if_saved(evidence, exchange_seconds(evidence))


def bound_if_hidden(evidence: Evidence) -> float:
    """Upper bound of the speed-up if all but the all-reduces cost nothing.

    They overlap with the backward; what they take alone beyond it stays, where both were
    measured. Raises `NotMeasured`.
    """
    seconds, alone = exchange_seconds(evidence), exchange(evidence).all_reduce
    backward = _backward_seconds(evidence)
    if not isinstance(alone, Missing) and backward is not None:
        seconds -= min(seconds, max(0.0, alone.seconds - backward))
    return bound_if_saved(evidence, seconds)


def bound_if_sent(evidence: Evidence, share: float = 1.0) -> float:
    """Upper bound of the speed-up if `share` of all bytes were not moved; raises `NotMeasured`.

    An all-reduce alone reads and writes each gradient at least as often as copies to buckets
    and back do, over links that are no faster than memory.
    """
    seconds, alone = exchange_seconds(evidence), exchange(evidence).all_reduce
    if not isinstance(alone, Missing):
        seconds = min(seconds, alone.seconds)  # the rest waits for a late rank
    return bound_if_saved(evidence, share * seconds)


def _backward_seconds(evidence: Evidence) -> float | None:
    """Seconds of a step's backward, by DDP's own logging or the split; None if not timed."""
    overlap = exchange(evidence).overlap
    if overlap is not None:
        return overlap.compute_s
    try:
        return part_seconds(evidence, "backward")
    except NotMeasured:
        return None


def to_try_on_exchange(evidence: Evidence, share: float = 1.0) -> tuple[float | None, str]:
    """Return what so much less of the exchange could give at most, and by what that is known.

    For what is to be tried: None where the exchange was not timed, else by the high end of
    what it adds. Raises `NotMeasured` where that is next to nothing, or nothing was seen of it.
    """
    if isinstance(exchange(evidence).seconds_, Missing):
        return None, UNTRIED
    bound = bound_if_saved(evidence, share * exchange_at_most(evidence))
    if bound <= 1 + SMALLEST_GAIN:
        raise NotMeasured("the exchange takes next to nothing of a step")
    return bound, AT_MOST_ALL


def exchanged_said(evidence: Evidence) -> str:
    """Say that there is one: "Each step exchanges 100 MiB of gradients over gloo"."""
    found = exchange(evidence)
    much = f"{size(found.bytes)} of gradients" if found.bytes else "gradients"
    return f"Each step exchanges {much}" + (f" over {found.backend}" if found.backend else "")


def waiting_seconds(evidence: Evidence) -> float:
    """Return what the mean rank waits for the slowest in a step; raises `NotMeasured`."""
    return taken(exchange(evidence).waiting_)


def exchange_said(evidence: Evidence) -> str:
    """Say what it costs: "The exchange of 100 MiB of gradients over gloo takes 40.0 ms …"."""
    found = exchange(evidence)
    much = f"{size(found.bytes)} of gradients" if found.bytes else "gradients"
    over = f" over {found.backend}" if found.backend else ""
    return (
        f"The exchange of {much}{over} takes {ms(exchange_seconds(evidence))} of the "
        f"{ms(evidence.times.real)} step"
    )


def ddps_with(evidence: Evidence, setting: str, value: object) -> tuple[Ddp, ...]:
    """Return the `DistributedDataParallel`s with this effective value of a setting."""
    found = evidence.parallel.ddp
    return tuple(one for one in found if setting in one.settings and one.settings[setting] == value)


def step_without_exchange(evidence: Evidence) -> float:
    """Return the seconds of a step with the exchange switched off; raises `NotMeasured`.

    It is the slowest rank's local step where all ranks were timed so, else the real
    step less what the exchange adds.
    """
    local = [one.local for one in evidence.parallel.processes]
    if len(local) > 1 and all(is_taken(one) for one in local):
        return max(taken(one).seconds for one in local)
    return max(evidence.times.real - exchange_seconds(evidence), 1e-9)


def uses_nccl(evidence: Evidence) -> bool:
    """Say whether gradients are exchanged by NCCL; raises `NotMeasured` if nothing was seen."""
    return "nccl" in exchange(evidence).backend.lower()


def variables(evidence: Evidence) -> dict[str, str]:
    """Return the variables of NCCL and libfabric; raises `NotMeasured` if not known.

    They are the fact `nccl_environment`: NCCL_* and FI_* of the training process.
    """
    given = evidence.fact("nccl_environment")
    if not isinstance(given, dict):
        raise NotMeasured("the variables of NCCL are not known")
    return {str(name): str(value).strip() for name, value in given.items()}


def priced(evidence: Evidence) -> tuple[float | None, str, str, bool]:
    """Bound, its basis, what the exchange takes as a sentence, and whether it is worth telling.

    Without a bound where the exchange was not measured.
    """
    try:
        bound = bound_without(evidence)
    except NotMeasured:
        return None, "not measured", "", True
    basis = "no time spent on the exchange of gradients"
    return bound, basis, f" {exchange_said(evidence)}.", worth(evidence, bound)
