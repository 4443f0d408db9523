"""A cache behind a generator: what it yields again is made once, what may differ is left alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from fixes.case_text import edited_runs, evidence_of
from rewriting import project_of, result, script_of, site_in
from trainperf.errors import CannotRewrite
from trainperf.fixes.findings import findings_to_try, shown_findings
from trainperf.fixes.tf_data.cache import TfCache
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
    TfCache().rewrite(script, finding(site))
    return result(script) or ""


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


BY_NUMBER = "\n\ndef samples():\n    for n in range(9):\n        yield photos[n]\n\n\n"
OF_OBJECT = (
    "\n\nclass Samples:\n    def __init__(self, rows):\n        self.rows = rows\n\n"
    "    def __call__(self):\n        for n in range(9):\n            yield self.rows[n]\n\n\n"
)
HELD = ("np.load('photos.npy')", "['a', 'b']", "h5py.File('photos')", "sorted(glob('*'))")


@pytest.mark.parametrize("made", HELD)
def test_what_is_held_may_be_gone_through(made):
    held = f"import h5py\nfrom glob import glob\n\nphotos = {made}\n"
    assert ".cache()" in edited(held + BY_NUMBER)
    assert ".cache()" in edited(held + OF_OBJECT, "Samples(photos)")


@pytest.mark.parametrize(("before", "after"), edited_runs("tf_cache", "generator"))
def test_epochs_are_the_same_behind_a_cache(before, after):
    found, _ = epochs(before)
    assert found[0]
    assert epochs(after)[0] == found
    assert "output_types=None).cache()\n" in after


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
    TfCache().rewrite(script, finding(mapped, made))
    assert ".map(double).cache()\n" in (result(script) or "")
    script, sites = script_of(text.replace("range(3)", "random.sample(rows, 3)"))
    with pytest.raises(CannotRewrite, match=r"random.sample\(\)"):
        TfCache().rewrite(script, finding(*sites))


def test_a_generator_of_another_file_is_read_there():
    files = {
        "train.py": "from items import samples\n\n" + CALL.format("samples"),
        "items.py": "import random\n\n\ndef samples():\n    yield random.random()\n",
    }
    with pytest.raises(CannotRewrite, match=r"random.random\(\)"):
        TfCache().rewrite(project_of(files), finding(site_in({"train.py": files["train.py"]})))
    files["items.py"] = "def samples():\n    for n in range(3):\n        yield n\n"
    script = project_of(files)
    TfCache().rewrite(script, finding(site_in({"train.py": files["train.py"]})))
    assert ".cache()" in (result(script) or "")
    # what it is handed stands here
    handed = "from items import samples\n\nfor epoch in range(3):\n    "
    files["train.py"] = handed + CALL.format("lambda: samples(epoch)")
    with pytest.raises(CannotRewrite, match="reads epoch"):
        TfCache().rewrite(project_of(files), finding(site_in({"train.py": files["train.py"]})))


def test_behind_a_generator_it_is_tried_and_says_what_only_the_source_tells():
    fed = evidence_of("generator")
    assert shown_findings(fed, among=[TfCache()]) == ()
    (found,) = findings_to_try(fed, found=(), among=[TfCache()])
    assert found.bound > 1.5
    assert "Where they are the same in each" in found.text
    assert found.data["generator"][1] == fed.stages[0].function.line
    assert found.equivalence is Equivalence.EXACT
