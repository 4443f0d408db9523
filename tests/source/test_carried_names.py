"""Names that an iteration may read before it has bound them: another one left them so."""

from __future__ import annotations

import ast
import textwrap

import pytest

from trainperf.source.iterations import carried, loaded, stored

HANDED_ON = [
    "a += 1",
    "a = a + 1",
    "if x:\n    a = 1\nuse(a)",
    "for a in x:\n    pass\nuse(a)",
    "a = sum(a for a in x) + a",
    "use(x and (a := 1), a)",
    "x and (a := 1)\nuse(a)",
    "a = x or (b := 1)\nuse(b)\nb = 2",
    "match x:\n    case 1:\n        a = 2\nuse(a)",
    "match x:\n    case _:\n        a += 1",
    "for i in x:\n    break\nelse:\n    a = 1\nuse(a)\na = 2",
    "a = 1\ntry:\n    use(x)\nexcept E as a:\n    pass\nuse(a)",
    "try:\n    use(x)\n    a = 1\nexcept E:\n    pass\nuse(a)",
    "while x:\n    use(a)\n    a = 1",
]
BOUND = [
    "a = x\na += 1",
    "if x:\n    a = 1\nelse:\n    a = 2\nuse(a)",
    "use([a for a in x])\na = 1",
    "use(a := x)\nuse(a)",
    "f = lambda a: a + 1\na = f(1)",
    "try:\n    a = use(x)\nexcept E:\n    continue\nuse(a)",
    "with x as a:\n    use(a)",
    "match x:\n    case [a, *b]:\n        use(a, b)",
    "for i in x:\n    if i:\n        break\n    a = i\n    use(a)",
]


@pytest.mark.parametrize("body", HANDED_ON)
def test_what_an_earlier_iteration_may_have_left_is_told(body: str) -> None:
    assert carried(_body(body))


@pytest.mark.parametrize("body", BOUND)
def test_what_each_iteration_binds_for_itself_is_not(body: str) -> None:
    assert carried(_body(body)) == ""


def test_what_is_added_to_or_deleted_is_read_as_well() -> None:
    assert loaded(_body("a += 1\nb = c\ndel d")) == {"a", "c", "d"}


def test_patterns_bind_names() -> None:
    (match,) = _body("match x:\n    case {'a': [b, *c], **d} as e:\n        pass")
    assert stored([match]) == {"b", "c", "d", "e"}


def _body(text: str) -> list[ast.stmt]:
    (loop,) = ast.parse("for _ in x:\n" + textwrap.indent(text, "    ")).body
    assert isinstance(loop, ast.For)
    return loop.body
