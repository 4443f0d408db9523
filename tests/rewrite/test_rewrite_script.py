"""Which files and names a script has, and what of them may be edited."""

import os
import sys
from itertools import islice

import pytest

from rewriting import FILE, result, script_of
from trainperf.model import Site
from trainperf.rewrite import CannotRewrite, Script
from trainperf.rewrite.imports import names_in_use

PREFETCH = ".prefetch(2)"


def test_a_site_without_extent_is_refused():
    script, _ = script_of("ds = x.batch(8)")
    with pytest.raises(CannotRewrite, match="exact place"):
        script.append_call(Site("train.py", 1), PREFETCH)


class _Recorder:
    """Notes the extent CPython gives each method call, as the hooks record it."""

    def __init__(self, seen):
        self._seen = seen

    def __getattr__(self, name):
        def call(*args, **kwargs):
            frame = sys._getframe(1)
            places = islice(frame.f_code.co_positions(), frame.f_lasti // 2, None)
            line, end_line, col, end_col = next(places)
            self._seen[name] = Site("train.py", line, "", col, end_line, end_col)
            return self

        return call


@pytest.mark.parametrize(
    "text",
    [
        "ds = x.map(1).batch(8).take(3)\n",
        "ds = (\n    x\n    .map(\n        1,\n    )\n    .batch(8)\n    .take(3)\n)\n",
        "ds = x.map(1).batch(\n    8\n).take(\n    3)\n",
        "ds = x \\\n  .map(1) \\\n  .batch(8) \\\n  .take(3)\n",
    ],
)
def test_the_extents_cpython_records_find_the_call(text):
    seen = {}
    exec(compile(text, "train.py", "exec"), {"x": _Recorder(seen)})
    script, _ = script_of(text)
    for name in ("take", "batch", "map"):
        script.append_call(seen[name], f".after_{name}()")
    squeezed = "".join(result(script).replace("\\", "").split()).replace("(\n", "(")
    for call in (".map(1", ".after_map().batch(8", ".after_batch().take(3", ".after_take()"):
        assert call in squeezed


def test_a_copy_takes_edits_of_its_own():
    script, sites = script_of("ds = ▸x.batch(8)◂")
    script.append_call(sites[0], ".cache()")
    attempt = script.copy()
    attempt.append_call(sites[0], PREFETCH)
    assert result(script) == "ds = x.batch(8).cache()"
    assert result(attempt) == "ds = x.batch(8).cache().prefetch(2)"


def test_files_that_are_not_the_users_are_refused(tmp_path):
    inside = tmp_path / "venv" / "lib" / "site-packages" / "keras.py"
    inside.parent.mkdir(parents=True)
    inside.write_text("f()\n")
    outside = tmp_path.parent / "outside.py"
    outside.write_text("f()\n")
    linked = tmp_path / "linked.py"
    linked.symlink_to(outside)
    script = Script(tmp_path)
    for file in (inside, outside, linked, "../outside.py", os.__file__):
        with pytest.raises(CannotRewrite, match="library files are never edited"):
            script.set_keyword(Site(str(file), 1, "", 0, 1, 3), "a", "1")
    with pytest.raises(CannotRewrite, match="library files"):
        Script("/").set_keyword(Site(os.__file__, 1, "", 0, 1, 3), "a", "1")


@pytest.mark.parametrize(
    "data",
    [b"f(\n", b"f()\0", b"\xff\xfe\n", b"# coding: nonsense\nf()\n", b"f()\rg()\n", b"print 1\n"],
)
def test_a_file_that_cannot_be_read_as_python_is_refused(data):
    script = Script("/project", read=lambda path: data)
    with pytest.raises(CannotRewrite, match=r"train\.py"):
        script.set_keyword(Site("train.py", 1, "", 0, 1, 3), "a", "1")


def test_a_missing_file_and_a_line_past_the_end_are_refused(tmp_path):
    with pytest.raises(CannotRewrite, match="No such file"):
        Script(tmp_path).expression(Site("train.py", 1, "", 0, 1, 3))
    script, _ = script_of("f()\n")
    with pytest.raises(CannotRewrite, match="no line 9"):
        script.expression(Site("train.py", 9, "", 0, 9, 3))


def test_calls_are_read_as_they_were_written():
    text = "▸model.fit(▸ds.map(f)◂, epochs=2, callbacks=[\n  a,\n], **more)◂"
    script, (fit, mapped) = script_of(text)
    script.set_keyword(fit, "epochs", "3")
    assert script.expression(mapped) == "ds.map(f)"
    assert script.call_keywords(fit) == {"epochs": "2", "callbacks": "[\n  a,\n]"}
    assert script.argument(fit, 0) == mapped
    assert script.expression(script.argument(fit, 9, "epochs")) == "2"
    assert script.argument(fit, 1) is None


def test_other_modules_keep_their_own_name():
    script, _ = script_of("import os\nimport keras.layers\n")
    assert script.module_name(FILE, "os") == "os"
    assert script.module_name(FILE, "keras") == "keras"
    assert script.module_name(FILE, "numpy") == "np"
    assert script.module_name(FILE, "keras.mixed_precision") == "keras.mixed_precision"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("x = 1\n", "item"),
        ("item = 1\n", "each_item"),
        ("def item(each_item): ...\n", "item_2"),
        ("import item.each_item as item\nfrom a import b as each_item\nitem_2 = 1\n", "item_3"),
        ("try:\n    pass\nexcept OSError as item:\n    pass\n", "each_item"),
        ("match x:\n    case [item, *each_item]:\n        pass\n", "item_2"),
    ],
)
def test_a_name_is_chosen_that_the_file_does_not_use(text, name):
    script, _ = script_of(text)
    assert script.free_name("train.py", "item", "each_item") == name
    beside = script.free_name("train.py", "item", "each_item", beside=[name])
    assert beside not in {name, *names_in_use(script.module("train.py"))}
