"""Ranks that all read the whole dataset."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import asdict, replace

from trainperf.errors import CannotRewrite
from trainperf.fixes import Fix
from trainperf.fixes.dataloader._loader import DATA_LOADER, named, places
from trainperf.fixes.torch_step._source import counter, file_text, function_around, innermost_loop
from trainperf.model import Equivalence, Evidence, Finding, Site
from trainperf.rewrite import Script
from trainperf.source.loops import assigned_in, iterated
from trainperf.source.module import Module
from trainperf.source.scopes import Loop
from trainperf.source.statements import dotted, parameters

WHOLE = ("RandomSampler", "SequentialSampler", "WeightedRandomSampler")
"""Samplers of PyTorch that know nothing of ranks."""

PARTS = ("Subset", "TensorDataset", "ConcatDataset", "StackDataset", "list", "tuple")
"""Datasets that hold what they were given, which may be the rank's own part already."""

SNIPPET = """\
from torch.utils.data import DataLoader, DistributedSampler

sampler = DistributedSampler(dataset, shuffle=True)
loader = DataLoader(dataset, batch_size=batch_size, sampler=sampler)
for epoch in range(epochs):
    sampler.set_epoch(epoch)  # another order in each epoch
    for batch in loader:
        ..."""

_SHUFFLE = 2
"""Place of `shuffle` among the positional arguments of `DataLoader`."""

_Epochs = tuple[ast.For, str]
"""A loop over epochs, and the loader that it trains on, as source."""


class UnshardedData(Fix):
    """Let each rank read its own part of the data: `DistributedSampler`.

    ## Why it is slow
    A `DataLoader` with PyTorch's usual samplers goes through the whole dataset in every
    rank. With N ranks an epoch takes N times as many steps as it needs, and each sample
    is seen N times.

    ## What changes
    `DistributedSampler` gives each rank every N-th sample. An epoch is N times shorter,
    and is one pass over the data again. `set_epoch` changes the order between epochs.

    ## When not to
    - When each rank's dataset is its own part already.
    - When epochs are meant to be N passes: shorten the schedule along with the epoch.
    - Evaluation that adds up over all samples: the last ones are repeated to make parts equal.
    """

    category = "sync"
    equivalence = Equivalence.SEMANTICS
    framework = "torch"

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find a loader of a job of several ranks whose sampler knows nothing of them."""
        job, loader = evidence.parallel, evidence.torch.loader
        lengths = {one.epoch_steps for one in job.processes}
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
        unless = "" if same else "Unless each rank's dataset is its own part, "
        return self.finding(
            title=f"Each of {job.expected} ranks goes through all of the data",
            text=f"{named(loader)} is read by a `{loader.sampler}` in every rank. "
            f"{unless}{'an' if unless else 'An'} epoch is {job.expected} passes over the "
            f"data{fewer}.",
            bound=None,
            bound_basis=f"a step stays as it is, but an epoch has 1/{job.expected} of the steps",
            where=places(loader),
            advice="Give the loader a DistributedSampler, and call its set_epoch in each epoch.",
            snippet=SNIPPET,
            data={"loop": None if evidence.loop.where is None else asdict(evidence.loop.where)},
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
    DATA_LOADER.check(script, site)
    for name, place in (("sampler", 3), ("batch_sampler", 4)):
        given = script.argument(site, place, name)
        if given is not None and script.expression(given) != "None":
            raise CannotRewrite(f"the loader has a {name} of its own")
    dataset = script.argument(site, 0, "dataset")
    if dataset is None:
        raise CannotRewrite("the call does not write out its dataset")
    text = script.name_argument(dataset, "samples", "dataset")
    shuffles = _shuffles(script, site)
    if shuffles:
        if loop_site is None:
            raise CannotRewrite("where training takes its batches is not known")
        _tell_epoch(script, loop_site)
    torch = script.module_name(site.file, "torch")
    how = "" if shuffles else ", shuffle=False"
    sampler = f"{torch}.utils.data.DistributedSampler({text}{how})"
    if "shuffle" in script.call_keywords(site):
        script.remove_keyword(site, "shuffle")
    elif shuffles:
        script.replace_argument(site, _SHUFFLE, "False")
    script.set_keyword(site, "sampler", sampler, position=3)


def _shuffles(script: Script, site: Site) -> bool:
    given = script.argument(site, _SHUFFLE, "shuffle")
    text = "False" if given is None else script.expression(given)
    if text not in ("True", "False"):
        raise CannotRewrite(f"shuffle is {text}: it cannot be told which order is meant")
    return text == "True"


def _tell_epoch(script: Script, loop_site: Site) -> None:
    """Begin each turn of the loop over epochs by telling the sampler which one it is."""
    loop, loader = _epochs(script, loop_site)
    epoch = counter(loop)
    if "set_epoch" in file_text(script, loop_site.file):
        raise CannotRewrite("the file calls set_epoch itself")
    first = loop.body[0]
    place = replace(loop_site, line=first.lineno, col=0, end_line=0, end_col=0)
    script.insert_before(place, f"{loader}.sampler.set_epoch({epoch})")


def _epochs(script: Script, loop_site: Site) -> _Epochs:
    """Find the loop around the one over batches, in its function or where that is called."""
    batches = innermost_loop(script, loop_site)
    loader = next((dotted(each) for each in iterated(batches)), "")
    if not loader:
        raise CannotRewrite("the loader has no name where its batches are taken")
    module = script.source(loop_site.file).module
    around = _counted(module.loops(batches))
    if around is not None:
        _check_bound_once(module, around, loader)
        return around, loader
    function = function_around(script, loop_site)
    if function is None or loader not in parameters(function):
        raise CannotRewrite("the loop over epochs was not found")
    place = parameters(function).index(loader)
    found = [
        (outer, given)
        for call in module.nodes
        if isinstance(call, ast.Call) and _called(call) == function.name
        for outer in [_counted(module.loops(call))]
        for given in _given(call, place, loader)
        if outer is not None
    ]
    if len(found) != 1:
        raise CannotRewrite("the loop over epochs was not found")
    _check_bound_once(module, *found[0])
    return found[0]


def _check_bound_once(module: Module, loop: ast.For, loader: str) -> None:
    """Refuse a loader that is another behind the head of the loop, or put into something."""
    name = loader.partition(".")[0]
    if name in assigned_in(loop) or len(module.scope(loop).find(name) or ()) > 1:
        raise CannotRewrite(f"{name} is given a value more than once")


def _counted(loops: list[Loop]) -> ast.For | None:
    """The innermost of some loops if it counts its turns by its own variable."""
    if loops and isinstance(loops[0], ast.For):
        try:
            counter(loops[0])
        except CannotRewrite:
            return None
        return loops[0]
    return None


def _called(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else ""


def _given(call: ast.Call, place: int, name: str) -> Iterator[str]:
    """Yield what a call passes as the parameter `name`, if that is a name."""
    values = [each.value for each in call.keywords if each.arg == name]
    values += call.args[place : place + 1]
    starred = any(isinstance(each, ast.Starred) for each in call.args)
    for value in values[:1]:
        if not starred and dotted(value):
            yield dotted(value)
