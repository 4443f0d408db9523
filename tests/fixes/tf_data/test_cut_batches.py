"""Padded arrays given to `fit`, cut batch by batch: the edited source gives the same samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fixes.case_text import evidence_of, repair
from rewriting import project_of, result, script_of, site_in
from trainperf.fixes.findings import shown_findings
from trainperf.fixes.tf_data.padding import TfPadding
from trainperf.model import Finding, Site

LENGTHS = [3, 9, 1, 18, 0, 5, 2, 7, 30, 4]
FIT = "▸model.fit(rows, targets, batch_size={}, epochs=2{})◂\n"
SETTINGS = "import tensorflow as tf\n\n"
ONE = "model.compile('adam', 'mse')\n"


def padded(side: str) -> Any:
    rows = np.zeros((len(LENGTHS), 40), "int32")
    for number, length in enumerate(LENGTHS):
        values = np.arange(1, length + 1) + 100 * number
        if length:
            rows[number, slice(length) if side == "end" else slice(-length, None)] = values
    return rows


def edited(text: str, side: str = "end", multiple: int = 16) -> str:
    script, (site,) = script_of(SETTINGS + text)
    repair("tf_padding", script, (site,), {"side": side, "multiple": multiple, "alone": True})
    return result(script) or ""


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
    more = ", validation_data=(rows, targets)"
    model = fitted(edited(FIT.format(4, more)), "end")
    found = [list(targets.numpy()) for _, targets in model.given["validation_data"]]
    assert found == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert set(model.given) == {"epochs", "validation_data"}


@pytest.mark.parametrize("side", ["end", "start"])
def test_a_pipeline_gives_the_same_batches_in_the_same_order_without_their_padding(side):
    tf = pytest.importorskip("tensorflow")
    rows = padded(side)

    class Named:
        compile = staticmethod(lambda *how: None)

    def batches(source: str, of: Any) -> Any:
        space: dict[str, Any] = {"of": of, "model": Named()}
        exec(compile(source, "train.py", "exec"), space)
        return space["ds"]

    before = f"{SETTINGS}{ONE}ds = tf.data.Dataset.from_tensor_slices(of).batch(4).prefetch(1)\n"
    marked = before[len(SETTINGS) :].replace("tf.data", "▸tf.data").replace("(4)", "(4)◂")
    after = edited(marked, side)
    given = (rows, np.arange(len(rows)))
    for (whole, targets), (cut, same) in zip(
        batches(before, given), batches(after, given), strict=True
    ):
        width = cut.shape[1]
        assert (targets.numpy() == same.numpy()).all()
        kept = whole[:, :width] if side == "end" else whole[:, -width:]
        assert (kept.numpy() == cut.numpy()).all()
        assert int(tf.reduce_sum(whole)) == int(tf.reduce_sum(cut))
        assert width in (16, 32)
    assert batches(after, given).cardinality() == 3
    # what else goes through that call: rows alone, numbers that are no sequences, names
    assert next(iter(batches(after, rows))).shape == (4, 32)
    for other in (rows.astype("float32"), rows[:, 0], {"text": rows}, (rows[:, :, None], rows)):
        assert batches(after, other).element_spec == batches(before, other).element_spec


def test_the_batches_of_a_data_file_are_cut_there_and_the_model_opened_where_it_is_made():
    files = {
        "train.py": "import keras\nfrom data import batches\nmodel = keras.Sequential(\n"
        "    [keras.Input((200,)), keras.layers.LSTM(8)])\nmodel.compile('adam', 'mse')\n"
        "model.fit(batches())\n",
        "data.py": "import tensorflow as tf\n\n\ndef batches():\n"
        "    return ▸tf.data.Dataset.range(9).batch(4)◂\n",
    }
    script, site = project_of(files), site_in(files)
    fit = Site("train.py", 6, "", 0, 6, 20)
    data = {"side": "end", "multiple": 16, "alone": True}
    repair("tf_padding", script, (site, fit), data)
    sources = script.sources()
    assert (
        ".batch(4).map(cut_batch, num_parallel_calls=tf.data.AUTOTUNE)"
        in sources["/project/data.py"]
    )
    assert "keras.Input((None,))" in sources["/project/train.py"]


def found_in(fields: str) -> Finding:
    (finding,) = shown_findings(evidence_of(f"rnn_padded_text | {fields}"), among=[TfPadding()])
    return finding


def test_the_place_is_behind_the_last_call_that_changes_the_batches():
    chain = """stages = [{"index": 0, "op": "batch", "seconds_per_step": 0, "cumulative": 0},
        {"index": 1, "op": "map", "seconds_per_step": 0, "cumulative": 0, "where": "a.py:2"},
        {"index": 2, "op": "prefetch", "seconds_per_step": 0, "cumulative": 0}]"""
    found = found_in(chain)
    assert found.where[0] == Site("a.py", 2)
    assert found.data["alone"]
    assert not found_in(f"{chain}; padding.place.along = [0, 1]").data["alone"]


def test_lengths_are_few_where_xla_compiles_each():
    assert found_in("padding.place = null").data == {"side": "end", "multiple": 16, "alone": False}
    assert found_in("models[0].jit = true; padding.longest_length = 20").data["multiple"] == 80


def test_xla_is_not_turned_on_beside_batches_of_many_lengths():
    found = found_in("")
    for other, clash in (("keras_jit_compile", True), ("tf_interleave_parallel", False)):
        said = TfPadding().clashes(found, Finding(**{**vars(found), "id": other}))
        assert ("each length" in said) is clash
