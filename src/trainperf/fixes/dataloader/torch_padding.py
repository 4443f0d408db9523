"""Batches that are padded to more than their own longest sequence, and mostly padding."""

from __future__ import annotations

from dataclasses import replace

from trainperf.fixes import Fix
from trainperf.fixes.common.step import bound_if_saved
from trainperf.fixes.common.torch_cases import LOADER, split, torch_evidence
from trainperf.fixes.common.words import at, percent, worth
from trainperf.fixes.torch_step._step import compute_seconds
from trainperf.model import Equivalence, Evidence, Finding, Padding

ENOUGH = 32
"""Sequences below which their lengths say little of the others'."""

MOSTLY_DATA = 0.75
"""Batches of which so much is data are not worth another order of the samples."""

SNIPPET = """\
from torch.nn.utils.rnn import pad_sequence

def collate(samples):
    sequences, labels = zip(*samples)  # unpadded, each of its own length
    return pad_sequence(sequences, batch_first=True, padding_value=pad), torch.stack(labels)

# and batches of like lengths: sort chunks of the shuffled indices by length (a batch sampler)
loader = DataLoader(dataset, batch_sampler=by_length, collate_fn=collate)"""

GLOBAL = Padding(58, 400, 75, 640, longest_length=130)


class TorchPadding(Fix):
    """Pad each batch to its own longest sequence, not to one length for all.

    ## Why it is slow
    The model computes the padding as well: a recurrent layer walks through every step of
    it, attention grows with the square of the length.

    ## What changes
    A `collate_fn` pads to the longest sequence of the batch. Where batches are made of
    sequences of about the same length, next to nothing is padded; the order of the samples
    then differs.

    ## When not to
    When the model needs one length (a flattened time axis, compiled for fixed shapes: then
    keep a few lengths). When the length tells the label, batches by length are one-sided.
    """

    framework = "torch"
    category = "model"
    equivalence = Equivalence.NUMERICS

    silent = [
        torch_evidence(),
        # padded to the longest of each batch, and little of that
        torch_evidence(padding=Padding(80, 100, 85, 640, longest_length=99)),
        # too few to tell
        torch_evidence(padding=replace(GLOBAL, sequences=12)),
        # the model is not what the step passes in
        torch_evidence(padding=GLOBAL, split=split(forward=0.001, backward=0.002, rest=0.09)),
        torch_evidence(padding=GLOBAL, resident=0.02, input=0.098),
    ]
    fires = [
        torch_evidence(padding=GLOBAL),
        torch_evidence(padding=GLOBAL, loader=replace(LOADER, workers=2)),
        torch_evidence(padding=Padding(40, 200, 60, 640, longest_length=200)),
    ]

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find batches that are mostly padding, in a step that the model's work fills."""
        padding = evidence.padding
        if padding is None or padding.sequences < ENOUGH or padding.padded_length <= 0:
            return None
        filled = padding.mean_length / padding.padded_length
        if filled >= MOSTLY_DATA:
            return None
        saved = compute_seconds(evidence) * (1 - padding.bucketed_length / padding.padded_length)
        bound = bound_if_saved(evidence, saved)
        if not worth(evidence, bound):
            return None
        loader = evidence.torch.loader
        place = loader.where or evidence.loop.where
        return self.finding(
            title="Most of each batch is padding",
            text=_text(padding, filled, at(loader.where) if loader.where else ""),
            bound=bound,
            bound_basis="forward and backward follow the padded length",
            where=() if place is None else (place,),
            advice="Pad to the longest of the batch, and batch sequences of like lengths.",
            snippet=SNIPPET,
            rewritable=False,
        )


def _text(padding: Padding, filled: float, place: str) -> str:
    of = f" of the `DataLoader` at {place}" if place else ""
    text = (
        f"Sequences{of} are {padding.mean_length:.0f} steps long on average and padded to "
        f"{padding.padded_length:.0f}: {percent(1 - filled)} of what the model computes is padding."
    )
    longest = padding.longest_length
    if longest is not None and longest < 0.95 * padding.padded_length:
        text += f" The longest of a batch has {longest:.0f} steps on average."
    return f"{text} Batched by length they would be padded to {padding.bucketed_length:.0f}."
