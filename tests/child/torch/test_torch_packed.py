"""A language model is asked whether it keeps sequences apart that stand in one row."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from kit.child import FakeProcess
from trainperf.child.torch import facts

LENGTHS = [5, 9, 3, 7]
ROWS = torch.zeros(4, 12, dtype=torch.long)
MASK = torch.zeros(4, 12, dtype=torch.long)
for row, length in enumerate(LENGTHS):
    ROWS[row, :length] = torch.arange(1, length + 1) + row
    MASK[row, :length] = 1
BATCH = {"input_ids": ROWS, "attention_mask": MASK, "labels": ROWS}


class Talks(torch.nn.Module):
    """One layer of causal attention with positions; `apart` keeps what begins anew apart."""

    apart = True

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words, self.places = torch.nn.Embedding(50, 16), torch.nn.Embedding(40, 16)
        self.drop = torch.nn.Dropout(0.5)

    def forward(self, input_ids: Any, attention_mask: Any = None, position_ids: Any = None) -> Any:
        if position_ids is None:
            position_ids = torch.arange(input_ids.shape[1])[None]
        states = self.drop(self.words(input_ids) + self.places(position_ids))
        seen = torch.ones(input_ids.shape[1], input_ids.shape[1]).tril().bool()[None]
        if attention_mask is None and self.apart:
            document = (position_ids == 0).cumsum(dim=1)
            seen = seen & (document[:, :, None] == document[:, None, :])
        scores = (states @ states.transpose(1, 2)).masked_fill(~seen, -1e9)
        return SimpleNamespace(logits=scores.softmax(dim=2) @ states @ self.words.weight.T)


class Leaks(Talks):
    """Positions begin anew, and attention goes on over them."""

    apart = False


class NoPositions(Talks):
    def forward(self, input_ids: Any, attention_mask: Any = None) -> Any:
        return super().forward(input_ids, attention_mask)


@pytest.fixture(autouse=True)
def library(monkeypatch: pytest.MonkeyPatch) -> None:
    """The modules of Transformers that the question looks into."""
    auto, collators = ModuleType(facts.CAUSAL), ModuleType(facts.COLLATORS)
    auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES = {"a": "Talks"}
    collators.DataCollatorWithFlattening = object
    monkeypatch.setitem(sys.modules, facts.CAUSAL, auto)
    monkeypatch.setitem(sys.modules, facts.COLLATORS, collators)


def test_a_model_that_begins_anew_with_each_sequence_keeps_them_apart() -> None:
    assert facts.keeps_apart(Talks(), (), BATCH) is True


def test_a_model_whose_attention_goes_on_does_not() -> None:
    assert facts.keeps_apart(Leaks(), (), BATCH) is False


@pytest.mark.parametrize(
    ("model", "given"),
    [
        (NoPositions(), BATCH),
        (Talks(), {"input_ids": ROWS}),
        (Talks(), {**BATCH, "position_ids": ROWS}),
    ],
)
def test_others_are_not_asked(model: Any, given: dict[str, Any]) -> None:
    assert facts.keeps_apart(model, (), given) is None


def asking() -> Any:
    loops = SimpleNamespace(model_calls={0: (Talks(), (), BATCH)})
    return SimpleNamespace(loops=loops, process=FakeProcess(lenient=True))


def test_a_version_without_a_collator_that_packs_says_so() -> None:
    assert facts.packing_of(asking()) == {"apart": True, "flattens": True}
    del sys.modules[facts.COLLATORS].DataCollatorWithFlattening
    assert facts.packing_of(asking()) == {"apart": True, "flattens": False}


def test_a_model_that_fails_on_a_row_leaves_that_open() -> None:
    asked = asking()
    asked.loops.model_calls[0] = (Talks(), (), {**BATCH, "input_ids": ROWS + 100})
    assert facts.packing_of(asked) is None
    assert len(asked.process.failures) == 1
