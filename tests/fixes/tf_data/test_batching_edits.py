"""Loops whose batches are made ahead: each step is given what it was given, or nothing changes."""

from __future__ import annotations

import random
from typing import Any

import pytest

from rewriting import executed, result, script_of
from trainperf.errors import CannotRewrite
from trainperf.fixes.tf_data.numpy_batching import make_batches_ahead

HEAD = """\
import random
import threading


def cut(*part):
    note(threading.current_thread().name)
    return part


"""


def edited(text: str, calls: int = 1) -> str:
    script, (site, *_) = script_of(HEAD + text)
    make_batches_ahead(script, site, calls)
    return result(script) or ""


def refused(text: str, calls: int = 1) -> str:
    script, (site, *_) = script_of(HEAD + text)
    with pytest.raises(CannotRewrite) as error:
        make_batches_ahead(script, site, calls)
    assert result(script) is None
    return str(error.value)


def steps(source: str) -> tuple[list[Any], bool]:
    """The arguments of every step of a script, and whether its own thread made batches."""
    given: list[Any] = []
    random.seed(5)
    threads: set[str] = set()
    space: dict[str, Any] = {"note": threads.add, "n": 6, "data": list(range(60)), "said": given}
    space["step"] = lambda *batch: given.append(batch) or len(given)
    executed(source, space)
    return given, "MainThread" in threads


SAME = {
    "slices, epochs in another order": (
        "for epoch in range(3):\n"
        "    order = random.sample(data, len(data))\n"
        "    for i in range(0, 60, n):\n"
        "        part = order[i : i + n]\n"
        "        x, y = cut(part, 1), cut(part, 2)\n"
        "        ▸step(x, y)◂\n"
        "        said.append((epoch, i))\n"
        "    print(i, x)\n"
    ),
    "in a function, with a batch collected in a loop": (
        "def train(few):\n"
        "  for number, start in enumerate(range(0, len(few), n)):  # all\n"
        "    print('step')\n"
        "    rows = []\n"
        "    for value in few[start:start + n]:\n"
        "      rows.append(cut(value))\n"
        "    # now train\n"
        "    loss = ▸step(rows)◂\n"
        "    if loss > 5:\n"
        "      break\n"
        "  return number, loss\n"
        "\n\n"
        "said.append(train(data))\n"
    ),
    "all of it in the call, under a comment": (
        "for i in range(0, 60, n):\n"
        "    # the step\n"
        "    loss = ▸step(cut(data[i : i + n]), cut(i))◂\n"
        "    print(i, loss)\n"
    ),
    "half of it in the call": (
        "for i in range(0, 60, n):\n"
        "    print(i)\n"
        "    part = data[i : i + n]\n"
        "    ▸step(cut(part), part)◂\n"
    ),
    "a generator": (
        "def batches(values):\n"
        "    for i in range(0, 60, n):\n"
        "        yield cut(values[i : i + n]), i\n"
        "\n\n"
        "for epoch in range(2):\n"
        "    for number, (x, i) in enumerate(batches(data)):\n"
        "        ▸step(x, number)◂\n"
    ),
    "a function of the file": (
        "def get_batch(values):\n"
        "    chosen = random.sample(values, 4)\n"
        "    return cut(chosen), len(chosen)\n"
        "\n\n"
        "for _ in range(12):\n"
        "    x, size = get_batch(data)\n"
        "    ▸step(x, size)◂\n"
    ),
}


@pytest.mark.parametrize("name", SAME)
def test_each_step_is_given_the_same_batch(name: str) -> None:
    before, in_main = steps(HEAD + SAME[name])
    after, still = steps(edited(SAME[name]))

    assert before == after
    assert len(before) > 4
    assert in_main
    assert not still, "a thread makes the batches"


APART = ("slices, epochs in another order", "a generator", "all of it in the call, under a comment")


@pytest.mark.parametrize("name", APART)
def test_several_threads_make_the_same_batches_in_the_same_order(name: str) -> None:
    before, _ = steps(HEAD + SAME[name])
    after, still = steps(edited(SAME[name], calls=3))

    assert before == after
    assert not still


def test_batches_that_count_on_are_not_made_by_several_threads() -> None:
    text = "for i in range(9):\n    x = cut(i, next(data))\n    ▸step(x)◂\n"

    assert edited(text)
    assert refused(text, calls=3) == "the batches are not made apart: next(data)"


ALONE = {
    "it hangs on what the step returns": "x = cut(data, loss)\n    loss = ▸step(x)◂\n",
    "it is of one thing with the rest": "x = env.observe(i)\n    ▸step(x)◂\n    env.act(x)\n",
    "there is only sometimes one": "if i % 2:\n        x = cut(i)\n    ▸step(x)◂\n",
    "it is left out at times": "if i % 2:\n        continue\n    x = cut(i)\n    ▸step(x)◂\n",
    "nothing is made": "▸step(i)◂\n",
    "the call asks the model": "▸step(model(data[i]))◂\n",
    "the call takes what the last returned": "loss = ▸step(cut(data[i], loss))◂\n",
    "the call is made at times": "if i:\n        ▸step(cut(data[i]))◂\n",
    "it is of what the loop sets": "x = cut(i, data)\n    print(▸step(x)◂)\n    data = x[1:]\n",
}


@pytest.mark.parametrize("name", ALONE)
def test_batches_that_hang_on_the_loop_are_left_alone(name: str) -> None:
    assert refused(
        f"from lib import cut, load\n\nmodel = load()\n\nfor i in range(9):\n    {ALONE[name]}"
    )


def test_a_method_that_counts_what_the_loop_reads_is_left_alone() -> None:
    reason = refused(
        "class Trainer:\n"
        "    def get(self):\n        self.at += 1\n        return cut(self.at)\n\n"
        "    def train(self):\n        for _ in range(9):\n            x = self.get()\n"
        "            ▸step(x)◂\n            print(self.at)\n"
    )

    assert reason == "making batches changes self.at, which the loop reads"


def test_a_function_that_trains_is_no_making_of_batches() -> None:
    reason = refused(
        "def get(i):\n    return model.predict(i)\n\n\n"
        "for i in range(9):\n    x = get(i)\n    ▸step(x)◂\n"
    )

    assert "nothing in the loop makes" in reason


def test_a_while_loop_is_left_alone() -> None:
    assert "while" in refused("while True:\n    x = cut(data)\n    ▸step(x)◂\n")
