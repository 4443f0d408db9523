"""Text of the report as HTML: everything escaped, `code` set off, styles as classes."""

from __future__ import annotations

import re

from markupsafe import Markup, escape

from trainperf.report import document
from trainperf.report.document import Span, Words
from trainperf.report.plain import one_line, plain

LONGEST_CELL = 240
"""Characters of a name or a cell at most: more says nothing to a reader."""

LONGEST_TEXT = 600
"""Characters of what is not prose at most."""

LONGEST_PROSE = 4000
"""Characters of a paragraph at most."""

_CODE_SPAN = re.compile(r"`([^`\n]+)`")

_UNIT = re.compile(r"(?<=\d) (?=(?:%|[mµu]?s|min|h|bytes|[KMGT]iB)(?!\w))")

_CLASSES = {
    document.GOOD: "strong good",
    document.SHORT: "strong warn",
    document.ALARM: "strong bad",
    document.WARN: "warn",
    document.BAD: "bad",
    document.STRONG: "strong",
    document.QUIET: "dim",
}
"""The tones of a report as classes of the page."""


def clipped(text: str, most: int = LONGEST_CELL) -> str:
    """Return the beginning of a text that is longer than `most` characters, with "…".

    Of a path, the end is what stays.
    """
    if len(text) <= most:
        return text
    if "/" in text and " " not in text:
        return f"…{text[1 - most :]}"
    return f"{text[: most - 1]}…"


def shown(value: object) -> object:
    """Return a value as a template may print it: text without control characters, not too long."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return clipped(plain(value), LONGEST_TEXT)


def prose(text: str, most: int = LONGEST_PROSE) -> Markup:
    """Return one paragraph as HTML, its `code` set off, numbers held to their units."""
    held = _UNIT.sub("\u00a0", clipped(one_line(text), most))
    pieces, end = [], 0
    for found in _CODE_SPAN.finditer(held):
        pieces += [escape(held[end : found.start()]), Markup("<code>{}</code>").format(found[1])]
        end = found.end()
    return Markup("").join([*pieces, escape(held[end:])])


def styled(words: Words, most: int = LONGEST_PROSE) -> Markup:
    """Return words as HTML, their tones as classes."""
    text = "".join(plain(span.text) if span.exact else one_line(span.text) for span in words)
    if len(text) > most:
        return prose(text, most)
    return Markup("").join(_piece(span) for span in words)


def _piece(span: Span) -> Markup:
    inner = _exact(span.text) if span.exact else prose(span.text)
    classes = _CLASSES.get(span.tone, "")
    return Markup('<span class="{}">{}</span>').format(classes, inner) if classes else inner


def _exact(text: str) -> Markup:
    return escape(_UNIT.sub("\u00a0", plain(text) or " " * len(text)))
