"""Sequences padded to the longest of all."""

from __future__ import annotations

from trainperf.fixes import Fix
from trainperf.fixes.common.step import bound_if_saved
from trainperf.fixes.common.words import ms, percent, worth
from trainperf.fixes.tf_data.edits.buckets import batch_by_length
from trainperf.fixes.tf_data.tf_padding import place_of_padding
from trainperf.model import Equivalence, Evidence, Finding, Padding
from trainperf.rewrite import Script

MOSTLY_DATA = 0.6
"""Mean over padded length from which padding is a cost of doing business: bucketing
gives little there, and costs variety among the batches."""

ENOUGH = 64
"""Sequences that have to be seen before their mean length says anything."""


class PaddingBuckets(Fix):
    """Batch sequences of about the same length together.

    ## Why it is slow
    Every sequence of a batch is padded to the same length, and the model computes the
    padding as well: a recurrent layer walks through every step of it.

    ## What changes
    `bucket_by_sequence_length` makes batches of sequences of similar length, so each is
    padded to its own bucket only.
    Batches hold other samples than before and their shapes vary: one tracing per length.
    Arrays padded up front lose the zeros at the end of their rows, and the model's input takes
    sequences of any length. The boundaries are quartiles of the lengths that were seen.

    ## When not to
    When the length tells the label: batches by length are then one-sided.
    When the model has a fixed input length (`unroll`, flattened time axis).
    Where XLA compiles the step, each shape is compiled once: keep the buckets few.
    """

    category = "model"
    equivalence = Equivalence.SEMANTICS

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find batches that are mostly padding, where batching by length would shorten them."""
        padding = evidence.padding
        if padding is None or padding.sequences < ENOUGH or padding.padded_length <= 0:
            return None
        filled = padding.mean_length / padding.padded_length
        if filled >= MOSTLY_DATA:
            return None
        saved = evidence.times.resident * (1 - padding.bucketed_length / padding.padded_length)
        bound = bound_if_saved(evidence, saved)
        if not worth(evidence, bound):
            return None
        where = place_of_padding(evidence)
        return self.finding(
            title="Most of each sequence is padding",
            text=(
                f"Sequences are {padding.mean_length:.0f} steps long on average and padded to "
                f"{padding.padded_length:.0f}: {percent(1 - filled)} of what the model computes "
                f"in {ms(evidence.times.resident)} is padding. Batched by length they would be "
                f"padded to {padding.bucketed_length:.0f}."
            ),
            bound=bound,
            bound_basis="the step's time follows the padded length",
            where=(where,) if where else (),
            advice="Use `bucket_by_sequence_length`, not `padded_batch` or padding up front.",
            snippet=_snippet(padding),
            data={"boundaries": _boundaries(padding), "leaf": padding.leaf},
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Batch by length, in place of `padded_batch` or for the arrays given to `fit`."""
        for site in finding.where:
            batch_by_length(script, site, finding.data)


def _boundaries(padding: Padding) -> list[int]:
    """Lengths from which on a sequence goes into the next bucket: a few, as each is traced."""
    mean, longest = padding.mean_length, padding.padded_length
    lengths = set(padding.quartiles) or {round(mean / 2), round(mean), round((mean + longest) / 2)}
    return sorted(length + 1 for length in lengths if 0 < length < longest)


def _snippet(padding: Padding) -> str:
    boundaries = _boundaries(padding)
    return (
        "# dataset: one unpadded sequence and its label per element\n"
        "dataset = dataset.bucket_by_sequence_length(\n"
        "    lambda sequence, label: tf.shape(sequence)[0],\n"
        f"    bucket_boundaries={boundaries},\n"
        f"    bucket_batch_sizes=[batch_size] * {len(boundaries) + 1},\n"
        ").prefetch(tf.data.AUTOTUNE)"
    )
