"""A global batch that was not made larger with the replicas."""

from __future__ import annotations

from trainperf.fixes import Fix
from trainperf.fixes.common.words import percent, worth
from trainperf.fixes.ranks._exchange import WORTH_CHANGING, exchange_said, exchange_share
from trainperf.model import Equivalence, Evidence, Finding, Strategy, is_taken, taken

SNIPPET = """\
global_batch = {batch} * strategy.num_replicas_in_sync
dataset = dataset.batch(global_batch)
"""


class ScaledBatch(Fix):
    """Scale the global batch with the replicas.

    ## Why it is slow
    A strategy splits the batch of the dataset among its replicas. What a step exchanges
    does not depend on the batch: the smaller a replica's part, the more of each step
    goes into exchanging gradients.

    ## What changes
    With the batch multiplied by the number of replicas, each replica does as much per
    step as one device alone would, and an epoch has fewer exchanges.

    ## When not to
    - There are as many times fewer updates in an epoch, so the course of training
      changes. A common rule scales the learning rate with the batch for SGD, with its
      square root for Adam; compare the accuracy.
    - When the batch was scaled with the replicas already, larger ones gain less often.
    - Each replica needs memory for its larger part.
    """

    category = "sync"
    equivalence = Equivalence.SEMANTICS
    without_edit = "a global batch that grows with the replicas wants another learning rate"

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find replicas whose part of the batch is small against what they exchange."""
        found = evidence.strategy
        if found is None or found.replicas < 2 or evidence.input_bound:
            return None
        share = exchange_share(evidence)
        if share < WORTH_CHANGING or _pays(evidence, found):
            return None
        own = 1 - share
        bound = found.replicas / (found.replicas * own + share)
        if not worth(evidence, bound):
            return None
        where = found.batch_where or evidence.loop.where
        batch = evidence.loop.batch_size
        return self.finding(
            title=f"Each replica's part of the batch is small: {percent(share)} of a step is "
            "exchange",
            text=_text(evidence, found),
            bound=bound,
            bound_basis=f"samples per second with {found.replicas} times the batch: one exchange "
            "for as many times more samples, all else growing with the batch; more where other "
            "parts of a step do not grow",
            where=(where,) if where else (),
            advice=f"Try {found.replicas} times the batch, with the learning rate adjusted, and "
            "compare the accuracy reached.",
            snippet=SNIPPET.format(batch=batch or "batch"),
        )


def _pays(evidence: Evidence, found: Strategy) -> bool:
    """Whether a replica's batch is well above that from which the devices pay.

    Twice that: there the exchange takes half of what it does at the break-even.
    """
    even, batch = evidence.parallel.break_even_batch_, evidence.loop.batch_size
    if not is_taken(even) or batch is None:
        return False
    return batch / found.replicas >= 2 * taken(even)


def _text(evidence: Evidence, found: Strategy) -> str:
    text = f"{exchange_said(evidence)}, whatever the size of the batch."
    if evidence.loop.batch_size:
        each = evidence.loop.batch_size / found.replicas
        text += (
            f" Each of the {found.replicas} replicas computes {each:.3g} of its "
            f"{evidence.loop.batch_size} samples."
        )
    even = evidence.parallel.break_even_batch_
    if isinstance(even, float):
        text += f" {found.replicas} devices pay from about {even:.0f} samples per replica."
    return text
