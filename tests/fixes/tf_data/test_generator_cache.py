"""A cache behind a generator: what it yields again is made once, what may differ is left alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from fixes.case_text import evidence_of
from rewriting import project_of, result, script_of, site_in
from trainperf.errors import CannotRewrite
from trainperf.fixes.tf_data.tf_cache import Cache
from trainperf.model import Equivalence, Finding, Site

HEAD = "import random\n\nimport numpy as np\n\n"
CALL = "ds = ▸Dataset.from_generator({}, output_types=None)◂\n"


def finding(*sites: Site) -> Finding:
    return Finding(
        "tf_cache",
        "input",
        "t",
        "t",
        2.0,
        "b",
        Equivalence.EXACT,
        where=sites,
        rewritable=True,
        data={"generator": []},
    )


def edited(text: str, given: str = "samples") -> str:
    script, (site, *_) = script_of(HEAD + text + CALL.format(given))
    Cache().rewrite(script, finding(site))
    return result(script) or ""


def refused(text: str, given: str = "samples", behind: str = "") -> str:
    script, (site, *_) = script_of(HEAD + text + CALL.format(given) + behind)
    with pytest.raises(CannotRewrite) as error:
        Cache().rewrite(script, finding(site))
    assert result(script) is None
    before, _, reason = str(error.value).partition(": ")
    assert before == "no cache keeps what it yields"
    return reason


class Dataset:
    """Stands in for `tf.data.Dataset`: made anew in each epoch, unless it is cached."""

    def __init__(self, make: Callable[[], Iterator[Any]]) -> None:
        self._make = make
        self._kept: list[Any] | None = None
        self._keeps = False

    @staticmethod
    def from_generator(generator: Callable[[], Iterator[Any]], **_: Any) -> Dataset:
        return Dataset(generator)

    def cache(self) -> Dataset:
        self._keeps = True
        return self

    def __iter__(self) -> Iterator[Any]:
        if self._kept is not None:
            return iter(self._kept)
        items = list(self._make())
        self._kept = items if self._keeps else None
        return iter(items)


def epochs(source: str) -> tuple[list[list[Any]], int]:
    """What three epochs of the dataset hold, and how many items were made for them."""
    made: list[Any] = []

    def load(value: Any) -> Any:
        made.append(value)
        return f"{value} loaded"

    waves = np.arange(12.0).reshape(4, 3) ** 2
    space = {"Dataset": Dataset, "load": load, "paths": ["a", "b", "c"], "waves": waves}
    exec(compile(source.replace("▸", "").replace("◂", ""), "train.py", "exec"), space)
    return [[repr(item) for item in space["ds"]] for _ in range(3)], len(made)


LOAD = "def read(path):\n    return np.add(len(path), 1)\n\n\n"

RANDOM = {
    "a generator's order": "rng = np.random.default_rng(0)\n\n\ndef samples():\n"
    "    for n in rng.permutation(9):\n        yield n\n",
    "shuffled in place": "paths = ['a', 'b']\n\n\ndef samples():\n    random.shuffle(paths)\n"
    "    for path in paths:\n        yield path\n",
    "augmentation": "def jittered(wave):\n    return wave + np.random.normal(size=3)\n\n\n"
    "def samples():\n    for wave in waves:\n        yield jittered(wave)\n",
    "an unknown function": "from augmenting import louder\n\n\ndef samples():\n"
    "    for wave in waves:\n        yield louder(wave)\n",
    "the clock": "import time\n\n\ndef samples():\n    for n in range(3):\n"
    "        yield n, time.time()\n",
    "an object that is asked": "def samples():\n    for n in range(3):\n"
    "        yield env.observe(n)\n",
    "a model": "def samples():\n    for n in range(3):\n        yield model.predict(n)\n",
}

STATE = {
    "a counter": "count = 0\n\n\ndef samples():\n    global count\n    count = count + 1\n"
    "    for n in range(3):\n        yield n + count\n",
    "a list that it fills": "seen = []\n\n\ndef samples():\n    for n in range(3):\n"
    "        seen.append(n)\n        yield len(seen)\n",
    "a stream that goes on": "stream = open('data.bin', 'rb')\n\n\ndef samples():\n"
    "    for _ in range(3):\n        yield stream.read(3)\n",
    "an iterator that goes on": "numbers = iter(range(99))\n\n\ndef samples():\n"
    "    for _ in range(3):\n        yield next(numbers)\n",
    "a queue": "def samples():\n    for _ in range(3):\n        yield queue.get()\n",
}

SEQUENCE = (
    "class Turned(Sequence):\n    def __getitem__(self, n):\n        return random.random()\n\n\n"
    "photos = Turned()\n"
)
FLOW = "photos = ImageDataGenerator(rotation_range=9).flow_from_directory('photos')\n"
EACH = "\n\ndef samples():\n    for photo in photos:\n        yield photo\n\n\n"
BY_NUMBER = "\n\ndef samples():\n    for n in range(9):\n        yield photos[n]\n\n\n"
SOME = "\n\ndef samples():\n    yield from itertools.islice(photos, 9)\n\n\n"
GIVEN = "\n\ndef samples(rows):\n    for row in rows:\n        yield row\n\n\n"
OF_OBJECT = (
    "\n\nclass Samples:\n    def __init__(self, rows):\n        self.rows = rows\n\n"
    "    def __call__(self):\n        for n in range(9):\n            yield self.rows[n]\n\n\n"
)
ITSELF = (
    "class Samples:\n    def __getitem__(self, n):\n        return random.random()\n\n"
    "    def __call__(self):\n        for n in range(9):\n            yield self[n]\n\n\n"
)
MAKERS = {
    "a sequence": (SEQUENCE + BY_NUMBER, "samples", "photos"),
    "pictures that are turned": (FLOW + EACH, "samples", "photos"),
    "a part of a sequence": ("import itertools\n\n" + SEQUENCE + SOME, "samples", "photos"),
    "gone through once": ("photos = zip('ab', 'cd')\n" + EACH, "samples", "photos"),
    "of another file": ("from data import photos\n" + EACH, "samples", "photos"),
    "handed in": (SEQUENCE + GIVEN, "lambda: samples(photos)", "rows"),
    "handed in by a partial": (SEQUENCE + GIVEN, "functools.partial(samples, photos)", "photos"),
    "handed in, and held": (SEQUENCE + OF_OBJECT, "Samples(photos)", "self.rows"),
    "its own object": (ITSELF, "Samples()", "self"),
}
HELD = ("np.load('photos.npy')", "['a', 'b']", "h5py.File('photos')", "sorted(glob('*'))")

ENDLESS = {
    "while": "def samples():\n    while True:\n"
    "        for path in paths:\n            yield path\n",
    "cycle": "import itertools\n\n\ndef samples():\n    for path in itertools.cycle(paths):\n"
    "        yield path\n",
}

PLAIN = "rows = [3, 4]\n\n\ndef samples():\n    for row in rows:\n        yield row\n\n\n"

CHANGED = {
    "reordered by a callback": "\n\nclass Reorder:\n    def on_epoch_end(self, epoch):\n"
    "        random.shuffle(rows)\n",
    "filled later": "for epoch in range(3):\n    for item in ds:\n        rows.append(item)\n",
    "another list later": "for epoch in range(3):\n    rows = [epoch]\n    print(list(ds))\n",
    "set by a function": "\n\ndef harder():\n    global rows\n    rows = [9]\n",
}


@pytest.mark.parametrize("text", RANDOM.values(), ids=RANDOM)
def test_what_may_differ_from_epoch_to_epoch_is_not_frozen(text):
    assert "may" in refused(text)


@pytest.mark.parametrize("text", STATE.values(), ids=STATE)
def test_a_generator_that_goes_on_where_it_was_is_not_frozen(text):
    assert refused(text).startswith("samples ")


@pytest.mark.parametrize(("text", "given", "maker"), MAKERS.values(), ids=MAKERS)
def test_an_object_that_makes_its_items_when_asked_is_not_frozen(text, given, maker):
    why = f" goes through {maker}, which may make other items"
    assert refused(text, given).endswith(why)


@pytest.mark.parametrize("made", HELD)
def test_what_is_held_may_be_gone_through(made):
    held = f"import h5py\nfrom glob import glob\n\nphotos = {made}\n"
    assert ".cache()" in edited(held + BY_NUMBER)
    assert ".cache()" in edited(held + OF_OBJECT, "Samples(photos)")


@pytest.mark.parametrize("text", ENDLESS.values(), ids=ENDLESS)
def test_a_generator_without_an_end_is_never_kept_whole(text):
    assert refused(text) == "samples may go on for ever"


@pytest.mark.parametrize("behind", CHANGED.values(), ids=CHANGED)
def test_a_generator_of_what_is_changed_behind_it_is_not_frozen(behind):
    assert refused(PLAIN, behind=behind) == "samples reads rows, which may change between epochs"


def test_a_lambda_that_hands_in_the_epoch_is_not_frozen():
    text = "def samples(epoch):\n    for n in range(epoch):\n        yield n\n\n\n"
    text += "for epoch in range(3):\n"
    script, (site, *_) = script_of(HEAD + text + "    " + CALL.format("lambda: samples(epoch)"))
    with pytest.raises(CannotRewrite, match="reads epoch"):
        Cache().rewrite(script, finding(site))


def test_what_is_handed_in_is_followed_to_where_it_is_made():
    made = (
        "def maker(rows):\n    def samples():\n        for row in rows:\n            yield row\n\n"
    )
    made += "    return samples\n\n\ntexts = ['a', 'b']\n"
    later = "for epoch in range(3):\n    random.shuffle(texts)\n    print(list(ds))\n"
    assert "texts" in edited(made, "maker(texts)")
    assert refused(made, "maker(texts)", later).startswith("samples reads rows")


def test_an_attribute_that_another_method_shuffles_is_not_frozen():
    text = (
        "class Samples:\n    def __init__(self):\n        self.order = [2, 1, 0]\n\n"
        "    def __call__(self):\n        for n in self.order:\n            yield n\n\n"
        "    def on_epoch_end(self):\n        np.random.shuffle(self.order)\n\n\n"
    )
    assert "self.order" in refused(text, "Samples()")
    fixed = text.replace("np.random.shuffle(self.order)", "pass")
    found, _ = epochs(edited(fixed, "Samples()"))
    assert found == [["2", "1", "0"]] * 3


SAME = {
    "items of a list": "def samples():\n    for path in ['a', 'b', 'c']:\n"
    "        yield read(path)\n",
    "features made by functions of the file": "WINDOW = np.hanning(3)\n\n\n"
    "def features(wave):\n    wave = np.append(wave[0], wave[1:] - 0.97 * wave[:-1])\n"
    "    power = np.abs(np.fft.rfft(wave * WINDOW)) ** 2\n"
    "    return ((power - power.mean(axis=0)) / power.std(axis=0)).astype('float32')\n\n\n"
    "def make(waves, labels):\n    def generator():\n"
    "        for wave, label in zip(waves, labels):\n"
    "            yield features(wave), label\n\n    return generator\n\n\n"
    "samples = make(waves, range(4))\n",
    "a file that it opens itself": "def samples():\n    with open(__file__) as lines:\n"
    "        for line in lines:\n            yield line.strip()\n",
}


@pytest.mark.parametrize("text", list(SAME.values())[:2], ids=list(SAME)[:2])
def test_epochs_are_the_same_behind_a_cache(text):
    before, _ = epochs(HEAD + LOAD + text + CALL.format("samples"))
    after, _ = epochs(edited(LOAD + text))
    assert after == before
    assert before[0]


@pytest.mark.parametrize("text", SAME.values(), ids=SAME)
def test_the_cache_stands_right_behind_the_generator(text):
    assert "output_types=None).cache()\n" in edited(LOAD + text)


def test_a_cache_makes_each_item_once():
    text = "def samples():\n    for n in range(2):\n        yield load(n)\n"
    before, made = epochs(HEAD + text + CALL.format("samples"))
    assert made == 6
    text = "from there import load_npy as load_it\n\n\n" + text
    source = edited(text.replace("load(n)", "load_it(n)"))
    source = source.replace("from there import load_npy as load_it\n", "load_it = load\n")
    after, made = epochs(source)
    assert (after, made) == (before, 2)


def test_a_map_behind_a_generator_is_cached_if_the_generator_repeats_itself():
    text = HEAD + "def samples():\n    for n in range(3):\n        yield n\n\n\n"
    text += "ds = ▸▸Dataset.from_generator(samples)◂.map(double)◂\n"
    script, (mapped, made) = script_of(text)
    Cache().rewrite(script, finding(mapped, made))
    assert ".map(double).cache()\n" in (result(script) or "")
    script, sites = script_of(text.replace("range(3)", "random.sample(rows, 3)"))
    with pytest.raises(CannotRewrite, match=r"random.sample\(\)"):
        Cache().rewrite(script, finding(*sites))


def test_a_generator_of_another_file_is_read_there():
    files = {
        "train.py": "from items import samples\n\n" + CALL.format("samples"),
        "items.py": "import random\n\n\ndef samples():\n    yield random.random()\n",
    }
    with pytest.raises(CannotRewrite, match=r"random.random\(\)"):
        Cache().rewrite(project_of(files), finding(site_in({"train.py": files["train.py"]})))
    files["items.py"] = "def samples():\n    for n in range(3):\n        yield n\n"
    script = project_of(files)
    Cache().rewrite(script, finding(site_in({"train.py": files["train.py"]})))
    assert ".cache()" in (result(script) or "")
    # what it is handed stands here
    handed = "from items import samples\n\nfor epoch in range(3):\n    "
    files["train.py"] = handed + CALL.format("lambda: samples(epoch)")
    with pytest.raises(CannotRewrite, match="reads epoch"):
        Cache().rewrite(project_of(files), finding(site_in({"train.py": files["train.py"]})))


def test_what_it_calls_of_another_file_is_read_there():
    files = {
        "train.py": "from items import load_item\n\n\ndef samples():\n    for n in range(3):\n"
        "        yield load_item(n)\n\n\n" + CALL.format("samples"),
        "items.py": "import random\n\n\ndef load_item(n):\n    return n + random.random()\n",
    }
    with pytest.raises(CannotRewrite, match="load_item"):
        Cache().rewrite(project_of(files), finding(site_in({"train.py": files["train.py"]})))
    files["items.py"] = "def load_item(n):\n    return 2 * n\n"
    script = project_of(files)
    Cache().rewrite(script, finding(site_in({"train.py": files["train.py"]})))
    assert ".cache()" in (result(script) or "")


def test_behind_a_generator_it_is_tried_and_says_what_only_the_source_tells():
    fed = evidence_of("generator")
    assert Cache().detect(fed) is None
    found = Cache().possible(fed)
    assert found is not None
    assert found.bound > 1.5
    assert "Where they are the same in each" in found.text
    assert found.data["generator"][1] == fed.stages[0].function.line
    assert found.equivalence is Equivalence.EXACT
