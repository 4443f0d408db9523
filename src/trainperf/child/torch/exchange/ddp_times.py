"""DDP's own log, and the times it takes: of backward and of the exchange in it."""

from __future__ import annotations

from typing import Any

SAMPLED_USUALLY = 100
"""DDP times its first ten steps and each of so many (`kDDPRuntimeLoggingSampleRate`)."""
WARMING_UP = 10

Sample = tuple[float, float, float]


class Times:
    """DDP's times of the steps that are taken apart, while it is asked for each of them.

    `samples` are the seconds of a backward, of its exchange, and of both at once.
    """

    def __init__(self) -> None:
        self.samples: list[Sample] = []
        self.each_step = False
        self._iteration: Any = None
        self._half = False

    def sample(self, ddp: Any, each_step: bool) -> None:
        """Take the times of the last step; called after a forward.

        The first call with another `each_step` only tells DDP which steps to time; it
        began to time the step in which that is, between forward and backward, long before.
        """
        data = logged(ddp)
        if self.each_step != each_step:
            ddp._set_ddp_runtime_logging_sample_rate(1 if each_step else SAMPLED_USUALLY)
            self.each_step = self._half = each_step
        elif data.get("iteration") != self._iteration:
            times = last(data)
            if times is not None and not self._half:
                self.samples.append(times)
            self._half = False
        self._iteration = data.get("iteration")

    def overlap(self, ddp: Any, exchanges: float) -> dict[str, Any] | None:
        """The fields of `Overlap`, for an update with so many exchanges; None if unknown.

        Where no step was taken apart, they are of the one that DDP timed last by itself,
        if that is past its first ten.
        """
        samples = list(self.samples)
        if not samples:
            data = logged(ddp)
            times = last(data)
            if times is None or data.get("iteration", 0) <= WARMING_UP:
                return None
            samples = [times]
        compute, exchange, both = (
            exchanges * sum(each) / len(samples) for each in zip(*samples, strict=True)
        )
        return {
            "compute_s": compute,
            "exchange_s": exchange,
            "overlap_s": both,
            "steps": len(samples),
        }


def logged(ddp: Any) -> dict[str, Any]:
    """DDP's own logging data."""
    return dict(ddp._get_ddp_logging_data()) if ddp.logger is not None else {}


def last(data: dict[str, Any]) -> Sample | None:
    """Seconds of backward, exchange, and both at once, of the step DDP timed last."""
    names = "backward_compute_time", "backward_comm_time", "backward_compute_comm_overlap_time"
    found = [data.get(name) for name in names]
    compute, exchange, both = (None if one is None else one / 1e9 for one in found)
    if not compute or not exchange or both is None or min(compute, exchange, both) < 0:
        return None
    return compute, exchange, both


def parameters(ddp: Any) -> list[Any]:
    """The parameters whose gradients it exchanges."""
    held = ddp.__dict__.get("_module_parameters")
    return [one for one in (ddp.parameters() if held is None else held) if one.requires_grad]
