"""Text of the user's program cannot act on the terminal."""

from __future__ import annotations

import pytest

from trainperf.report.plain import one_line, plain, to_ascii


def test_ordinary_text_stays_as_it_is() -> None:
    text = "def f(x):\n\treturn 'ü 関数 ×'\n"
    assert plain(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "\x1b[31mred\x1b[0m",
        "\x1b[38;5;196mred\x1b[m",
        "\x1b]0;title\x07red",
        "\x1b]8;;file:///etc\x1b\\red\x1b]8;;\x1b\\",
        "\x1b[2J\x1b[Hred",
        "\x1b(Bred\x1b7",
        "\x9b31mred",
        "\x1bPq#0\x1b\\red",
        "r\x07e\x08d\x7f",
        "\u202ered\u2066",
        "red\x1b",
    ],
)
def test_escapes_and_controls_are_gone(text: str) -> None:
    assert plain(text) == "red"


def test_an_open_escape_does_not_swallow_the_lines_below() -> None:
    assert plain("\x1b]0;never closed\nTypeError: x") == "\nTypeError: x"


def test_a_carriage_return_leaves_what_a_terminal_would_show() -> None:
    assert plain("1/92\r2/92\r3/92\n") == "3/92\n"
    assert plain("one\r\ntwo\r\n") == "one\ntwo\n"
    assert plain("3/92 \b\b\b\r\n") == "3/92 \n"


def test_a_file_name_that_is_no_text_can_be_printed() -> None:
    plain("caf\udce9.py").encode("utf-8")


def test_one_line_is_one_line() -> None:
    assert one_line(" a\n\n b\tc ") == "a b c"


def test_ascii_knows_the_signs_of_the_report() -> None:
    assert to_ascii("3.2× ± 1 µs · 関") == "3.2x +/- 1 us - ?"
