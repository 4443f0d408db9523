"""Statements put after others."""

from __future__ import annotations

from itertools import permutations

import pytest

from rewriting import result, script_of
from trainperf.rewrite import CannotRewrite

REFUSED = [
    "if x:\n    pass\nelif ▸f()◂:\n    pass\n",
    "def f():\n    return ▸g()◂\n",
    "def f():\n    raise ▸g()◂\n",
]


@pytest.mark.parametrize("text", REFUSED)
def test_nothing_goes_behind_a_head_or_a_statement_that_leaves(text):
    script, (site,) = script_of(text)
    with pytest.raises(CannotRewrite):
        script.insert_after(site, "done()")
    assert script.sources() == {}


PUT = [
    ("if x: ▸f()◂\n", "if x: f(); done()\n"),
    ("if x: pass\nelse: ▸f()◂\n", "if x: pass\nelse: f(); done()\n"),
    ("▸f()◂; g()\n", "f(); done(); g()\n"),
    ("f(); ▸g()◂  # both\n", "f(); g(); done()  # both\n"),
    ("lambda: ▸f()◂; g()\n", "lambda: f(); done(); g()\n"),
    ("▸f()◂\ng()\n", "f()\ndone()\ng()\n"),
    ("x = ▸f()◂  # one\n\ng()\n", "x = f()  # one\ndone()\n\ng()\n"),
    ("x = ▸f(\n    1,\n)◂\ng()\n", "x = f(\n    1,\n)\ndone()\ng()\n"),
    ("if x:\n\t▸f()◂\n# end\n", "if x:\n\tf()\n\tdone()\n# end\n"),
    ("for x in ▸f()◂:\n    g()\nh()\n", "for x in f():\n    g()\ndone()\nh()\n"),
    ("for x in ▸f()◂: g()\nh()\n", "for x in f(): g()\ndone()\nh()\n"),
    ("▸f()◂\r\ng()\r\n", "f()\r\ndone()\r\ng()\r\n"),
    ("if x:\n    ▸f()◂", "if x:\n    f()\n    done()"),
    ("if x:\n    ▸f()◂  # last", "if x:\n    f()  # last\n    done()"),
    ("x = '''a\n  b''' + ▸f()◂\ng()\n", "x = '''a\n  b''' + f()\ndone()\ng()\n"),
]


@pytest.mark.parametrize(("text", "after"), PUT)
def test_a_statement_is_put_on_the_line_after_another_as_far_indented(text, after):
    script, (site,) = script_of(text)
    script.insert_after(site, "done()")
    script.insert_after(site, "done()")
    assert result(script) == after


def test_several_lines_keep_their_shape():
    script, (site,) = script_of("if x:\n    ▸f()◂\n")
    script.insert_after(site, "if y:\n    done()\n\nmore()")
    assert result(script) == "if x:\n    f()\n    if y:\n        done()\n\n    more()\n"


def test_what_goes_behind_an_inner_statement_comes_before_what_goes_behind_the_outer_one():
    edits = [
        lambda script, sites: script.insert_after(sites[0], "outer()"),
        lambda script, sites: script.insert_after(sites[1], "inner()"),
        lambda script, sites: script.insert_before(sites[2], "next()"),
        lambda script, sites: script.append_call(sites[1], ".g()"),
    ]
    for order in permutations(edits):
        script, sites = script_of("for x in ▸y()◂:\n    ▸f()◂\n▸h()◂\n")
        for edit in order:
            edit(script, sites)
        assert result(script) == ("for x in y():\n    f().g()\n    inner()\nouter()\nnext()\nh()\n")
    script, sites = script_of("for x in ▸y()◂:\n    ▸f()◂")
    for edit in edits[1::-1]:
        edit(script, sites)
    assert result(script) == "for x in y():\n    f()\n    inner()\nouter()"
