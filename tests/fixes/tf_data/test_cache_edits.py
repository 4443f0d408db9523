"""A map split in two for a cache: run as it is edited, the two give what the one gave."""

from __future__ import annotations

import re
from typing import Any

import pytest

from rewriting import executed, result, script_of
from trainperf.errors import CannotRewrite
from trainperf.fixes.tf_data.edits.caches import put_cache

HEAD = "import tensorflow as tf\n\n\n"
USE = "\n\nds = ▸files.map(load)◂.batch(32)\n"
DECODED = "    image = tf.image.resize(tf.io.decode_jpeg(tf.io.read_file(path)), (8, 8))\n"
FLIPPED = "    image = tf.image.random_flip_left_right(image)\n"


def drawn_at(text: str) -> dict[str, int]:
    """The line at which the function was seen to draw: its own, or that of the call of another."""
    body = (HEAD + text).partition("def load(")
    ahead = re.split(r" +(?:if training|return augment|.*tf\.image\.random_)", body[2])[0]
    return {"split": (body[0] + ahead).count("\n") + 1}


def edited(text: str) -> str:
    script, (site, *_) = script_of(HEAD + text)
    put_cache(script, site, drawn_at(text))
    return result(script) or ""


def refused(text: str) -> str:
    script, (site, *_) = script_of(HEAD + text)
    with pytest.raises(CannotRewrite) as error:
        put_cache(script, site, drawn_at(text))
    assert result(script) is None
    return str(error.value)


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


SAME = {
    "a label along": f"def load(path, label):\n{DECODED}{FLIPPED}    return image, label\n",
    "a dictionary": f"def load(path, label):\n{DECODED}{FLIPPED}"
    '    return {"x": image, "path": path}\n',
    "one of the file's own that draws": "def augment(image):\n"
    f"{FLIPPED}    return image\n\n\ndef load(path, label):\n{DECODED}"
    "    return augment(image), label\n",
    "images as they were decoded": "def load(path, label):\n"
    "    image = tf.io.decode_jpeg(tf.io.read_file(path))\n"
    "    image = tf.image.random_crop(image, (8, 8, 3))\n    return image, label\n",
    "only sometimes": "training = True\n\n\n"
    f"def load(path, label):\n    '''Load.'''\n{DECODED}    if training:\n    {FLIPPED}"
    "    return image, label\n",
}


@pytest.mark.parametrize("name", SAME)
def test_the_two_halves_give_what_the_whole_gave(name: str) -> None:
    before, after = run(HEAD + SAME[name] + USE), run(edited(SAME[name] + USE))

    assert before.element == after.element
    assert "decode" in str(after.cached)
    assert "random" not in str(after.cached)


def test_a_method_is_split_into_two() -> None:
    text = edited(
        "class Data:\n    def load(self, path):\n"
        f"    {DECODED}    {FLIPPED}        return image\n\n"
        "    def make(self, files):\n        return ▸files.map(self.load)◂\n"
    )

    assert "        return image\n\n    def load_random(self, image):\n" in text
    assert "files.map(self.load).cache().map(self.load_random)" in text


def test_two_datasets_of_one_function_have_files_of_their_own() -> None:
    script, sites = script_of("def made(files):\n    return ▸files.map(str)◂\n")
    put_cache(script, sites[0], {"disk": True})
    made = executed(result(script) or "")["made"]

    assert made(Files("train")).file != made(Files("test")).file


ALONE = {
    "returns early": f"def load(path):\n    if not path:\n        return path\n{DECODED}"
    f"{FLIPPED}    return image\n",
    "does not draw": f"def load(path):\n{DECODED}    return image\n",
    "another call that may draw comes first": f"def load(path):\n{DECODED}"
    f"    image = augment(image)\n{FLIPPED}    return image\n",
    "a size in Python": f"def load(path):\n{DECODED}    size = (8, 8)\n{FLIPPED}"
    "    return tf.image.resize(image, size)\n",
    "a size by default": "def load(path, size=8):\n    image = tf.image.resize(path, (size, 8))\n"
    "    return tf.image.random_crop(image, (size - 1, size - 1, 3))\n",
    "another in hand": f"def load(path):\n{DECODED}    height = image.shape[0]\n{FLIPPED}"
    "    return image, height\n",
    "decorated": f"@tf.function\ndef load(path):\n{DECODED}{FLIPPED}    return image\n",
    "an augmentation that comes first": "def load(path):\n    path = augment(path)\n"
    f"{DECODED}    return image\n",
}


@pytest.mark.parametrize("name", ALONE)
def test_what_cannot_be_split_is_left_alone(name: str) -> None:
    assert refused(ALONE[name] + USE)


def test_a_lambda_is_left_alone() -> None:
    assert "not defined" in refused("ds = ▸files.map(lambda x: tf.random.uniform(x))◂\n")


def test_a_refusal_says_that_the_map_was_to_be_split():
    twice = f"def load(path):\n{DECODED}{FLIPPED}    return image\n\n\nother = files.map(load)"
    why = "the map is not split for a cache: load is used elsewhere as well"
    assert refused(twice + USE) == why
