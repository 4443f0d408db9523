"""Sequences of many lengths: batches that are mostly padding, and what has less of it."""

from __future__ import annotations

import ast
import re
from dataclasses import asdict
from typing import Any

from trainperf.errors import CannotRewrite, NotMeasured
from trainperf.fixes import Fix
from trainperf.fixes.cause import Cause, Saving
from trainperf.fixes.common.words import at, percent
from trainperf.fixes.dataloader._loader import (
    DATA_LOADER,
    ITEM,
    exact,
    places,
    ranks,
    stage_seconds,
)
from trainperf.fixes.dataloader.starts import calls_in_loops
from trainperf.fixes.torch_step._step import compute_seconds
from trainperf.model import Equivalence, Evidence, Finding, Loader, Padding, Site, Torch
from trainperf.rewrite import Script
from trainperf.source.module import Module
from trainperf.source.scopes import FUNCTIONS
from trainperf.source.statements import assigned

ENOUGH = 32
"""Sequences below which their lengths say little of the others'."""

MOSTLY_DATA = 0.75
"""Batches whose longest sequence takes so much of them are padded well enough."""

CUT = 0.95
"""Batches whose longest sequence takes so much of them are padded to it already."""

ITEMS = 0.25
"""Share of a step above which items take too long to be made once more for their lengths."""


def _enough(evidence: Evidence) -> Padding | None:
    """The lengths of sequences, if enough were seen."""
    padding = evidence.padding
    return padding if padding is not None and padding.sequences >= ENOUGH else None


def _saving(evidence: Evidence, padding: Padding, length: float, basis: str) -> Saving:
    """What is saved if sequences take `length` steps in place of what they are padded to.

    Where forward and backward were not timed, they take the step at most.
    """

    def seconds() -> float:
        try:
            model = compute_seconds(evidence)
        except NotMeasured:
            model = evidence.times.resident
        return model * (1 - length / padding.padded_length)

    return Saving(f"forward and backward follow the {basis}", seconds)


def _lengths(padding: Padding, loader: Loader) -> str:
    """How long sequences are, how far they are padded, and how much of that is padding."""
    of = f" of the `DataLoader` at {at(loader.where)}" if loader.where is not None else ""
    empty = percent(1 - padding.mean_length / padding.padded_length)
    return (
        f"Sequences{of} are {padding.mean_length:.0f} steps long on average and padded to "
        f"{padding.padded_length:.0f}: {empty} of what the model computes is padding."
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

    ## Why it is slow
    The model computes the padding as well: a recurrent layer walks through every step of
    it, attention grows with the square of the length.

    ## What changes
    A function around the loader's `collate_fn` cuts each batch behind its longest sequence,
    in everything that has a value for each step. For a `Trainer` of Transformers the tokenizer
    stops padding and a `DataCollatorWithPadding` pads, where the source shows both. The run has
    tried the model without the padding: where it gave the same (it has a mask, or packs the
    sequences), only rounding differs; where not, it reads the padding, the experiment changes,
    and this is tried apart.

    ## When not to
    When the model needs one length (a flattened time axis, compiled for fixed shapes: then
    keep a few lengths). Evaluate with batches that are cut as well if the model reads padding.
    """

    framework = "torch"
    category = "model"
    equivalence = Equivalence.NUMERICS

    in_libraries = {"transformers": "`Trainer(data_collator=…)`, `tokenizer(padding=False)`"}

    def look(self, evidence: Evidence) -> Cause | None:
        """Find batches padded far beyond their own longest."""
        padding, loader = _enough(evidence), evidence.torch.loader
        if padding is None or padding.padded_length <= 0:
            return None
        longest = padding.longest_length or padding.bucketed_length
        if longest >= MOSTLY_DATA * padding.padded_length:
            return None
        text = _lengths(padding, loader)
        if padding.longest_length is not None:
            text += f" The longest of a batch has {longest:.0f} steps on average."
        if padding.masked is not None:
            same = "the same" if padding.masked else "something else: it reads the padding"
            text += f" Without the padding the model gave {same}, in this run."
        trainer, where = evidence.torch.trainer, loader.where
        library = trainer.library if trainer is not None and not exact(where) else ""
        editable = exact(where) or (where is not None and library == "transformers")
        place = where or evidence.loop.where
        return Cause(
            title="Most of each batch is padding",
            text=text,
            saves=_saving(evidence, padding, longest, "padded length"),
            where=() if place is None else (place,),
            advice="Pad to the longest of the batch.",
            snippet=PAD_IN_TRAINER if library == "transformers" else PAD_LATER,
            data={}
            if padding.place is None
            else {"place": asdict(padding.place), "library": library},
            equivalence=Equivalence.NUMERICS if padding.masked else Equivalence.SEMANTICS,
            rewritable=editable and padding.place is not None,
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Put a collate function around the loader's own that cuts the padding, or pad later."""
        edit = _pad_in_trainer if finding.data.get("library") else cut_to_longest
        edit(script, finding.where[0], finding.data["place"])


def cut_to_longest(script: Script, site: Site, place: dict[str, Any]) -> None:
    """Have the loader built at `site` cut each batch behind its longest sequence.

    `place` is a `PaddedPlace` as a dictionary. Raises `CannotRewrite` where the call is not of
    `DataLoader`, or its collate function cannot be seen.
    """
    DATA_LOADER.check(script, site)
    torch = script.module_name(site.file, "torch")
    _put_around(script, site, place, "collate_fn", f"{torch}.utils.data.default_collate", 6)


def _put_around(
    script: Script, site: Site, place: dict[str, Any], name: str, default: str, position: int
) -> None:
    """Put a function that cuts the padding around the one which argument `name` of a call is.

    `default` is the function where it is left out or None. Raises `CannotRewrite` where it cannot
    be seen.
    """
    cut = script.free_name(site.file, "to_longest")
    torch = script.module_name(site.file, "torch")
    argument = script.argument(site, position, name)
    own = None if argument is None else script.expression(argument)
    if own in (None, "None"):
        text = _function(f"def {cut}(samples):", f"{default}(samples)", torch, place)
        value = cut
    else:
        functools = script.module_name(site.file, "functools")
        text = _function(f"def {cut}(collate, samples):", "collate(samples)", torch, place)
        one_line = ast.unparse(ast.parse(f"({own})", mode="eval").body)
        value = f"{functools}.partial({cut}, {one_line})"
    script.set_keyword(site, name, value, position=position)
    script.insert_function(site.file, text)


def _function(head: str, collated: str, torch: str, place: dict[str, Any]) -> str:
    """The function as source: it collates, finds the longest sequence, and cuts behind it."""
    kind, at = place["kind"], place["at"]
    sequences = "batch" if kind == "tensor" else f"batch[{at!r}]"
    given = f"{sequences} != {place['value']!r}"
    if place["features"]:
        given = f"({given}).any(dim=2)"
    lines = [
        head,
        '    """Collate the samples, and cut the padding behind the longest of them."""',
        f"    batch = {collated if kind in ('tensor', 'dict') else f'list({collated})'}",
        f"    given = {given}",
        f"    steps = {torch}.arange(1, given.shape[1] + 1, device=given.device)",
        "    longest = max(1, int((given * steps).max()))",
    ]
    if kind == "tensor":
        lines.append("    return batch[:, :longest].contiguous()")
        return "\n".join(lines)
    along = ", ".join(repr(each) for each in place["along"])
    lines += [
        f"    for each in ({along}{',' if len(place['along']) == 1 else ''}):",
        "        batch[each] = batch[each][:, :longest].contiguous()",
        f"    return {'tuple(batch)' if kind == 'tuple' else 'batch'}",
    ]
    return "\n".join(lines)


_TRAINERS = frozenset({"transformers.Trainer", "transformers.Seq2SeqTrainer"})
_COLLATOR = "data_collator"
_PADS = frozenset({"input_ids", "attention_mask", "token_type_ids"})
"""What `DataCollatorWithPadding` pads."""


def _pad_in_trainer(script: Script, site: Site, place: dict[str, Any]) -> None:
    """Have the only `Trainer` built in the file of `site` pad each batch to its longest sequence.

    Where the file shows the tokenizer pad to one length, that goes and a `DataCollatorWithPadding`
    pads; else the batches are cut. Raises `CannotRewrite` where the trainer cannot be seen.
    """
    module = script.linked(site.file)
    trainer = _trainer(module)
    there = script.site_of(site, trainer)
    library = script.module_name(site.file, "transformers")
    tokenizing = _tokenizing(module, trainer)
    if tokenizing is None or not _PADS.issuperset(place["along"]):
        _put_around(script, there, place, _COLLATOR, f"{library}.default_data_collator", 2)
        return
    tokenizer = ast.unparse(tokenizing.func)
    script.set_keyword(script.site_of(site, tokenizing), "padding", "False")
    value = f"{library}.DataCollatorWithPadding({tokenizer})"
    script.set_keyword(there, _COLLATOR, value, position=2)


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


def _tokenizing(module: Module, trainer: ast.Call) -> ast.Call | None:
    """The only call that pads to one length, by a tokenizer that the trainer's call sees too.

    None where the trainer has a collator, or something else may take what it pads.
    """
    calls = [node for node in module.nodes if isinstance(node, ast.Call)]
    found = [one for one in calls if module.constant(_keyword(one, "padding")) == "max_length"]
    taken = len(trainer.args) > 2 or _keyword(trainer, _COLLATOR) is not None
    others = list(module.calls("torch.utils.data.DataLoader"))
    strict = any(_keyword(one, "remove_unused_columns") is not None for one in calls)
    if len(found) != 1 or taken or others or strict:
        return None
    name = found[0].func
    same = isinstance(name, ast.Name) and (
        module.scope(trainer).find(name.id) is module.bindings(name) is not None
    )
    return found[0] if same and _keyword(found[0], "return_tensors") is None else None


def _keyword(call: ast.Call, name: str) -> ast.expr | None:
    return next((one.value for one in call.keywords if one.arg == name), None)


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

_EXCLUDED = {"batch_size": (1, "1"), "shuffle": (2, "False"), "drop_last": (8, "False")}
"""Arguments that exclude a batch sampler: their places, and the values that do not."""


class TorchLengthBatches(Fix):
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

    def look(self, evidence: Evidence) -> Cause | None:
        """Find shuffled batches that would be much shorter if like lengths met."""
        padding, loader = _enough(evidence), evidence.torch.loader
        if padding is None or loader.iterable or not loader.shuffled:
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
            saves=_saving(evidence, padding, padding.bucketed_length, "padded length"),
            where=places(loader),
            advice="Batch sequences of like lengths.",
            snippet=BY_LENGTH,
            data={
                "length": None if loader.length is None else asdict(loader.length),
                "place": None if cut is None else asdict(cut),
            },
            rewritable=_lengths_known(evidence, loader),
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Give the loader a batch sampler by length."""
        batch_by_length(script, finding.where[0], finding.data)


def _lengths_known(evidence: Evidence, loader: Loader) -> bool:
    """Whether the lengths can be had, at little cost, in the one process that trains."""
    items = stage_seconds(evidence).get(ITEM)
    if not exact(loader.where) or loader.length is None or ranks(evidence) > 1 or items is None:
        return False
    try:
        return items < ITEMS * evidence.times.resident
    except NotMeasured:
        return False


def batch_by_length(script: Script, site: Site, data: dict[str, Any]) -> None:
    """Give the loader built at `site` a batch sampler by the lengths of its samples.

    `data` holds `length`, an `ItemLength` as a dictionary, and `place`, a `PaddedPlace` as one
    where batches are to be cut as well. Raises `CannotRewrite` where the call has a sampler or
    does not shuffle, or its dataset has no name.
    """
    DATA_LOADER.check(script, site)
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


# ------------------------------------------------------------------- sequences in one row

PACK_YOURSELF = """\
def collate(sequences):  # several sequences in a row, without padding
    lengths = [len(one) for one in sequences]
    tokens = torch.cat(sequences)[None]
    positions = torch.cat([torch.arange(length) for length in lengths])[None]
    document = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
    return tokens, positions, document  # attend where document == document, and causally"""


class TorchPacking(Fix):
    """Put the sequences of a batch one after another in one row, without padding.

    ## Why it is slow
    In a padded batch the model computes for the longest sequence as often as there are sequences.
    What the shorter ones lack is computed, masked, and thrown away.

    ## What changes
    The collator of a `Trainer` of Transformers becomes `DataCollatorWithFlattening`: the same
    sequences, in one row whose positions begin anew with each. It is written where the model was
    asked in this run, and gave each token what it gave in a padded row. In a loop of your own it
    is advice: the attention must be told where sequences end.

    ## When not to
    - Attention without kernels for it (`flash_attention_2`, `flex_attention`) computes the whole
      square of the row, and masks most of it: longer rows then cost more than padding did.
    - `compute_metrics` gets all sequences of a batch in one row, and a last, smaller batch counts
      as much as the others in an evaluation's loss.
    - A loss that also counts padding, or leaves out tokens like it, is another one then.
    """

    framework = "torch"
    category = "model"
    equivalence = Equivalence.NUMERICS
    usual = 1.2
    in_libraries = {"transformers": "`Trainer(data_collator=DataCollatorWithFlattening())`"}

    def look(self, evidence: Evidence) -> Cause | None:
        """Find batches of much padding that a row of all sequences, or packing, would not have."""
        padding, loader = _packable(evidence), evidence.torch.loader
        if padding is None:
            return None
        packing, place = padding.packing, loader.where or evidence.loop.where
        longest = padding.longest_length or padding.padded_length
        said = f"Batched by length they would still be padded to {padding.bucketed_length:.0f}."
        if packing is not None:
            said = "In this run the model gave each token the same where a batch stood in one row."
        return Cause(
            title="A row for each sequence leaves much of a batch empty",
            text=f"{_lengths(padding, loader)} {said}",
            saves=_saving(evidence, padding, padding.mean_length, "tokens"),
            where=() if place is None else (place,),
            advice="Put the sequences of a batch into one row, and have attention keep them apart.",
            snippet=PACK_YOURSELF
            if packing is None
            else "trainer = Trainer(..., data_collator=DataCollatorWithFlattening())",
            data={"padded": longest < CUT * padding.padded_length},
            rewritable=packing is not None and packing.flattens and bool(padding.collator),
        )

    def clashes(self, finding: Finding, other: Finding) -> str:
        """Both change the collator of the same trainer."""
        return "both change how batches are padded" if other.id == "torch_padding" else ""

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Give the trainer the collator that packs."""
        pack_in_trainer(script, finding.where[0], finding.data)


def _packable(evidence: Evidence) -> Padding | None:
    """The lengths of sequences that leave much of a batch empty, where packing may help.

    That is a model of Transformers that keeps them apart, or one with attention in a loop of one's
    own in which batches of like lengths would be padded as much.
    """
    padding, trainer = _enough(evidence), evidence.torch.trainer
    if padding is None:
        return None
    if trainer is not None and trainer.library == "transformers":
        may = padding.packing is not None and padding.packing.apart
        length = padding.longest_length or padding.padded_length
    else:
        length = padding.bucketed_length
        may = bool(padding.masked) and length > 0 and _attends(evidence.torch)
    return padding if may and padding.mean_length < MOSTLY_DATA * length else None


def _attends(torch: Torch) -> bool:
    """Whether a model computes attention, by its modules, the user's functions or its operators."""
    names = [name for model in torch.models for name in model.modules]
    names += [one.name for one in torch.trace.operators] if torch.trace is not None else []
    known = any(re.search("attention|transformer", name, re.IGNORECASE) for name in names)
    return known or any(model.attentions for model in torch.models)


METRICS = ("compute_metrics", "preprocess_logits_for_metrics")
"""Functions of the user's that take a row for a sequence."""


def pack_in_trainer(script: Script, site: Site, data: dict[str, Any]) -> None:
    """Have the only `Trainer` built in the file of `site` put the sequences of a batch in one row.

    Where `data` says that items are padded already, the tokenizer stops padding. Raises
    `CannotRewrite` where the trainer cannot be seen, or functions of the user's get its outputs.
    """
    module = script.linked(site.file)
    trainer = _trainer(module)
    asked = next((name for name in METRICS if _keyword(trainer, name) is not None), None)
    if asked is not None:
        raise CannotRewrite(f"{asked} would get all sequences of a batch in one row")
    if data["padded"]:
        tokenizing = _tokenizing(module, trainer)
        if tokenizing is None:
            raise CannotRewrite("items are padded already, and where is not seen in this file")
        script.set_keyword(script.site_of(site, tokenizing), "padding", "False")
    library = script.module_name(site.file, "transformers")
    there = script.site_of(site, trainer)
    script.set_keyword(there, _COLLATOR, f"{library}.DataCollatorWithFlattening()", position=2)
