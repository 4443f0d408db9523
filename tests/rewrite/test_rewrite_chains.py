import os
import sys
from itertools import islice, permutations

import pytest

from rewriting import result, script_of
from trainperf.model import Site
from trainperf.rewrite import CannotRewrite, Script

PREFETCH = ".prefetch(2)"


@pytest.mark.parametrize("call", ["", "prefetch(2)", ".prefetch(", ".a(), b", ". ", "# x"])
def test_what_cannot_follow_an_expression_is_not_appended(call):
    script, sites = script_of("ds = ▸x.batch(8)◂")
    with pytest.raises(CannotRewrite):
        script.append_call(sites[0], call)
    assert script.sources() == {}


@pytest.mark.parametrize("text", ["ds = ▸x.bat◂ch(8)", "▸ds =◂ x", "▸◂ds", "# ▸ds◂"])
def test_nothing_is_appended_where_no_expression_stands(text):
    script, sites = script_of(text)
    with pytest.raises(CannotRewrite):
        script.append_call(sites[0], PREFETCH)


def test_a_site_without_extent_is_refused():
    script, _ = script_of("ds = x.batch(8)")
    with pytest.raises(CannotRewrite, match="exact place"):
        script.append_call(Site("train.py", 1), PREFETCH)


APPENDED = [
    ("ds = ▸x.batch(8)◂", "ds = x.batch(8).prefetch(2)"),
    ("ds = ▸x.map(f)◂.batch(8)", "ds = x.map(f).prefetch(2).batch(8)"),
    ("fit(▸ds◂)", "fit(ds.prefetch(2))"),
    ("fit(▸a + b◂)", "fit((a + b).prefetch(2))"),
    ("fit(▸a if b else c◂, 1)", "fit((a if b else c).prefetch(2), 1)"),
    ("ds = ▸x.batch(8)◂  # eight\n", "ds = x.batch(8).prefetch(2)  # eight\n"),
    ("ds = ▸x.map(\n    f,\n)◂\n", "ds = x.map(\n    f,\n).prefetch(2)\n"),
    (
        "ds = (\n    ▸x.map(f)\n    .batch(8)◂\n)\n",
        "ds = (\n    x.map(f)\n    .batch(8)\n    .prefetch(2)\n)\n",
    ),
    (
        "ds = (▸x\n      .map(f)\n      .batch(8)◂)\n",
        "ds = (x\n      .map(f)\n      .batch(8)\n      .prefetch(2))\n",
    ),
    (
        "ds = (\n    ▸x\n    .map(\n        f,\n    )◂  # load\n    .batch(8)  # eight\n)\n",
        (
            "ds = (\n    x\n    .map(\n        f,\n    )  # load\n    .prefetch(2)\n"
            "    .batch(8)  # eight\n)\n"
        ),
    ),
    (
        "ds = (\n    ▸x\n    .batch(8)◂  # eight\n)\n",
        "ds = (\n    x\n    .batch(8)  # eight\n    .prefetch(2)\n)\n",
    ),
    (
        "ds = ▸x \\\n    .map(f) \\\n    .batch(8)◂\n",
        "ds = x \\\n    .map(f) \\\n    .batch(8) \\\n    .prefetch(2)\n",
    ),
    (
        "ds = (\r\n    ▸x\r\n    .batch(8)◂\r\n)\r\n",
        "ds = (\r\n    x\r\n    .batch(8)\r\n    .prefetch(2)\r\n)\r\n",
    ),
    ("y = '日本'; ds = ▸x['é'].batch(8)◂", "y = '日本'; ds = x['é'].batch(8).prefetch(2)"),
]


@pytest.mark.parametrize(("text", "after"), APPENDED)
def test_a_call_is_appended_in_the_layout_of_the_chain(text, after):
    script, sites = script_of(text)
    script.append_call(sites[0], PREFETCH)
    script.append_call(sites[0], PREFETCH)
    assert result(script) == after


def test_appended_calls_come_in_the_order_asked():
    for text, after in [
        ("▸x.batch(8)◂", "x.batch(8).cache().prefetch(2)"),
        (
            "(\n    ▸x\n    .batch(8)◂  # eight\n)",
            "(\n    x\n    .batch(8)  # eight\n    .cache()\n    .prefetch(2)\n)",
        ),
    ]:
        script, sites = script_of(text)
        script.append_call(sites[0], ".cache()")
        script.append_call(sites[0], PREFETCH)
        script.append_call(sites[0], ".cache()")
        assert result(script) == after


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


@pytest.mark.parametrize("template", ["f(x)", "f({}, {})", "f({}", "f({}), g", "{}, {}", ""])
def test_what_is_no_template_is_refused(template):
    script, sites = script_of("y = ▸x.a()◂")
    with pytest.raises(CannotRewrite):
        script.wrap_call(sites[0], template)


BRACKETS = [
    ("def f():\n    return (▸a @ b◂)\n", "def f():\n    return new\n"),
    ("def f():\n    return(▸a @ b◂)\n", "def f():\n    return new\n"),
    ("x = (▸a @ b◂)if c else 1\n", "x = new if c else 1\n"),
    ("def f():\n    return▸[a]◂\n", "def f():\n    return new\n"),
    ("x = (▸a @ b◂).t()\n", "x = new.t()\n"),
    ("x = f(▸a @ b◂)\n", "x = f(new)\n"),
    ("x = f()(▸a @ b◂)\n", "x = f()(new)\n"),
    ("x = f((▸a @ b◂))\n", "x = f(new)\n"),
]


@pytest.mark.parametrize(("text", "after"), BRACKETS)
def test_brackets_go_with_what_they_held_and_no_words_run_together(text, after):
    script, sites = script_of(text)
    script.replace_call(sites[0], "new", brackets=True)
    assert result(script) == after


def test_what_is_put_around_an_expression_does_not_run_into_a_word():
    script, sites = script_of("for x in▸[a, b]◂:\n    pass\n")
    script.wrap_call(sites[0], "f({})")
    assert result(script) == "for x in f([a, b]):\n    pass\n"


def test_wrapping_nests_in_the_order_asked():
    script, sites = script_of("y = ▸x.a()◂ + 1")
    script.wrap_call(sites[0], "f({}, 1)")
    script.append_call(sites[0], ".b()")
    script.wrap_call(sites[0], "g({})")
    script.append_call(sites[0], ".c()")
    assert result(script) == "y = g(f(x.a(), 1).b()).c() + 1"


def test_wrapping_inner_and_outer_expressions_nests_in_either_order():
    for order in permutations(range(3)):
        script, sites = script_of("y = ▸▸▸x.a()◂.b()◂.c()◂")
        for index in order:
            script.wrap_call(sites[index], f"f{index}({{}})")
        assert result(script) == "y = f0(f1(f2(x.a()).b()).c())"


def test_inner_expressions_that_end_together_keep_their_own_edits():
    for order in permutations(range(2)):
        script, sites = script_of("y = ▸a + ▸b()◂◂")
        for index in order:
            script.append_call(sites[index], f".c{index}()")
        assert result(script) == "y = (a + b().c1()).c0()"


NOT_SWAPPED = [
    "▸x.batch(8)◂",
    "▸batch(8)◂",
    "▸batch(x).shuffle(9)◂",
    "▸x.a(1).b.c(2)◂",
    "▸f(x.a())◂",
]


@pytest.mark.parametrize("text", NOT_SWAPPED)
def test_what_is_no_chain_of_two_calls_is_not_swapped(text):
    script, sites = script_of(text)
    with pytest.raises(CannotRewrite):
        script.swap_last_two_calls(sites[0])


SWAPPED = [
    ("▸x.batch(8).shuffle(100)◂", "x.shuffle(100).batch(8)"),
    ("▸x.batch(8).shuffle(100)◂.prefetch(2)", "x.shuffle(100).batch(8).prefetch(2)"),
    ("▸(x.batch( 8 )).shuffle(100, seed=1)◂", "(x.shuffle(100, seed=1)).batch( 8 )"),
    (
        "(\n    ▸x\n    .batch(\n        8,\n    )  # eight\n    .shuffle(100)◂\n)",
        "(\n    x\n    .shuffle(100)\n    .batch(\n        8,\n    )  # eight\n)",
    ),
    (
        "(\n    ▸x\n    .batch(8)  # eight\n    .shuffle(100)◂  # mix\n)",
        "(\n    x\n    .shuffle(100)  # mix\n    .batch(8)  # eight\n)",
    ),
    (
        "(▸x\n    .batch(8)  # eight\n    .shuffle(100)◂)  # both\n",
        "(x\n    .shuffle(100)  # eight\n    .batch(8))  # both\n",
    ),
]


@pytest.mark.parametrize(("text", "after"), SWAPPED)
def test_the_last_two_calls_are_swapped(text, after):
    script, sites = script_of(text)
    script.swap_last_two_calls(sites[0])
    script.swap_last_two_calls(sites[0])
    assert result(script) == after


def test_edits_compose_with_a_swap_in_any_order():
    edits = [
        lambda script, sites: script.swap_last_two_calls(sites[0]),
        lambda script, sites: script.set_keyword(sites[1], "drop_remainder", "True"),
        lambda script, sites: script.append_call(sites[0], PREFETCH),
        lambda script, sites: script.replace_argument(sites[0], 0, "n"),
        lambda script, sites: script.set_keyword(sites[2], "num_parallel_calls", "4"),
    ]
    for order in permutations(edits):
        script, sites = script_of("ds = ▸▸▸x.map(f)◂.batch(8)◂.shuffle(100)◂")
        for edit in order:
            edit(script, sites)
        after = "ds = x.map(f, num_parallel_calls=4).shuffle(n).batch(8, drop_remainder=True)"
        assert result(script) == after + PREFETCH


def test_edits_of_one_call_and_the_calls_around_it_compose_in_any_order():
    edits = [
        lambda script, sites: script.set_keyword(sites[0], "epochs", "3"),
        lambda script, sites: script.append_call(sites[1], PREFETCH),
        lambda script, sites: script.set_keyword(sites[1], "deterministic", "True"),
        lambda script, sites: script.wrap_call(sites[0], "timed({})"),
    ]
    for order in permutations(edits):
        script, sites = script_of("▸model.fit(▸ds.map(f)◂)◂")
        for edit in order:
            edit(script, sites)
        expected = "timed(model.fit(ds.map(f, deterministic=True).prefetch(2), epochs=3))"
        assert result(script) == expected


@pytest.mark.parametrize("append_first", [True, False])
def test_what_is_removed_cannot_be_edited(append_first):
    script, (fit, inner) = script_of("▸model.fit(x, callbacks=▸f(1)◂)◂")
    steps = [
        lambda: script.append_call(inner, ".g()"),
        lambda: script.remove_keyword(fit, "callbacks"),
    ]
    first, second = steps if append_first else reversed(steps)
    first()
    kept = script.sources()
    with pytest.raises(CannotRewrite, match="same code"):
        second()
    assert script.sources() == kept


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


DROPPED = [
    (
        "ds = (\n    ▸x\n    .a()  # one\n    .b()◂\n    .c()\n)\n",
        "ds = (\n    x\n    .a()  # one\n    .c()\n)\n",
    ),
    ("ds = (▸x.a()  # one. two\n    .b()◂)\n", "ds = (x.a()  # one. two\n    )\n"),
    ("ds = (\r\n    ▸x\r\n    # b\r\n    .b()◂\r\n)\r\n", "ds = (\r\n    x\r\n    # b\r\n)\r\n"),
    ("ds = ▸x.b(  # nothing\n)◂.c()\n", "ds = x.c()\n"),
    ("ds = ▸x.b('#')◂\n", "ds = x\n"),
]


@pytest.mark.parametrize(("text", "after"), DROPPED)
def test_a_call_goes_and_the_comments_ahead_of_it_stay(text, after):
    script, (site,) = script_of(text)
    script.drop_call(site)
    assert result(script) == after


def test_a_call_behind_a_bracket_stays():
    script, (site,) = script_of("ds = ▸(x.a()\n).b()◂\n")
    with pytest.raises(CannotRewrite):
        script.drop_call(site)
