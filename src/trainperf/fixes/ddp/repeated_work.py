"""Work that ranks repeat: all of the data in each, an exchange after every micro-step."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from trainperf.errors import CannotRewrite
from trainperf.fixes import Fix
from trainperf.fixes.cause import Cause, Saving, Unpriced
from trainperf.fixes.common.words import if_measured, ms, percent
from trainperf.fixes.ranks._exchange import exchange_at_most, stands_out
from trainperf.fixes.rows import Callee
from trainperf.fixes.torch_step._source import innermost_loop, model_target, refuse_if_named
from trainperf.model import Ddp, Equivalence, Evidence, Finding, Site
from trainperf.rewrite import Script
from trainperf.source.statements import called, dotted, walk

SEVERAL = 1.5
"""Backward passes per update from which gradients are added up; between, it varies."""

SNIPPET = """\
import contextlib

for i, (x, y) in enumerate(loader):
    last = (i + 1) % accumulate == 0
    with contextlib.nullcontext() if last else model.no_sync():
        loss = criterion(model(x), y) / accumulate
        loss.backward()
    if last:
        optimizer.step()
        optimizer.zero_grad()"""

_READS_GRADIENTS = ("clip_grad_norm_", "clip_grad_value_", "unscale_", "get_total_norm")
"""Calls that need gradients of all ranks, so that they must follow an exchange."""


class TorchDdpNoSync(Fix):
    """Exchange gradients once per update: `no_sync()` in all micro-steps but the last.

    Why slow: A loop that adds up the gradients of several batches needs their sum over all ranks
    only before the update. DDP does not know that, and exchanges them after each backward.
    Changes: Forward and backward of all batches but the last of an update run under
    `model.no_sync()`. The ranks then add up first and exchange the sum: the same gradients,
    rounded in another order.
    When not:
    - When something reads gradients after each batch: clipping, logging their norm.
    - With FSDP, `no_sync()` keeps whole gradients in memory.
    """

    equivalence = Equivalence.NUMERICS

    def look(self, evidence: Evidence) -> Cause | None:
        """Find a DDP model that exchanges more than once per update."""
        several = [
            ddp
            for ddp in evidence.parallel.ddp
            if (ddp.micro_steps or 0) > SEVERAL and (ddp.synced or 0) > SEVERAL
        ]
        if not several:
            return None
        dearest = max(several, key=lambda ddp: ddp.synced or 0)
        synced = dearest.synced or 0
        share = (synced - 1) / synced
        takes = if_measured(
            lambda: (
                f" That takes {'' if stands_out(evidence) else 'up to '}"
                f"{ms(exchange_at_most(evidence))} of the {ms(evidence.times.real)} step, of which "
                f"one exchange per update would save {percent(share)}."
            )
        )
        where = _places(evidence, dearest)
        return Cause(
            title="Gradients are exchanged after every batch, and used after several",
            text=f"Each update adds up the gradients of {dearest.micro_steps:.3g} backward passes, "
            f"and {synced:.3g} of them exchange.{takes}",
            saves=Saving(
                f"{percent(share)} of the exchanges left out",
                lambda: share * exchange_at_most(evidence),
            ),
            where=where,
            snippet=SNIPPET,
            rewritable=len(several) == 1 and len(where) >= 3 and all(site.exact for site in where),
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Put forward and backward under `no_sync()`, but in the turn that updates.

        Only a loop of one shape is edited: forward, backward and `if <every n-th turn>:` with the
        update in it stand in one block, and the condition means the same before the forward as
        after the backward: else the ranks' weights would drift apart. Where it is not sure that the
        model is a DDP, the edited loop runs with another as well.
        """
        forward, backward, step, *wrapped = finding.where
        refuse_if_named(script, forward.file, "no_sync")
        loop = innermost_loop(script, step)
        first, last, update = (_direct(script, loop, site) for site in (forward, backward, step))
        if not isinstance(update, ast.If) or update.orelse:
            raise CannotRewrite("the update does not stand under a plain `if` of the loop")
        if any(isinstance(node, ast.If | ast.Try | ast.For | ast.While) for node in (first, last)):
            raise CannotRewrite("forward or backward do not run in every turn of the loop")
        place, until, at = (loop.body.index(node) for node in (first, last, update))
        if not place <= until < at:
            raise CannotRewrite("the update does not follow the backward in the same block")
        model = dotted(script.call(forward).func)
        if not model:
            raise CannotRewrite("the loop calls the model by no plain name")
        _check_body([node for node in loop.body if node is not update])
        _check_condition(update.test, loop.body[place:at])
        test = ast.unparse(update.test)
        if not wrapped or not _always_wrapped(script, forward, wrapped[0], model):
            test = f'{test} or not hasattr({model}, "no_sync")'
        context = script.module_name(forward.file, "contextlib", forward)
        header = f"with {context}.nullcontext() if {test} else {model}.no_sync():"
        script.wrap_statements(forward, backward, header)


def _places(evidence: Evidence, ddp: Ddp) -> tuple[Site, ...]:
    """Forward, backward, update and, where it can be edited, where DDP is built."""
    calls = evidence.torch.calls
    if calls is None or calls.forward is None or calls.backward is None:
        return (ddp.where,) if ddp.where is not None else ()
    if calls.step is None:
        return calls.forward, calls.backward
    wrapped = (ddp.where,) if ddp.where is not None and ddp.where.exact else ()
    return calls.forward, calls.backward, calls.step, *wrapped


def _direct(script: Script, loop: ast.For | ast.AsyncFor | ast.While, site: Site) -> ast.stmt:
    """The statement of the loop's own block that holds `site`."""
    found = next((node for node in loop.body if node in script.around(site)), None)
    if found is None:
        raise CannotRewrite("forward, backward and update do not stand in one loop")
    return found


def _always_wrapped(script: Script, forward: Site, wrapped: Site, model: str) -> bool:
    """Whether what the loop calls is surely a DDP: by its name, and under no condition."""
    try:
        if wrapped.file != forward.file or model_target(script, wrapped) != model:
            return False
    except CannotRewrite:
        return False
    conditions = [node for node in script.around(wrapped) if isinstance(node, ast.If | ast.Try)]
    return all(
        isinstance(node, ast.If) and "__name__" in ast.unparse(node.test) for node in conditions
    )


def _check_body(body: list[ast.stmt]) -> None:
    """Refuse a loop with a second backward, or that reads gradients in every turn."""
    calls = [called(node) for node in walk(body) if isinstance(node, ast.Call)]
    if calls.count("backward") != 1:
        raise CannotRewrite("the loop has not one backward")
    reads = [name for name in calls if name in _READS_GRADIENTS]
    reads += [
        ".grad" for node in walk(body) if isinstance(node, ast.Attribute) and node.attr == "grad"
    ]
    if reads:
        raise CannotRewrite(f"every turn of the loop reads gradients ({reads[0]})")


def _check_condition(test: ast.expr, before: Iterable[ast.stmt]) -> None:
    """Refuse a condition that may mean something else before the forward."""
    nodes = list(ast.walk(test))
    calls = [node for node in nodes if isinstance(node, ast.Call | ast.Subscript)]
    if any(isinstance(node, ast.Subscript) or called(node) != "len" for node in calls):
        raise CannotRewrite("the condition of the update is more than a comparison")
    if not any(isinstance(node, ast.Mod) for node in nodes):
        raise CannotRewrite("the condition of the update does not count turns")
    read = {ast.unparse(node) for node in nodes if isinstance(node, ast.Name | ast.Attribute)}
    changed = {
        ast.unparse(node)
        for node in walk(before)
        if isinstance(node, ast.Name | ast.Attribute) and not isinstance(node.ctx, ast.Load)
    }
    if changed & read:
        raise CannotRewrite(f"{min(changed & read)} changes between the forward and the update")


# ---------------------------------------------------------------------------------- data

WHOLE = ("RandomSampler", "SequentialSampler", "WeightedRandomSampler")
"""Samplers of PyTorch that know nothing of ranks."""

PARTS = ("Subset", "TensorDataset", "ConcatDataset", "StackDataset", "list", "tuple")
"""Datasets that hold what they were given, which may be the rank's own part already."""

SHARDED = """\
sampler = torch.utils.data.DistributedSampler(dataset, shuffle=True)
loader = DataLoader(dataset, batch_size=batch_size, sampler=sampler)
for epoch in range(epochs):
    sampler.set_epoch(epoch)  # another order in each epoch
    for batch in loader:
        ..."""

SHUFFLING = '''\
class {name}({torch}.utils.data.DistributedSampler):
    """The part of the data of each rank, in another order in each epoch."""

    begun = 0

    def __iter__(self):
        {name}.begun += 1
        self.set_epoch({name}.begun)
        return super().__iter__()
'''

LOADER = Callee("DataLoader")

_SHUFFLE = 2
"""Place of `shuffle` among the positional arguments of `DataLoader`."""


class TorchUnshardedData(Fix):
    """Let each rank read its own part of the data: `DistributedSampler`.

    Why slow: A `DataLoader` with PyTorch's usual samplers goes through the whole dataset in every
    rank: with N ranks each sample is seen N times in an epoch.
    Changes: `DistributedSampler` gives each rank every N-th sample: an epoch is one pass over the
    data again. `set_epoch` changes the order between epochs.
    When not:
    - When each rank's dataset is its own part already.
    - When epochs are meant to be N passes: shorten the schedule along with the epoch.
    - Evaluation that adds up over all samples: the last ones are repeated to make parts equal.
    """

    equivalence = Equivalence.SEMANTICS

    def look(self, evidence: Evidence) -> Cause | None:
        """Find a loader of a job of several ranks whose sampler knows nothing of them."""
        job, loader = evidence.parallel, evidence.torch.loader
        lengths = {rank.epoch_steps for rank in job.processes}
        if job.expected < 2 or job.exchange is None:
            return None  # what nothing ties together may each train on all of it
        if loader.sampler not in WHOLE or len(lengths) > 1:
            return None
        same = evidence.facts.get("ranks_same_data")
        of_a_library = loader.item is None and loader.dataset not in PARTS
        if loader.iterable or same is False or not (same or of_a_library):
            return None
        count = lengths.pop() if lengths else None
        fewer = f": {-(-count // job.expected):,} steps would do, not {count:,}" if count else ""
        unless = "" if same else ", unless each rank's dataset is its own part"
        return Cause(
            title=f"Each of {job.expected} ranks goes through all of the data",
            text=f"Every rank reads the data (`{loader.dataset}`) by a `{loader.sampler}`: an "
            f"epoch is {job.expected} passes over them{fewer}{unless}.",
            saves=Unpriced(
                f"a step stays as it is, but an epoch has 1/{job.expected} of the steps"
            ),
            where=(loader.where,) if loader.where else (),
            advice="Give the loader a DistributedSampler, and call its set_epoch in each epoch.",
            snippet=SHARDED,
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Give the loader a `DistributedSampler`, of another order in each epoch if it shuffles."""
        site = finding.where[0]
        LOADER.check(script, site)
        for name, place in (("sampler", 3), ("batch_sampler", 4)):
            given = script.argument(site, place, name)
            if given is not None and script.expression(given) != "None":
                raise CannotRewrite(f"the loader has a {name} of its own")
        dataset = script.argument(site, 0, "dataset")
        if dataset is None:
            raise CannotRewrite("the call does not write out its dataset")
        given = script.argument(site, _SHUFFLE, "shuffle")
        shuffle = "False" if given is None else script.expression(given)
        if shuffle not in ("True", "False"):
            raise CannotRewrite(f"shuffle is {shuffle}: it cannot be told which order is meant")
        samples = script.name_argument(dataset, "samples", "dataset")
        torch = script.module_name(site.file, "torch")
        sampler = f"{torch}.utils.data.DistributedSampler({samples}, shuffle=False)"
        if shuffle == "True":
            _check_used_once(script, site)
            name = script.free_name(site.file, "EachEpoch")
            script.insert_function(site.file, SHUFFLING.format(name=name, torch=torch))
            sampler = f"{name}({samples})"
        if "shuffle" in script.call_keywords(site):
            script.remove_keyword(site, "shuffle")
        elif shuffle == "True":
            script.replace_argument(site, _SHUFFLE, "False")
        script.set_keyword(site, "sampler", sampler, position=3)


def _check_used_once(script: Script, site: Site) -> None:
    """Refuse a loader that one rank may begin more often: its order would differ from the others'.

    What a rank begins is counted, and parts of different orders overlap, which no trial shows.
    """
    module, statement = script.source(site.file).module, script.around(site)[-1]
    held = module.bindings(statement.targets[0]) if isinstance(statement, ast.Assign) else None
    uses = 0
    for node in module.nodes:
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
            around = module.parent(node)
            counts = isinstance(around, ast.Call) and called(around) == "len"
            reads = held is not None and module.bindings(node) is held
            uses += reads and not counts and not isinstance(around, ast.Attribute)
    if uses > 1:
        raise CannotRewrite("the loader is used in several places, maybe not by all ranks")
