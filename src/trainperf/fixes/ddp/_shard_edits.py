"""A `DistributedSampler` for a loader, and its `set_epoch` in the loop over epochs."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from trainperf.errors import CannotRewrite
from trainperf.fixes.dataloader._edits import check_call
from trainperf.fixes.torch_step._loop_source import counter, function_around, innermost_loop
from trainperf.fixes.torch_step._source import file_text
from trainperf.source.loops import assigned_in, iterated
from trainperf.source.module import Module
from trainperf.source.scopes import Loop
from trainperf.source.statements import dotted, parameters

if TYPE_CHECKING:
    from trainperf.model import Site
    from trainperf.rewrite import Script

SHUFFLE = 2
"""Place of `shuffle` among the positional arguments of `DataLoader`."""

Epochs = tuple[ast.For, str]
"""A loop over epochs, and the loader that it trains on, as source."""


def shard(script: Script, site: Site, loop_site: Site | None) -> None:
    """Give the loader built at `site` a `DistributedSampler`, told the epoch where it shuffles.

    `loop_site` is where training takes its batches. Raises `CannotRewrite` where the call has a
    sampler, or the loop over epochs cannot be seen.
    """
    check_call(script, site)
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
        script.replace_argument(site, SHUFFLE, "False")
    script.set_keyword(site, "sampler", sampler, position=3)


def _shuffles(script: Script, site: Site) -> bool:
    given = script.argument(site, SHUFFLE, "shuffle")
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


def _epochs(script: Script, loop_site: Site) -> Epochs:
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
