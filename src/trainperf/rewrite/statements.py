"""Statements put in and taken out, whole lines at a time."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from trainperf.errors import CannotRewrite
from trainperf.model import Site
from trainperf.rewrite import imports, layout
from trainperf.rewrite.editing import Editing, check_expression
from trainperf.rewrite.edits import Edit, Insert, Rank, Replace
from trainperf.rewrite.imports import names_imported
from trainperf.source.text import Place, Source, Span


def first_line(source: Source, node: ast.stmt) -> int:
    """Return where the line starts on which a statement begins, decorators included.

    Raises `CannotRewrite` if anything but white space stands before it there.
    """
    start = source.start(node)
    if getattr(node, "decorator_list", []):
        start = source.line_start(start)
    elif source.indent(start) is None or source.text.startswith("elif", start):
        raise CannotRewrite(f"the statement in {source.name}:{node.lineno} begins within a line")
    return source.line_start(start)


def before(source: Source, node: ast.stmt, statement: str) -> list[Edit]:
    """Put a statement on the lines before another, as far indented; within a line, before `;`."""
    if source.indent(source.start(node)) is None and _is_simple(statement):
        at = source.start(node)
        if not isinstance(node, _COMPOUND):
            return [Insert(at, f"{statement.strip()}; ", Rank.BEFORE_STATEMENT, (at, at))]
    place = first_line(source, node)
    text = "".join(each + source.newline for each in _indented(source, place, statement))
    return [Insert(place, text, Rank.BEFORE_STATEMENT, (place, place))]


_COMPOUND = (
    ast.If, ast.For, ast.While, ast.Try, ast.With, ast.Match, ast.ClassDef,
    ast.FunctionDef, ast.AsyncFunctionDef, ast.AsyncFor, ast.AsyncWith,
)  # fmt: skip


def _is_simple(statement: str) -> bool:
    """Whether a statement may stand on a line with others."""
    tree = ast.parse(statement.strip()).body
    return len(tree) == 1 and not isinstance(tree[0], _COMPOUND) and "\n" not in statement.strip()


def _indented(source: Source, place: int, statement: str) -> list[str]:
    line = source.text[place : source.line_end(place)]
    indent = line[: len(line) - len(line.lstrip())]
    return [f"{indent}{each}" if each.strip() else "" for each in statement.strip("\n").split("\n")]


def _is_comment(line: str) -> bool:
    return line.lstrip().startswith("#")


def removal(source: Source, place: Place, gone: Sequence[Edit]) -> list[Edit]:
    """Delete a simple statement with its lines; `pass` stays where a block would be empty."""
    node, block = place
    start, end = source.span(node)
    if isinstance(getattr(node, "body", None), list):
        raise CannotRewrite(f"the statement in {source.name}:{node.lineno} holds others")
    if source.indent(start) is None or not source.ends_line(end):
        return [Replace((start, end), "pass")]
    others = [each for each in block if each is not node]
    if block is not source.tree.body and all(
        Replace(_lines(source, each), "") in gone for each in others
    ):
        return [Replace((start, end), "pass")]
    return [Replace(_lines(source, node), "")]


def removals(source: Source, places: Sequence[Place]) -> list[Edit]:
    """Delete statements with all they hold, and with the comments directly above them.

    Of empty lines on both sides of what goes one side stays. Raises `CannotRewrite` where a
    block would be empty.
    """
    gone = [node for node, _ in places]
    for _, block in places:
        if all(each in gone for each in block):
            raise CannotRewrite(f"nothing is left of the block in line {block[0].lineno}")
    spans: list[Span] = []
    for node in sorted(gone, key=source.start):
        start, end = comments_above(source, first_line(source, node)), last_line(source, node)
        if spans and not source.text[spans[-1][1] : start].strip():
            spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
        else:
            spans.append((start, end))
    return [Replace(_with_empty_lines(source, span), "") for span in spans]


def last_line(source: Source, node: ast.stmt) -> int:
    """Return where the last line of a statement ends; raises `CannotRewrite` if it shares it."""
    end = source.span(node)[1]
    if not source.ends_line(end):
        raise CannotRewrite(f"the statement in {source.name}:{node.lineno} shares its line")
    return source.next_line(end)


def comments_above(source: Source, start: int) -> int:
    """Return where the comments begin that stand directly above a line, as far indented."""
    line = source.text[start : source.line_end(start)]
    indent = line[: len(line) - len(line.lstrip())]
    while start:
        above = source.line_start(start - 1)
        before, mark, _ = source.text[above:start].partition("#")
        if not mark or before != indent:
            break
        start = above
    return start


def below(
    source: Source,
    end: int,
    lines: Sequence[str],
    rank: Rank = Rank.AFTER_STATEMENT,
    start: int | None = None,
) -> Insert:
    """Put lines below that of `end`, of a statement that begins at `start`."""
    at, new = source.next_line(end), source.newline
    last = at == len(source.text) and not source.text.endswith("\n")
    text = "".join(new + line if last else line + new for line in lines)
    return Insert(at, text, rank, (at if start is None else start, at))


def _with_empty_lines(source: Source, span: Span) -> Span:
    """The same with the empty lines below, where one stands above as well."""
    start, end = span
    if start and not source.text[source.line_start(start - 1) : start].strip():
        while end < len(source.text) and not source.text[end : source.next_line(end)].strip():
            end = source.next_line(end)
    return start, end


def _lines(source: Source, node: ast.stmt) -> Span:
    start, end = source.span(node)
    return source.line_start(start), source.next_line(end)


class StatementEdits(Editing):
    """Source files whose statements can be put in, removed and moved."""

    def decorate(self, site: Site, decorator: str) -> None:
        """Decorate the function whose head is at `site`; nothing if it is so already."""
        check_expression(decorator)
        file = self._file(site.file)
        function = file.source.function(site)
        self._edit(file, layout.decorator(file.source, function, decorator))

    def set_decorator_keyword(self, site: Site, decorator: str, name: str, value: str) -> None:
        """Give a decorator of the function whose head is at `site` a keyword argument.

        `@decorator` becomes `@decorator(name=value)`. Raises `CannotRewrite` where the
        function has no such decorator, or one that has the keyword already.
        """
        check_expression(value)
        file = self._file(site.file)
        node = layout.decorated(file.source.function(site), decorator)
        if not isinstance(node, ast.Call):
            span = file.source.span(node)
            text = f"({name}={value})"
            self._edit(file, [Insert(span[1], text, Rank.AFTER_EXPRESSION, span)])
            return
        if any(each.arg in (name, None) for each in node.keywords):
            raise CannotRewrite(f"it is decorated with {file.source.text_of(node)}")
        self._change_call(file, node, lambda change: change.plus(name, value))

    def insert_first(self, site: Site, statement: str, after: int = 0) -> None:
        """Begin the body of the function whose head is at `site` with `statement`.

        It goes behind the docstring, and behind as many more statements as `after` says.
        """
        names_imported(statement)  # refuses what is no statement
        file = self._file(site.file)
        function = file.source.function(site)
        source = file.source
        kept = after
        start = 1 if ast.get_docstring(function) is not None else 0
        behind = function.body[start + kept : start + kept + 1]
        if not behind:
            raise CannotRewrite(f"nothing follows in {function.name}")
        (insert,) = before(source, behind[0], statement)
        assert isinstance(insert, Insert)
        place = insert.at
        above = function.body[: start + kept]
        limit = source.next_line(source.span(above[-1])[1]) if above else 0
        while place > limit and _is_comment(source.text[source.line_start(place - 1) : place]):
            place = source.line_start(place - 1)
        self._edit(file, [Insert(place, insert.text, insert.rank, (place, place))])

    def remove_statement(self, site: Site) -> None:
        """Delete the simple statement around `site`."""
        file = self._file(site.file)
        place = file.source.statement(site)
        edits = removal(file.source, place, file.edits)
        self._edit(file, edits)

    def remove_statements(self, sites: Sequence[Site]) -> None:
        """Delete the statements that begin at `sites`, and the comments directly above them.

        Raises `CannotRewrite` where that would leave a block empty.
        """
        for site in sites:
            file = self._file(site.file)
            places = [file.source.statement(each) for each in sites if each.file == site.file]
            self._edit(file, removals(file.source, places))

    def replace_statement(self, site: Site, statement: str) -> None:
        """Put `statement` in place of the one around `site` and all that it holds."""
        names_imported(statement)  # refuses what is no statement
        file = self._file(site.file)
        node, _ = file.source.statement(site)
        source = file.source
        start, end = source.span(node)
        shares = source.indent(start) is None or not source.ends_line(end)
        if shares and _is_simple(statement) and not isinstance(node, _COMPOUND):
            self._edit(file, [Replace((start, end), statement.strip())])
            return
        place = first_line(source, node)
        last_line(source, node)  # raises
        lines = _indented(source, place, statement)
        self._edit(file, [Replace((start, end), source.newline.join(lines).lstrip())])

    def insert_before(self, site: Site, statement: str) -> None:
        """Put `statement` before the statement around `site`, as far indented."""
        names_imported(statement)  # refuses what is no statement
        file = self._file(site.file)
        node, _ = file.source.statement(site)
        self._edit(file, before(file.source, node, statement))

    def insert_after(self, site: Site, statement: str) -> None:
        """Put `statement` after the statement around `site` and all it holds, as far indented.

        Raises `CannotRewrite` after `return` and its like, and within a line.
        """
        names_imported(statement)  # refuses what is no statement
        file = self._file(site.file)
        node, _ = file.source.statement(site)
        source = file.source
        end = source.span(node)[1]
        if isinstance(node, ast.Return | ast.Raise | ast.Break | ast.Continue):
            raise CannotRewrite(f"nothing runs after {source.name}:{node.lineno}")
        shares = source.indent(source.start(node)) is None or not source.ends_line(end)
        if shares and _is_simple(statement) and not isinstance(node, _COMPOUND):
            self._edit(
                file, [Insert(end, f"; {statement.strip()}", Rank.AFTER_STATEMENT, (end, end))]
            )
            return
        place = first_line(source, node)
        last_line(source, node)  # raises
        lines = _indented(source, place, statement)
        self._edit(file, [below(source, end, lines, start=place)])

    def insert_after_imports(self, file: str, statement: str) -> None:
        """Put `statement` after the imports at the top of `file`, at least those it needs."""
        found = self._file(file)
        own = names_imported(statement)
        ready = imports.available_after(found.source, statement, own | self._added_names(found))
        place = max(ready, imports.block_end(found.source.tree))
        rank = Rank.IMPORT if own else Rank.AFTER_STATEMENT
        gap = place > 0 and not own
        source = found.source
        nodes = place
        lines = statement.strip("\n").split("\n")
        text = source.newline.join(lines)
        body = source.tree.body
        if not nodes:
            if not body:
                end = len(source.text)
                lead = "" if not end or source.text.endswith("\n") else source.newline
                self._edit(found, [Insert(end, lead + text + source.newline, rank, (end, end))])
                return
            place = first_line(source, body[0])
            self._edit(found, [Insert(place, text + source.newline, rank, (place, place))])
            return
        end = source.span(body[nodes - 1])[1]
        self._edit(found, [below(source, end, ["", *lines] if gap else lines, rank)])

    def module_name(self, file: str, module: str, site: Site | None = None) -> str:
        """Return the name of `module` in `file`, which is made to import it if need be.

        With `site`, imports in the functions around it count as well.
        """
        line = site.line if site is not None else None
        name, statement = imports.reached(self._file(file).source, module, line)
        if statement:
            self.insert_after_imports(file, statement)
        return name
