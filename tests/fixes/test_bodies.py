"""What the source of a function tells, by `data/bodies.txt`, of traces and calls."""

from __future__ import annotations

import ast
import json
import re
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from trainperf.fixes.tf_step import graphs
from trainperf.fixes.tf_step.callbacks import does_more
from trainperf.source.module import Module

CASES = Path(__file__).parents[1] / "data" / "bodies.txt"
HELPERS = """
class Own:
    def save(self):
        self.model.save_weights(self.path)

    def slow_down(self):
        self.model.optimizer.learning_rate.assign(0.1)

"""
IMPORTS = "import numpy as np\nimport tensorflow as tf\nfrom tensorflow import keras\n\nN = 10\n"
CALLBACK = "self, batch, logs=None"


def function(body: str, arguments: str) -> ast.FunctionDef:
    text = f"def step({arguments}):\n" + textwrap.indent(textwrap.dedent(body).strip(), "    ")
    (node,) = ast.parse(text).body
    assert isinstance(node, ast.FunctionDef)
    return node


def of_step(body: str) -> ast.FunctionDef:
    return function(body, "self, x, n, batch")


def of_callback(body: str, arguments: str = CALLBACK) -> str:
    text = HELPERS + textwrap.indent(ast.unparse(function(body, arguments)), "    ")
    module = Module(ast.parse(text), text)
    return does_more(module, next(each for each in module.functions if each.name == "step"))


def once_per_trace(body: str) -> str:
    text = IMPORTS + ast.unparse(of_step(body))
    module = Module(ast.parse(text), text)
    return graphs.acts_once(module, module.functions[0].body)


ASKED: dict[str, Callable[[str], object]] = {
    "acts_once": once_per_trace,
    "does_more": of_callback,
}


@pytest.mark.parametrize("name", ASKED)
def test_a_body_is_told(name: str) -> None:
    (block,) = re.findall(rf"^# {name}: .*\n((?:.+\n)+)", CASES.read_text(), re.MULTILINE)
    cases = [(line[:3].strip(), json.loads(line[4:])) for line in block.splitlines()]

    assert {answer for answer, _ in cases} == {"yes", "no"}
    wrong = [body for answer, body in cases if bool(ASKED[name](body)) != (answer == "yes")]
    assert wrong == []


def test_a_method_that_does_not_name_the_batch_is_left_alone() -> None:
    assert of_callback("self.save()", "self, *args")
    assert of_callback("self.save()", "self")
