"""Padding in the loop of a library is mended where the user's call of its trainer stands."""

from __future__ import annotations

import pytest

from fixes.case_text import evidence_of
from trainperf.fixes.dataloader.padding import TorchPadding

PADDED = '{"mean_length": 58, "padded_length": 400, "bucketed_length": 75, "sequences": 640, %s}'
IDS = '"place": {"kind": "dict", "at": "input_ids", "along": ["input_ids"]}'
TRAINER = '{"library": "transformers", "cls": "TrainingArguments"}'
LINE, CALL = '"train.py:40 main"', '"train.py:8:13-60 main"'


@pytest.mark.parametrize(
    ("where", "place", "trainer", "rewritable"),
    [
        (LINE, IDS, TRAINER, True),
        (LINE, '"masked": true', TRAINER, False),
        (LINE, IDS, "null", False),
        (LINE, IDS, TRAINER.replace("transformers", "lightning"), False),
        ("null", IDS, TRAINER, False),
        (CALL, IDS, TRAINER, True),
    ],
)
def test_an_edit_is_offered_where_the_call_can_be_found(
    where: str, place: str, trainer: str, rewritable: bool
) -> None:
    evidence = evidence_of(
        f"ddp_compute_bound | padding = {PADDED % place}; torch.loaders[0].where = {where}; "
        f"torch.trainer = {trainer}"
    )
    found = TorchPadding().look(evidence)
    assert found is not None
    assert found.rewritable is rewritable
