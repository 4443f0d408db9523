"""A kept change names the other places of its cause."""

from dataclasses import replace

import pytest

from reporters.samples import INPUT_BOUND
from rewriting import finding_of
from trainperf.commands.elsewhere import with_elsewhere
from trainperf.fixes import by_id
from trainperf.model import Outcome, Site, Trial

LOOP = """\
    for x, y in data:
        with tf.GradientTape() as tape:
            loss = loss_fn(y, model(x, training=True))
        gradients = tape.gradient(loss, model.trainable_weights)
        optimizer.apply(gradients, model.trainable_weights)
"""
KEPT = Trial("tf_function", Outcome.KEPT, "", 18.0, 17.0, 19.0, 12, 60, kept=True)


@pytest.fixture
def told(tmp_path):
    def text(loops, trial=KEPT, fix="tf_function", line=3):
        script = tmp_path / "train.py"
        head = "import tensorflow as tf\ndef main(model, loss_fn, optimizer, data):\n"
        script.write_text(head + LOOP * loops)
        site = Site(str(script), line + 1, "main")
        found = finding_of(
            by_id()[fix],
            title="a title",
            text="It runs eagerly.",
            bound=None,
            bound_basis="",
            where=(site,),
        )
        diagnosis = replace(INPUT_BOUND, findings=(found,), trials=(trial,), cwd=str(tmp_path))
        return with_elsewhere(diagnosis).findings[0].text

    return text


def test_a_second_loop_of_the_same_kind_is_named(told):
    text = told(2)
    assert text.startswith("It runs eagerly. The same stands at train.py:9, of which this run")
    assert "train.py:9, train.py:14" in told(3)


STRATEGY = """\
strategy = tf.distribute.MirroredStrategy(["cpu:0", "cpu:1"])


def again():
    strategy = tf.distribute.MirroredStrategy(["cpu:0", "cpu:1"])
    other = tf.distribute.MirroredStrategy(["cpu:0"])
"""


@pytest.mark.parametrize("exact", [True, False])
def test_a_call_that_is_written_the_same_is_named_where_no_rule_is(tmp_path, exact):
    script = tmp_path / "train.py"
    script.write_text(STRATEGY)
    site = Site(str(script), 1, "", 11, *((1, 61) if exact else ()))
    found = finding_of(
        by_id()["tf_strategy_single"],
        title="a title",
        text="One CPU.",
        bound=None,
        bound_basis="",
        where=(site,),
    )
    kept = replace(KEPT, fix="tf_strategy_single")
    diagnosis = replace(INPUT_BOUND, findings=(found,), trials=(kept,), cwd=str(tmp_path))
    text = with_elsewhere(diagnosis).findings[0].text
    assert ("The same stands at train.py:5, of which" in text) is exact
    assert "train.py:6" not in text
