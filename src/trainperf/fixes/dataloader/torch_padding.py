"""Batches that are padded to more than their own longest sequence, and mostly padding."""

from __future__ import annotations

import ast
from dataclasses import asdict
from typing import Any

from trainperf.errors import CannotRewrite, NotMeasured
from trainperf.fixes import Fix
from trainperf.fixes.common.step import bound_if_saved
from trainperf.fixes.common.words import at, percent, worth
from trainperf.fixes.dataloader._edits import check_call
from trainperf.fixes.torch_step._step import UNTRIED, compute_seconds
from trainperf.model import Equivalence, Evidence, Finding, Padding, Site
from trainperf.rewrite import Script
from trainperf.source.module import Module

ENOUGH = 32
"""Sequences below which their lengths say little of the others'."""

MOSTLY_DATA = 0.75
"""Batches whose longest sequence takes so much of them are padded well enough."""

SNIPPET = """\
from torch.nn.utils.rnn import pad_sequence

def collate(samples):
    sequences, labels = zip(*samples)  # unpadded, each of its own length
    return pad_sequence(sequences, batch_first=True, padding_value=pad), torch.stack(labels)

loader = DataLoader(dataset, batch_size=batch_size, collate_fn=collate)"""

FOR_TRAINER = """\
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

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find batches padded far beyond their own longest, in a step that the model fills."""
        padding = _mostly_padded(evidence)
        if padding is None:
            return None
        saved = model_seconds(evidence) * (1 - _longest(padding) / padding.padded_length)
        bound = bound_if_saved(evidence, saved)
        return self._finding(evidence, padding, bound) if worth(evidence, bound) else None

    def untimed(self, evidence: Evidence) -> Finding | None:
        """Try it all the same: the lengths were counted."""
        padding = _mostly_padded(evidence)
        return self._finding(evidence, padding, None) if padding is not None else None

    def _finding(self, evidence: Evidence, padding: Padding, bound: float | None) -> Finding:
        loader = evidence.torch.loader
        place = loader.where or evidence.loop.where
        trainer = evidence.torch.trainer
        library = trainer.library if trainer is not None and not exact(loader.where) else ""
        editable = exact(loader.where) or (loader.where is not None and library == "transformers")
        return self.finding(
            title="Most of each batch is padding",
            text=_text(padding, _longest(padding), at(loader.where) if loader.where else ""),
            bound=bound,
            bound_basis=UNTRIED
            if bound is None
            else "forward and backward follow the padded length",
            where=() if place is None else (place,),
            advice="Pad to the longest of the batch.",
            snippet=FOR_TRAINER if library == "transformers" else SNIPPET,
            data={}
            if padding.place is None
            else {"place": asdict(padding.place), "library": library},
            equivalence=Equivalence.NUMERICS if padding.masked else Equivalence.SEMANTICS,
            rewritable=editable and padding.place is not None,
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Put a collate function around the loader's own that cuts the padding, or pad later."""
        edit = pad_in_trainer if finding.data.get("library") else cut_to_longest
        edit(script, finding.where[0], finding.data["place"])


def exact(where: Site | None) -> bool:
    """Say whether it is known which call of the user's builds the loader."""
    return where is not None and where.exact


def _longest(padding: Padding) -> float:
    return padding.longest_length or padding.bucketed_length


def _mostly_padded(evidence: Evidence) -> Padding | None:
    """The lengths of batches, if enough were seen, and padded far beyond their longest."""
    padding = evidence.padding
    if padding is None or padding.sequences < ENOUGH or padding.padded_length <= 0:
        return None
    return padding if _longest(padding) < MOSTLY_DATA * padding.padded_length else None


def model_seconds(evidence: Evidence) -> float:
    """Return what forward and backward take; where that was not timed, the step at most."""
    try:
        return compute_seconds(evidence)
    except NotMeasured:
        return evidence.times.resident


def _text(padding: Padding, longest: float, place: str) -> str:
    of = f" of the `DataLoader` at {place}" if place else ""
    filled = padding.mean_length / padding.padded_length
    text = (
        f"Sequences{of} are {padding.mean_length:.0f} steps long on average and padded to "
        f"{padding.padded_length:.0f}: {percent(1 - filled)} of what the model computes is padding."
    )
    if padding.longest_length is not None:
        text += f" The longest of a batch has {longest:.0f} steps on average."
    if padding.masked is None:
        return text
    if padding.masked:
        return f"{text} Without the padding the model gave the same in this run."
    return f"{text} The model reads the padding: without it, it gave something else in this run."


CUT = "to_longest"

_FLATTENING = "DataCollatorWithFlattening"
_METRICS = ("compute_metrics", "preprocess_logits_for_metrics")
"""Functions of the user's that take a row for a sequence."""
_TRAINERS = frozenset({"transformers.Trainer", "transformers.Seq2SeqTrainer"})
_COLLATOR = "data_collator"
_PADS = frozenset({"input_ids", "attention_mask", "token_type_ids"})
"""What `DataCollatorWithPadding` pads."""


def cut_to_longest(script: Script, site: Site, place: dict[str, Any]) -> None:
    """Have the loader built at `site` cut each batch behind its longest sequence.

    `place` is a `PaddedPlace` as a dictionary. Raises `CannotRewrite` where the call is not of
    `DataLoader`, or its collate function cannot be seen.
    """
    check_call(script, site)
    torch = script.module_name(site.file, "torch")
    put_around(script, site, place, "collate_fn", f"{torch}.utils.data.default_collate", 6)


def put_around(
    script: Script, site: Site, place: dict[str, Any], name: str, default: str, position: int
) -> None:
    """Put a function that cuts the padding around the one which argument `name` of a call is.

    `default` is the function where it is left out or None. Raises `CannotRewrite` where it cannot
    be seen.
    """
    cut = script.free_name(site.file, CUT)
    torch = script.module_name(site.file, "torch")
    argument = script.argument(site, position, name)
    own = None if argument is None else script.expression(argument)
    if own in (None, "None"):
        text = _function(f"def {cut}(samples):", f"{default}(samples)", torch, place)
        value = cut
    else:
        functools = script.module_name(site.file, "functools")
        text = _function(f"def {cut}(collate, samples):", "collate(samples)", torch, place)
        value = f"{functools}.partial({cut}, {_one_line(own or '')})"
    script.set_keyword(site, name, value, position=position)
    script.insert_function(site.file, text)


def _one_line(text: str) -> str:
    return ast.unparse(ast.parse(f"({text})", mode="eval").body)


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


def pad_in_trainer(script: Script, site: Site, place: dict[str, Any]) -> None:
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
        put_around(script, there, place, _COLLATOR, f"{library}.default_data_collator", 2)
        return
    tokenizer = ast.unparse(tokenizing.func)
    script.set_keyword(script.site_of(site, tokenizing), "padding", "False")
    value = f"{library}.DataCollatorWithPadding({tokenizer})"
    script.set_keyword(there, _COLLATOR, value, position=2)


def pack_in_trainer(script: Script, site: Site, data: dict[str, Any]) -> None:
    """Have the only `Trainer` built in the file of `site` put the sequences of a batch in one row.

    Where `data` says that items are padded already, the tokenizer stops padding. Raises
    `CannotRewrite` where the trainer cannot be seen, or functions of the user's get its outputs.
    """
    module = script.linked(site.file)
    trainer = _trainer(module)
    asked = next((name for name in _METRICS if _keyword(trainer, name) is not None), None)
    if asked is not None:
        raise CannotRewrite(f"{asked} would get all sequences of a batch in one row")
    if data["padded"]:
        tokenizing = _tokenizing(module, trainer)
        if tokenizing is None:
            raise CannotRewrite("items are padded already, and where is not seen in this file")
        script.set_keyword(script.site_of(site, tokenizing), "padding", "False")
    library = script.module_name(site.file, "transformers")
    there = script.site_of(site, trainer)
    script.set_keyword(there, _COLLATOR, f"{library}.{_FLATTENING}()", position=2)


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
