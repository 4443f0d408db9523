"""Which methods of a callback may do their work less often, and which must not."""

from __future__ import annotations

import ast
import textwrap

import pytest

from trainperf.fixes.tf_step._callback_bodies import does_more, head

HELPERS = """
def save(self):
    self.model.save_weights(self.path)

def slow_down(self):
    self.model.optimizer.learning_rate.assign(0.1)
"""


def method(body: str, arguments: str = "self, batch, logs=None") -> ast.FunctionDef:
    text = f"def on_train_batch_end({arguments}):\n" + textwrap.indent(
        textwrap.dedent(body).strip(), "    "
    )
    (node,) = ast.parse(text).body
    assert isinstance(node, ast.FunctionDef)
    return node


def said(body: str, arguments: str = "self, batch, logs=None") -> str:
    helpers = [node for node in ast.parse(HELPERS).body if isinstance(node, ast.FunctionDef)]
    return does_more(method(body, arguments), {each.name: each for each in helpers})


MORE = [
    "self.model.stop_training = True",
    "if logs['loss'] < 0.1:\n    self.model.stop_training = True",
    "self.model.optimizer.learning_rate = 1 / (1 + batch)",
    "optimizer = self.model.optimizer\noptimizer.learning_rate = 0.1",
    "keras.backend.set_value(self.model.optimizer.lr, 0.1)",
    "self.model.set_weights(self.average())",
    "for weight in self.model.weights:\n    weight.assign(weight * 0.9)",
    "save()\nself.seen += 1",
    "write(logs)\nself.losses.append(logs['loss'])",
    "write(logs)\nself.last = logs['loss']",
    "write(logs)\nlogs['rate'] = 0.1",
    "write(logs)\nhistory.append(logs['loss'])",
    "write(logs)\nglobal seen\nseen = batch",
    "write(logs)\nself.bar.update(1)",
    "self.slow_down()",
    "super().on_train_batch_end(batch, logs)",
    "if batch % 50 == 0:\n    self.save()",
    "self.seen += 1\nif self.seen % 30 == 0:\n    self.save()",
    "if logs['loss'] != logs['loss']:\n    raise ValueError",
    "batch += 1\nself.save()",
    "self.seen += 1",
    "yield self.save()",
]


@pytest.mark.parametrize("body", MORE)
def test_a_method_that_does_more_than_observe_is_left_alone(body: str) -> None:
    assert said(body)


def test_a_method_that_does_not_name_the_batch_is_left_alone() -> None:
    assert said("self.save()", "self, *args")
    assert said("self.save()", "self")


OBSERVES = [
    "self.save()",
    "self.model.save('last.keras')",
    "with open(self.path, 'a') as file:\n    file.write('%s' % logs['loss'])",
    "rate = float(self.model.optimizer.learning_rate)\ntf.summary.scalar('rate', rate, batch)",
    "row = {}\nrow['loss'] = logs['loss']\nself.writer.writerow(row)",
    "values = []\nvalues.append(logs['loss'])\nself.plot(values)",
    "for layer in self.model.layers:\n    tf.summary.histogram(layer.name, layer.weights)",
    "logs = logs or {}\nself.seen += 1\nself.save()",
]


@pytest.mark.parametrize("body", OBSERVES)
def test_a_method_that_observes_may_do_so_less_often(body: str) -> None:
    assert said(body) == ""


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ("self.save()", 0),
        ("logs = logs or {}\nself.save()", 0),
        ("'''Count.'''\nself.seen += 1\nself.save()", 1),
        ("loss = float(logs['loss'])\nself.losses.append(loss)\nself.save()", 2),
        ("self.total += self.measure()\nself.save()", 0),
        ("self.model.stop_training = True\nself.save()", 0),
        ("self.save()\nself.seen += 1", 0),
    ],
)
def test_what_keeps_count_at_the_top_goes_on_in_every_batch(body: str, count: int) -> None:
    assert head(method(body)) == count
