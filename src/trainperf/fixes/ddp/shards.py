"""The parts of the data that ranks read: all of it each, or parts of unequal length."""

from __future__ import annotations

import ast
import statistics
from dataclasses import asdict, replace

from trainperf.errors import CannotRewrite
from trainperf.fixes import Fix
from trainperf.fixes.cause import Cause, Saving, Unpriced, priced_if_worth
from trainperf.fixes.rows import Callee
from trainperf.fixes.torch_step._source import (
    counter,
    function_around,
    innermost_loop,
    refuse_if_named,
)
from trainperf.model import Equivalence, Evidence, Finding, Site
from trainperf.rewrite import Script
from trainperf.source.arguments import argument
from trainperf.source.iterations import stored
from trainperf.source.scopes import Loop
from trainperf.source.statements import called, dotted, parameters

WHOLE = ("RandomSampler", "SequentialSampler", "WeightedRandomSampler")
"""Samplers of PyTorch that know nothing of ranks."""

PARTS = ("Subset", "TensorDataset", "ConcatDataset", "StackDataset", "list", "tuple")
"""Datasets that hold what they were given, which may be the rank's own part already."""

EQUAL = """\
sampler = torch.utils.data.DistributedSampler(dataset, shuffle=True, drop_last=True)
loader = DataLoader(dataset, batch_size=batch_size, sampler=sampler)
# or, to keep every sample:
# with torch.distributed.algorithms.join.Join([model]):
#     for batch in loader: ..."""

SNIPPET = """\
sampler = torch.utils.data.DistributedSampler(dataset, shuffle=True)
loader = DataLoader(dataset, batch_size=batch_size, sampler=sampler)
for epoch in range(epochs):
    sampler.set_epoch(epoch)  # another order in each epoch
    for batch in loader:
        ..."""

LOADER = Callee("DataLoader")

_SHUFFLE = 2
"""Place of `shuffle` among the positional arguments of `DataLoader`."""


class TorchUnevenShards(Fix):
    """Give every rank the same number of batches.

    Why slow: A rank whose shard is shorter is done first. The others then wait for its part of the
    next exchange: the training hangs, fails with a time-out, or under `Join` goes on with fewer
    ranks.
    Changes: `DistributedSampler` cuts the data into equal parts: with `drop_last=True` by leaving
    out the few samples that are over, without it by repeating some.
    When not: When every sample must be seen exactly once: keep the shards and train under `Join`.
    """

    equivalence = Equivalence.SEMANTICS
    without_edit = "which samples are left out or read twice is a choice"

    def look(self, evidence: Evidence) -> Cause | None:
        """Find ranks of a job that exchanges gradients with fewer steps than others."""
        job = evidence.parallel
        steps = {
            rank.rank: rank.epoch_steps for rank in job.processes if rank.epoch_steps is not None
        }
        joined = any(model.settings.get("join") for model in job.ddp)
        if job.exchange is None or joined or len(set(steps.values())) < 2:
            return None
        first, last = (pick(steps, key=lambda rank: steps[rank]) for pick in (min, max))
        ratio = steps[last] / statistics.fmean(steps.values())
        loaders = evidence.torch.loaders
        where = evidence.torch.loader.where if loaders else None
        return Cause(
            title="The ranks' epochs are of different length",
            text=f"An epoch has {steps[last]:,} steps in rank {last} and {steps[first]:,} in rank "
            f"{first}. Rank {last} has no partner for its last {steps[last] - steps[first]:,}.",
            saves=priced_if_worth(
                Saving("steps of the longest epoch over those of the mean one", ratio=ratio),
                evidence,
                "not about speed: the end of the epoch may hang",
            ),
            where=(where,) if where else (),
            advice="Shard by DistributedSampler(drop_last=True), or train under Join.",
            snippet=EQUAL,
        )


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
        loop = evidence.loop.where
        return Cause(
            title=f"Each of {job.expected} ranks goes through all of the data",
            text=f"Every rank reads the data (`{loader.dataset}`) by a `{loader.sampler}`: an "
            f"epoch is {job.expected} passes over them{fewer}{unless}.",
            saves=Unpriced(
                f"a step stays as it is, but an epoch has 1/{job.expected} of the steps"
            ),
            where=(loader.where,) if loader.where else (),
            advice="Give the loader a DistributedSampler, and call its set_epoch in each epoch.",
            snippet=SNIPPET,
            data={"loop": None if loop is None else asdict(loop)},
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Give the loader a `DistributedSampler`, and tell that the epoch in each."""
        loop = finding.data["loop"]
        shard(script, finding.where[0], None if loop is None else Site(**loop))


def shard(script: Script, site: Site, loop_site: Site | None) -> None:
    """Give the loader built at `site` a `DistributedSampler`, told the epoch where it shuffles.

    `loop_site` is where training takes its batches. Raises `CannotRewrite` where the call has a
    sampler, or the loop over epochs cannot be seen.
    """
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
    text = script.name_argument(dataset, "samples", "dataset")
    how = ", shuffle=False"
    if shuffle == "True":
        how = ""
        if loop_site is None:
            raise CannotRewrite("where training takes its batches is not known")
        loop, loader = _epochs(script, loop_site)
        first = replace(loop_site, line=loop.body[0].lineno, col=0, end_line=0, end_col=0)
        script.insert_before(first, f"{loader}.sampler.set_epoch({counter(loop)})")
    torch = script.module_name(site.file, "torch")
    if "shuffle" in script.call_keywords(site):
        script.remove_keyword(site, "shuffle")
    elif shuffle == "True":
        script.replace_argument(site, _SHUFFLE, "False")
    sampler = f"{torch}.utils.data.DistributedSampler({text}{how})"
    script.set_keyword(site, "sampler", sampler, position=3)


def _iterated(loop: Loop) -> str:
    """Return the name of what a loop takes its turns from, out of `enumerate` and its like."""
    given = loop.iter if not isinstance(loop, ast.While) else None
    while isinstance(given, ast.Call) and called(given) in ("enumerate", "tqdm", "iter", "track"):
        given = given.args[0] if given.args else None
    return dotted(given) if given is not None else ""


def _epochs(script: Script, site: Site) -> tuple[ast.For, str]:
    """Find the loop over epochs around the one over batches, and the loader by its name there.

    It stands in the function of that or where this one is called, and counts its turns. The
    loader must be the same in all of them: no trial runs two epochs.
    """
    refuse_if_named(script, site.file, "set_epoch")
    batches = innermost_loop(script, site)
    loader = _iterated(batches)
    if not loader:
        raise CannotRewrite("the loader has no name where its batches are taken")
    module = script.source(site.file).module
    found = [(loop, loader) for loop in _counted(module.loops(batches))]
    function = function_around(script, site)
    if not found and function is not None and loader in parameters(function):
        place = parameters(function).index(loader)
        for call in module.nodes:
            if isinstance(call, ast.Call) and dotted(call.func) == function.name:
                given = argument(call, loader, place)
                name = "" if given is None else dotted(given)
                found += [(loop, name) for loop in _counted(module.loops(call)) if name]
    if len(found) != 1:
        raise CannotRewrite("the loop over epochs was not found")
    loop, loader = found[0]
    name = loader.partition(".")[0]
    if name in stored([loop]) or len(module.scope(loop).find(name) or ()) > 1:
        raise CannotRewrite(f"{name} is given a value more than once")
    return loop, loader


def _counted(loops: list[Loop]) -> list[ast.For]:
    """The innermost of some loops if it counts its turns by its own variable."""
    if not loops or not isinstance(loops[0], ast.For):
        return []
    try:
        counter(loops[0])
    except CannotRewrite:
        return []
    return [loops[0]]
