"""A dataset that is not spread over the replicas of its strategy."""

from __future__ import annotations

from trainperf.errors import NotMeasured
from trainperf.fixes import Fix
from trainperf.fixes.common.step import bound_if_saved
from trainperf.fixes.common.words import ms, worth
from trainperf.fixes.ranks._exchange import exchange_seconds
from trainperf.model import Equivalence, Evidence, Finding

SNIPPET = """\
dataset = strategy.experimental_distribute_dataset(dataset)
for batch in dataset:
    strategy.run(train_step, args=(batch,))  # its loss: the sum over the global batch's size
"""


class DistributeDataset(Fix):
    """Spread the dataset over the replicas.

    ## Why it is slow
    `strategy.run` gives each replica what it is given. A batch of a dataset that is not
    distributed goes to all of them whole: they all compute the same, and then exchange
    gradients that are alike.

    ## What changes
    `strategy.experimental_distribute_dataset` gives each replica its part of each batch.
    A sample is computed once in a step, not once on every replica.

    ## When not to
    - The loss must be divided by the size of the global batch
      (`tf.nn.compute_average_loss`): a mean over the replica's part makes the summed
      gradients as many times larger as there are replicas.
    - When each replica draws samples of its own from what it is given.
    """

    category = "sync"
    equivalence = Equivalence.SEMANTICS
    without_edit = "the loss is to be divided by the global batch as well"

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find a loop of the user's under a strategy whose dataset is not distributed."""
        found = evidence.strategy
        if found is None or found.replicas < 2 or found.distributed is not False:
            return None
        if evidence.loop.kind != "iterator":
            return None
        try:
            own = evidence.times.resident - exchange_seconds(evidence)
        except NotMeasured:
            own = evidence.times.resident
        bound = bound_if_saved(evidence, own * (1 - 1 / found.replicas))
        if not worth(evidence, bound):
            return None
        places = (found.where, found.dataset_where)
        where = tuple(site for site in places if site is not None)
        return self.finding(
            title="Every replica computes the whole batch",
            text=f"The loop's dataset is not distributed, so each of the {found.replicas} "
            f"replicas of the {found.cls} is given every sample of a batch, in a step of "
            f"{ms(evidence.times.real)}.",
            bound=bound,
            bound_basis=f"each replica computes 1/{found.replicas} of what it does now",
            where=where,
            advice="Distribute the dataset, and divide the loss by the size of the global batch.",
            snippet=SNIPPET,
        )
