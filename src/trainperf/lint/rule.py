"""The interface of a rule, and repairs that need no thought."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from trainperf.source.module import Module

MEASURE = "`trainperf diagnose` measures it."


@dataclass(frozen=True)
class Repair:
    """Text in place of a region of one line; line and columns count from 1, in characters.

    The end is exclusive.
    """

    line: int
    column: int
    end_column: int
    text: str


@dataclass(frozen=True)
class Remark:
    """One place of a file and what it suggests. Lines and columns count from 1.

    Columns count characters. `last_line` is the end of the place: an inline comment on
    any line between turns the remark off. `repair` is what may be put in its place.
    """

    id: str
    line: int
    column: int
    last_line: int
    text: str
    repair: Repair | None = None


class Rule:
    """A check of source alone for one fix, whose id is the rule's own name: `TfFunction`.

    The docstring is one sentence: what is looked for.
    """

    words: ClassVar[tuple[str, ...]]
    """One of these stands in every source that the rule may remark on: others are not parsed."""

    text: ClassVar[str]
    """What `check` says of a place, with `{}` for what it saw there, where that is one thing."""

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        """Yield the places, each with what was seen and why it may be slow.

        The text is a sentence without a full stop; that only a run tells is added.
        """
        raise NotImplementedError

    def replaced(self, module: Module, node: ast.AST) -> tuple[ast.AST, str] | None:
        """Return what of a place that `check` gave is to be replaced, and the source for it.

        Only where that needs no thought; None otherwise.
        """
        return None

    @property
    def id(self) -> str:
        """The id of a fix."""
        return re.sub(r"(?<!^)(?=[A-Z])", "_", type(self).__name__).lower()

    @property
    def summary(self) -> str:
        """The docstring in one line."""
        return " ".join((inspect.getdoc(type(self)) or "").split())

    def concerns(self, source: str) -> bool:
        """Tell quickly whether the rule could remark on anything in `source`."""
        return any(word in source for word in self.words)

    def remarks(self, module: Module) -> Iterator[Remark]:
        """Yield what the rule has to say of `module`."""
        for node, text in self.check(module):
            line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
            before = module.line(line).encode()[:column]
            yield Remark(
                id=self.id,
                line=line,
                column=len(before.decode(errors="replace")) + 1,
                last_line=_last_line(node, line),
                text=f"{text}. {MEASURE}",
                repair=self._repair(module, node),
            )

    def _repair(self, module: Module, node: ast.AST) -> Repair | None:
        found = self.replaced(module, node)
        if found is None:
            return None
        return _repair(*found, module.line(getattr(found[0], "lineno", 0)))


def _last_line(node: ast.AST, line: int) -> int:
    body = getattr(node, "body", None)
    if isinstance(body, list) and body:
        return max(line, int(body[0].lineno) - 1)
    return getattr(node, "end_lineno", None) or line


def literal(node: ast.expr | None, text: str) -> tuple[ast.AST, str] | None:
    """Put `text` in place of a literal; None where it is a name, or nothing."""
    return (node, text) if isinstance(node, ast.Constant) else None


def _repair(node: ast.AST, text: str, line: str) -> Repair | None:
    """Return the repair that replaces `node`, which stands in `line`; None if in several."""
    first, last = getattr(node, "lineno", 0), getattr(node, "end_lineno", 0)
    if not first or first != last:
        return None
    start, end = (_column(line, getattr(node, name)) for name in ("col_offset", "end_col_offset"))
    return Repair(first, start, end, text)


def _column(line: str, offset: int) -> int:
    """A column in characters, from 1, for one in bytes, from 0."""
    return len(line.encode()[:offset].decode(errors="replace")) + 1
