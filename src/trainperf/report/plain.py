"""Text that came from the user's program, made safe to print."""

from __future__ import annotations

import os.path
import re
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from trainperf.recording.cells import spot

if TYPE_CHECKING:  # this is read in before the script starts, what judges it is not
    from trainperf.model import Site

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

_ASCII = str.maketrans("×µμ·–—≈‘’“”█▒░▓▞▚•\u00a0", "xuu---~''\"\"#=.%/?- ") | str.maketrans(
    {"±": "+/-", "…": "...", "≥": ">=", "≤": "<=", "→": "->", "°": " deg "}
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


def dedented(source: str) -> str:
    """Return code to paste, made safe, without what it is indented by."""
    return textwrap.dedent(plain(source).expandtabs(4)).strip("\n")


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
    return shown[-1] if shown else line.rpartition("\r")[2]


def place(site: Site | None, cwd: str) -> str:
    """Return "file:line", the file relative to `cwd` where it stands beneath it; "" for None."""
    return "" if site is None else spot(inside(site.file, cwd) or site.file, site.line)


def places(sites: Sequence[Site], cwd: str, most: int = 3) -> str:
    """Return the first places, each once, and how many more there are."""
    told = dict.fromkeys(
        place(site, cwd) + (f" in {site.function}" if site.function not in ("", "<module>") else "")
        for site in sites
    )
    more = f" and {len(told) - most} more" if len(told) > most else ""
    return ", ".join([*told][:most]) + more


def inside(path: str, root: str) -> str | None:
    """Return `path` relative to `root`, None where it lies outside."""
    if not os.path.isabs(path):
        path = os.path.join(root, path)
    path, root = os.path.normpath(path), os.path.normpath(root)
    prefix = root if root.endswith("/") else f"{root}/"
    return path[len(prefix) :] if path.startswith(prefix) else None
