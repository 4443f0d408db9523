"""A faster step's worth to the whole loop, input included."""

from __future__ import annotations

import math
from typing import Any

from trainperf.fixes.common.words import measured_or, worth
from trainperf.model import Evidence, Measure, Probe, is_taken


def step_seconds(evidence: Evidence) -> float:
    """Seconds of one step: `resident_seconds`, else the real one; raises `NotMeasured`."""
    taken = is_taken(evidence.times.resident_)
    return resident_seconds(evidence) if taken else evidence.times.real


def resident_seconds(evidence: Evidence) -> float:
    """Seconds of the resident step, no more than the real one; raises `NotMeasured`.

    Where it is longer the machine was slower while it was timed, and what is a share of it
    shrinks with it: a step that becomes n times as fast is worth n at most.
    """
    return min(evidence.times.resident, evidence.times.real)


def saved_by(evidence: Evidence, probe: Probe) -> float:
    """Seconds that a step saves if what was probed runs as the candidate did.

    What was probed is a part of the step, or all of it, but never more.
    """
    return probed_s(evidence, probe) * (1 - 1 / probe.ratio)


def probed_s(evidence: Evidence, probe: Probe) -> float:
    """Seconds of a step that a probe is of, which was timed as the resident step was."""
    step, resident = step_seconds(evidence), evidence.times.resident_
    slower = max(1.0, resident.seconds / step) if isinstance(resident, Measure) else 1.0
    part = probe.base_s / slower
    return step if part >= WHOLE * step else part


WHOLE = 0.8
"""A probe that takes as much of a step is of all of it: they were timed at different moments."""


def bound_if_saved(evidence: Evidence, seconds: float) -> float:
    """Upper bound of the speed-up if the step itself took `seconds` less.

    They are of the real step: parts of the resident one are of `resident_seconds`. The loop can
    never run faster than its input where the two overlap, so the shortened step is at least as
    long as the input, where that was measured. Raises `NotMeasured` without a real time.
    """
    real = evidence.times.real
    bound = evidence.bound_if_step_saves(seconds)
    if is_taken(evidence.times.input_):
        bound = min(bound, real / max(evidence.times.input, 1e-9))
    return max(1.0, bound)


def threads_variable(evidence: Evidence) -> str:
    """The variable for the threads of an operation: TensorFlow's own builds use no OpenMP."""
    tensorflow = evidence.framework.name == "tensorflow"
    return "TF_NUM_INTRAOP_THREADS" if tensorflow else "OMP_NUM_THREADS"


def waits_for_input(evidence: Evidence) -> bool:
    """Whether the times show that steps wait for their input."""
    return measured_or(False, lambda: evidence.input_bound)


def step_may_matter(evidence: Evidence) -> bool:
    """Say whether a step that cost nothing would speed up the loop beyond noise.

    True where the times that would tell are missing.
    """
    return measured_or(
        True, lambda: worth(evidence, bound_if_saved(evidence, resident_seconds(evidence)))
    )


SAYS_NOTHING = 4.0
"""A step that cost nothing is no bound: it is one only where the input leaves little more."""


def at_most(evidence: Evidence, ratio: float | None = None) -> float | None:
    """Return the most the loop gains if its step became `ratio` times as fast, or cost nothing.

    For what is to be tried: the times are taken at the end of their noise at which a faster
    step gains the most. Below 1 where `ratio` is. None where nothing measured limits it.
    """
    real, resident, fed = evidence.times.real_, evidence.times.resident_, evidence.times.input_
    if not isinstance(real, Measure):
        return ratio
    longest = real.high or real.seconds
    step = longest
    if isinstance(resident, Measure):
        step = min(longest, resident.high or resident.seconds)
    left = longest - step + (0.0 if ratio is None else step / ratio)
    if isinstance(fed, Measure):
        left = max(left, fed.low or fed.seconds)
    most = longest / left if left > 0 else math.inf
    return None if ratio is None and most > SAYS_NOTHING else most


def no_faster(step_s: float, probe: Probe, probed_s: float, same_s: float = 0.0) -> bool:
    """Say whether a step gains nothing, even if all that was not probed took half as long.

    `probed_s` of its `step_s` seconds were, and `same_s` the change does not touch.
    """
    probed = min(step_s, probed_s)
    left = max(0.0, step_s - probed - same_s)
    return probed / probe.high + left / 2 >= probed + left


def sampled(evidence: Evidence, phase: str) -> tuple[dict[str, Any], ...]:
    """Return the samples in `phase` of each GPU that the training uses.

    Empty where it is not known which these are, and where it has a slice of one: what is
    counted of the card is then the others' as well.
    """
    indices = {gpu.index for gpu in evidence.device.used}
    if None in indices or any(gpu.mig for gpu in evidence.device.used):
        return ()
    return measured_or(
        (), lambda: tuple(use for use in evidence.phase(phase).gpu if use["index"] in indices)
    )


def sms_active(evidence: Evidence) -> float | None:
    """Share of the SMs that had work in resident steps, else in real ones, by GPM.

    That of the busiest GPU in use; None before Hopper. At most the share of time in which
    kernels ran: a small one leaves SMs idle.
    """
    for phase in ("resident", "real"):
        shares = [use.get("sm_active") for use in sampled(evidence, phase)]
        known = [float(share) for share in shares if share is not None]
        if known:
            return max(known)
    return None


def traced_kernels(evidence: Evidence) -> float | None:
    """Seconds of a step in which kernels of forward and backward ran; None if not traced.

    Of several GPUs, those of the busiest. Tracing slows the host that starts them, not the
    kernels.
    """
    torch = evidence.torch_
    if torch is None or torch.trace is None or torch.trace.device != "cuda":
        return None
    passes = 1.0 if torch.calls is None else max(1.0, torch.calls.backwards)
    return max(torch.trace.device_s, default=torch.trace.operators_s) * passes


def gpu_busy(evidence: Evidence) -> float | None:
    """Share of a step in which a GPU of the training computed, at least; None if unknown.

    By the kernels of a trace, or GPM's count of SMs with work. NVML's utilisation does not
    tell: it is the mean of a window of 1/6 to 1 s, longer than a block of steps.
    """
    traced, active, times = traced_kernels(evidence), sms_active(evidence), evidence.times
    known = [] if active is None else [active]
    if traced is not None:
        known.append(traced / (times.resident if is_taken(times.resident_) else times.real))
    return min(1.0, max(known)) if known else None


def gpu_may_be_full(evidence: Evidence, least: float) -> bool:
    """Whether a GPU of the training may be busy for `least` of a step or more.

    Where nothing better tells, by NVML's utilisation: an upper bound, which may excuse a GPU
    from a finding but shows none.
    """
    busy = gpu_busy(evidence)
    if busy is not None:
        return busy >= least
    percents = [
        use["utilization_percent"]
        for use in sampled(evidence, "real")
        if use.get("utilization_percent") is not None
    ]
    return max(percents, default=0.0) / 100 >= least
