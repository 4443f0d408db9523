"""`tf.distribute`: strategies, scopes, how data is dealt out; most of it advice."""

from __future__ import annotations

import ast

from trainperf.fixes import Fix
from trainperf.fixes.cause import Cause, Saving, Unpriced
from trainperf.fixes.common.step import at_most, bound_if_saved, resident_seconds
from trainperf.fixes.common.words import at, ms
from trainperf.fixes.rows import Callee
from trainperf.model import Equivalence, Evidence, Finding
from trainperf.rewrite import Script

DISTRIBUTE = """\
dataset = strategy.experimental_distribute_dataset(dataset)
for batch in dataset:
    strategy.run(train_step, args=(batch,))  # its loss: the sum over the global batch's size
"""


def _divided(evidence: Evidence, replicas: int) -> float:
    """The speed-up at most if each of the replicas had its part of the step."""
    return bound_if_saved(evidence, resident_seconds(evidence) * (1 - 1 / replicas))


class TfStrategyDataset(Fix):
    """Spread the dataset over the replicas.

    Why slow: `strategy.run` gives each replica what it is given. A batch of a dataset that is not
    distributed goes to all of them whole: they compute the same, and exchange equal gradients.
    Changes: `strategy.experimental_distribute_dataset` gives each replica its part of each batch.
    A sample is computed once in a step, not once on every replica.
    When not:
    - The loss must be divided by the size of the global batch (`tf.nn.compute_average_loss`): a
      mean over the replica's part makes the summed gradients that many times larger.
    - When each replica draws samples of its own from what it is given.
    """

    category = "sync"
    equivalence = Equivalence.SEMANTICS
    without_edit = "the loss is to be divided by the global batch as well"

    def look(self, evidence: Evidence) -> Cause | None:
        """Find a loop of the user's under a strategy whose dataset is not distributed."""
        found = evidence.strategy
        if found is None or found.replicas < 2 or found.distributed is not False:
            return None
        if evidence.loop.kind != "iterator":
            return None

        return Cause(
            title="Every replica computes the whole batch",
            text=f"The loop's dataset is not distributed, so each of the {found.replicas} replicas "
            f"of the {found.cls} is given every sample of a batch, in a step of "
            f"{ms(evidence.times.real)}.",
            saves=Saving(
                f"each replica computes 1/{found.replicas} of what it does now",
                ratio=lambda: _divided(evidence, found.replicas),
            ),
            where=tuple(site for site in (found.where, found.dataset_where) if site is not None),
            advice="Distribute the dataset, and divide the loss by the size of the global batch.",
            snippet=DISTRIBUTE,
        )


IN_SCOPE = """\
with strategy.scope():
    model = build_model()
    model.compile(optimizer="adam", loss=loss)
"""


class TfStrategyScope(Fix):
    """Build the model in the strategy's scope.

    Why slow: A strategy was made for several devices, but the model was not built under `with
    strategy.scope():`. Keras then trains it on one device, and says nothing.
    Changes: What builds the model, and its `compile`, stand in the scope. Each step gives every
    device its part of the batch and sums the gradients.
    When not:
    - Batch normalisation takes its statistics of each device's part of the batch.
    - Small steps lose more by the exchange of gradients than the devices gain.
    - The optimizer has to be made in the scope; logical devices of one CPU gain little.
    """

    category = "sync"
    equivalence = Equivalence.NUMERICS
    without_edit = "all that a model is built of, and its optimizer, are to move into the scope"

    def look(self, evidence: Evidence) -> Cause | None:
        """Find a `fit` on one device of a model outside of the scope of several."""
        found = evidence.strategy
        alone = evidence.loop.replicas == 1 and evidence.loop.kind == "fit"
        if found is None or found.replicas < 2 or not found.models_outside or not alone:
            return None
        compiled = next((model.compile_where for model in evidence.models), None)
        others = tuple(site for site in (compiled, found.where) if site is not None)
        return Cause(
            title=f"{found.cls} does nothing: the model is outside of its scope",
            text=f"A {found.cls} of {found.replicas} devices was made, but the model "
            f"({', '.join(map(at, found.models_outside))}) was built outside of its scope, so "
            "`fit` trains on one of them.",
            saves=Saving(
                f"the step spread over {found.replicas} devices, without exchanging gradients",
                ratio=lambda: _divided(evidence, found.replicas),
            ),
            where=(*found.models_outside, *others),
            snippet=IN_SCOPE,
        )


class TfStrategySingle(Fix):
    """Train without a distribution strategy where there is but one device.

    Why slow: `MirroredStrategy` gives each replica its part of the batch and a copy of the
    weights, and adds up the gradients. Virtual devices of one CPU share its cores, and the
    exchange comes on top; with one replica there is nothing to share out, and the bookkeeping
    stays.
    Changes: `tf.distribute.get_strategy()` stands in its place: `scope`, `run` and the like work,
    with one replica. The global batch stays; batch normalisation sees all of it.
    When not: When the same script runs on several GPUs elsewhere, or you test that it would.
    """

    usual = 1.8
    equivalence = Equivalence.NUMERICS
    counted = True  # replicas are, and noise of the times is often theirs

    def look(self, evidence: Evidence) -> Cause | None:
        """Find a strategy that has one replica, or only devices of this host's CPU."""
        found = evidence.strategy
        if found is None or found.cls != "MirroredStrategy" or found.workers > 1:
            return None
        on_cpu = bool(found.devices) and all("CPU" in device.upper() for device in found.devices)
        if found.replicas > 1 and not on_cpu:
            return None
        several = found.replicas > 1
        basis = "a step that costs nothing: one replica was not measured"
        most = at_most(evidence)
        return Cause(
            title=f"{found.cls}{f' ({at(found.where)})' if found.where else ''} "
            f"{'shares one device out' if several else 'has one replica'}",
            text=f"Its {found.replicas} replicas are devices of one CPU, which has "
            f"{evidence.machine.cores:g} cores for all of them."
            if several
            else "There is nothing to share out, and the strategy's bookkeeping runs in each step.",
            saves=Unpriced(basis) if most is None else Saving(basis, ratio=most),
            where=(found.where,) if found.where else (),
            snippet="strategy = tf.distribute.get_strategy()",
            sure=several,
            data={"replicas": found.replicas},
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Put the default strategy in its place; the global batch keeps its size."""
        site, replicas = finding.where[0], finding.data["replicas"]
        Callee("MirroredStrategy").check(script, site)
        tf = script.module_name(site.file, "tensorflow", site)
        script.replace_call(site, f"{tf}.distribute.get_strategy()")
        products = (
            node
            for node in ast.walk(script.module(site.file))
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) and replicas > 1
        )
        for side in (side for node in products for side in (node.left, node.right)):
            if isinstance(side, ast.Attribute) and side.attr == "num_replicas_in_sync":
                script.replace_node(site.file, side, str(replicas))
