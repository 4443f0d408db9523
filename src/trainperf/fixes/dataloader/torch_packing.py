"""Batches of which much is padding, however they are put together."""

from __future__ import annotations

import re

from trainperf.fixes import Fix
from trainperf.fixes.common.step import bound_if_saved
from trainperf.fixes.common.words import at, percent, worth
from trainperf.fixes.dataloader.torch_length_batches import CUT
from trainperf.fixes.dataloader.torch_padding import (
    ENOUGH,
    MOSTLY_DATA,
    exact,
    model_seconds,
    pack_in_trainer,
)
from trainperf.fixes.torch_step._step import UNTRIED
from trainperf.model import Equivalence, Evidence, Finding, Padding, Torch
from trainperf.rewrite import Script

FOR_TRAINER = "trainer = Trainer(..., data_collator=DataCollatorWithFlattening())"

OWN = """\
def collate(sequences):  # several sequences in a row, without padding
    lengths = [len(one) for one in sequences]
    tokens = torch.cat(sequences)[None]
    positions = torch.cat([torch.arange(length) for length in lengths])[None]
    document = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
    return tokens, positions, document  # attend where document == document, and causally"""


class Pack(Fix):
    """Put the sequences of a batch one after another in one row, without padding.

    ## Why it is slow
    In a padded batch the model computes for the longest sequence as often as there are sequences.
    What the shorter ones lack is computed, masked, and thrown away.

    ## What changes
    The collator of a `Trainer` of Transformers becomes `DataCollatorWithFlattening`: the same
    sequences, in one row whose positions begin anew with each. It is written where the model was
    asked in this run, and gave each token what it gave in a padded row. In a loop of your own it
    is advice: the attention must be told where sequences end.

    ## When not to
    - Attention without kernels for it (`flash_attention_2`, `flex_attention`) computes the whole
      square of the row, and masks most of it: longer rows then cost more than padding did.
    - `compute_metrics` gets all sequences of a batch in one row, and a last, smaller batch counts
      as much as the others in an evaluation's loss.
    - A loss that also counts padding, or leaves out tokens like it, is another one then.
    """

    framework = "torch"
    category = "model"
    equivalence = Equivalence.NUMERICS
    usual = 1.2
    in_libraries = {"transformers": "`Trainer(data_collator=DataCollatorWithFlattening())`"}

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find batches of much padding that a row of all sequences, or packing, would not have."""
        padding = _padded(evidence)
        if padding is None:
            return None
        saved = model_seconds(evidence) * (1 - padding.mean_length / padding.padded_length)
        bound = bound_if_saved(evidence, saved)
        return self._finding(evidence, padding, bound) if worth(evidence, bound) else None

    def untimed(self, evidence: Evidence) -> Finding | None:
        """Try it all the same: the lengths were counted, and the model was asked."""
        padding = _padded(evidence)
        return self._finding(evidence, padding, None) if padding is not None else None

    def clashes(self, finding: Finding, other: Finding) -> str:
        """Both change the collator of the same trainer."""
        return "both change how batches are padded" if other.id == "torch_padding" else ""

    def _finding(self, evidence: Evidence, padding: Padding, bound: float | None) -> Finding:
        packing, loader = padding.packing, evidence.torch.loader
        place = loader.where or evidence.loop.where
        of = f" of the `DataLoader` at {at(loader.where)}" if exact(loader.where) else ""
        empty = percent(1 - padding.mean_length / padding.padded_length)
        text = (
            f"Sequences{of} are {padding.mean_length:.0f} tokens long on average and padded to "
            f"{padding.padded_length:.0f}: {empty} of what the model computes is padding."
        )
        if packing is not None:
            text += (
                " Asked in this run, the model gave each token the same where all sequences of a "
                "batch stood in one row."
            )
        else:
            text += (
                f" Batched by length they would still be padded to {padding.bucketed_length:.0f}."
            )
        return self.finding(
            title="A row for each sequence leaves much of a batch empty",
            text=text,
            bound=bound,
            bound_basis=UNTRIED if bound is None else "forward and backward follow the tokens",
            where=() if place is None else (place,),
            advice="Put the sequences of a batch into one row, and have attention keep them apart.",
            snippet=OWN if packing is None else FOR_TRAINER,
            data={"padded": _longest(padding) < CUT * padding.padded_length},
            rewritable=packing is not None and packing.flattens and bool(padding.collator),
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Give the trainer the collator that packs."""
        pack_in_trainer(script, finding.where[0], finding.data)


def _longest(padding: Padding) -> float:
    return padding.longest_length or padding.padded_length


def _padded(evidence: Evidence) -> Padding | None:
    """The lengths of sequences that leave much of a batch empty, where packing may help.

    That is a model of Transformers that keeps them apart, or one with attention in a loop of one's
    own in which batches of like lengths would be padded as much.
    """
    padding = evidence.padding
    if padding is None or padding.sequences < ENOUGH:
        return None
    trainer = evidence.torch.trainer
    if trainer is not None and trainer.library == "transformers":
        asked = padding.packing is not None and padding.packing.apart
        filled = padding.mean_length / _longest(padding)
        return padding if asked and filled < MOSTLY_DATA else None
    like = padding.masked and padding.bucketed_length > 0 and _attends(evidence.torch)
    filled = padding.mean_length / padding.bucketed_length if like else 1.0
    return padding if filled < MOSTLY_DATA else None


def _attends(torch: Torch) -> bool:
    """Whether a model computes attention, by its modules, the user's functions or its operators."""
    names = [name for model in torch.models for name in model.modules]
    names += [one.name for one in torch.trace.operators] if torch.trace is not None else []
    known = any(re.search("attention|transformer", name, re.IGNORECASE) for name in names)
    return known or any(model.attentions for model in torch.models)
