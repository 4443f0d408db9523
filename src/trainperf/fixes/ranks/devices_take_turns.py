"""A model spread over devices of which one computes while the others wait."""

from __future__ import annotations

from trainperf.errors import NotMeasured
from trainperf.fixes import Fix
from trainperf.fixes.common.step import bound_if_saved, sampled
from trainperf.fixes.common.words import percent, worth
from trainperf.model import Equivalence, Evidence, Finding, Missing, is_taken

ONE_BUSY = (0.70, 1.15)
"""The GPUs' utilisations add up to about 1 where one computes at a time. Less is a host
that keeps them all waiting; more, and they compute at once."""

PART = 0.10
"""A device that is busy for less of a step has no part of the model worth the name."""

TOGETHER = 0.15
"""Share of their work that GPUs may do at once and still take turns: a copy while another ends."""

TORCH = """\
from torch.distributed.pipelining import ScheduleGPipe

schedule = ScheduleGPipe(stage, n_microbatches=8)  # one stage of the model in each rank
"""

TENSORFLOW = """\
strategy = tf.distribute.MirroredStrategy()  # if the whole model fits on one device
with strategy.scope():
    model = make_model()
"""


class TakeTurns(Fix):
    """Give every device something to compute at all times: micro-batches, or whole models.

    ## Why it is slow
    Layers were placed on several devices by hand. A batch passes from one to the next
    and the gradients back, so one device computes and the others wait for it.

    ## What changes
    Cut into micro-batches, one part of the batch is on each device at a time (a
    pipeline). Where the model fits on one device, a copy on each with a part of the
    batch (data parallelism) keeps all of them busy, with less to exchange than it seems.

    ## When not to
    - Batch normalisation takes its statistics of each micro-batch.
    - Parts that take unequally long leave devices idle still: balance them first.
    - Very small batches cannot be cut.
    """

    category = "sync"
    equivalence = Equivalence.SEMANTICS
    without_edit = "how a model is cut into stages and batches into micro-batches is its design"
    framework = "any"

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find devices with a model placed over them, whose busy times add up to one."""
        count = len(_gpus_of_model(evidence))
        if count < 2 or _replicated(evidence):
            return None
        busy = [one for one in _busy_shares(evidence) if one >= PART]
        if len(busy) != count or not ONE_BUSY[0] <= sum(busy) <= ONE_BUSY[1]:
            return None
        most = max(busy)
        resident = evidence.times.resident_
        step = evidence.times.real if isinstance(resident, Missing) else resident.seconds
        bound = min(float(count), bound_if_saved(evidence, step * (1 - most)))
        if not worth(evidence, bound):
            return None
        shares = ", ".join(percent(one) for one in busy)
        where = evidence.loop.where
        return self.finding(
            title=f"{count} GPUs take turns: one computes while the others wait",
            text=f"The model is placed over {count} GPUs, which are busy for {shares} of a step: "
            f"{percent(sum(busy))} in all, so hardly ever two at once.",
            bound=bound,
            bound_basis=f"the busiest GPU, {percent(most)} of a step, at work all the time",
            where=(where,) if where else (),
            advice="Cut batches into micro-batches and run the parts as a pipeline; if the model "
            "fits on one GPU, train a copy on each.",
            snippet=TORCH if evidence.framework.name == "torch" else TENSORFLOW,
        )


def _gpus_of_model(evidence: Evidence) -> list[str]:
    """The GPUs that hold weights of the trained model; empty if it was not looked at."""
    placed = evidence.facts.get("model_devices")
    names = placed.get("devices", {}) if isinstance(placed, dict) else {}
    used = [*names, *(evidence.facts.get("devices_used") or ())]
    return sorted({str(one) for one in used if str(one).lower().startswith(("cuda", "gpu"))})


def _replicated(evidence: Evidence) -> bool:
    """Whether each device holds a model of its own."""
    try:
        return evidence.parallel.replicas > 1
    except NotMeasured:
        return evidence.loop.replicas > 1


def _busy_shares(evidence: Evidence) -> list[float]:
    """The share of a step in which each GPU in use was busy; none unless known of all.

    By a trace of forward and backward; without one by NVML's utilisation in resident steps, as
    waiting for input is no turn. Raises `NotMeasured` without the time of a step.
    """
    trace = None if evidence.torch_ is None else evidence.torch_.trace
    if trace is not None and trace.device_s:
        if (trace.together_s or 0.0) > TOGETHER * sum(trace.device_s):
            return []
        calls, times = evidence.torch.calls, evidence.times
        step = times.resident if is_taken(times.resident_) else times.real
        passes = 1.0 if calls is None else max(1.0, calls.backwards)
        return [min(1.0, seconds * passes / step) for seconds in trace.device_s]
    gpus = sampled(evidence, "resident") or sampled(evidence, "real")
    seen = [gpu.get("utilization_percent") for gpu in gpus]
    return [] if None in seen else [float(one) / 100 for one in seen if one is not None]
