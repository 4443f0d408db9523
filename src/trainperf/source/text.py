"""One file of the user's: its text, and where in it a site points."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate

from trainperf.errors import CannotRewrite
from trainperf.model import Site
from trainperf.recording.cells import is_notebook
from trainperf.source.module import Module
from trainperf.source.notebooks.notebook import Notebook


@dataclass(frozen=True)
class Token:
    """A token and its extent, in characters from the start of the text."""

    type: int
    string: str
    start: int
    end: int


Span = tuple[int, int]
Function = ast.FunctionDef | ast.AsyncFunctionDef
Place = tuple[ast.stmt, list[ast.stmt]]


class Source:
    """The original text of one file with its syntax tree; never changed.

    All offsets are characters from the start of `text`, which has no byte order mark
    and keeps its line endings. Raises `CannotRewrite` where the file cannot be decoded
    or parsed. The text of a notebook is that of its cells, see `recording.cells`.
    """

    def __init__(self, name: str, data: bytes) -> None:
        self.name = name
        self.data = data
        self.mark = "\ufeff" if data.startswith(b"\xef\xbb\xbf") else ""
        self.notebook: Notebook | None = None
        try:
            if is_notebook(name):
                self.notebook = Notebook(data)
                self.encoding, self.text = "utf-8", self.notebook.text
            else:
                self.encoding = tokenize.detect_encoding(io.BytesIO(data).readline)[0]
                self.text = data.decode(self.encoding)
            if re.search(r"\r(?!\n)", self.text):
                raise CannotRewrite(f"{name} has line endings that are neither Unix nor Windows")
            self.tree = ast.parse(self.text)
        except (SyntaxError, UnicodeError, LookupError, ValueError, RecursionError) as error:
            raise CannotRewrite(f"{name} cannot be parsed: {error}") from error
        if self.encode(self.text) != data:
            raise CannotRewrite(f"{name} is in {self.encoding}, which does not come back the same")
        self.lines = self.text.split("\n")
        self.newline = "\r\n" if self.lines[0].endswith("\r") else "\n"
        self._starts = [0, *accumulate(len(line) + 1 for line in self.lines)]

    def encode(self, text: str) -> bytes:
        """Return `text` as the file's bytes would be, in its encoding, with its mark."""
        try:
            if self.notebook is not None:
                return self.notebook.with_text(text)
            return text.encode(self.encoding)
        except UnicodeEncodeError as error:
            raise CannotRewrite(f"{self.name} is in {self.encoding}: {error}") from error
        except ValueError as error:
            raise CannotRewrite(f"{self.name}: {error}") from error

    @cached_property
    def module(self) -> Module:
        """The file with its names resolved."""
        return Module(self.tree, self.text)

    # ------------------------------------------------------------------ offsets

    def offset(self, line: int, col: int) -> int:
        """Return the offset of a line (from 1) and a column in characters."""
        if not 1 <= line <= len(self.lines):
            raise CannotRewrite(f"{self.name} has no line {line}")
        return self._starts[line - 1] + col

    def _byte_offset(self, line: int, col: int) -> int:
        text = self.lines[line - 1]
        if not text.isascii():
            col = len(text.encode()[:col].decode(errors="ignore"))
        return self._starts[line - 1] + col

    def span(self, node: ast.expr | ast.stmt | ast.keyword | ast.alias) -> Span:
        """Return the extent of a node, without parentheses around it."""
        end_line, end_col = node.end_lineno or node.lineno, node.end_col_offset or 0
        return (
            self._byte_offset(node.lineno, node.col_offset),
            self._byte_offset(end_line, end_col),
        )

    def start(self, node: ast.stmt) -> int:
        """Return where a statement starts, its first decorator (without `@`) included."""
        decorators = getattr(node, "decorator_list", [])
        return min([self.span(node)[0], *(self.span(each)[0] for each in decorators)])

    def site(self, node: ast.expr, near: Site) -> Site:
        """Return the site of an expression in the function and file of another site."""
        places = [(self._line(offset), offset) for offset in self.span(node)]
        (line, col), (end_line, end_col) = [
            (line, offset - self._starts[line - 1]) for line, offset in places
        ]
        return Site(near.file, line, near.function, col, end_line, end_col)

    def _line(self, offset: int) -> int:
        return bisect_right(self._starts, offset)

    def text_of(self, node: ast.expr | ast.stmt | ast.keyword | ast.alias) -> str:
        """Return the source text of a node."""
        start, end = self.span(node)
        return self.text[start:end]

    def line_start(self, offset: int) -> int:
        """Return where the line of `offset` starts."""
        return self.text.rfind("\n", 0, offset) + 1

    def line_end(self, offset: int) -> int:
        """Return where the line of `offset` ends, before its line ending."""
        end = self.text.find("\n", offset)
        if end < 0:
            return len(self.text)
        return end - 1 if end > offset and self.text[end - 1] == "\r" else end

    def next_line(self, offset: int) -> int:
        """Return where the line after that of `offset` starts, or the end of the text."""
        end = self.text.find("\n", offset)
        return len(self.text) if end < 0 else end + 1

    def indent(self, offset: int) -> str | None:
        """Return the white space before `offset` on its line; None if there is more."""
        before = self.text[self.line_start(offset) : offset]
        return before if not before.strip() else None

    def ends_line(self, offset: int) -> bool:
        """Say whether nothing but a comment follows on the line."""
        rest = self.text[offset : self.line_end(offset)].strip()
        return not rest or rest.startswith("#")

    # ------------------------------------------------------------------- tokens

    @cached_property
    def tokens(self) -> tuple[Token, ...]:
        """The tokens that have text, comments among them; no white space."""
        lines = iter([line + "\n" for line in self.lines[:-1]] + self.lines[-1:])
        found = []
        try:
            for token in tokenize.generate_tokens(lambda: next(lines, "")):
                if token.string.strip() and token.type not in (tokenize.INDENT, tokenize.DEDENT):
                    start, end = self.offset(*token.start), self.offset(*token.end)
                    found.append(Token(token.type, token.string, start, end))
        except (tokenize.TokenError, SyntaxError) as error:
            raise CannotRewrite(f"{self.name} cannot be read: {error}") from error
        return tuple(found)

    def tokens_from(self, offset: int) -> Iterator[Token]:
        """Return the tokens that start at or after `offset`, forwards."""
        first = bisect_left(self.tokens, offset, key=lambda token: token.start)
        return iter(self.tokens[first:])

    def tokens_before(self, offset: int) -> Iterator[Token]:
        """Return the tokens that end at or before `offset`, backwards."""
        last = bisect_right(self.tokens, offset, key=lambda token: token.end)
        return reversed(self.tokens[:last])

    def comment_after(self, offset: int) -> Span | None:
        """Return the comment that follows on the same line, with the space before it."""
        for token in self.tokens_from(offset):
            if token.type == tokenize.COMMENT and token.start <= self.line_end(offset):
                return offset, token.end
            break
        return None

    # -------------------------------------------------------------------- sites

    def _at(self, site: Site) -> str:
        return f"{self.name}:{site.line}"

    def call(self, site: Site) -> ast.Call:
        """Return the call expression at a site.

        Calls are told by where they end: CPython reports a method call on a line of
        its own as starting at the method's name.
        """
        if not site.exact:
            raise CannotRewrite(f"the exact place in {self._at(site)} is not known")
        start = self.offset(site.line, site.col)
        end = self.offset(site.end_line, site.end_col)
        for node in self._calls:
            first, last = self.span(node)
            if last == end and first <= start < end:
                return node
        raise CannotRewrite(f"no call stands at {self._at(site)}: did the file change?")

    def expression(self, site: Site) -> ast.expr:
        """Return the expression at a site: a call, or any other with that very extent."""
        try:
            return self.call(site)
        except CannotRewrite:
            if not site.exact:
                raise
        start = self.offset(site.line, site.col)
        end = self.offset(site.end_line, site.end_col)
        for node in ast.walk(self.tree):
            if isinstance(node, ast.expr) and self.span(node) == (start, end):
                return node
        raise CannotRewrite(f"no expression stands at {self._at(site)}: did the file change?")

    def function(self, site: Site) -> Function:
        """Return the function whose head (`def` or a decorator) is on the site's line."""
        for node in ast.walk(self.tree):
            if isinstance(node, Function):
                first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
                if first <= site.line <= node.lineno:
                    return node
        raise CannotRewrite(f"no function is defined at {self._at(site)}: did the file change?")

    def statement(self, site: Site) -> Place:
        """Return the innermost statement that contains a site, and the block it is in."""
        return self.around(site)[-1]

    def around(self, site: Site) -> tuple[Place, ...]:
        """Return all statements that contain a site, outermost first, with their blocks."""
        start = self.offset(site.line, site.col)
        end = self.offset(site.end_line, site.end_col) if site.exact else start
        if site.exact:
            start = max(start, end - 1)  # the start may be that of a method's name
        elif not site.col:
            line = self.lines[site.line - 1]
            start = end = start + len(line) - len(line.lstrip())
        found = tuple(
            (node, block)
            for node, block in self.statements  # parents come before children
            if self.start(node) <= start < self.span(node)[1] and end <= self.span(node)[1]
        )
        if not found:
            raise CannotRewrite(f"no statement stands at {self._at(site)}: did the file change?")
        return found

    @cached_property
    def statements(self) -> tuple[Place, ...]:
        """Every statement with the block it is in, parents before children."""
        return tuple(_statements(self.tree))

    @cached_property
    def _calls(self) -> tuple[ast.Call, ...]:
        return tuple(node for node in ast.walk(self.tree) if isinstance(node, ast.Call))


@lru_cache(maxsize=1024)
def parsed(name: str, data: bytes) -> Source:
    """Return a source; that of the same bytes is parsed once, however many edits are tried."""
    return Source(name, data)


def _statements(parent: ast.AST) -> Iterator[Place]:
    for _, value in ast.iter_fields(parent):
        if not isinstance(value, list):
            continue
        for node in value:
            if isinstance(node, ast.stmt):
                yield node, value
            if isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):
                yield from _statements(node)
