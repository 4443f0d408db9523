"""Text that came from the user's program, made safe to print."""

from __future__ import annotations

import re

_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours, cursor movement
    r"|\x9b[0-?]*[ -/]*[@-~]"
    r"|\x1b[\]PX^_].*?(?:\x07|\x1b\\|\x9c|(?=\n)|\Z)"  # window titles, links, device control
    r"|\x1b[ -/]*[0-~]",
    re.DOTALL,
)

# Control characters, and the marks that turn the direction of writing around: with
# those a name can make a line read as something else than it is.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]")

_COMMANDS = re.compile(r"(^\s*:(?=:)|#(?=#\[))", re.MULTILINE)

_ASCII = str.maketrans(
    {
        "±": "+/-",
        "×": "x",
        "µ": "u",
        "μ": "u",
        "·": "-",
        "–": "-",
        "—": "-",
        "…": "...",
        "≥": ">=",
        "≤": "<=",
        "≈": "~",
        "→": "->",
        "‘": "'",
        "’": "'",
        "“": '"',
        "”": '"',
        "°": " deg ",
        "█": "#",
        "▒": "=",
        "░": ".",
        "▓": "%",
        "▞": "/",
        "•": "-",
        "\u00a0": " ",
    }
)


def plain(text: str) -> str:
    """Return `text` without terminal escapes and control characters.

    Newlines and tabs stay. What a carriage return would have overwritten is gone, as
    on a terminal. Bytes of a file name that are no text become a replacement sign.
    """
    text = _ESCAPES.sub("", text.replace("\r\n", "\n"))
    lines = (_last_shown(line) for line in text.split("\n"))
    text = _CONTROLS.sub("", "\n".join(lines))
    return text.encode("utf-8", "replace").decode("utf-8")


def one_line(text: str) -> str:
    """Return `text` made safe, with every run of white space as one blank."""
    return " ".join(plain(text).split())


def no_commands(text: str) -> str:
    """Return `text` without what GitHub's runner takes for a command in a log.

    That is `::name::` where a line begins with it, blanks aside, and `##[name]` anywhere.
    """
    return _COMMANDS.sub(r"\1 ", text)


def to_ascii(text: str) -> str:
    """Return `text` for an output that knows ASCII only."""
    return text.translate(_ASCII).encode("ascii", "replace").decode("ascii")


def _last_shown(line: str) -> str:
    shown = [part for part in line.split("\r") if part.strip("\b ")]
    return shown[-1] if shown else ""
