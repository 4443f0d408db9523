"""`tf.distribute`: strategies, scopes, how data is dealt out; most of it advice."""

from __future__ import annotations

import ast
import math

from trainperf.errors import NotMeasured
from trainperf.fixes import Fix
from trainperf.fixes.cause import Cause, Saving, Unpriced
from trainperf.fixes.common.step import at_most, resident_seconds
from trainperf.fixes.common.words import at, ms, percent
from trainperf.fixes.ranks._exchange import (
    AT_MOST_ALL,
    WORTH_CHANGING,
    exchange_said,
    exchange_seconds,
    exchange_share,
)
from trainperf.fixes.rows import Callee
from trainperf.model import Equivalence, Evidence, Finding
from trainperf.rewrite import Script

BY_FILE = ("AUTO", "FILE")
"""Policies that share out whole files, where the dataset reads files."""

BY_DATA = """\
options = tf.data.Options()
options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
dataset = dataset.with_options(options)
"""


class TfAutoShard(Fix):
    """Share out samples among the workers instead of files: `AutoShardPolicy.DATA`.

    ## Why it is slow
    A dataset that reads files is shared out by whole files. Where there are few, some workers
    get more than others, or none: an epoch lasts as long as the worker with most.

    ## What changes
    With `AutoShardPolicy.DATA` each of n workers takes every n-th sample. All have the same
    number; which worker computes which sample changes.

    ## When not to
    - Every worker then reads all files and throws away what is not its own. Where reading is
      what takes long, write the data into more files: a multiple of the number of workers.
    - When the dataset is sharded by hand (`shard`, an `InputContext`).
    """

    category = "sync"
    equivalence = Equivalence.NUMERICS
    between_epochs = True
    without_edit = "whether to shard by samples or to write more files takes a decision"

    def look(self, evidence: Evidence) -> Cause | None:
        """Find files shared out among workers, of which some get more than others."""
        found = evidence.strategy
        if found is None or found.workers < 2 or not found.files or found.auto_shard not in BY_FILE:
            return None
        files, workers = found.files, found.workers
        most = math.ceil(files / workers)
        idle = percent(1 - files / workers / most)
        return Cause(
            title=f"Too few files ({files}) for {workers} workers",
            text=f"The {found.cls} shares out whole files (AutoShardPolicy.{found.auto_shard}): "
            f"some workers get {most} of {files}, others fewer or none, and {idle} of an epoch is "
            "waiting.",
            saves=Saving(
                "whole epochs, if the files are equally long and reading is not what the workers "
                "wait for",
                ratio=most * workers / files,
            ),
            where=(found.dataset_where,) if found.dataset_where else (),
            advice="Set AutoShardPolicy.DATA, or write the data into more files.",
            snippet=BY_DATA,
        )


FAST = ("NcclAllReduce", "CollectiveAllReduce")
"""NCCL, and TensorFlow's own choice (2.21), over NCCL where all devices are GPUs."""


class TfCrossDeviceOps(Fix):
    """Exchange gradients by the fastest `cross_device_ops` of these devices.

    ## Why it is slow
    `ReductionToOneDevice` gathers all gradients on one device; `HierarchicalCopyAllReduce`
    copies them along the links of one machine of its time. NCCL uses all links between GPUs at
    once; on a CPU TensorFlow's own choice, a collective, packs small gradients together.

    ## What changes
    `cross_device_ops` of the strategy: NCCL on GPUs, TensorFlow's own choice elsewhere. The
    sums are the same; they are added up in another order, so the last digits differ.

    ## When not to
    - NCCL is for NVIDIA GPUs under Linux only.
    - When it was set because NCCL hangs or fails on this machine.
    """

    category = "sync"
    equivalence = Equivalence.NUMERICS
    without_edit = "why other means of exchange were set is not in the source"

    def look(self, evidence: Evidence) -> Cause | None:
        """Find a `MirroredStrategy` that is told to exchange by other than the fastest."""
        found = evidence.strategy
        if found is None or found.cls != "MirroredStrategy" or found.replicas < 2:
            return None
        if not found.cross_device_ops_given or found.cross_device_ops.partition(" ")[0] in FAST:
            return None
        gpus = evidence.device.kind == "GPU"
        better = "tf.distribute.NcclAllReduce()" if gpus else "None"
        return Cause(
            title=f"{found.cross_device_ops} exchanges the gradients",
            text=f"{exchange_said(evidence)}; {found.replicas} "
            f"{'GPUs' if gpus else 'devices of the CPU'} exchange them by the "
            f"{found.cross_device_ops} that the script asks for.",
            saves=Saving(AT_MOST_ALL, exchange_seconds(evidence)),
            where=(found.where,) if found.where else (),
            advice="Exchange gradients by NCCL."
            if gpus
            else "Leave cross_device_ops out: TensorFlow's own choice suits these devices.",
            snippet=f"strategy = tf.distribute.MirroredStrategy(cross_device_ops={better})",
            sure=exchange_share(evidence) >= WORTH_CHANGING,
        )


class TfStrategyBatch(Fix):
    """Scale the global batch with the replicas.

    ## Why it is slow
    A strategy splits the batch among its replicas. What a step exchanges does not depend on it:
    the smaller a replica's part, the more of each step goes into exchanging gradients.

    ## What changes
    With the batch multiplied by the number of replicas, each replica does as much per step as
    one device alone would, and an epoch has fewer exchanges.

    ## When not to
    - There are fewer updates in an epoch: a common rule scales the learning rate with the batch
      for SGD, with its square root for Adam; compare the accuracy.
    - When the batch was scaled with the replicas already; each needs memory for its larger part.
    """

    category = "sync"
    equivalence = Equivalence.SEMANTICS
    without_edit = "a global batch that grows with the replicas wants another learning rate"

    def look(self, evidence: Evidence) -> Cause | None:
        """Find replicas whose part of the batch is small against what they exchange."""
        found, batch = evidence.strategy, evidence.loop.batch_size
        if found is None or found.replicas < 2 or evidence.input_bound:
            return None
        share, known = exchange_share(evidence), evidence.parallel.break_even_batch_
        even = known if isinstance(known, float) else None
        # Twice the batch from which the devices pay: there the exchange takes half of that.
        if even and batch and batch / found.replicas >= 2 * even:
            return None
        part = (
            f" Each replica computes {batch / found.replicas:.3g} of {batch} samples."
            if batch
            else ""
        )
        pays = f" {found.replicas} devices pay from about {even:.0f} samples each." if even else ""
        where = found.batch_where or evidence.loop.where
        return Cause(
            title=f"Each replica's part of the batch is small: {percent(share)} of a step is "
            "exchange",
            text=f"{exchange_said(evidence)}, whatever the size of the batch.{part}{pays}",
            saves=Saving(
                f"samples per second with {found.replicas} times the batch: one exchange for as "
                "many times more samples, all else growing with the batch; more where other "
                "parts of a step do not grow",
                ratio=found.replicas / (found.replicas * (1 - share) + share),
            ),
            where=(where,) if where else (),
            advice=f"Try {found.replicas} times the batch, with the learning rate adjusted, and "
            "compare the accuracy reached.",
            snippet=f"global_batch = {batch or 'batch'} * strategy.num_replicas_in_sync\n"
            "dataset = dataset.batch(global_batch)\n",
            sure=share >= WORTH_CHANGING,
        )


DISTRIBUTE = """\
dataset = strategy.experimental_distribute_dataset(dataset)
for batch in dataset:
    strategy.run(train_step, args=(batch,))  # its loss: the sum over the global batch's size
"""


class TfStrategyDataset(Fix):
    """Spread the dataset over the replicas.

    ## Why it is slow
    `strategy.run` gives each replica what it is given. A batch of a dataset that is not
    distributed goes to all of them whole: they compute the same, and exchange equal gradients.

    ## What changes
    `strategy.experimental_distribute_dataset` gives each replica its part of each batch. A
    sample is computed once in a step, not once on every replica.

    ## When not to
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

        def saved() -> float:
            try:
                own = evidence.times.resident - exchange_seconds(evidence)
            except NotMeasured:
                own = evidence.times.resident
            return own * (1 - 1 / found.replicas)

        return Cause(
            title="Every replica computes the whole batch",
            text=f"The loop's dataset is not distributed, so each of the {found.replicas} replicas "
            f"of the {found.cls} is given every sample of a batch, in a step of "
            f"{ms(evidence.times.real)}.",
            saves=Saving(f"each replica computes 1/{found.replicas} of what it does now", saved),
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

    ## Why it is slow
    A strategy was made for several devices, but the model was not built under
    `with strategy.scope():`. Keras then trains it on one device, and says nothing.

    ## What changes
    What builds the model, and its `compile`, stand in the scope. Each step gives every device
    its part of the batch and sums the gradients.

    ## When not to
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
                lambda: resident_seconds(evidence) * (1 - 1 / found.replicas),
            ),
            where=(*found.models_outside, *others),
            advice="Build and compile the model under `with strategy.scope():`.",
            snippet=IN_SCOPE,
        )


class TfStrategySingle(Fix):
    """Train without a distribution strategy where there is but one device.

    ## Why it is slow
    `MirroredStrategy` gives each replica its part of the batch and a copy of the weights, and
    adds up the gradients. Virtual devices of one CPU share its cores, and the exchange comes on
    top; with one replica there is nothing to share out, and the bookkeeping stays.

    ## What changes
    `tf.distribute.get_strategy()` stands in its place: `scope`, `run` and the like work, with
    one replica. The global batch stays; batch normalisation sees all of it.

    ## When not to
    - When the same script runs on several GPUs elsewhere, or you test that it would.
    """

    category = "host"
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
            advice="Train without the strategy on this machine.",
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
