"""Where in what a step returns its loss is, and how it is written down."""

from __future__ import annotations

from typing import Any

import pytest

from trainperf.child.timing import losses
from trainperf.child.timing.losses import (
    path_to_loss,
)


@pytest.mark.parametrize("value", [None, 3, "text", {}, [], {"accuracy": 1}, [[], {"loss": "0.5"}]])
def test_what_has_no_float_scalar_has_no_loss(value: Any) -> None:
    assert path_to_loss(value) is None


def test_the_loss_is_found_by_its_name_before_others_that_come_first() -> None:
    assert path_to_loss({"accuracy": 0.9, "g_loss": 0.5}) == ("g_loss",)
    assert path_to_loss({"a_loss": 0.9, "loss": 0.5}) == ("loss",)
    assert path_to_loss((1, [{"mae": 0.5}])) == (1, 0, "mae")


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


def test_sums_are_of_absolute_values_in_any_precision(torch):
    tensors = [torch.tensor([[1.0, -2.0]]), torch.tensor([-0.5], dtype=torch.bfloat16)]
    assert losses.absolute_sum(tensors) == 3.5
    assert losses.absolute_sum([torch.nn.Parameter(torch.tensor(-3.0))]) == 3.0
