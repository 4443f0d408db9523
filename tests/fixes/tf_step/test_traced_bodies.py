"""Python in a traced function: none of it may be lost to fewer traces."""

from __future__ import annotations

import ast
import textwrap

import pytest

from trainperf.fixes.tf_step._traced_bodies import (
    acts_once,
    becomes_float,
    may_overflow,
    needs_number,
    needs_shape,
)


def function(body: str) -> ast.FunctionDef:
    text = "def step(self, x, n, batch):\n" + textwrap.indent(textwrap.dedent(body).strip(), "    ")
    (node,) = ast.parse(text).body
    assert isinstance(node, ast.FunctionDef)
    return node


NEEDED = [
    "if n > 3:\n    x = x * 2",
    "while n:\n    x = x + 1",
    "y = x if n else 0",
    "assert n < 3",
    "y = [each for each in x if n > 1]",
    "y = n or 1.0",
    "y = not n",
    "for _ in range(n):\n    pass",
    "y = x[n]",
    "y = x[:, : n + 1]",
    "y = f'{n:.3f}'",
    "y = 'at {}'.format(n) + str(n)",
    "y = math.exp(-n) * x",
    "y = np.sqrt(n) * x",
    "y = int(n)",
    "y = min(1.0, n, 2.0)",
    "y = max([n, 1.0])",
    "y = min(1.0, n, key=abs)",
    "half = min(1.0, n / 2)\nif half > 1:\n    pass",
    "y = tf.reshape(x, (n, -1))",
    "y = tf.zeros(shape=n)",
    "y = tf.one_hot(x, depth=n)",
    "y = loss(*[n])",
    "y = loss(**{'n': n})",
    "self.n = n",
    "half = n / 2\nif half > 1:\n    pass",
    "half = n * self.scale\nquarter = half / 2\ny = x[:quarter]",
    "match n:\n    case 1:\n        pass",
]


@pytest.mark.parametrize("body", NEEDED)
def test_a_number_that_python_needs_is_told(body: str) -> None:
    assert needs_number(function(body), "n")


NOT_NEEDED = [
    "y = x * min(1.0, n / 100)",
    "y = x * n",
    "y = tf.cast(n, tf.float32) ** 2",
    "loss = x + n * 0.5\ng = tape.gradient(loss, v)\nif g is None:\n    pass",
    "if n is not None:\n    y = x * n",
    "loss = n * x\nif tf.reduce_any(loss > 1):\n    pass",
    "scale = tf.cast(n, tf.float32)\ny = x * scale if self.scaled else x",
    "y = x[0] * n",
    "optimizer.learning_rate.assign(n)",
    "for each in range(self.layers):\n    x = x * n",
    "y = tf.where(x > n, x, n)",
]


@pytest.mark.parametrize("body", NOT_NEEDED)
def test_a_number_that_is_reckoned_with_may_be_a_tensor(body: str) -> None:
    assert needs_number(function(body), "n") == ""


ONCE = [
    "print(x)",
    "self.seen += 1",
    "self.last = x",
    "batch['y'] = x",
    "losses.append(x)",
    "same = self.losses\nsame.append(x)",
    "global count\ncount = 1",
    "y = x * random.random()",
    "y = x + np.random.normal(size=3)",
    "began = time.time()",
    "logging.info('a step')",
    "y = next(batch)",
]


@pytest.mark.parametrize("body", ONCE)
def test_what_is_done_once_per_trace_is_told(body: str) -> None:
    assert acts_once(function(body))


NOT_ONCE = [
    "losses = []\nlosses.append(x)",
    "metrics = {}\nmetrics['loss'] = x\nreturn metrics",
    "self.metric.update_state(x)",
    "self.variable.assign_add(1.0)",
    "tf.print(x)",
    "y = x + tf.random.normal(tf.shape(x))",
    "a, b = tf.split(x, 2)\na *= 2",
]


@pytest.mark.parametrize("body", NOT_ONCE)
def test_what_the_graph_does_is_not_told(body: str) -> None:
    assert acts_once(function(body)) == ""


@pytest.mark.parametrize(
    "body", ["y = x.shape[0]", "y = x.get_shape()", "y = x.shape.as_list()", "y = len(x)"]
)
def test_a_shape_that_python_reads_is_told(body: str) -> None:
    assert needs_shape(function(body))


@pytest.mark.parametrize(
    "body", ["y = tf.shape(x)[0]", "y = x.shape[-1]", "y = len(self.layers)", "y = x * 2"]
)
def test_a_shape_that_the_graph_reads_is_not_told(body: str) -> None:
    assert needs_shape(function(body)) == ""


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("y = x * 0.99**n", True),
        ("part = n + 1\ny = x * (part / 100)", True),
        ("y = x * 1e-3 * tf.cast(n, tf.float32)", False),
        ("y = x / 2.0 + n", False),
        ("y = x * (n // 100)", False),
    ],
)
def test_whole_numbers_that_are_reckoned_with_as_floats_are_told(body: str, told: bool) -> None:
    assert becomes_float(function(body), "n") is told


def test_whole_numbers_that_grow_are_told() -> None:
    assert may_overflow(function("seed = n * 100003\ny = x + seed"), "n")
    assert may_overflow(function("y = x + 2**n"), "n")
    assert may_overflow(function("y = x * n"), "n") == ""
    assert may_overflow(function("y = x + n"), "n") == ""
