"""Edits of one argument, of a decorator, and of the first lines of a function."""

import pytest

from rewriting import result, script_of
from trainperf.model import Site
from trainperf.rewrite import CannotRewrite


def at(line: int) -> Site:
    return Site("train.py", line)


NOT_WRAPPED = [
    ("▸f(*batch)◂\n", 0),
    ("▸f(*batch, n)◂\n", 1),
    ("▸f(x)◂\n", 1),
    ("▸f(x, **more)◂\n", "n"),
    ("▸f(n)◂\n", "n"),
]


@pytest.mark.parametrize(("text", "argument"), NOT_WRAPPED)
def test_an_argument_that_is_not_written_out_is_not_wrapped(text, argument):
    script, sites = script_of(text)
    with pytest.raises(CannotRewrite):
        script.wrap_argument(sites[0], argument, "t({}, 1)")
    assert script.sources() == {}


WRAPPED = [
    ("y = ▸f(x, n)◂\n", 1, "y = f(x, t(n, 1))\n"),
    ("▸f(x, n=a if b else c)◂\n", "n", "f(x, n=t(a if b else c, 1))\n"),
    ("▸f(\n    x,\n    n + 1,  # why\n)◂\n", 1, "f(\n    x,\n    t(n + 1, 1),  # why\n)\n"),
    ("▸f(x, (n + 1))◂\n", 1, "f(x, (t(n + 1, 1)))\n"),
    ("▸f(x, n := 3)◂\n", 1, "f(x, t(n := 3, 1))\n"),
    ("▸f(n, *rest)◂\n", 0, "f(t(n, 1), *rest)\n"),
    ("▸self.model.f(x)(n)◂\n", 0, "self.model.f(x)(t(n, 1))\n"),
]


@pytest.mark.parametrize(("text", "argument", "after"), WRAPPED)
def test_one_argument_is_wrapped_and_the_rest_stays(text, argument, after):
    script, sites = script_of(text)
    script.wrap_argument(sites[0], argument, "t({}, 1)")
    script.wrap_argument(sites[0], argument, "t({}, 1)")
    assert result(script) == after


NOT_SET = [
    "@other\ndef f(x):\n    pass\n",
    "def f(x):\n    pass\n",
    "@tf.function(reduce=False)\ndef f(x):\n    pass\n",
    "@tf.function(**settings)\ndef f(x):\n    pass\n",
    "@tf.function\n@tf.function\ndef f(x):\n    pass\n",
    "@own(tf.function)\ndef f(x):\n    pass\n",
]


@pytest.mark.parametrize("text", NOT_SET)
def test_a_decorator_that_is_not_there_or_says_otherwise_gets_no_keyword(text):
    script, _ = script_of(text)
    with pytest.raises(CannotRewrite):
        script.set_decorator_keyword(at(1), "tf.function", "reduce", "True")
    assert script.sources() == {}


SET = [
    ("@tf.function\ndef f(x):\n    pass\n", "@tf.function(reduce=True)\ndef f(x):\n    pass\n"),
    ("@tf.function()\ndef f(x): pass\n", "@tf.function(reduce=True)\ndef f(x): pass\n"),
    (
        "@a\n@tf.function(\n    jit=False,  # no\n)\n@b\ndef f(x): pass\n",
        "@a\n@tf.function(\n    jit=False,  # no\n    reduce=True,\n)\n@b\ndef f(x): pass\n",
    ),
    ("@tf.function  # fast\ndef f(): pass\n", "@tf.function(reduce=True)  # fast\ndef f(): pass\n"),
]


@pytest.mark.parametrize(("text", "after"), SET)
def test_a_decorator_gets_a_keyword(text, after):
    script, _ = script_of(text)
    script.set_decorator_keyword(at(1), "tf.function", "reduce", "True")
    assert result(script) == after


NOT_BEGUN = [
    ("def f(): pass\n", 0),
    ("def f():\n    '''Only told.'''\n", 0),
    ("def f():\n    a()\n", 1),
    ("def f():\n    a(); b()\n", 1),
]


@pytest.mark.parametrize(("text", "after"), NOT_BEGUN)
def test_nothing_is_put_into_a_body_where_no_line_follows(text, after):
    script, _ = script_of(text)
    with pytest.raises(CannotRewrite):
        script.insert_first(at(1), "if n:\n    return", after)
    assert script.sources() == {}


GUARD = "    if n:\n        return\n"
BEGUN = [
    ("def f(n):\n    a()\n", 0, f"def f(n):\n{GUARD}    a()\n"),
    (
        "def f(n):\n    '''Told.'''\n\n    a()\n",
        0,
        f"def f(n):\n    '''Told.'''\n\n{GUARD}    a()\n",
    ),
    (
        "def f(n):\n    # why\n    # more\n    a()\n",
        0,
        f"def f(n):\n{GUARD}    # why\n    # more\n    a()\n",
    ),
    (
        "def f(n):\n    '''Told\n    # so'''\n    a()\n",
        0,
        f"def f(n):\n    '''Told\n    # so'''\n{GUARD}    a()\n",
    ),
    (
        "def f(n):\n    a()\n    # why\n    b()\n",
        1,
        f"def f(n):\n    a()\n{GUARD}    # why\n    b()\n",
    ),
    (
        "def f(\n    n,  # it\n):\n    @a\n    def g(): pass\n",
        0,
        f"def f(\n    n,  # it\n):\n{GUARD}    @a\n    def g(): pass\n",
    ),
    ("def f(n):\r\n\ta()\r\n", 0, "def f(n):\r\n\tif n:\r\n\t    return\r\n\ta()\r\n"),
]


@pytest.mark.parametrize(("text", "kept", "after"), BEGUN)
def test_a_body_begins_with_what_is_put_there(text, kept, after):
    script, _ = script_of(text)
    script.insert_first(at(1), "if n:\n    return", kept)
    script.insert_first(at(1), "if n:\n    return", kept)
    assert result(script) == after


def test_the_methods_of_a_class_are_found_from_one_of_them():
    text = "class A:\n    def f(self): pass\n    def g(self): pass\n\ndef h(): pass\n"
    script, _ = script_of(text)
    assert script.definition(at(2)).name == "f"
    assert list(script.methods(at(2))) == ["f", "g"]
    assert script.methods(at(5)) == {}
