"""The parts of a PyTorch step, and what probes of them save."""

from __future__ import annotations

from trainperf.fixes import Fix
from trainperf.fixes.common.step import no_faster, sms_active, step_seconds, traced_kernels
from trainperf.fixes.common.words import if_measured, ms
from trainperf.model import Evidence, Finding, Missing, Probe, Site, TorchModel, is_taken
from trainperf.model.torch import Part

CONVOLUTIONS = (
    "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d",
)  # fmt: skip
DENSE = ("Linear", "Bilinear", "MultiheadAttention", "Conv1D")
"""Modules that multiply matrices; `Conv1D` is what the transformers library calls a `Linear`."""

EACH_STEP = 0.5
"""Calls per step from which the work is one of every step."""

RECURRENT = ("LSTM", "GRU", "RNN")


def part_seconds(evidence: Evidence, *names: Part) -> float:
    """Seconds of a real step that the named parts take; raises `NotMeasured`.

    Steps that were taken apart are slower than real ones, so their parts shrink
    until they fit into a real step.
    """
    parts = evidence.torch.split
    total = sum(part.seconds for part in parts)
    named = sum(evidence.torch.part(name).seconds for name in names)
    return named * min(1.0, evidence.times.real / max(total, 1e-9))


def compute_seconds(evidence: Evidence) -> float:
    """Seconds of a real step in forward and backward; raises `NotMeasured`.

    On a GPU the host only starts their kernels there and waits for them elsewhere, so
    its waits ("sync") count as well.
    """
    seconds = part_seconds(evidence, "forward", "backward")
    if evidence.device.kind == "GPU":
        seconds += sum(
            part_seconds(evidence, "sync") for part in evidence.torch.split if part.name == "sync"
        )
    return seconds


def part_said(evidence: Evidence, what: str, *names: Part) -> str:
    """Say what parts of a step take, as a sentence that begins with a space; "" if not timed.

    `what` is the start of the sentence: "Updating the weights takes".
    """
    return if_measured(
        lambda: (
            f" {what} {ms(part_seconds(evidence, *names))} of each step of "
            f"{ms(evidence.times.real)}."
        )
    )


def passes_said(evidence: Evidence) -> str:
    """Say what forward and backward take, as `part_said` does."""
    return part_said(evidence, "Forward and backward take", "forward", "backward")


def taken_probe(evidence: Evidence, name: str) -> Probe | None:
    """Return the probe `name`, None if it was not taken."""
    probe = evidence.probes.get(name)
    return None if probe is None or isinstance(probe, Missing) else probe


class OfPass(Fix):
    """A fix whose probe runs forward and backward of one model, on one batch, without the loss."""

    def decided_by(self, made: Probe, finding: Finding, evidence: Evidence) -> bool:
        """Return whether a probe that gained nothing says so of the step.

        So the step has no other model, its own forward and backward are not much longer, and what
        else it does, but for the optimizer, turns nothing.
        """
        torch = evidence.torch
        if sum(model.parameters != 0 for model in torch.models) != 1:
            return False
        passes = 1.0 if torch.calls is None else max(1.0, torch.calls.backwards)
        seconds = passes * made.base_s
        if not is_taken(torch.split_):
            return no_faster(step_seconds(evidence), made, seconds)
        compute, update = compute_seconds(evidence), part_seconds(evidence, "optimizer")
        return compute < 2 * seconds and no_faster(evidence.times.real, made, compute, update)


def kernel_seconds(evidence: Evidence) -> float:
    """Seconds of a step in which kernels of forward and backward ran, at most.

    By a trace of them; else all that forward and backward take, or the step where it was not
    taken apart. Raises `NotMeasured` without the time of a step.
    """
    traced = traced_kernels(evidence)
    if traced is not None:
        return min(traced, step_seconds(evidence))
    if not is_taken(evidence.torch.split_):
        return step_seconds(evidence)
    return compute_seconds(evidence)


def count_of(model: TorchModel, classes: tuple[str, ...]) -> int:
    """Count the submodules of the named classes."""
    return sum(model.modules.get(name, 0) for name in classes)


def process_site(evidence: Evidence) -> Site | None:
    """Return a place in the file that a setting for the whole process should stand in."""
    model = evidence.torch.models and evidence.torch.model
    places = [evidence.loop.where, *([model.call, model.where] if model else [])]
    exact = [site for site in places if site is not None and site.exact]
    return next(iter(exact), next((site for site in places if site is not None), None))


def gap_seconds(evidence: Evidence) -> float:
    """Seconds of a step in which the GPU ran nothing, at most; 0 without a GPU, or if unknown.

    What a step takes beside the kernels of a trace, which has no optimizer's, and by GPM no
    more than that in which SMs had no work.
    """
    traced = traced_kernels(evidence)
    if evidence.device.kind != "GPU" or traced is None:
        return 0.0
    step = step_seconds(evidence)
    if is_taken(evidence.torch.split_):
        updates = [part.name for part in evidence.torch.split if part.name == "optimizer"]
        traced += part_seconds(evidence, *updates) if updates else 0.0
    return step - min(step, max(traced, step * (sms_active(evidence) or 0.0)))


METHODS = ("item", "tolist", "numpy", "cpu", "to", "cuda")
CONVERSIONS = ("bool", "float", "int")
OTHERS = {"index": "an index", "format": "format", "print": "print"}


def call(what: str) -> str:
    """Write a call that waits for the device as a reader knows it: ".item()", "float()"."""
    if what in METHODS:
        return f".{what}()"
    if what in CONVERSIONS:
        return f"{what}()"
    return OTHERS.get(what, what)
