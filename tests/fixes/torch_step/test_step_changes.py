"""A function that logs: does it only observe, as far as its file shows?"""

import ast

import pytest

from trainperf.fixes.torch_step._changes import does_more
from trainperf.source.statements import Function

LOGGER = """
class Trainer:
    def __init__(self, model):
        self.history = {{name: [] for name, _ in model.named_parameters()}}
        self.losses: list = []

    def log(self, loss):
        self.losses.append(loss.item())
        for name, weight in self.model.named_parameters():
            self.history[name].append(weight.grad.norm().item())

    def end(self):
        {end}
"""


def said(source):
    tree = ast.parse(source)
    logs = next(n for n in ast.walk(tree) if isinstance(n, Function) and n.name == "log")
    return does_more(tree, logs)


def test_lists_that_nothing_reads_are_a_log():
    assert said(LOGGER.format(end="self.writer.close()")) == ""


@pytest.mark.parametrize("end", ["plot(self.losses)", "self.losses.clear()", "other.losses = 3"])
def test_lists_that_something_reads_or_sets_are_more(end):
    assert said(LOGGER.format(end=end)) == "it changes self.losses.append() in every step"
