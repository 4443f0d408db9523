"""Batches of a `Trainer` of Transformers, padded to their own longest sequence or not at all."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from trainperf.errors import CannotRewrite
from trainperf.fixes.dataloader.edits.cutting import put_around

if TYPE_CHECKING:
    from trainperf.model import Site
    from trainperf.rewrite import Script
    from trainperf.source.module import Module

FLATTENING = "DataCollatorWithFlattening"
METRICS = ("compute_metrics", "preprocess_logits_for_metrics")
"""Functions of the user's that take a row for a sequence."""
TRAINERS = frozenset({"transformers.Trainer", "transformers.Seq2SeqTrainer"})
COLLATOR = "data_collator"
PADS = frozenset({"input_ids", "attention_mask", "token_type_ids"})
"""What `DataCollatorWithPadding` pads."""


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
    if tokenizing is None or not PADS.issuperset(place["along"]):
        put_around(script, there, place, COLLATOR, f"{library}.default_data_collator", 2)
        return
    tokenizer = ast.unparse(tokenizing.func)
    script.set_keyword(script.site_of(site, tokenizing), "padding", "False")
    value = f"{library}.DataCollatorWithPadding({tokenizer})"
    script.set_keyword(there, COLLATOR, value, position=2)


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
    script.set_keyword(there, COLLATOR, f"{library}.{FLATTENING}()", position=2)


def _trainer(module: Module) -> ast.Call:
    """The call that builds the trainer: of the library's class, or of one of the file's like it."""
    calls = list(module.calls(*TRAINERS))
    for node in module.nodes:
        local = module.definition(node.func) if isinstance(node, ast.Call) else None
        if isinstance(local, ast.ClassDef) and TRAINERS & module.bases(local):
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
    taken = len(trainer.args) > 2 or _keyword(trainer, COLLATOR) is not None
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
