"""Lists of modules of one class are found where each could be compiled by itself."""

from __future__ import annotations

from typing import Any

from torch import nn

from trainperf.child.torch.built.models import blocks_of_model


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inside = nn.ModuleList(Cell() for _ in range(4))

    def forward(self, x: Any) -> Any:
        return x


class Cell(nn.Module):
    def forward(self, x: Any) -> Any:
        return x


def listed(cls: Any, count: int) -> Any:
    return nn.ModuleList(cls() for _ in range(count))


def test_too_few_mixed_and_pytorchs_own_are_none() -> None:
    assert blocks_of_model(nn.Sequential(*(nn.ReLU() for _ in range(8)))) == []
    assert blocks_of_model(nn.ModuleList(nn.Linear(2, 2) for _ in range(8))) == []
    assert blocks_of_model(listed(Cell, 3)) == []
    assert blocks_of_model(nn.Sequential(Cell(), Cell(), nn.ReLU(), Cell(), Cell())) == []
    layer = nn.TransformerEncoderLayer(4, 1, 4)
    assert blocks_of_model(nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)) == []


def test_the_outermost_lists_are_named_as_source_reaches_them() -> None:
    model = nn.Module()
    model.transformer = nn.ModuleDict({"h": listed(Block, 5), "odd name": listed(Cell, 6)})
    model.parts = nn.Sequential(nn.ReLU(), nn.Sequential(*listed(Cell, 7)))
    assert blocks_of_model(model) == [
        {"path": ".parts[1]", "cls": "Cell", "count": 7},
        {"path": ".transformer.h", "cls": "Block", "count": 5},
    ]
    assert eval("model.transformer.h") is model.transformer["h"]
    assert eval("model.parts[1]") is model.parts[1]
