"""A function that logs: does it only observe, as far as its file shows?"""

import ast

import pytest

from trainperf.fixes.torch_step._changes import changes
from trainperf.source.module import Module

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
    module = Module(ast.parse(source), source)
    log = next(each for each in module.functions if each.name == "log")
    return changes(module, log.body)


def test_lists_that_nothing_reads_are_a_log():
    assert said(LOGGER.format(end="self.writer.close()")) == ""


@pytest.mark.parametrize("end", ["plot(self.losses)", "self.losses.clear()", "other.losses = 3"])
def test_lists_that_something_reads_or_sets_are_more(end):
    assert said(LOGGER.format(end=end)) == "it changes self.losses.append() in every step"


@pytest.mark.parametrize(
    ("adds", "why"),
    [
        ("seen.append(optimizer.step())", "it calls optimizer.step()"),
        ("seen.append(average.update(model))", "it changes average.update() in every step"),
        ("seen[next(places)].append(loss)", "it calls next()"),
        ("both.append(loss)", "it changes both.append() in every step"),
    ],
)
def test_what_is_added_to_a_log_may_do_more(adds, why):
    made = "seen = []\nboth = other = []\nprint(other)\n\n\n"
    assert said(f"{made}def log(loss):\n    {adds}\n") == why
