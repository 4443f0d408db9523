"""A dataset that is not spread over the replicas of its strategy."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from trainperf.errors import CannotRewrite, NotMeasured
from trainperf.fixes import Example, Fix
from trainperf.fixes.common.cases import SITE
from trainperf.fixes.common.step import bound_if_saved
from trainperf.fixes.common.words import ms, worth
from trainperf.fixes.ranks._exchange import exchange_seconds
from trainperf.fixes.ranks._parallel_cases import parallel_evidence, strategy
from trainperf.fixes.strategies._source import strategy_name
from trainperf.model import Equivalence, Evidence, Finding, Loop, Site

if TYPE_CHECKING:
    from trainperf.rewrite import Script

DATASET_SITE = Site("train.py", 14, "main", col=14, end_line=14, end_col=60)

LOOP = Loop(
    "iterator", where=SITE, batch_size=64, input_kind="tf.data", epoch_steps=500, replicas=2
)
WHOLE = strategy(distributed=False, dataset_where=DATASET_SITE)

SNIPPET = """\
dataset = strategy.experimental_distribute_dataset(dataset)
for batch in dataset:
    strategy.run(train_step, args=(batch,))  # its loss: the sum over the global batch's size
"""

TAKES_BATCHES = ("iter", "enumerate", "zip")
"""Functions that only iterate over what they are given."""


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

    silent = [
        parallel_evidence("tensorflow", loop=LOOP),
        parallel_evidence("tensorflow", loop=LOOP, strategy=strategy(distributed=None)),
        # `fit` distributes by itself
        parallel_evidence("tensorflow", strategy=WHOLE),
        # one replica
        parallel_evidence("tensorflow", loop=LOOP, strategy=replace(WHOLE, replicas=1)),
        # input-bound
        parallel_evidence("tensorflow", loop=LOOP, strategy=WHOLE, resident=0.010, input=0.099),
    ]
    fires = [
        parallel_evidence("tensorflow", loop=LOOP, strategy=WHOLE),
        parallel_evidence("tensorflow", loop=LOOP, strategy=replace(WHOLE, dataset_where=None)),
        parallel_evidence(
            "tensorflow",
            loop=LOOP,
            strategy=replace(WHOLE, replicas=8),
            parallel={"exchange": None},
        ),
    ]
    examples = [
        Example(
            before="strategy = ▸MirroredStrategy()◂\n"
            "for batch in ▸data.batch(64)◂:\n"
            "    strategy.run(step, args=(batch,))\n",
            after="strategy = MirroredStrategy()\n"
            "for batch in strategy.experimental_distribute_dataset(data.batch(64)):\n"
            "    strategy.run(step, args=(batch,))\n",
        ),
        Example(
            before="both = ▸MirroredStrategy()◂\n"
            "batches = ▸data.batch(64)◂\n"
            "for number, batch in enumerate(batches):\n"
            "    both.run(step, args=(batch,))\n",
            after="both = MirroredStrategy()\n"
            "batches = both.experimental_distribute_dataset(data.batch(64))\n"
            "for number, batch in enumerate(batches):\n"
            "    both.run(step, args=(batch,))\n",
        ),
        Example.untouched(
            "strategy = ▸MirroredStrategy()◂\n"
            "batches = ▸data.batch(64)◂\n"
            "print(batches.element_spec)\n"
            "for batch in batches:\n"
            "    strategy.run(step, args=(batch,))\n"
        ),
        Example.untouched(
            "strategy = ▸MirroredStrategy()◂\nfor batch in ▸data.batch(64)◂:\n    step(batch)\n"
        ),
    ]

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find a loop of the user's under a strategy whose dataset is not distributed."""
        found = evidence.parallel.strategy
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
            rewritable=len(where) == len(places) and all(site.exact for site in where),
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Distribute the dataset where it is made, if it is only iterated over."""
        built, dataset = finding.where
        name = strategy_name(script, built, dataset)
        source = script.source(dataset.file)
        if f"{name}.run(" not in source.text:
            raise CannotRewrite(f"nothing runs by {name}.run in {source.name}")
        _check_only_iterated(source.tree, source.call(dataset), source.statement(dataset)[0])
        script.wrap_call(dataset, f"{name}.experimental_distribute_dataset({{}})")


def _check_only_iterated(tree: ast.Module, call: ast.Call, statement: ast.stmt) -> None:
    """Raise `CannotRewrite` unless the dataset, or the name it gets, is only iterated over."""
    if isinstance(statement, ast.For) and statement.iter is call:
        return
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    target = targets[0] if len(targets) == 1 else None
    if not isinstance(target, ast.Name) or getattr(statement, "value", None) is not call:
        raise CannotRewrite("the dataset is not assigned to a plain name where it is made")
    iterated = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.For):
            iterated.add(id(node.iter))
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in TAKES_BATCHES:
            iterated |= {id(each) for each in node.args}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Name) or node.id != target.id or node is target:
            continue
        if id(node) not in iterated or not isinstance(node.ctx, ast.Load):
            raise CannotRewrite(f"{target.id} is used for more than to iterate over it")
