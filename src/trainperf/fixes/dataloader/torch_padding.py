"""Batches that are padded to more than their own longest sequence, and mostly padding."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from trainperf.errors import NotMeasured
from trainperf.fixes import Fix
from trainperf.fixes.common.step import bound_if_saved
from trainperf.fixes.common.words import at, percent, worth
from trainperf.fixes.dataloader.edits.cutting import cut_to_longest, pad_in_trainer
from trainperf.fixes.torch_step._step import UNTRIED, compute_seconds
from trainperf.model import Equivalence, Evidence, Finding, Padding, Site

if TYPE_CHECKING:
    from trainperf.rewrite import Script

ENOUGH = 32
"""Sequences below which their lengths say little of the others'."""

MOSTLY_DATA = 0.75
"""Batches whose longest sequence takes so much of them are padded well enough."""

SNIPPET = """\
from torch.nn.utils.rnn import pad_sequence

def collate(samples):
    sequences, labels = zip(*samples)  # unpadded, each of its own length
    return pad_sequence(sequences, batch_first=True, padding_value=pad), torch.stack(labels)

loader = DataLoader(dataset, batch_size=batch_size, collate_fn=collate)"""

FOR_TRAINER = """\
def tokenize(example):
    return tokenizer(example["text"], truncation=True)  # not padding="max_length"

trainer = Trainer(..., data_collator=DataCollatorWithPadding(tokenizer))"""


class TorchPadding(Fix):
    """Pad each batch to its own longest sequence, not to one length for all.

    ## Why it is slow
    The model computes the padding as well: a recurrent layer walks through every step of
    it, attention grows with the square of the length.

    ## What changes
    A function around the loader's `collate_fn` cuts each batch behind its longest sequence,
    in everything that has a value for each step. For a `Trainer` of Transformers the tokenizer
    stops padding and a `DataCollatorWithPadding` pads, where the source shows both. The run has
    tried the model without the padding: where it gave the same (it has a mask, or packs the
    sequences), only rounding differs; where not, it reads the padding, the experiment changes,
    and this is tried apart.

    ## When not to
    When the model needs one length (a flattened time axis, compiled for fixed shapes: then
    keep a few lengths). Evaluate with batches that are cut as well if the model reads padding.
    """

    framework = "torch"
    category = "model"
    equivalence = Equivalence.NUMERICS

    in_libraries = {"transformers": "`Trainer(data_collator=…)`, `tokenizer(padding=False)`"}

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find batches padded far beyond their own longest, in a step that the model fills."""
        padding = _mostly_padded(evidence)
        if padding is None:
            return None
        saved = model_seconds(evidence) * (1 - _longest(padding) / padding.padded_length)
        bound = bound_if_saved(evidence, saved)
        return self._finding(evidence, padding, bound) if worth(evidence, bound) else None

    def untimed(self, evidence: Evidence) -> Finding | None:
        """Try it all the same: the lengths were counted."""
        padding = _mostly_padded(evidence)
        return self._finding(evidence, padding, None) if padding is not None else None

    def _finding(self, evidence: Evidence, padding: Padding, bound: float | None) -> Finding:
        loader = evidence.torch.loader
        place = loader.where or evidence.loop.where
        trainer = evidence.torch.trainer
        library = trainer.library if trainer is not None and not exact(loader.where) else ""
        editable = exact(loader.where) or (loader.where is not None and library == "transformers")
        return self.finding(
            title="Most of each batch is padding",
            text=_text(padding, _longest(padding), at(loader.where) if loader.where else ""),
            bound=bound,
            bound_basis=UNTRIED
            if bound is None
            else "forward and backward follow the padded length",
            where=() if place is None else (place,),
            advice="Pad to the longest of the batch.",
            snippet=FOR_TRAINER if library == "transformers" else SNIPPET,
            data={}
            if padding.place is None
            else {"place": asdict(padding.place), "library": library},
            equivalence=Equivalence.NUMERICS if padding.masked else Equivalence.SEMANTICS,
            rewritable=editable and padding.place is not None,
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Put a collate function around the loader's own that cuts the padding, or pad later."""
        edit = pad_in_trainer if finding.data.get("library") else cut_to_longest
        edit(script, finding.where[0], finding.data["place"])


def exact(where: Site | None) -> bool:
    """Say whether it is known which call of the user's builds the loader."""
    return where is not None and where.exact


def _longest(padding: Padding) -> float:
    return padding.longest_length or padding.bucketed_length


def _mostly_padded(evidence: Evidence) -> Padding | None:
    """The lengths of batches, if enough were seen, and padded far beyond their longest."""
    padding = evidence.padding
    if padding is None or padding.sequences < ENOUGH or padding.padded_length <= 0:
        return None
    return padding if _longest(padding) < MOSTLY_DATA * padding.padded_length else None


def model_seconds(evidence: Evidence) -> float:
    """Return what forward and backward take; where that was not timed, the step at most."""
    try:
        return compute_seconds(evidence)
    except NotMeasured:
        return evidence.times.resident


def _text(padding: Padding, longest: float, place: str) -> str:
    of = f" of the `DataLoader` at {place}" if place else ""
    filled = padding.mean_length / padding.padded_length
    text = (
        f"Sequences{of} are {padding.mean_length:.0f} steps long on average and padded to "
        f"{padding.padded_length:.0f}: {percent(1 - filled)} of what the model computes is padding."
    )
    if padding.longest_length is not None:
        text += f" The longest of a batch has {longest:.0f} steps on average."
    if padding.masked is None:
        return text
    if padding.masked:
        return f"{text} Without the padding the model gave the same in this run."
    return f"{text} The model reads the padding: without it, it gave something else in this run."
