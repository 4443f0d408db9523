"""A map split in two for a cache: run as it is edited, the two give what the one gave."""

from __future__ import annotations

from typing import Any

import pytest

from fixes.case_text import edited, edited_runs
from rewriting import executed


class Image:
    """Stands in for `tf.image`, `tf.io` and `tf.random`: says what was done."""

    def __getattr__(self, name: str) -> Any:
        return lambda value, *_, **__: f"{name}({value})"


class Tensorflow:
    """Stands in for TensorFlow."""

    image = io = random = Image()


class Files:
    """Stands in for a dataset: applies its maps to one element at once."""

    def __init__(self, *element: Any) -> None:
        self.element = element
        self.cached: Any = None
        self.file = ""

    def map(self, function: Any, **_: Any) -> Files:
        found = function(*self.element)
        made = Files(*(found if isinstance(found, tuple) else (found,)))
        made.cached = self.cached
        return made

    def cache(self, file: str = "") -> Files:
        self.cached = self.element
        self.file = file
        return self

    def batch(self, _: int) -> Files:
        return self


def run(source: str) -> Files:
    given = {"tf": Tensorflow(), "files": Files("a.jpg", 3)}
    space = executed(source.replace("import tensorflow as tf\n", ""), given)
    found: Files = space["ds"]
    return found


@pytest.mark.parametrize(("before", "after"), edited_runs("tf_cache", "split"))
def test_the_two_halves_give_what_the_whole_gave(before: str, after: str) -> None:
    whole, halves = run(before), run(after)

    assert whole.element == halves.element
    assert "decode" in str(halves.cached)
    assert "random" not in str(halves.cached)


def test_two_datasets_of_one_function_have_files_of_their_own() -> None:
    source = "def made(files):\n    return ▸files.map(str)◂\n"
    made = executed(edited("tf_cache", source, {"disk": True}))["made"]

    assert made(Files("train")).file != made(Files("test")).file
