"""Generators taken apart: the edited source yields what the original did, or is left alone."""

from __future__ import annotations

import random
import threading
from typing import Any

import pytest

from rewriting import executed, project_of, result, script_of, site_in
from trainperf.errors import CannotRewrite
from trainperf.fixes.tf_data.edits.generators import make_items_in_parallel

CALL = "data = ▸Dataset.from_generator({})◂\n"


class Recorded:
    """Stands in for `Dataset`: keeps what it is given."""

    @staticmethod
    def from_generator(generator: Any, *_: Any, **__: Any) -> Any:
        return generator


def edited(text: str, given: str = "samples", data: dict[str, Any] | None = None) -> str:
    script, (site, *_) = script_of("import os\n\n\n" + text + CALL.format(given))
    make_items_in_parallel(script, site, {"calls": 3} | (data or {}))
    return result(script) or ""


def refused(text: str, given: str = "samples") -> str:
    script, (site, *_) = script_of("import os\n\n\n" + text + CALL.format(given))
    with pytest.raises(CannotRewrite) as error:
        make_items_in_parallel(script, site, {"calls": 3})
    assert result(script) is None
    return str(error.value)


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


SAME = {
    "zip": (
        "def samples():\n"
        "    for path, label in zip(paths, labels):\n"
        "        yield load(path), label\n"
    ),
    "on one line": ("def samples():\n  for p in paths: yield load(p)\n"),
    "taken apart, on one line": (
        "def samples():\n  for p, l in zip(paths, labels): yield load(p), l\n"
    ),
    "two spaces, a comment, for ever, in another order each time": (
        "def samples(few):\n"
        "  few = list(few)\n"
        "  while True:  # fit stops it\n"
        "    random.shuffle(few)\n"
        "    for path in few:  # all of them\n"
        "      image = load(path)\n"
        "      if path == 'p3':\n"
        "        continue\n"
        "      yield image\n"
    ),
    "several of one item, in a loop of its own": (
        "def samples():\n"
        "    for path in paths:\n"
        "        image = load(path)\n"
        "        yield image\n"
        "        yield image, 'flipped'\n"
    ),
    "a class that is called": (
        "class Frames:\n"
        "    def __init__(self, training):\n"
        "        self.training = training\n"
        "\n"
        "    def __call__(self):\n"
        "        pairs = list(zip(paths, labels))\n"
        "        if self.training:\n"
        "            random.shuffle(pairs)\n"
        "        for path, name in pairs:\n"
        "            frames = load(path)\n"
        "            yield frames, name\n"
        "\n"
        "\n"
    ),
    "a function that makes it": (
        "def make_samples(few):\n"
        "    def samples():\n"
        "        for path in few:\n"
        "            yield load(path)\n"
        "    return samples\n"
        "\n"
        "\n"
    ),
    "names used before as well": (
        "def samples():\n"
        "    few = []\n"
        "    for path in paths:\n"
        "        few.append(path)\n"
        "    for path in few:\n"
        "        yield load(path)\n"
    ),
    "a tuple, written out, over several lines": (
        "def samples():\n"
        "    for number, (path,\n"
        "                 label) in enumerate(\n"
        "        zip(paths, labels)\n"
        "    ):\n"
        "        yield number, load(path), label\n"
    ),
    "a batch from slices": (
        "def samples(size=6):\n"
        "    for start in range(0, len(paths), size):\n"
        "        images = []\n"
        "        for path in paths[start : start + size]:\n"
        "            images.append(load(path))\n"
        "        yield images\n"
    ),
    "the last of a list": ("def samples():\n    for p in 'a', 'b', 'c': yield load(p)\n"),
    "collected into batches, the last one smaller": (
        "def samples(size=6):\n"
        "    images, numbers = [], []\n"
        "    for path, label in zip(paths, labels):\n"
        "        # load it\n"
        "        image = load(path)\n"
        "        if label == 3:\n"
        "            continue\n"
        "        images.append(image)\n"
        "        numbers.append(label)\n"
        "        if len(images) == size:\n"
        "            yield images, numbers\n"
        "            images, numbers = [], []\n"
        "    if images:\n"
        "        yield images, numbers\n"
    ),
    "collected as it is made": (
        "def samples():\n"
        "    batch = []\n"
        "    for path in paths:\n"
        "        batch.append(load(path))\n"
        "        if len(batch) == 6:\n"
        "            yield list(batch)\n"
        "            batch.clear()\n"
    ),
    "yielded outside as well, and read in the next epoch": (
        "def samples():\n"
        "    image = 'none'\n"
        "    while True:\n"
        "        yield image\n"
        "        for path in paths:\n"
        "            image = load(path)\n"
        "            yield image\n"
    ),
    "counted by hand": (
        "def samples():\n"
        "    n = 0\n"
        "    for path in paths:\n"
        "        image = load(path)\n"
        "        n += 1\n"
        "        yield n, image\n"
    ),
}
GIVEN = {
    "two spaces, a comment, for ever, in another order each time": "lambda: samples(paths)",
    "a class that is called": "Frames(True)",
    "a function that makes it": "make_samples(paths)",
}
"""Arguments of `from_generator` other than the generator function itself."""


@pytest.mark.parametrize("name", SAME)
def test_threads_make_the_same_items_in_the_same_order(name: str) -> None:
    text, given = SAME[name], GIVEN.get(name, "samples")
    before = "import os\n\n\n" + text + CALL.format(given).replace("▸", "").replace("◂", "")
    after = edited(text, given)

    items, in_main = made(before)
    again, still = made(after)

    assert items == again
    assert len(items) >= 3
    assert in_main
    assert not still, "other threads make the items"


ALONE = {
    "left before its end": "for p in paths:\n        if p == 'p3':\n            break\n"
    "        yield load(p)\n",
    "ended": "for p in paths:\n        if not p:\n            return\n        yield load(p)\n",
    "what the last left": "for p in paths:\n        if p == 'p0':\n            image = load(p)\n"
    "        yield image\n",
    "a list that fills": "seen = []\n    for p in paths:\n        x = load(p, seen)\n"
    "        seen.append(x)\n        yield x\n",
    "read afterwards": "for p in paths:\n        yield load(p)\n    print(p)\n",
    "sent": "for p in paths:\n        got = yield load(p)\n",
    "an iterator": "it = iter(labels)\n    for p in paths:\n        yield load(p), next(it)\n",
    "a queue": "for _ in range(9):\n        yield load(queue.get())\n",
    "an environment": "for p in paths:\n        yield load(env.step(p))\n",
    "one array for all": "for p in paths:\n        yield np.add(load(p), 1, out=buffer)\n",
    "shuffled each time": "for p in paths:\n        random.shuffle(labels)\n"
    "        yield load(p), labels[0]\n",
    "an attribute": "for p in paths:\n        cache.last = load(p)\n        yield cache.last\n",
    "in a dictionary": "for p in paths:\n        cache[p] = load(p)\n        yield cache[p]\n",
    "two loops": "for p in paths:\n        yield load(p)\n    for p in paths:\n"
    "        yield load(p)\n",
    "counted in between": "n = 0\n    while n < 5:\n        n += 1\n        yield load(paths[n])\n",
    "seeded for each": "for p in paths:\n        random.seed(len(p))\n"
    "        yield load(p), random.random()\n",
    "features of a model": "for p in paths:\n        yield model.predict(load(p))\n",
    "drawn on a canvas": "import matplotlib.pyplot as plt\n    for p in paths:\n"
    "        plt.plot(load(p))\n        yield p\n",
    "a tokenizer": "for p in paths:\n        yield tokenizer(load(p))\n",
}


@pytest.mark.parametrize("name", ALONE)
def test_items_that_hang_together_are_left_alone(name: str) -> None:
    reason = refused(f"def samples():\n    {ALONE[name]}\n\n")

    assert reason


def test_a_function_of_the_file_that_keeps_something_is_seen() -> None:
    keeps = "def loaded(p):\n    cache[p] = load(p)\n    return cache[p]\n\n\n"
    reason = refused(keeps + "def samples():\n    for p in paths:\n        yield loaded(p)\n\n\n")

    assert "cache[p]" in reason


def test_a_function_of_the_file_may_change_what_it_made_or_was_given() -> None:
    clean = "def clean(x):\n    rows = []\n    rows.append(x)\n    x.sort()\n    return rows\n\n\n"

    text = edited(clean + "def samples():\n    for p in paths:\n        yield clean(load(p))\n\n\n")

    assert "yield from in_parallel(make, paths, calls=3)" in text


def test_an_error_in_an_item_reaches_the_loop_in_its_turn() -> None:
    text = "def samples():\n    for p in paths:\n        yield load(p), 1 // (len(p) - 3)\n\n\n"
    given = {"Dataset": Recorded, "load": str, "paths": ["ab", "a", "abc", "b"]}

    generator = executed(edited(text), given)["data"]()

    assert [next(generator), next(generator)] == [("ab", -1), ("a", -1)]
    with pytest.raises(ZeroDivisionError):
        next(generator)


def test_names_that_the_file_uses_already_are_not_taken() -> None:
    text = "def in_parallel():\n    pass\n\n\ndef samples():\n    for p in paths:\n"

    assert "yield from in_parallel_2(make, paths, calls=3)" in edited(
        text + "        yield load(p)\n\n\n"
    )


def test_where_the_run_saw_the_generator_counts() -> None:
    text = "def samples():\n    for p in paths:\n        yield load(p)\n\n\n"

    assert "in_parallel(make, paths" in edited(
        text, "table['samples']", {"generator": ["train.py", 4]}
    )
    assert "not seen" in refused(text, "table['samples']")


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

    make_items_in_parallel(script, site_in(files), {"calls": 4})

    (changed,) = script.sources().items()
    assert changed[0] == "/project/lib/data.py"
    assert "        yield from in_parallel(make, range(0, len(paths), size), calls=4)" in changed[1]


def test_a_function_of_another_file_that_keeps_something_is_seen() -> None:
    keeps = "seen = {}\n\n\ndef load(p):\n    seen[p] = open(p).read()\n    return seen[p]\n"
    files = {"train.py": MAIN, "lib/data.py": DATA, "lib/images.py": keeps}

    with pytest.raises(CannotRewrite, match="seen"):
        make_items_in_parallel(project_of(files), site_in(files), {"calls": 4})
