"""Statements put under a header with all their lines."""

from __future__ import annotations

from itertools import permutations

import pytest

from rewriting import result, script_of
from trainperf.model import Site
from trainperf.rewrite import CannotRewrite

REFUSED = [
    "▸f()◂; ▸g()◂; h()\n",
    "x = 1; ▸f()◂; ▸g()◂\n",
    "if x: ▸▸f()◂◂\n",
    "if x:\n    pass\nelif ▸▸f()◂◂:\n    pass\n",
    "def a():\n    ▸f()◂\n▸g()◂\n",
    "def a():\n    ▸f()◂\ndef b():\n    ▸g()◂\n",
    "class A:\n    x = ▸f()◂\ny = ▸g()◂\n",
    "if x:\n    x = [▸f()◂]; ▸g()◂; h()\n",
]


@pytest.mark.parametrize("text", REFUSED)
def test_statements_that_share_lines_or_no_block_are_not_wrapped(text):
    script, sites = script_of(text)
    with pytest.raises(CannotRewrite):
        script.wrap_statements(*sites, "with a:")
    assert script.sources() == {}


def test_the_order_asked_for_must_be_that_of_the_source():
    script, (one, other) = script_of("▸f()◂\n▸g()◂\n")
    with pytest.raises(CannotRewrite):
        script.wrap_statements(other, one, "with a:")
    with pytest.raises(CannotRewrite):
        script.wrap_statements(one, one, "with a:", until=one)


@pytest.mark.parametrize("header", ["with a", "a()", "else:", "with a: pass", "with a:\n with b:"])
def test_what_is_no_header_is_refused(header):
    script, sites = script_of("▸f()◂\n▸g()◂\n")
    with pytest.raises(CannotRewrite):
        script.wrap_statements(*sites, header)


def test_a_condition_is_a_header_as_well():
    script, sites = script_of("for i in n:\n    ▸▸f()◂◂\n")
    script.wrap_statements(*sites, "if i % 50 == 0:")
    assert result(script) == "for i in n:\n    if i % 50 == 0:\n        f()\n"


WRAPPED = [
    ("▸f()◂\n▸g()◂\nh()\n", "with a:\n    f()\n    g()\nh()\n"),
    ("▸▸f()◂◂", "with a:\n    f()"),
    (
        "for x in y:\n  # lead\n  b = ▸f()◂  # one\n\n  # two\n  c = ▸g()◂\n  # tail\n  h()\n",
        (
            "for x in y:\n  # lead\n  with a:\n    b = f()  # one\n\n    # two\n    c = g()\n"
            "  # tail\n  h()\n"
        ),
    ),
    (
        "if x:\n\tb = ▸f()◂\n\tif b:\n\t\tc = ▸g()◂\n",
        "if x:\n\twith a:\n\t\tb = f()\n\t\tif b:\n\t\t\tc = g()\n",
    ),
    (
        "if x:\r\n    ▸f()◂\r\n\r\n    ▸g()◂\r\n",
        "if x:\r\n    with a:\r\n        f()\r\n\r\n        g()\r\n",
    ),
    (
        "b = ▸f(\n    1,\n  2)◂\nc = 1 + \\\n  ▸g()◂\n",
        "with a:\n    b = f(\n        1,\n      2)\n    c = 1 + \\\n      g()\n",
    ),
    (
        'if x:\n    b = ▸f("""one\n  two\n""", 3,\n      4)◂\n    ▸g()◂\n',
        'if x:\n    with a:\n        b = f("""one\n  two\n""", 3,\n          4)\n        g()\n',
    ),
    (
        'b = ▸f(f"""one {x}\n  two {y}\n""")◂\n▸g("a\\\nb")◂\n',
        'with a:\n    b = f(f"""one {x}\n  two {y}\n""")\n    g("a\\\nb")\n',
    ),
    (
        "if x:\n    ▸f()◂\nelse:\n    ▸g()◂\n",
        "with a:\n    if x:\n        f()\n    else:\n        g()\n",
    ),
    ("if x:\n    ▸f()◂\n    ▸g()◂", "if x:\n    with a:\n        f()\n        g()"),
]


@pytest.mark.parametrize(("text", "after"), WRAPPED)
def test_all_lines_of_the_statements_go_under_the_header(text, after):
    script, sites = script_of(text)
    script.wrap_statements(*sites, "with a:")
    script.wrap_statements(*sites, "with a:")
    assert result(script) == after


def test_statements_up_to_another_are_wrapped_without_it():
    script, (forward, backward) = script_of(
        "for x in y:\n    out = ▸model(x)◂\n    loss = f(out)\n    ▸loss.backward()◂\n"
    )
    script.wrap_statements(forward, forward, "with a:", until=backward)
    assert result(script) == (
        "for x in y:\n    with a:\n        out = model(x)\n        loss = f(out)\n"
        "    loss.backward()\n"
    )


def test_edits_within_at_the_edges_and_around_go_where_they_belong():
    edits = [
        lambda script, sites: script.wrap_statements(sites[0], sites[2], "with a:"),
        lambda script, sites: script.set_keyword(sites[0], "k", "1"),
        lambda script, sites: script.insert_before(sites[0], "before()"),
        lambda script, sites: script.insert_after(sites[2], "inner()"),
        lambda script, sites: script.insert_before(sites[3], "after()"),
        lambda script, sites: script.insert_before(sites[1], "if y:\n    between()"),
    ]
    for order in permutations(edits):
        script, sites = script_of("▸f(\n    1,\n)◂\nx = ▸g()◂\nif x:\n    ▸h()◂\n▸i()◂\n")
        for edit in order:
            edit(script, sites)
        assert result(script) == (
            "before()\nwith a:\n    f(\n        1,\n        k=1,\n    )\n    if y:\n"
            "        between()\n    x = g()\n    if x:\n        h()\n"
            "        inner()\nafter()\ni()\n"
        )


def test_expressions_at_the_very_edges_stay_whole():
    edits = [
        lambda script, site: script.wrap_statements(site, site, "with a:"),
        lambda script, site: script.wrap_call(site, "g({})"),
        lambda script, site: script.insert_after(site, "h()"),
    ]
    for order in permutations(edits):
        script, (site,) = script_of("▸f()◂")
        for edit in order:
            edit(script, site)
        assert result(script) == "with a:\n    g(f())\n    h()"


def test_a_removed_statement_leaves_the_others_wrapped_and_no_empty_block():
    script, (one, other) = script_of("▸f()◂\n▸g()◂\n")
    script.wrap_statements(one, other, "with a:")
    script.remove_statement(one)
    assert result(script) == "with a:\n    g()\n"
    with pytest.raises(CannotRewrite):
        script.remove_statement(other)
    assert result(script) == "with a:\n    g()\n"


def test_wrapped_statements_can_be_wrapped_again_from_a_wider_block():
    script, (head, one, other) = script_of("for x in ▸y()◂:\n    ▸f()◂\n    ▸g()◂\n")
    script.wrap_statements(one, other, "with a:")
    script.wrap_statements(head, head, "with b:")
    assert result(script) == (
        "with b:\n    for x in y():\n        with a:\n            f()\n            g()\n"
    )
    with pytest.raises(CannotRewrite):  # the same statements under two headers
        script.wrap_statements(one, other, "with c:")


def test_decorated_functions_can_be_wrapped_and_decorated_at_once():
    script, _ = script_of("@d\ndef f():\n    return ▸g()◂\n")
    definition = Site("train.py", 2)
    script.wrap_statements(definition, definition, "with a:")
    script.decorate(Site("train.py", 1), "e")
    assert result(script) == "with a:\n    @e\n    @d\n    def f():\n        return g()\n"


def test_a_call_is_replaced_where_nothing_else_changes_it():
    script, (site,) = script_of("x = ▸a.step(1)◂ + 2\n")
    script.replace_call(site, "s.step(a)")
    assert result(script) == "x = s.step(a) + 2\n"
    with pytest.raises(CannotRewrite):
        script.replace_call(site, "s.step(a); 1")


def test_the_receiver_of_a_method_is_found():
    script, (site,) = script_of("▸(a(x) / k).backward()◂\n")
    receiver = script.receiver(site)
    assert script.expression(receiver) == "a(x) / k"
    script.wrap_call(receiver, "scaler.scale({})")
    assert result(script) == "(scaler.scale(a(x) / k)).backward()\n"
