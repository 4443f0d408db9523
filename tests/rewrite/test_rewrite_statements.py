from itertools import permutations

import pytest

from rewriting import result, script_of
from trainperf.model import Site
from trainperf.rewrite import CannotRewrite


def at(line: int) -> Site:
    return Site("train.py", line)


NOT_SWAPPED = [
    "ds = ▸ds.batch(8)◂\nx = 1\nds = ▸ds.shuffle(9)◂\n",
    "ds = ▸ds.batch(8)◂\nother = ▸ds.shuffle(9)◂\n",
    "ds = ▸other.batch(8)◂\nds = ▸ds.shuffle(9)◂\n",
    "ds = ▸batch(ds)◂\nds = ▸ds.shuffle(9)◂\n",
    "ds = a = ▸ds.batch(8)◂\nds = ▸ds.shuffle(9)◂\n",
    "ds: D = ▸ds.batch(8)◂\nds = ▸ds.shuffle(9)◂\n",
    "ds = ▸ds.batch(8)◂\nif a:\n    ds = ▸ds.shuffle(9)◂\n",
    "▸ds.batch(8)◂\n▸ds.shuffle(9)◂\n",
    "ds = ▸▸ds.batch(8)◂.shuffle(9)◂\n",
]


@pytest.mark.parametrize("text", NOT_SWAPPED)
def test_statements_that_are_not_neighbours_of_one_name_are_not_swapped(text):
    script, sites = script_of(text)
    with pytest.raises(CannotRewrite):
        script.swap_statements(*sites)
    assert script.sources() == {}


SWAPPED = [
    ("ds = ▸ds.batch(8)◂\nds = ▸ds.shuffle(9)◂\n", "ds = ds.shuffle(9)\nds = ds.batch(8)\n"),
    ("ds = ▸ds.batch(8)◂; ds = ▸ds.shuffle(9)◂\n", "ds = ds.shuffle(9); ds = ds.batch(8)\n"),
    (
        "def f(ds):\n    ds = ▸ds.batch(8)◂  # eight\n\n    ds = ▸ds.shuffle(9)◂\n    return ds\n",
        "def f(ds):\n    ds = ds.shuffle(9)\n\n    ds = ds.batch(8)  # eight\n    return ds\n",
    ),
    (
        "ds = ▸ds.map(\n    f\n).batch(8)◂\nds = ▸ds.shuffle(9)◂  # mix",
        "ds = ds.shuffle(9)  # mix\nds = ds.map(\n    f\n).batch(8)",
    ),
]


@pytest.mark.parametrize(("text", "after"), SWAPPED)
def test_neighbouring_statements_are_swapped_with_their_comments(text, after):
    script, sites = script_of(text)
    script.swap_statements(*sites)
    script.swap_statements(*reversed(sites))
    assert result(script) == after


def test_edits_inside_swapped_statements_move_with_them_and_what_is_appended_stays_last():
    edits = [
        lambda script, sites: script.swap_statements(*sites),
        lambda script, sites: script.set_keyword(sites[0], "drop_remainder", "True"),
        lambda script, sites: script.append_call(sites[1], ".prefetch(2)"),
    ]
    for order in permutations(edits):
        script, sites = script_of("ds = ▸ds.batch(8)◂\nds = ▸ds.shuffle(9)◂\n")
        for edit in order:
            edit(script, sites)
        assert result(script) == (
            "ds = ds.shuffle(9)\nds = ds.batch(8, drop_remainder=True).prefetch(2)\n"
        )


DECORATED_ALREADY = [
    ("@tf.function\ndef step(x):\n    pass\n", "tf.function", 2),
    ("@tf.function\ndef step(x):\n    pass\n", "tf.function", 1),
    ("@tf.function(jit_compile=True)\ndef step(x):\n    pass\n", "tf.function", 2),
    ("@tf.function(a=1)\ndef step(x):\n    pass\n", "tf.function( a = 1 )", 2),
    ("@other\n@tf.function\ndef step(x):\n    pass\n", "tf.function", 3),
]


@pytest.mark.parametrize(("text", "decorator", "line"), DECORATED_ALREADY)
def test_a_function_that_is_decorated_so_already_is_left_alone(text, decorator, line):
    script, _ = script_of(text)
    script.decorate(at(line), decorator)
    assert script.sources() == {}


NOT_DECORATED = [
    ("x = 1\ndef step(x):\n    pass\n", "tf.function", 1),
    ("def step(x):\n    pass\n", "tf.function", 2),
    ("step = lambda x: x\n", "tf.function", 1),
    ("class A:\n    pass\n", "tf.function", 1),
    ("def step(x):\n    pass\n", "tf.function\n@other", 1),
    ("@tf.function(a=1)\ndef step(x):\n    pass\n", "tf.function(a=2)", 1),
]


@pytest.mark.parametrize(("text", "decorator", "line"), NOT_DECORATED)
def test_what_cannot_be_decorated_is_refused(text, decorator, line):
    script, _ = script_of(text)
    with pytest.raises(CannotRewrite):
        script.decorate(at(line), decorator)


DECORATED = [
    ("def step(x):\n    pass\n", 1, "@tf.function\ndef step(x):\n    pass\n"),
    ("async def step(x):\n    pass\n", 1, "@tf.function\nasync def step(x):\n    pass\n"),
    ("x = 1\ndef step(x): pass", 2, "x = 1\n@tf.function\ndef step(x): pass"),
    ("@a\n@b(\n    1\n)\ndef f(): pass\n", 1, "@tf.function\n@a\n@b(\n    1\n)\ndef f(): pass\n"),
    ("@a\n@b(\n    1\n)\ndef f(): pass\n", 5, "@tf.function\n@a\n@b(\n    1\n)\ndef f(): pass\n"),
    (
        "class A:\n    @staticmethod\n    def f(): pass\n",
        2,
        "class A:\n    @staticmethod\n    @tf.function\n    def f(): pass\n",
    ),
    (
        "class A:\n\t@a\n\t@abc.classmethod  # c\n\t# more\n\t@b\n\tdef f(c): pass\n",
        6,
        (
            "class A:\n\t@a\n\t@abc.classmethod  # c\n\t# more\n\t@tf.function\n\t@b\n"
            "\tdef f(c): pass\n"
        ),
    ),
    (
        "class A:\r\n    @x.setter\r\n    def x(self, v):\r\n        pass\r\n",
        3,
        "class A:\r\n    @x.setter\r\n    @tf.function\r\n    def x(self, v):\r\n        pass\r\n",
    ),
    (
        "def f():\n    def g():\n        pass\n",
        2,
        "def f():\n    @tf.function\n    def g():\n        pass\n",
    ),
]


@pytest.mark.parametrize(("text", "line", "after"), DECORATED)
def test_a_function_is_decorated_outermost_but_beneath_staticmethod(text, line, after):
    script, _ = script_of(text)
    script.decorate(at(line), "tf.function")
    script.decorate(at(line), "tf.function")
    assert result(script) == after


NOT_REMOVED = [
    "for x in ▸f()◂:\n    pass\n",
    "with ▸f()◂ as x: pass\n",
    "@▸f()◂\ndef g(): pass\n",
]


@pytest.mark.parametrize("text", NOT_REMOVED)
def test_a_statement_that_holds_others_is_not_removed(text):
    script, sites = script_of(text)
    with pytest.raises(CannotRewrite):
        script.remove_statement(sites[0])
    assert script.sources() == {}


REMOVED = [
    ("x = 1; ▸f()◂\n", "x = 1; pass\n"),
    ("▸f()◂; x = 1\n", "pass; x = 1\n"),
    ("if a: ▸f()◂\n", "if a: pass\n"),
    ("a\n▸f()◂\nb\n", "a\nb\n"),
    ("a\n▸f()◂", "a\n"),
    ("a\nx = g(\n    ▸f()◂,\n)  # why\n# more\nb\n", "a\n# more\nb\n"),
    ("if a:\n    ▸f()◂  # why\nb\n", "if a:\n    pass  # why\nb\n"),
    ("if a:\n    ▸f()◂\n    b\n", "if a:\n    b\n"),
    ("▸f()◂\n", ""),
    ("try:\n    a\nexcept E:\n    ▸f()◂\n", "try:\n    a\nexcept E:\n    pass\n"),
    ("match a:\n    case 1:\n        ▸f()◂\n", "match a:\n    case 1:\n        pass\n"),
]


@pytest.mark.parametrize(("text", "after"), REMOVED)
def test_a_statement_is_removed_with_its_lines(text, after):
    script, sites = script_of(text)
    script.remove_statement(sites[0])
    script.remove_statement(sites[0])
    assert result(script) == after


def test_a_block_emptied_statement_by_statement_keeps_a_pass():
    for order in permutations(range(2)):
        script, sites = script_of("if a:\n    ▸f()◂\n    ▸g()◂\nb\n")
        for index in (*order, *order):
            script.remove_statement(sites[index])
        assert result(script) == "if a:\n    pass\nb\n"


NOT_PRECEDED = [
    "if a:\n    b\nelif ▸f()◂:\n    c\n",
    "▸f()◂ = 1\n",
]


@pytest.mark.parametrize("text", NOT_PRECEDED)
def test_nothing_is_put_before_what_does_not_begin_its_line(text):
    script, sites = script_of(text)
    with pytest.raises(CannotRewrite):
        script.insert_before(sites[0], "new()")


PRECEDED = [
    ("x = 1; ▸f()◂\n", "x = 1; new(); f()\n"),
    ("if a: ▸f()◂\n", "if a: new(); f()\n"),
    ("▸f()◂\n", "new()\nf()\n"),
    ("▸f()◂; x = 1\n", "new()\nf(); x = 1\n"),
    ("if a:\n\tx = g(\n\t\t▸f()◂)\n", "if a:\n\tnew()\n\tx = g(\n\t\tf())\n"),
    ("for x in ▸f()◂:\n    pass\n", "new()\nfor x in f():\n    pass\n"),
    ("@▸f()◂\ndef g():\n    pass\n", "new()\n@f()\ndef g():\n    pass\n"),
    ("a\r\n▸f()◂\r\n", "a\r\nnew()\r\nf()\r\n"),
]


def test_a_statement_stands_ahead_of_one_whose_first_expression_is_replaced():
    script, (site,) = script_of("▸model.fit(x)◂\n")
    script.insert_before(site, "new()")
    script.replace_call(script.receiver(site), "head")
    assert result(script) == "new()\nhead.fit(x)\n"


@pytest.mark.parametrize(("text", "after"), PRECEDED)
def test_a_statement_is_put_before_another(text, after):
    script, sites = script_of(text)
    script.insert_before(sites[0], "new()")
    script.insert_before(sites[0], "new()")
    assert result(script) == after


def test_several_lines_put_before_a_statement_are_indented_like_it():
    script, sites = script_of("def m():\n    x = ▸f()◂\n")
    script.insert_before(sites[0], "if a:\n    b()\n\nc()")
    assert result(script) == "def m():\n    if a:\n        b()\n\n    c()\n    x = f()\n"


def test_a_line_is_enough_to_name_a_statement():
    script, _ = script_of("def m():\n    a()\n    b()\n")
    script.insert_before(at(3), "new()")
    assert result(script) == "def m():\n    a()\n    new()\n    b()\n"


def test_edits_that_meet_at_one_line_keep_their_order_whatever_comes_first():
    edits = [
        lambda script: script.decorate(at(3), "tf.function"),
        lambda script: script.insert_before(at(3), "x = 1"),
        lambda script: script.insert_after_imports("train.py", "import numpy as np"),
    ]
    for order in permutations(edits):
        script, _ = script_of("import os\n\ndef f():\n    pass\n")
        for edit in order:
            edit(script)
        assert result(script) == (
            "import os\nimport numpy as np\n\nx = 1\n@tf.function\ndef f():\n    pass\n"
        )


def test_a_statement_is_replaced_with_all_that_it_holds():
    script, _ = script_of(
        "def f(rows):\n    for r in rows:\n        a(r)\n        b(r)\n    return 1\n"
    )
    script.replace_statement(at(2), "out[:] = rows\nc()")
    assert result(script) == "def f(rows):\n    out[:] = rows\n    c()\n    return 1\n"


@pytest.mark.parametrize(
    ("text", "after"),
    [("x = 1; ▸f()◂\n", "x = 1; z = 3\n"), ("if a: ▸f()◂\n", "if a: z = 3\n")],
)
def test_what_shares_its_line_is_replaced_by_what_fits_on_it(text, after):
    script, (site,) = script_of(text)
    with pytest.raises(CannotRewrite):
        script.replace_statement(site, "z = 3\nw = 4")
    with pytest.raises(CannotRewrite):
        script.replace_statement(site, "if z: w = 4")
    script.replace_statement(site, "z = 3")
    assert result(script) == after


def test_what_is_put_before_a_statement_within_a_line_stands_ahead_of_its_other_edits():
    script, (site,) = script_of("x = 1; ▸f()◂; y = 2\n")
    script.wrap_call(site, "g({})")
    script.insert_before(site, "new()")
    script.insert_after(site, "done()")
    assert result(script) == "x = 1; new(); g(f()); done(); y = 2\n"


def test_a_compound_statement_does_not_go_before_one_within_a_line():
    script, (site,) = script_of("x = 1; ▸f()◂\n")
    with pytest.raises(CannotRewrite):
        script.insert_before(site, "if x:\n    new()")
