"""Generators taken apart: the edited source yields what the original did, or is left alone."""

from __future__ import annotations

import random
import threading
from typing import Any

import pytest

from fixes.case_text import edited_runs, repair
from rewriting import executed, project_of, result, script_of, site_in
from trainperf.errors import CannotRewrite

CALL = "data = ▸Dataset.from_generator({})◂\n"


class Recorded:
    """Stands in for `Dataset`: keeps what it is given."""

    @staticmethod
    def from_generator(generator: Any, *_: Any, **__: Any) -> Any:
        return generator


def edited(text: str, given: str = "samples", data: dict[str, Any] | None = None) -> str:
    script, sites = script_of("import os\n\n\n" + text + CALL.format(given))
    repair("tf_generator", script, sites, {"calls": 3} | (data or {}))
    return result(script) or ""


def made(source: str) -> list[Any]:
    """Up to fifty items that the generator of a script yields, and whether its thread made them."""
    seen: set[str] = set()

    def load(value: Any) -> Any:
        seen.add(threading.current_thread().name)
        return (value, "loaded")

    given = {
        "Dataset": Recorded,
        "load": load,
        "random": random.Random(7),
        "paths": [f"p{n}" for n in range(20)],
        "labels": list(range(20)),
    }
    generator = executed(source, given)["data"]()
    items = [item for item, _ in zip(generator, range(50), strict=False)]
    generator.close()
    return [items, "MainThread" in seen]


@pytest.mark.parametrize(("before", "after"), edited_runs("tf_generator"))
def test_threads_make_the_same_items_in_the_same_order(before: str, after: str) -> None:
    items, in_main = made(before)
    again, still = made(after)

    assert items == again
    assert len(items) >= 3
    assert in_main
    assert not still, "other threads make the items"


def test_an_error_in_an_item_reaches_the_loop_in_its_turn() -> None:
    text = "def samples():\n    for p in paths:\n        yield load(p), 1 // (len(p) - 3)\n\n\n"
    given = {"Dataset": Recorded, "load": str, "paths": ["ab", "a", "abc", "b"]}

    generator = executed(edited(text), given)["data"]()

    assert [next(generator), next(generator)] == [("ab", -1), ("a", -1)]
    with pytest.raises(ZeroDivisionError):
        next(generator)


def test_where_the_run_saw_the_generator_counts() -> None:
    text = "def samples():\n    for p in paths:\n        yield load(p)\n\n\n"

    assert "in_parallel(make, paths" in edited(
        text, "table['samples']", {"generator": ["train.py", 4]}
    )
    with pytest.raises(CannotRewrite, match="not seen"):
        edited(text, "table['samples']")


MAIN = "from lib.data import batches\n\ntrain = batches(paths, 8)\n▸model.fit(train, epochs=3)◂\n"
DATA = (
    "from .images import load\n\n\n"
    "def batches(paths, size):\n"
    "    while True:\n"
    "        for start in range(0, len(paths), size):\n"
    "            yield [load(each) for each in paths[start : start + size]]\n"
)


def test_a_generator_of_another_file_is_taken_apart_there() -> None:
    files = {"train.py": MAIN, "lib/data.py": DATA, "lib/images.py": "def load(p):\n    return p\n"}
    script = project_of(files)

    repair("tf_generator", script, (site_in(files),), {"calls": 4})

    (changed,) = script.sources().items()
    assert changed[0] == "/project/lib/data.py"
    assert "        yield from in_parallel(make, range(0, len(paths), size), calls=4)" in changed[1]


def test_a_function_of_another_file_that_keeps_something_is_seen() -> None:
    keeps = "seen = {}\n\n\ndef load(p):\n    seen[p] = open(p).read()\n    return seen[p]\n"
    files = {"train.py": MAIN, "lib/data.py": DATA, "lib/images.py": keeps}

    with pytest.raises(CannotRewrite, match="seen"):
        repair("tf_generator", project_of(files), (site_in(files),), {"calls": 4})
