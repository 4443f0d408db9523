"""Text from the user's program as Markdown that says what it said, and does nothing else.

Written for GitHub's flavour, in which a name can also mention a person or become a link.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from trainperf.report.plain import one_line, plain

_ENTITIES = {sign: f"&#{ord(sign)};" for sign in "\\`*_[]|~$"} | {
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
}
# An underscore inside a word is no markup, and names are full of them.
_SPECIAL = re.compile(r"[\\`*\[\]|~$&<>]|(?<![^\W_])_|_(?![^\W_])")

# GitHub looks for these in the finished text, where an entity is the sign again.
_BREAK = "\u200b"
_LINKING = re.compile(r"@|#(?=\d)|(?<=:)(?=//)|(?<=www)(?=\.)|(?<=GH-)(?=\d)", re.IGNORECASE)

_CODE_SPAN = re.compile(r"`([^`]+)`")
_LEADING = re.compile(r"^(?:[-+#=:]|\d+[.)])")


def inline(text: str) -> str:
    """Return `text` in one line; what stands between backticks in it becomes code.

    It begins no heading, list or quotation where it stands first on its line.
    """
    return _LEADING.sub(_as_entities, within(text))


def within(text: str) -> str:
    """Return `text` as `inline` does, for where something stands before it on its line."""
    parts = _CODE_SPAN.split(one_line(text))
    return "".join(code(part) if i % 2 else escaped(part) for i, part in enumerate(parts))


def escaped(text: str) -> str:
    """Return `text` in one line, nothing in it being markup, a mention or a link."""
    apart = _LINKING.sub(lambda found: found[0] + _BREAK, _one_line(text))
    return _SPECIAL.sub(lambda found: _ENTITIES[found[0]], apart)


def code(text: str) -> str:
    """Return `text` in one line as code, safe in a table as well."""
    text = one_line(text)
    if not text:
        return ""
    if "`" in text or "|" in text or "\\" in text:
        return f"<code>{escaped(text)}</code>"
    return f"`{text}`"


def fenced(source: str, language: str) -> str:
    """Return source between fences that nothing in it can close."""
    source = plain(source).strip("\n")
    longest = max((len(run) for run in re.findall(r"`+", source)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{source}\n{fence}"


def table(header: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[int] = ()) -> str:
    """Return a table of cells that are Markdown already; the `right` columns are set so."""
    rule = ["---:" if i in right else "---" for i in range(len(header))]
    lines = (header, rule, *rows)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def folded(summary: str, body: str) -> str:
    """Return `body` behind a line to open; both are Markdown already, `summary` in one line."""
    return f"<details>\n<summary>{summary}</summary>\n\n{body}\n\n</details>"


def _as_entities(found: re.Match[str]) -> str:
    start = found[0]
    return start[:-1] + f"&#{ord(start[-1])};"


def _one_line(text: str) -> str:
    """Return `text` made safe in one line, with a blank at its ends where it has some."""
    line = one_line(text)
    before = " " if text[:1].isspace() else ""
    after = " " if text[-1:].isspace() else ""
    return f"{before}{line}{after}" if line else before
