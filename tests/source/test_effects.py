"""What a piece of code does: one line of source, and what is told of it."""

from __future__ import annotations

import ast

import pytest

from trainperf.source.effects import (
    changed_names,
    changes_shared,
    changing_name,
    effects,
    repeats,
)
from trainperf.source.module import Module

FILE = """\
import random
import time

import numpy as np
import tensorflow as tf

rows, more = [1, 2], []


def note(into, value):
    into.append(value)


def add(array):
    array += 1


def drawn():
    return random.random()


def twice(x):
    return drawn() if x else twice(x - 1)


class Reader:
    def __init__(self, path):
        self.file = open(path)


class Loop:
    def grow(self):
        self.size += 1

    @property
    def next_size(self):
        more.append(self.size)
        return self.size

    def turn(self, model, x, path):
"""

TOLD = {
    "x = np.flip(x)": [],
    "self.size = 3": ["sets self.size"],
    "x['a'] = 3": ["sets x['a']"],
    "made = []\nmade.append(x)": [],
    "rows.append(x)": ["fills rows.append()"],
    "note(rows, x)": ["fills rows, by note()"],
    "made = []\nnote(made, x)": [],
    "add(x)": ["fills x, by add()"],
    "self.grow()": ["sets self.size, in grow()"],
    "use = self.next_size": ["fills more.append()"],
    "np.add(x, 1, out=rows)": ["fills np.add()"],
    "line = self.file.readline()": ["reads on self.file.readline()"],
    "with open(path) as file:\n    line = file.readline()": [],
    "reader = Reader(path)": [],
    "first = next(x)": ["reads on next()", "steers next()", "unknown next()"],
    "y = twice(x)": ["draws random.random(), in twice()"],
    "y = time.time()": ["draws time.time()"],
    "y = list(map(drawn, x))": ["draws random.random()"],
    "y = model(x)": ["unknown model()"],
    "y = x.sum()": [],
    "y = self.env.observe()": ["asks self.env.observe()"],
    "np.save(path, x)": ["writes np.save()"],
    "y = np.log(x)": [],
    "open(path, 'w')": ["writes open()"],
    "x.mul_(2)": ["steers x.mul_()", "asks x.mul_()"],
    "model.fit(x)": ["alone model.fit()", "steers model.fit()", "asks model.fit()"],
    "raise ValueError": ["ends raise ValueError"],
    "global count\ncount = x": ["sets global count"],
}


def read(body: str) -> tuple[Module, list[ast.stmt]]:
    text = FILE + "".join(f"        {line}\n" for line in body.splitlines())
    module = Module(ast.parse(text), text)
    return module, module.functions[-1].body


@pytest.mark.parametrize("body", TOLD)
def test_what_code_does_is_told(body: str) -> None:
    module, code = read(body)
    told = [f"{each.kind} {each.text}" for each in effects(module, code) if not each.own]

    assert told == TOLD[body]


def test_what_is_given_is_its_own() -> None:
    module, code = read("x.append(1)")

    assert changes_shared(module, code) == "x.append()"
    assert changes_shared(module, code, ["x"]) == ""


def test_names_change_where_they_are_bound_and_where_functions_fill_them() -> None:
    assert changed_names(*read("y = x\nnote(rows, y)\nself.size = 1")) == {"y", "rows"}


def test_libraries_give_the_same_but_what_is_named_as_random() -> None:
    module, code = read("y = tf.image.resize(x, (8, 8))\ny = tf.image.random_flip_left_right(y)")

    assert [repeats(module, statement) for statement in code] == [True, False]


@pytest.mark.parametrize(
    ("behind", "changes"),
    [
        ("print(rows)", ""),
        ("for turn in range(3):\n    rows = [turn]", "rows"),
        ("def harder():\n    global rows\n    rows = []", "rows"),
        ("def harder():\n    rows.append(3)", "rows"),
        ("rows = [4]", ""),  # before anything is read, for all that is known
    ],
)
def test_a_name_that_is_bound_in_a_loop_or_changed_by_functions_may_be_another(
    behind: str, changes: str
) -> None:
    text = f"rows = [3]\n\n\ndef samples():\n    yield from rows\n\n\n{behind}\n"
    module = Module(ast.parse(text), text)

    assert changing_name(module, [module.functions[0]]) == changes


@pytest.mark.parametrize(
    ("call", "writes"),
    [
        ("wandb.log({'loss': x})", True),
        ("logging.error('x')", True),
        ("logging.log(10, 'x')", True),
        ("np.log(x)", False),
        ("torch.log(x)", False),
    ],
)
def test_a_logarithm_is_no_record(call: str, writes: bool) -> None:
    text = f"import logging, torch, wandb\nimport numpy as np\n{call}\n"
    tree = ast.parse(text)
    kinds = {each.kind for each in effects(Module(tree, text), [tree.body[-1]])}
    assert ("writes" in kinds) is writes
