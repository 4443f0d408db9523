"""The cases of `torch_length_batches`."""

from __future__ import annotations

from dataclasses import replace

from fixes.cases.common.torch_cases import LOADER, split, torch_evidence
from fixes.cases.dataloader._input_cases import made
from fixes.cases.dataloader.examples.by_length import EXAMPLES
from fixes.cases.dataloader.torch_padding import TOKENS
from trainperf.model import (
    ItemLength,
    Missing,
    Padding,
)

OWN = Padding(40, 200, 60, 640, longest_length=200)

GLOBAL = Padding(58, 400, 75, 640, longest_length=230, place=TOKENS, masked=True)

WORDS = replace(LOADER, length=ItemLength(0, "len"), sampler="RandomSampler")

CHEAP = made(0.004, 0.001)

examples = EXAMPLES

silent = [
    torch_evidence(),
    # batches of like lengths already, or nearly
    torch_evidence(loader=WORDS, stages_=CHEAP, padding=replace(OWN, bucketed_length=170)),
    # too few to tell
    torch_evidence(loader=WORDS, stages_=CHEAP, padding=replace(OWN, sequences=12)),
    # in order, or in one of the user's
    torch_evidence(loader=replace(WORDS, shuffled=False), stages_=CHEAP, padding=OWN),
    torch_evidence(loader=replace(WORDS, sampler="ByLength"), stages_=CHEAP, padding=OWN),
    # the model is not what the step passes in
    torch_evidence(
        loader=WORDS,
        stages_=CHEAP,
        padding=OWN,
        split=split(forward=0.001, backward=0.002, rest=0.09),
    ),
    torch_evidence(loader=replace(WORDS, iterable=True), stages_=CHEAP, padding=OWN),
]

fires = [
    torch_evidence(loader=WORDS, stages_=CHEAP, padding=OWN),
    # padded far beyond the longest: cut as well
    torch_evidence(loader=WORDS, stages_=CHEAP, padding=GLOBAL),
    # where their lengths stand, or what items take, is not known: no edit
    torch_evidence(loader=replace(WORDS, length=None), stages_=CHEAP, padding=OWN),
    torch_evidence(loader=WORDS, stages_=Missing("not timed"), padding=OWN),
    torch_evidence(loader=WORDS, stages_=made(0.080), padding=OWN),
    torch_evidence(loader=WORDS, stages_=CHEAP, padding=OWN, split=Missing("not timed")),
]
