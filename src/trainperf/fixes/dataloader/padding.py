"""Sequences of many lengths: batches that are mostly padding, and what has less of it."""

from __future__ import annotations

import ast
import re
from dataclasses import asdict
from typing import Any

from trainperf.errors import CannotRewrite, NotMeasured
from trainperf.fixes import Fix
from trainperf.fixes.cause import Cause, Saving, Unpriced
from trainperf.fixes.common.words import at, percent
from trainperf.fixes.dataloader._loader import (
    DATA_LOADER,
    ITEM,
    exact,
    places,
    ranks,
    stage_seconds,
)
from trainperf.fixes.torch_step._step import compute_seconds
from trainperf.model import Equivalence, Evidence, Finding, Loader, Measure, Padding, Site
from trainperf.rewrite import Script
from trainperf.source.module import Module
from trainperf.source.statements import called

ENOUGH = 32
"""Sequences below which their lengths say little of the others'."""

MOSTLY_DATA = 0.75
"""Batches whose longest sequence takes so much of them are padded well enough."""

CUT = 0.95
"""Batches whose longest sequence takes so much of them are padded to it already."""

ITEMS = 0.25
"""Share of a step above which items take too long to be made once more for their lengths."""


def _saving(evidence: Evidence, padding: Padding, length: float) -> Saving | Unpriced:
    """What is saved if sequences take `length` steps in place of what they are padded to.

    Attention computes for each pair of steps: all of the model at most follows the square. No
    figure without a forward that was cut: a model may stop at the longest, or read images as well.
    """
    if padding.masked is None:
        return Unpriced("the model was not run without its padding", of="step")
    model, part = evidence.torch.model, 1.0 if padding.follows is None else padding.follows
    pairs = model.attentions or model.eager or model.modules.get("MultiheadAttention")

    def seconds(power: int = 1) -> float:
        try:
            computing = compute_seconds(evidence)
        except NotMeasured:  # the step at most
            computing = evidence.times.resident
        return computing * part * (1 - (length / padding.padded_length) ** power)

    return Saving(
        f"{percent(part)} of forward and backward follows the padded length",
        seconds,
        most=(lambda: seconds(2)) if pairs else None,
    )


def _lengths(padding: Padding, loader: Loader) -> str:
    """How long sequences are, how far they are padded, and how much of that is padding."""
    of = f" of the `DataLoader` at {at(loader.where)}" if exact(loader.where) else ""
    empty = percent(1 - padding.mean_length / padding.padded_length)
    return (
        f"Sequences{of} are {padding.mean_length:.0f} steps long on average and padded to "
        f"{padding.padded_length:.0f}: {empty} of that is padding."
    )


PAD_LATER = """\
from torch.nn.utils.rnn import pad_sequence

def collate(samples):
    sequences, labels = zip(*samples)  # unpadded, each of its own length
    return pad_sequence(sequences, batch_first=True, padding_value=pad), torch.stack(labels)

loader = DataLoader(dataset, batch_size=batch_size, collate_fn=collate)"""

PAD_IN_TRAINER = """\
def tokenize(example):
    return tokenizer(example["text"], truncation=True)  # not padding="max_length"

trainer = Trainer(..., data_collator=DataCollatorWithPadding(tokenizer))"""


class TorchPadding(Fix):
    """Pad each batch to its own longest sequence, not to one length for all.

    Why slow: The model computes the padding as well: a recurrent layer walks through every step of
    it, attention grows with the square of the length.
    Changes: A function around the loader's `collate_fn`, or the `data_collator` of a `Trainer` of
    Transformers, cuts each batch behind its longest sequence. Where the model, tried without the
    padding, gave the same, only rounding differs; where not, it reads the padding: the experiment
    changes, and this is tried apart.
    When not: When the model needs one length (a flattened time axis, compiled for fixed shapes:
    then keep a few lengths). Evaluate with batches that are cut as well if the model reads
    padding.
    """

    category = "model"
    equivalence = Equivalence.NUMERICS
    in_libraries = {"transformers": "`Trainer(data_collator=…)`"}

    def look(self, evidence: Evidence) -> Cause | None:
        """Find batches padded far beyond their own longest."""
        padding, loader = evidence.padding, evidence.torch.loader
        if padding is None or padding.sequences < ENOUGH:
            return None
        longest = padding.longest_length or padding.bucketed_length
        if longest >= MOSTLY_DATA * padding.padded_length:
            return None
        text = _lengths(padding, loader)
        if padding.longest_length is not None:
            text += f" The longest of a batch has {longest:.0f} steps on average."
        if padding.masked is not None:
            gave = "the same without it" if padding.masked else "something else without it"
            text += f" In this run the model gave {gave}."
        trainer, where = evidence.torch.trainer, loader.where
        library = trainer.library if trainer is not None and not exact(where) else ""
        editable = exact(where) or (where is not None and library == "transformers")
        place = where or evidence.loop.where
        return Cause(
            title="Batches are padded beyond their longest sequence",
            text=text,
            saves=_saving(evidence, padding, longest),
            where=() if place is None else (place,),
            snippet=PAD_IN_TRAINER if library == "transformers" else PAD_LATER,
            data={}
            if padding.place is None
            else {"place": asdict(padding.place), "library": library},
            equivalence=Equivalence.NUMERICS if padding.masked else Equivalence.SEMANTICS,
            rewritable=editable and padding.place is not None,
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Put a collate function around the loader's own that cuts the padding."""
        site, place = finding.where[0], finding.data["place"]
        if not finding.data.get("library"):
            _cut_to_longest(script, site, place)
            return
        trainer = script.site_of(site, _trainer(script.linked(site.file)))
        library = script.module_name(site.file, "transformers")
        _put_around(script, trainer, place, "data_collator", f"{library}.default_data_collator", 2)


def _cut_to_longest(script: Script, site: Site, place: dict[str, Any]) -> None:
    """Have the loader built at `site` cut each batch; `place` is a `PaddedPlace` as a dict."""
    DATA_LOADER.check(script, site)
    torch = script.module_name(site.file, "torch")
    _put_around(script, site, place, "collate_fn", f"{torch}.utils.data.default_collate", 6)


def _put_around(
    script: Script, site: Site, place: dict[str, Any], name: str, default: str, position: int
) -> None:
    """Put a function that cuts the padding around the one which argument `name` of a call is.

    `default` is the function where it is left out or None.
    """
    cut = script.free_name(site.file, "to_longest")
    torch = script.module_name(site.file, "torch")
    given = script.argument(site, position, name)
    own = None if given is None else script.expression(given)
    takes, collated, value = "samples", f"{default}(samples)", cut
    if own not in (None, "None"):
        takes, collated = "collate, samples", "collate(samples)"
        functools = script.module_name(site.file, "functools")
        one_line = ast.unparse(ast.parse(f"({own})", mode="eval").body)
        value = f"{functools}.partial({cut}, {one_line})"
    kind = place["kind"]
    sequences = "batch" if kind == "tensor" else f"batch[{place['at']!r}]"
    data = f"{sequences} != {place['value']!r}"
    text = CUT_BATCH.format(
        name=cut,
        takes=takes,
        batch=f"list({collated})" if kind in ("list", "tuple") else collated,
        data=f"({data}).any(dim=2)" if place["features"] else data,
        torch=torch,
    )
    rest = CUT_TENSOR if kind == "tensor" else CUT_MEMBERS
    whole = "tuple(batch)" if kind == "tuple" else "batch"
    text += rest.format(along=tuple(place["along"]), whole=whole)
    script.set_keyword(site, name, value, position=position)
    script.insert_function(site.file, text)


CUT_BATCH = '''\
def {name}({takes}):
    """Collate the samples, and cut the padding behind the longest of them."""
    batch = {batch}
    given = {data}
    steps = {torch}.arange(1, given.shape[1] + 1, device=given.device)
    longest = max(1, int((given * steps).max()))
'''

CUT_TENSOR = "    return batch[:, :longest].contiguous()"

CUT_MEMBERS = """\
    for each in {along}:
        batch[each] = batch[each][:, :longest].contiguous()
    return {whole}"""

_TRAINERS = frozenset({"transformers.Trainer", "transformers.Seq2SeqTrainer"})


def _trainer(module: Module) -> ast.Call:
    """The call that builds the trainer: of the library's class, or of one of the file's like it."""
    calls = list(module.calls(*_TRAINERS))
    for node in module.nodes:
        local = module.definition(node.func) if isinstance(node, ast.Call) else None
        if isinstance(local, ast.ClassDef) and _TRAINERS & module.bases(local):
            calls.append(node)  # type: ignore[arg-type]
    if len(calls) != 1:
        raise CannotRewrite(f"the file builds a Trainer in {len(calls)} places, not in one")
    return calls[0]


# ------------------------------------------------------------------- batches of like lengths

BY_LENGTH = """\
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

NO_SAMPLER = {"batch_size": "1", "shuffle": "False", "drop_last": "False"}
"""Arguments that exclude a batch sampler, with the values that do not."""


class TorchLengthBatches(Fix):
    """Make batches of sequences of about the same length.

    Why slow: A batch is padded to its longest sequence. Where short and long ones meet by chance,
    most of what the model computes is padding all the same.
    Changes: A batch sampler shuffles the samples, sorts parts of 50 batches by length, cuts them
    into batches and shuffles these. Every sample is still seen once in an epoch; which ones meet
    in a batch changes. The lengths are taken from the dataset once, when the loader is built.
    When not: When the length tells the label, batches are one-sided. When making an item takes
    long, its length should come from the file. Not for several ranks: each would sort on its own.
    """

    category = "model"
    equivalence = Equivalence.SEMANTICS
    usual = 1.3

    def look(self, evidence: Evidence) -> Cause | None:
        """Find shuffled batches that would be much shorter if like lengths met."""
        padding, loader = evidence.padding, evidence.torch.loader
        if padding is None or padding.sequences < ENOUGH or loader.iterable or not loader.shuffled:
            return None
        longest = padding.longest_length or padding.padded_length
        even = padding.bucketed_length >= MOSTLY_DATA * longest
        if even or loader.sampler not in ("", "RandomSampler"):
            return None
        cut = padding.place if longest < CUT * padding.padded_length else None
        return Cause(
            title="Short and long sequences meet in each batch",
            text=f"{_lengths(padding, loader)} The longest of a batch has {longest:.0f}; batched "
            f"by length they would be padded to {padding.bucketed_length:.0f}.",
            saves=_saving(evidence, padding, padding.bucketed_length),
            where=places(loader),
            snippet=BY_LENGTH,
            data={
                "length": None if loader.length is None else asdict(loader.length),
                "place": None if cut is None else asdict(cut),
            },
            rewritable=_lengths_known(evidence, loader),
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Give the loader a batch sampler by the lengths of its samples."""
        site, data = finding.where[0], finding.data
        DATA_LOADER.check(script, site)
        sampler = script.free_name(site.file, "ByLength")
        module, call = script.source(site.file).module, script.call(site)
        function = module.function(call)
        calls = [node for node in module.nodes if isinstance(node, ast.Call)]
        built = [call, *(other for other in calls if called(other) == getattr(function, "name", 0))]
        if any(map(module.loops, built)):  # no trial shows what that costs, once for each epoch
            raise CannotRewrite("the loader is built again and again, and all lengths read anew")
        texts = (
            ast.unparse(node).lower() for node in module.nodes if isinstance(node, ast.Attribute)
        )
        if any(re.search(r"(load\w*|dl)\.batch_size$", text) for text in texts):
            raise CannotRewrite("its batch_size is asked for, which it has no more")  # late, maybe
        places = {"batch_size": 1, "shuffle": 2, "sampler": 3, "batch_sampler": 4, "drop_last": 8}
        given = {name: _written(script, site, place, name) for name, place in places.items()}
        samples = script.argument(site, 0, "dataset")
        if given["sampler"] or given["batch_sampler"] or given["shuffle"] != "True" or not samples:
            raise CannotRewrite("the loader does not shuffle a dataset by itself")
        dataset = script.name_argument(samples, "samples", "dataset")
        lengths = (
            f"[{_length(data['length'])} "
            f"for item in map({dataset}.__getitem__, range(len({dataset})))]"
        )
        for name, value in NO_SAMPLER.items():
            if name in script.call_keywords(site):
                script.remove_keyword(site, name)
            elif given[name] is not None:
                script.replace_argument(site, places[name], value)
        more = [text for text in (given["batch_size"] or "1", given["drop_last"]) if text]
        value = f"{sampler}({', '.join([lengths, *more])})"
        script.set_keyword(site, "batch_sampler", value, position=4)
        torch = script.module_name(site.file, "torch")
        script.insert_function(site.file, SAMPLER.format(torch=torch, name=sampler))
        if data.get("place"):
            _cut_to_longest(script, site, data["place"])


def _lengths_known(evidence: Evidence, loader: Loader) -> bool:
    """Whether the lengths can be had, at little cost, in the one process that trains."""
    items = stage_seconds(evidence).get(ITEM)
    if not exact(loader.where) or loader.length is None or ranks(evidence) > 1 or items is None:
        return False
    resident = evidence.times.resident_
    return isinstance(resident, Measure) and items < ITEMS * resident.seconds


def _written(script: Script, site: Site, place: int, name: str) -> str | None:
    found = script.argument(site, place, name)
    return None if found is None or script.expression(found) == "None" else script.expression(found)


def _length(length: dict[str, Any]) -> str:
    """The length of `item`, as source."""
    member = "item" if length["at"] is None else f"item[{length['at']!r}]"
    if length["how"] == "len":
        return f"len({member})"
    if length["features"]:
        return f"int(({member} != 0).any(dim=1).sum())"
    return f"int(({member} != {length['value']!r}).sum())"
