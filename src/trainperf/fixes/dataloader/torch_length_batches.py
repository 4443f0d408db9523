"""Batches in which short sequences are padded to the length of a long one."""

from __future__ import annotations

import ast
from dataclasses import asdict
from typing import Any

from trainperf.errors import CannotRewrite, NotMeasured
from trainperf.fixes import Fix
from trainperf.fixes.common.step import bound_if_saved
from trainperf.fixes.common.words import at, percent, worth
from trainperf.fixes.dataloader._edits import check_call
from trainperf.fixes.dataloader._loader import ITEM, ranks, stage_seconds
from trainperf.fixes.dataloader.torch_loader_rebuilt import calls_in_loops
from trainperf.fixes.dataloader.torch_padding import (
    ENOUGH,
    MOSTLY_DATA,
    cut_to_longest,
    model_seconds,
)
from trainperf.model import Equivalence, Evidence, Finding, Loader, Site, is_taken
from trainperf.rewrite import Script
from trainperf.source.scopes import FUNCTIONS
from trainperf.source.statements import assigned

CUT = 0.95
"""Batches whose longest sequence takes so much of them are padded to it already."""

ITEMS = 0.25
"""Share of a step above which items take too long to be made once more for their lengths."""

SNIPPET = """\
lengths = [len(tokens) for tokens, label in dataset]
# sort parts of the shuffled indices by length, cut them into batches, shuffle these
loader = DataLoader(dataset, batch_sampler=ByLength(lengths, batch_size), collate_fn=collate)"""

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

_EXCLUDED = {"batch_size": (1, "1"), "shuffle": (2, "False"), "drop_last": (8, "False")}
"""Arguments that exclude a batch sampler: their places, and the values that do not."""


class LengthBatches(Fix):
    """Make batches of sequences of about the same length.

    ## Why it is slow
    A batch is padded to its longest sequence. Where short and long ones meet by chance, most of
    what the model computes is padding all the same.

    ## What changes
    A batch sampler shuffles the samples, sorts parts of 50 batches by length, cuts them into
    batches and shuffles these. Every sample is still seen once in an epoch; which ones meet in a
    batch changes, and batches of long sequences have as many samples as those of short ones.
    The lengths are taken from the dataset once, when the loader is built.

    ## When not to
    When the length tells the label, batches are one-sided. When making an item takes long, its
    length should come from the file. Not for several ranks: each would sort on its own.
    """

    framework = "torch"
    category = "model"
    equivalence = Equivalence.SEMANTICS
    usual = 1.3

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find shuffled batches that would be much shorter if like lengths met."""
        padding, loader = evidence.padding, evidence.torch.loader
        if padding is None or padding.sequences < ENOUGH or loader.iterable:
            return None
        if not loader.shuffled or loader.sampler not in ("", "RandomSampler"):
            return None
        longest = padding.longest_length or padding.padded_length
        if padding.bucketed_length >= MOSTLY_DATA * longest:
            return None
        saved = model_seconds(evidence) * (1 - padding.bucketed_length / padding.padded_length)
        bound = bound_if_saved(evidence, saved)
        if not worth(evidence, bound):
            return None
        filled = padding.mean_length / longest
        lengths = (
            f"{padding.mean_length:.0f} steps on average, the longest of a batch {longest:.0f}"
        )
        where = f" ({at(loader.where)})" if loader.where is not None else ""
        cut = padding.place if longest < CUT * padding.padded_length else None
        return self.finding(
            title="Short and long sequences meet in each batch",
            text=f"Sequences of the loader{where} have {lengths}: {percent(1 - filled)} of a batch "
            "is padding even where it is padded to its longest. Batched by length they would be "
            f"padded to {padding.bucketed_length:.0f}.",
            bound=bound,
            bound_basis="forward and backward follow the padded length",
            where=() if loader.where is None else (loader.where,),
            advice="Batch sequences of like lengths.",
            snippet=SNIPPET,
            data={
                "length": None if loader.length is None else asdict(loader.length),
                "place": None if cut is None else asdict(cut),
            },
            rewritable=_editable(evidence, loader),
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Give the loader a batch sampler by length."""
        batch_by_length(script, finding.where[0], finding.data)


def _editable(evidence: Evidence, loader: Loader) -> bool:
    """Whether the lengths can be had, at little cost, in the one process that trains."""
    known = loader.where is not None and loader.where.exact and loader.length is not None
    if not known or ranks(evidence) > 1 or not is_taken(evidence.stages_):
        return False
    items = stage_seconds(evidence).get(ITEM)
    try:
        return items is not None and items < ITEMS * evidence.times.resident
    except NotMeasured:
        return False


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
    for name, (place, none) in _EXCLUDED.items():
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
