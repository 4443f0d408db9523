"""The cases of `torch_packing`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fixes.cases.common.torch_cases import LOADER, split, torch_evidence
from fixes.cases.dataloader.examples.packing import EXAMPLES
from fixes.cases.dataloader.torch_padding import IDS, TOKENS
from trainperf.model import (
    Evidence,
    Missing,
    Packing,
    Padding,
    Site,
    Trainer,
)

OPENED = Site("train.py", 40, "main")
"""A call of the user's by which a library builds the loader."""

LONGEST = Padding(40, 100, 60, 640, longest_length=100, place=IDS, masked=True)

LIBRARYS = "DataCollatorForLanguageModeling"

PACKS = replace(LONGEST, packing=Packing(True, True), collator=LIBRARYS)

BY_LENGTH = replace(LONGEST, bucketed_length=44)

TRAINER = {"trainer": Trainer("transformers", "TrainingArguments")}


def _trained(padding: Padding, **fields: Any) -> Evidence:
    loader = replace(LOADER, where=OPENED)
    return torch_evidence(padding=padding, loader=loader, torch=TRAINER, **fields)


examples = EXAMPLES

silent = [
    torch_evidence(),
    # the model does not keep the sequences of a row apart, or was not asked
    _trained(replace(LONGEST, packing=Packing(False, True), collator=LIBRARYS)),
    _trained(LONGEST),
    # little padding
    _trained(replace(PACKS, mean_length=85)),
    # too few to tell
    _trained(replace(PACKS, sequences=12)),
    # a loop of one's own, where batches of like lengths are well filled
    torch_evidence(padding=BY_LENGTH),
    # the model is not what the step passes in
    _trained(PACKS, split=split(forward=0.001, backward=0.002, rest=0.09)),
    _trained(PACKS, resident=0.02, input=0.098),
]

fires = [
    _trained(PACKS),
    # a collator of the user's own, or a version without one that packs: advice
    _trained(replace(PACKS, collator="")),
    _trained(replace(PACKS, packing=Packing(True))),
    # padded in the dataset
    _trained(replace(PACKS, padded_length=256)),
    _trained(PACKS, split=Missing("they do not add up")),
    # a loop of one's own, in which like lengths do not meet
    torch_evidence(padding=replace(LONGEST, place=TOKENS, bucketed_length=95)),
]

tries_not = [
    _trained(LONGEST, resident=None),
    _trained(replace(PACKS, mean_length=85), resident=None),
]

tries = [_trained(PACKS, resident=None, split=Missing("not timed"))]
