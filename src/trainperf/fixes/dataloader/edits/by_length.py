"""A batch sampler that puts sequences of about the same length together."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from trainperf.errors import CannotRewrite
from trainperf.fixes.dataloader._edits import check_call
from trainperf.fixes.dataloader.edits.cutting import cut_to_longest
from trainperf.fixes.dataloader.edits.hoisting import calls_in_loops
from trainperf.source.scopes import FUNCTIONS
from trainperf.source.statements import assigned

if TYPE_CHECKING:
    from trainperf.model import Site
    from trainperf.rewrite import Script

SAMPLER = '''\
class {name}({torch}.utils.data.Sampler):
    """Batches of samples of about the same length, in another order in each epoch."""

    def __init__(self, lengths, batch_size, drop_last=False):
        self.lengths, self.batch_size, self.drop_last = lengths, batch_size, drop_last

    def __len__(self):
        whole, rest = divmod(len(self.lengths), self.batch_size)
        return whole + (rest > 0 and not self.drop_last)

    def __iter__(self):
        order, size = {torch}.randperm(len(self.lengths)).tolist(), self.batch_size
        for start in range(0, len(order), 50 * size):
            part = slice(start, start + 50 * size)
            order[part] = sorted(order[part], key=self.lengths.__getitem__)
        starts = range(0, len(order) - (size - 1 if self.drop_last else 0), size)
        for at in {torch}.randperm(len(starts)).tolist():
            yield order[starts[at] : starts[at] + size]
'''
"""Sorted are parts of 50 batches: enough for lengths to be alike, and for chance."""

EXCLUDED = {"batch_size": (1, "1"), "shuffle": (2, "False"), "drop_last": (8, "False")}
"""Arguments that exclude a batch sampler: their places, and the values that do not."""


def batch_by_length(script: Script, site: Site, data: dict[str, Any]) -> None:
    """Give the loader built at `site` a batch sampler by the lengths of its samples.

    `data` holds `length`, an `ItemLength` as a dictionary, and `place`, a `PaddedPlace` as one
    where batches are to be cut as well. Raises `CannotRewrite` where the call has a sampler or
    does not shuffle, or its dataset has no name.
    """
    check_call(script, site)
    sampler = script.free_name(site.file, "ByLength")
    _check_built_once(script, site)
    given = {
        name: _written(script, site, place, name)
        for name, place in (
            ("batch_size", 1), ("shuffle", 2), ("sampler", 3),
            ("batch_sampler", 4), ("drop_last", 8),
        )
    }  # fmt: skip
    if given["sampler"] or given["batch_sampler"] or given["shuffle"] != "True":
        raise CannotRewrite("the loader does not shuffle by itself")
    given_data, size = script.argument(site, 0, "dataset"), given["batch_size"] or "1"
    if given_data is None:
        raise CannotRewrite("the call does not write out its dataset")
    dataset = script.name_argument(given_data, "samples", "dataset")
    torch = script.module_name(site.file, "torch")
    more = f", {given['drop_last']}" if given["drop_last"] else ""
    lengths = (
        f"[{_length(data['length'])} for item in map({dataset}.__getitem__, range(len({dataset})))]"
    )
    for name, (place, none) in EXCLUDED.items():
        if name in script.call_keywords(site):
            script.remove_keyword(site, name)
        elif given[name] is not None:
            script.replace_argument(site, place, none)
    script.set_keyword(site, "batch_sampler", f"{sampler}({lengths}, {size}{more})", position=4)
    script.insert_function(site.file, SAMPLER.format(torch=torch, name=sampler))
    if data.get("place"):
        cut_to_longest(script, site, data["place"])


def _check_built_once(script: Script, site: Site) -> None:
    """Refuse a loader that is built again and again, or whose batch size is asked for."""
    module = script.source(site.file).module
    call = script.call(site)
    function = module.function(call)
    again = isinstance(function, FUNCTIONS) and any(calls_in_loops(module, function))
    if again or module.loops(call):
        raise CannotRewrite("the loader is built again and again, and all lengths read each time")
    own = {ast.unparse(each) for each in assigned(script.around(site)[-1])}
    for node in module.nodes:
        if isinstance(node, ast.Attribute) and node.attr == "batch_size":
            asked = ast.unparse(node.value)
            if asked in own or "load" in asked.lower():
                raise CannotRewrite(f"{asked}.batch_size is asked for, which it has no more")


def _written(script: Script, site: Site, place: int, name: str) -> str | None:
    found = script.argument(site, place, name)
    text = None if found is None else script.expression(found)
    return None if text == "None" else text


def _length(length: dict[str, Any]) -> str:
    """The length of `item`, as source."""
    member = "item" if length["at"] is None else f"item[{length['at']!r}]"
    if length["how"] == "len":
        return f"len({member})"
    if length["features"]:
        return f"int(({member} != 0).any(dim=1).sum())"
    return f"int(({member} != {length['value']!r}).sum())"
