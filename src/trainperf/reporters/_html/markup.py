"""Text of the report as HTML: everything escaped, `code` set off, styles as classes."""

from __future__ import annotations

import itertools
import re

from markupsafe import Markup, escape
from rich.text import Text

from trainperf.reporters._plain import one_line, plain

LONGEST_CELL = 240
"""Characters of a name or a cell at most: more says nothing to a reader."""

LONGEST_PROSE = 4000
"""Characters of a paragraph at most."""

_CODE_SPAN = re.compile(r"`([^`\n]+)`")

_UNIT = re.compile(r"(?<=\d) (?=(?:%|[mµu]?s|min|h|bytes|[KMGT]iB)(?!\w))")

_CLASSES = {
    "green": "good",
    "yellow": "warn",
    "red": "bad",
    "bold": "strong",
    "dim": "dim",
}
"""The colours of the terminal's report as classes of the page."""


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
    """Return a value as a template may print it: a text without control characters."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return plain(value)


def prose(text: str, most: int = LONGEST_PROSE) -> Markup:
    """Return one paragraph as HTML, its `code` set off, numbers held to their units."""
    held = _UNIT.sub("\u00a0", clipped(one_line(text), most))
    pieces, end = [], 0
    for found in _CODE_SPAN.finditer(held):
        pieces += [escape(held[end : found.start()]), Markup("<code>{}</code>").format(found[1])]
        end = found.end()
    return Markup("").join([*pieces, escape(held[end:])])


def paragraphs(text: str) -> list[Markup]:
    """Return text as paragraphs, set apart in it by blank lines."""
    return [prose(one) for one in re.split(r"\n\s*\n", plain(text).strip()) if one.strip()]


def styled(text: Text | str, most: int = LONGEST_PROSE) -> Markup:
    """Return what a `Sheet` holds as HTML, the terminal's styles as classes."""
    if isinstance(text, str):
        return prose(text, most)
    if len(text.plain) > most:
        return prose(text.plain, most)
    edges = sorted({0, len(text.plain), *(edge for span in text.spans for edge in span[:2])})
    pieces = []
    for start, end in itertools.pairwise(edges):
        words = {
            word
            for span in text.spans
            if span.start <= start and end <= span.end
            for word in str(span.style).split()
        }
        pieces.append(_piece(text.plain[start:end], words))
    return Markup("").join(pieces)


def _piece(text: str, words: set[str]) -> Markup:
    inner: Markup
    if "cyan" in words:
        inner = Markup("<code>{}</code>").format(text.strip("`"))
    else:
        inner = escape(_UNIT.sub("\u00a0", text))
    classes = " ".join(_CLASSES[word] for word in sorted(words) if word in _CLASSES)
    return Markup('<span class="{}">{}</span>').format(classes, inner) if classes else inner
