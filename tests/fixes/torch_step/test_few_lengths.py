"""A collator of Transformers pads to a few lengths, and the losses stay."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest

from fixes.case_text import cases
from rewriting import changed, executed, script_of
from trainperf.fixes.findings import findings_to_try
from trainperf.fixes.torch_step.compiling import (
    FEW_LENGTHS,
    WAY,
    TorchRecompiling,
    multiple_of,
)

torch = pytest.importorskip("torch")

EVIDENCE = cases("torch_recompiling")[-1].evidence
"""Compiled again for lengths that a collator of Transformers pads to."""
PADS = EVIDENCE.padding

SCRIPT = """\
import torch
from tokenizers import Tokenizer, models
from transformers import DataCollatorWithPadding, PreTrainedTokenizerFast

words = Tokenizer(models.WordLevel({f"w{n}": n for n in range(50)}, unk_token="w1"))
tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="w0")
rows = [{"input_ids": [2 + k % 48 for k in range(length)]} for length in range(5, 130)]
collate = DataCollatorWithPadding(tokenizer)
▸loader = torch.utils.data.DataLoader(rows, 5, collate_fn=collate)◂
shapes = [tuple(batch["input_ids"].shape) for batch in loader]
real = sum(int(batch["attention_mask"].sum()) for batch in loader)
"""


@pytest.mark.parametrize(
    ("length", "multiple"), [(20, 8), (100, 32), (128, 32), (129, 64), (400, 128), (9000, 128)]
)
def test_there_are_about_four_lengths(length: float, multiple: int) -> None:
    assert multiple_of(replace(PADS, padded_length=length)) == multiple


def test_nothing_else_is_padded() -> None:
    for one in (None, replace(PADS, masked=None), replace(PADS, collator="default_data_collator")):
        assert multiple_of(one) is None


def test_batches_come_in_a_few_shapes_and_hold_the_same() -> None:
    pytest.importorskip("transformers")
    script, sites = script_of(SCRIPT)
    (finding,) = findings_to_try(EVIDENCE, (), among=[TorchRecompiling()])
    assert finding.data[WAY] == FEW_LENGTHS
    data = {**finding.data, "place": asdict(sites[0])}
    TorchRecompiling().rewrite(script, replace(finding, data=data))

    before, after = executed(SCRIPT), executed(changed(script))
    assert after["real"] == before["real"]
    assert len(set(before["shapes"])) == 25
    assert {width for _, width in after["shapes"]} == {64, 128, 192}
