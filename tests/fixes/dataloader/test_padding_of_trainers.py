"""Padding in the loop of a library is mended where the user's call of its trainer stands."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fixes.cases.common.torch_cases import LOADER, torch_evidence
from fixes.cases.dataloader.torch_padding import GLOBAL, IDS, TRAINER
from trainperf.fixes.dataloader.torch_padding import TorchPadding
from trainperf.model import PaddedPlace, Site, Trainer

LINE = Site("train.py", 40, "main")


@pytest.mark.parametrize(
    ("where", "place", "trainer", "rewritable"),
    [
        (LINE, IDS, TRAINER, True),
        (LINE, None, TRAINER, False),
        (LINE, IDS, None, False),
        (LINE, IDS, Trainer("lightning", "Trainer"), False),
        (None, IDS, TRAINER, False),
        (LOADER.where, IDS, TRAINER, True),
    ],
)
def test_an_edit_is_offered_where_the_call_can_be_found(
    where: Site | None, place: PaddedPlace | None, trainer: Trainer | None, rewritable: bool
) -> None:
    evidence = torch_evidence(
        padding=replace(GLOBAL, place=place, masked=True),
        loader=replace(LOADER, where=where),
        torch={"trainer": trainer},
    )
    found = TorchPadding().detect(evidence)
    assert found is not None
    assert found.rewritable is rewritable
