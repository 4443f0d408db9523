"""Padded arrays given to `fit`, cut batch by batch: the edited source gives the same samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rewriting import result, script_of
from trainperf.errors import CannotRewrite
from trainperf.fixes.common.cases import evidence
from trainperf.fixes.tf_data.edits.cutting import cut_batches
from trainperf.fixes.tf_data.tf_padding import ARRAYS, MASKED, TFPadding
from trainperf.model import Finding, ModelFacts

LENGTHS = [3, 9, 1, 18, 0, 5, 2, 7, 30, 4]
FIT = "▸model.fit(rows, targets, batch_size={}, epochs=2{})◂\n"
SETTINGS = "import tensorflow as tf\n\n"


def padded(side: str) -> Any:
    rows = np.zeros((len(LENGTHS), 40), "int32")
    for number, length in enumerate(LENGTHS):
        values = np.arange(1, length + 1) + 100 * number
        if length:
            rows[number, slice(length) if side == "end" else slice(-length, None)] = values
    return rows


def edited(text: str, side: str = "end", multiple: int = 16) -> str:
    script, (site,) = script_of(SETTINGS + text)
    cut_batches(script, site, {"side": side, "multiple": multiple})
    return result(script) or ""


def refused(text: str) -> str:
    script, (site,) = script_of(SETTINGS + text)
    with pytest.raises(CannotRewrite) as error:
        cut_batches(script, site, {"side": "end", "multiple": 16})
    return str(error.value)


class Model:
    """Stands in for a model: keeps what `fit` is given."""

    def fit(self, x: Any, **given: Any) -> None:
        self.x, self.given = x, given


def fitted(source: str, side: str) -> Model:
    model = Model()
    rows = padded(side)
    space = {"model": model, "rows": rows, "targets": np.arange(len(rows))}
    exec(compile(source, "train.py", "exec"), space)
    return model


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (FIT.format(4, ", sample_weight=w"), "fit is given sample_weight"),
        (FIT.format(4, ", validation_split=0.2"), "fit is given validation_split"),
        (FIT.format(4, ", shuffle=False"), "fit is given shuffle"),
        ("▸model.fit([rows, more], targets)◂\n", "the model takes several arrays"),
        ("▸model.fit(dataset)◂\n", "the arrays are not written out in the call"),
        ("ds = ▸texts.padded_batch(8, shapes())◂\n", "which length padded_batch pads to"),
    ],
)
def test_what_is_not_sure_is_left_alone(call, why):
    assert refused(call).startswith(why)


@pytest.mark.parametrize("side", ["end", "start"])
def test_batches_hold_every_sample_once_with_nothing_but_zeros_cut(side):
    pytest.importorskip("tensorflow")
    model = fitted(edited(FIT.format(4, ""), side), side)
    rows = padded(side)
    seen: list[int] = []
    widths = set()
    for batch, targets in model.x:
        seen += [int(one) for one in targets]
        widths.add(batch.shape[1])
        cut = rows[:, : batch.shape[1]] if side == "end" else rows[:, -batch.shape[1] :]
        for row, target in zip(batch.numpy(), targets.numpy(), strict=True):
            assert (row == cut[target]).all()
            assert row.sum() == rows[target].sum()
    assert sorted(seen) == list(range(len(rows)))
    assert widths <= {16, 32}
    assert model.given == {"epochs": 2}
    orders = {tuple(int(t) for _, ts in model.x for t in ts) for _ in range(5)}
    assert len(orders) > 1  # another order in each epoch, as `fit` takes arrays


def test_validation_keeps_its_order_and_its_batch_size():
    pytest.importorskip("tensorflow")
    more = ", validation_data=(rows, targets), validation_batch_size=5"
    model = fitted(edited(FIT.format(4, more)), "end")
    found = [list(targets.numpy()) for _, targets in model.given["validation_data"]]
    assert found == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
    assert set(model.given) == {"epochs", "validation_data"}


def test_lengths_are_few_where_xla_compiles_each():
    found = TFPadding().detect(evidence(loop=ARRAYS, padding=MASKED))
    assert isinstance(found, Finding)
    assert found.data == {"side": "end", "multiple": 16}
    compiled = ModelFacts("model", "Functional", jit=True)
    found = TFPadding().detect(evidence(loop=ARRAYS, padding=MASKED, model=compiled))
    assert found is not None
    assert found.data["multiple"] == 64


def test_xla_is_not_turned_on_beside_batches_of_many_lengths():
    found = TFPadding().detect(evidence(loop=ARRAYS, padding=MASKED))
    assert isinstance(found, Finding)
    assert "each length" in TFPadding().clashes(
        found, Finding(**{**vars(found), "id": "keras_jit_compile"})
    )
    assert TFPadding().clashes(found, Finding(**{**vars(found), "id": "tf_prefetch"})) == ""
