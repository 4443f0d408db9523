"""One process's losses and weights, read from its events. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from trainperf.model import Event


@dataclass(frozen=True)
class Losses:
    """The losses of one process, by the number of weight updates, from 1.

    `kind` says what `values` are: "loss", or "weights" (sums of the absolute values of
    the trainable weights) where no loss could be seen. `source` is where the losses
    were seen ("fit", "train_on_batch", "tape", "output"). `means` says of how many
    updates a value is the running mean, where it is one. `weights` are kept beside
    losses for a few early updates.
    """

    kind: str
    values: dict[int, float]
    source: str = ""
    means: dict[int, int] = field(default_factory=dict)
    weights: dict[int, float] = field(default_factory=dict)


def read_losses(events: Iterable[Event]) -> Losses | None:
    """Gather the losses of one process from its events; None if it wrote none."""
    values: dict[str, dict[int, float]] = {"loss": {}, "weights": {}}
    means: dict[int, int] = {}
    source = ""
    for event in events:
        if event["e"] != "losses":
            continue
        found = (float(value) for value in event["v"])  # "nan" and "inf" come as text
        values[event["kind"]].update(zip(event["u"], found, strict=True))
        if event["kind"] == "loss":
            source = source or event["of"]
            means |= {n: k for n, k in zip(event["u"], event["k"], strict=True) if k}
    if values["loss"]:
        return Losses("loss", values["loss"], source, means, values["weights"])
    if values["weights"]:
        return Losses("weights", values["weights"])
    return None
