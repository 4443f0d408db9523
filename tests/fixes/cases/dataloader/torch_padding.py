"""The cases of `torch_padding`."""

from __future__ import annotations

from dataclasses import replace

from fixes.cases.common.torch_cases import LOADER, split, torch_evidence
from fixes.cases.dataloader.examples import trainer_padding
from fixes.cases.dataloader.examples.cutting import EXAMPLES
from trainperf.model import (
    Missing,
    PaddedPlace,
    Padding,
    Site,
    Trainer,
)

TOKENS = PaddedPlace("list", 0, (0,))

IDS = PaddedPlace("dict", "input_ids", ("input_ids", "attention_mask"))

GLOBAL = Padding(58, 400, 75, 640, longest_length=130)

TRAINER = Trainer("transformers", "TrainingArguments")

silent = [
    torch_evidence(),
    # padded to the longest of each batch, and little of that
    torch_evidence(padding=Padding(80, 100, 85, 640, longest_length=99)),
    # so is this: batches of like lengths are another matter
    torch_evidence(padding=Padding(40, 200, 60, 640, longest_length=200)),
    # too few to tell
    torch_evidence(padding=replace(GLOBAL, sequences=12)),
    # the model is not what the step passes in
    torch_evidence(padding=GLOBAL, split=split(forward=0.001, backward=0.002, rest=0.09)),
    torch_evidence(padding=GLOBAL, resident=0.02, input=0.098),
]

fires = [
    torch_evidence(padding=GLOBAL),
    torch_evidence(padding=GLOBAL, loader=replace(LOADER, workers=2)),
    torch_evidence(padding=replace(GLOBAL, place=TOKENS, masked=True)),
    # a loader that a library built
    torch_evidence(
        padding=replace(GLOBAL, place=IDS, masked=True),
        loader=replace(LOADER, where=Site("train.py", 40, "main")),
        torch={"trainer": TRAINER},
    ),
    torch_evidence(padding=replace(GLOBAL, place=TOKENS, masked=False)),
    # its parts were not timed
    torch_evidence(padding=GLOBAL, split=Missing("they do not add up")),
]

tries_not = [
    torch_evidence(padding=Padding(80, 100, 85, 640, longest_length=99), resident=None),
    torch_evidence(padding=replace(GLOBAL, place=TOKENS, sequences=12), resident=None),
    # where the sequences are is not known
    torch_evidence(padding=GLOBAL, resident=None, split=Missing("not timed")),
]

tries = [
    torch_evidence(
        padding=replace(GLOBAL, place=TOKENS), resident=None, split=Missing("not timed")
    ),
]

examples = [*EXAMPLES, *trainer_padding.EXAMPLES]
