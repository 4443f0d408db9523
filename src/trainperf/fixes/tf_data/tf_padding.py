"""Batches that are padded to more than their own longest sequence."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from trainperf.fixes import Fix
from trainperf.fixes.common.step import bound_if_saved
from trainperf.fixes.common.words import percent, worth
from trainperf.fixes.tf_data.edits.cutting import PIPELINE, cut_batches
from trainperf.model import Equivalence, Evidence, Finding, Padding, Site

if TYPE_CHECKING:
    from trainperf.rewrite import Script

ENOUGH = 64
"""Sequences that have to be seen before the longest of a batch says anything of the others."""

MOSTLY_DATA = 0.75
"""Batches whose longest sequence takes so much of them are padded well enough."""

MULTIPLE = 16
"""Lengths are rounded up to multiples of this: a step more costs little, a new shape may cost."""

LENGTHS_OF_XLA = 4
"""So many lengths where XLA compiles the step for each: with every length that came an LSTM of
250 steps took 75 s in place of 12 s, plain runs of 200 steps."""

COMPILES = ("keras_jit_compile", "tf_jit_compile")

SAME_BATCHES = ("prefetch", "repeat", "take", "skip", "shuffle", "cache", "with_options")
"""Calls of a pipeline that hand on the batches they are given."""

SNIPPET = """\
dataset = tf.data.Dataset.from_tensor_slices((ragged, labels)).shuffle(count).batch(batch_size)
dataset = dataset.map(lambda rows, labels: (rows.to_tensor(), labels)).prefetch(tf.data.AUTOTUNE)"""


class TFPadding(Fix):
    """Cut each batch behind its own longest sequence.

    ## Why it is slow
    Sequences are padded to one length for all, and the model computes the padding as well: a
    recurrent layer walks through every step of it, masked or not.

    ## What changes
    A `map` behind `batch` cuts each batch to its longest row, rounded up to a multiple of a few
    steps, in the same order, wherever it was padded. Arrays given to `fit` become such a dataset;
    `padded_batch` is no longer given the length. Only zeros go that all rows of a batch have at
    that end, and only where this run has shown that the model gives the same without them (it
    masks them) and the script has no other model: rounding is all that differs.

    ## When not to
    When the model needs one length (a flattened time axis), or the script puts batches of
    sequences together in one array.
    Where XLA compiles the step: each length is compiled once, so they are kept few.
    """

    category = "model"
    equivalence = Equivalence.NUMERICS

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find batches padded far beyond their own longest, whose padding the model masks."""
        padding = _mostly_padded(evidence)
        if padding is None:
            return None
        saved = evidence.times.resident * (1 - _cut_to(evidence, padding) / padding.padded_length)
        bound = bound_if_saved(evidence, saved)
        return self._finding(evidence, padding, bound) if worth(evidence, bound) else None

    def untimed(self, evidence: Evidence) -> Finding | None:
        """Try it all the same: the lengths were counted."""
        padding = _mostly_padded(evidence)
        return self._finding(evidence, padding, None) if padding is not None else None

    def _finding(self, evidence: Evidence, padding: Padding, bound: float | None) -> Finding:
        where, longest = _places(evidence), padding.longest_length or 0.0
        spare = percent(1 - longest / padding.padded_length)
        return self.finding(
            title="Batches are padded beyond their longest sequence",
            text=(
                f"Sequences are padded to {padding.padded_length:.0f} steps, and the longest of a "
                f"batch has {longest:.0f} on average: {spare} of what the model computes is "
                "padding that no sequence of the batch needs. "
                "Without it the model gave the same in this run."
            ),
            bound=bound,
            bound_basis="the step's time follows the padded length",
            where=where,
            advice="Pad to the longest of the batch.",
            snippet=SNIPPET,
            data={
                "side": padding.side,
                "multiple": _multiple(evidence, padding),
                "alone": padding.place is not None and padding.place.along == (0,),
            },
        )

    def clashes(self, finding: Finding, other: Finding) -> str:
        """XLA, turned on beside it, would compile each of many lengths."""
        if other.id not in COMPILES:
            return ""
        return "XLA would compile the step for each length of a batch"

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Cut the batches of a pipeline or of `fit`, or let `padded_batch` find the length."""
        cut_batches(script, finding.where, finding.data)


def place_of_padding(evidence: Evidence) -> Site | None:
    """The call that pads: `padded_batch`, if one was seen, or `fit`, which is given the arrays."""
    stages = evidence.stages_ if isinstance(evidence.stages_, tuple) else ()
    pads = [one.where for one in stages if one.op == "padded_batch" and one.by_user]
    return next((each for each in pads if each), evidence.loop.where)


def _places(evidence: Evidence) -> tuple[Site, ...]:
    """The last call that changes the batches of a pipeline, and `fit`'s; or the one that pads."""
    stages = evidence.stages_ if isinstance(evidence.stages_, tuple) else ()
    changing = (one for one in reversed(stages) if one.by_user and one.op not in SAME_BATCHES)
    last = next(changing, None)
    found = [place_of_padding(evidence)]
    if last is not None and last.op in PIPELINE and last.where is not None:
        found = [last.where, evidence.loop.where]
    return tuple(dict.fromkeys(each for each in found if each is not None))


def _mostly_padded(evidence: Evidence) -> Padding | None:
    """The lengths of batches that the model masks, if enough were seen with far too much."""
    padding = evidence.padding
    if padding is None or not padding.masked or padding.sequences < ENOUGH:
        return None
    spare = 0 < (padding.longest_length or 0) < MOSTLY_DATA * padding.padded_length
    return padding if spare else None


def _multiple(evidence: Evidence, padding: Padding) -> int:
    if not any(model.jit for model in evidence.models):
        return MULTIPLE
    return MULTIPLE * math.ceil(padding.padded_length / LENGTHS_OF_XLA / MULTIPLE)


def _cut_to(evidence: Evidence, padding: Padding) -> float:
    """The length that batches have afterwards, about: rounded up by half a multiple."""
    longest = padding.longest_length or padding.padded_length
    if not any(model.jit for model in evidence.models):
        return longest
    return min(padding.padded_length, longest + _multiple(evidence, padding) / 2)
