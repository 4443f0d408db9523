"""Statements moved into a function ahead of the loop they stand in."""

from __future__ import annotations

import dataclasses

import pytest

from rewriting import result, script_of
from trainperf.errors import CannotRewrite

HEAD = "@compiled\ndef step(x):"


def moved(text: str) -> str | None:
    script, (first, last) = script_of(text)
    starts = [dataclasses.replace(site, end_line=0) for site in (first, last)]
    script.move_into_function(*starts, HEAD, "return y", "y = step(x)")
    return result(script)


@pytest.mark.parametrize(
    "text",
    [
        # not one block
        "for x in xs:\n    ▸y = f(x)◂\n▸z = 1◂\n",
        # in the other order
        "script = 1\nfor x in xs:\n    if x: pass\n    a = 1; ▸b = 2◂\n    ▸c = 3◂\n",
        # a line that holds more
        "for x in xs:\n    ▸y = f(x)◂\n    ▸z = 1◂; a = 2\n",
    ],
)
def test_it_refuses_what_it_cannot_move_whole(text: str) -> None:
    with pytest.raises(CannotRewrite):
        moved(text)


def test_the_function_stands_ahead_of_all_loops_and_comments_go_along() -> None:
    before = (
        "n = 3\n# epochs\nfor epoch in range(n):\n    for x in xs:\n        # the step\n"
        "        ▸y = f(x)◂  # forward\n\n        ▸g(y)◂\n        print(y)\n"
    )

    assert moved(before) == (
        "n = 3\n\n\n@compiled\ndef step(x):\n    # the step\n    y = f(x)  # forward\n\n    g(y)\n"
        "    return y\n\n\n# epochs\nfor epoch in range(n):\n    for x in xs:\n"
        "        y = step(x)\n        print(y)\n"
    )


def test_the_lines_of_a_string_stay_as_they_are() -> None:
    before = 'for i in a:\n    for x in xs:\n        ▸y = f("""a\n        b""")◂\n        ▸z = 1◂\n'

    assert moved(before) == (
        '@compiled\ndef step(x):\n    y = f("""a\n        b""")\n    z = 1\n    return y\n\n\n'
        "for i in a:\n    for x in xs:\n        y = step(x)\n"
    )


def test_tabs_and_windows_line_endings_stay() -> None:
    before = "def main():\r\n\tfor x in xs:\r\n\t\t▸y = f(x)◂\r\n\t\t▸g(y)◂\r\n"

    assert moved(before) == (
        "@compiled\r\ndef step(x):\r\n\ty = f(x)\r\n\tg(y)\r\n\treturn y\r\n\r\n\r\n"
        "def main():\r\n\tfor x in xs:\r\n\t\ty = step(x)\r\n"
    )


def test_another_edit_of_what_is_moved_is_refused() -> None:
    text = "for x in xs:\n    ▸y = ▸f(x)◂◂\n    ▸g(y)◂\n"
    script, (first, call, last) = script_of(text)
    script.append_call(call, ".h()")
    starts = [dataclasses.replace(site, end_line=0) for site in (first, last)]

    with pytest.raises(CannotRewrite):
        script.move_into_function(*starts, HEAD, "return y", "y = step(x)")


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
def test_a_name_is_chosen_that_the_file_does_not_use(text: str, name: str) -> None:
    script, _ = script_of(text)
    assert script.free_name("train.py", "item", "each_item") == name
    beside = script.free_name("train.py", "item", "each_item", beside=[name])
    assert beside not in {name, *script.names("train.py")}
