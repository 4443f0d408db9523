"""Statements put in, taken out, moved into functions and under headers, whole lines at a time."""

from __future__ import annotations

import ast
import tokenize
from collections.abc import Sequence

from trainperf.errors import CannotRewrite
from trainperf.model import Site
from trainperf.rewrite import imports
from trainperf.rewrite.editing import Editing, check_expression
from trainperf.rewrite.edits import Edit, Indent, Insert, Rank, Replace, lines_within_strings
from trainperf.rewrite.imports import names_imported
from trainperf.source.text import Function, Place, Source, Span

GAP = 2
"""Empty lines around a function at the top of a module."""

# ------------------------------------------------------------------------ where lines are


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


def lines_of(source: Source, first: ast.stmt, last: ast.stmt | None = None) -> Span:
    """Return the lines of statements; raises `CannotRewrite` where they share them with others."""
    last = last or first
    start, end = first_line(source, first), source.span(last)[1]
    if not source.ends_line(end):
        raise CannotRewrite(f"the statement in {source.name}:{last.lineno} shares its line")
    return start, source.next_line(end)


def with_comments(source: Source, start: int) -> int:
    """Return where the comments start that stand directly above a line, as far indented."""
    indent = _indent(source, start)
    for token in source.tokens_before(start):
        directly = source.next_line(token.end) == start and source.indent(token.start) == indent
        if token.type != tokenize.COMMENT or not directly:
            break
        start = source.line_start(token.start)
    return start


def below(
    source: Source, offset: int, lines: Sequence[str], rank: Rank, start: int | None = None
) -> Insert:
    """Put lines below that of an offset, also where the last line of a file has no end.

    They belong to what starts at `start`, if that is given.
    """
    at, text = source.next_line(offset), source.newline.join(lines)
    endless = at == len(source.text) and at and not source.text.endswith("\n")
    text = source.newline + text if endless else text + source.newline
    return Insert(at, text, rank, (at if start is None else start, at))


def indentation(source: Source) -> str:
    """Return what one level of a file is indented by; four spaces if nothing is."""
    indents = [source.indent(source.start(node)) for node, _ in source.statements]
    least = min((each for each in indents if each), key=len, default="    ")
    return "\t" if "\t" in least else least


def _indent(source: Source, start: int) -> str:
    """The white space that a line begins with."""
    line = source.text[start : source.line_end(start)]
    return line[: len(line) - len(line.lstrip())]


def _moved(line: str, indent: str, step: str) -> str:
    if not line.strip():
        return ""
    return step + (line.removeprefix(indent) if line.startswith(indent) else line.lstrip())


def _indented(source: Source, place: int, statement: str) -> list[str]:
    indent = _indent(source, place)
    return [f"{indent}{each}" if each.strip() else "" for each in statement.strip("\n").split("\n")]


# ------------------------------------------------------------------------- what goes there


def before(source: Source, node: ast.stmt, statement: str) -> Insert:
    """Put a statement on the lines before another, as far indented."""
    place = first_line(source, node)
    text = "".join(each + source.newline for each in _indented(source, place, statement))
    return Insert(place, text, Rank.BEFORE_STATEMENT, (place, place))


def removal(source: Source, place: Place, gone: Sequence[Edit]) -> list[Edit]:
    """Delete a simple statement with its lines; `pass` stays where a block would be empty."""
    node, block = place
    start, end = source.span(node)
    if isinstance(getattr(node, "body", None), list):
        raise CannotRewrite(f"the statement in {source.name}:{node.lineno} holds others")
    whole = source.indent(start) is not None and source.ends_line(end)
    others = [Replace(_lines(source, each), "") for each in block if each is not node]
    if not whole or (block is not source.tree.body and all(each in gone for each in others)):
        return [Replace((start, end), "pass")]
    return [Replace(_lines(source, node), "")]


def _lines(source: Source, node: ast.stmt) -> Span:
    start, end = source.span(node)
    return source.line_start(start), source.next_line(end)


def _removals(source: Source, places: Sequence[Place]) -> list[Edit]:
    """Delete statements with all they hold, and with the comments directly above them.

    Raises `CannotRewrite` where a block would be empty.
    """
    gone = [node for node, _ in places]
    for _, block in places:
        if all(each in gone for each in block):
            raise CannotRewrite(f"nothing is left of the block in line {block[0].lineno}")
    spans: list[Span] = []
    for start, end in sorted(lines_of(source, node) for node in gone):
        start = with_comments(source, start)
        if spans and not source.text[spans[-1][1] : start].strip():
            spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
        else:
            spans.append((start, end))
    return [Replace(span, "") for span in spans]


_INNERMOST = ("staticmethod", "classmethod", "property", "setter", "getter", "deleter")
"""Decorators that return no plain function: others go beneath them."""


def _decoration(source: Source, function: Function, text: str) -> list[Edit]:
    """Put `@text` above a function: outermost, but beneath `staticmethod` and its like.

    Nothing where it is decorated so already, whatever its arguments. Raises
    `CannotRewrite` if it is and other arguments are wanted.
    """
    if "\n" in text:
        raise CannotRewrite(f"not a decorator: {text!r}")
    wanted = ast.parse(text, mode="eval").body
    index = 0
    for position, node in enumerate(function.decorator_list):
        if _callee(node) == _callee(wanted):
            if isinstance(wanted, ast.Call) and ast.dump(node) != ast.dump(wanted):
                raise CannotRewrite(f"{function.name} is decorated with {source.text_of(node)}")
            return []
        if _callee(node).rpartition(".")[2] in _INNERMOST:
            index = position + 1
    heads = [node.lineno for node in function.decorator_list] + [function.lineno]
    place = source.line_start(source.offset(heads[index], 0))
    if index and place < source.next_line(source.span(function.decorator_list[index - 1])[1]):
        raise CannotRewrite(f"the decorators of {function.name} share a line")
    text = f"{source.indent(source.span(function)[0])}@{text}{source.newline}"
    return [Insert(place, text, Rank.DECORATOR, (place, place))]


def _callee(node: ast.expr) -> str:
    return ast.unparse(node.func if isinstance(node, ast.Call) else node)


_Around = Sequence[Place]
"""The statements around a site, outermost first, each with its block."""


def _siblings(source: Source, *sites: _Around) -> tuple[list[ast.stmt], list[int]]:
    """Return the innermost block that holds all sites, and the place in it of what holds each.

    Raises `CannotRewrite` where none does, or they do not stand in this order.
    """
    for depth in reversed(range(min(map(len, sites)))):
        block = sites[0][depth][1]
        if all(around[depth][1] is block for around in sites):
            inner = [node for around in sites for node, _ in around[depth:-1]]
            if any(isinstance(node, Function | ast.ClassDef) for node in inner):
                break
            return block, [block.index(around[depth][0]) for around in sites]
    lines = " and ".join(f"{source.name}:{around[-1][0].lineno}" for around in sites)
    raise CannotRewrite(f"{lines} are not in one block")


def _check_order(first: int, last: int, *between: int) -> None:
    if not all(first <= index <= last for index in (first, last, *between)):
        raise CannotRewrite("the statements do not stand in the order asked for")


def _function_above(source: Source, around: _Around, lines: Sequence[str]) -> Insert:
    """Put a function ahead of the statement of the module around a place."""
    new = source.newline
    place = with_comments(source, first_line(source, around[0][0]))
    above = source.text[:place]
    code = above.rstrip()
    empty = above[len(code) :].count("\n") - 1
    lead = new * max(0, GAP - empty) if code else ""
    text = lead + "".join(line + new for line in lines) + new * GAP
    return Insert(place, text, Rank.BEFORE_STATEMENT, (place, place))


class StatementEdits(Editing):
    """Source files whose statements can be put in, removed and moved."""

    def decorate(self, site: Site, decorator: str) -> None:
        """Decorate the function whose head is at `site`; nothing if it is so already."""
        check_expression(decorator)
        file = self._file(site.file)
        self._edit(file, _decoration(file.source, file.source.function(site), decorator))

    def set_decorator_keyword(self, site: Site, decorator: str, name: str, value: str) -> None:
        """Give a decorator of the function whose head is at `site` a keyword argument.

        `@decorator` becomes `@decorator(name=value)`. Raises `CannotRewrite` where the
        function has no such decorator, or one that has the keyword already.
        """
        check_expression(value)
        file = self._file(site.file)
        function = file.source.function(site)
        found = [node for node in function.decorator_list if _callee(node) == decorator]
        if len(found) != 1:
            raise CannotRewrite(f"{function.name} is not decorated with @{decorator}")
        (node,) = found
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
        start = after + (ast.get_docstring(function) is not None)
        if start >= len(function.body):
            raise CannotRewrite(f"nothing follows in {function.name}")
        insert = before(file.source, function.body[start], statement)
        place = with_comments(file.source, insert.at)
        self._edit(file, [Insert(place, insert.text, insert.rank, (place, place))])

    def remove_statement(self, site: Site) -> None:
        """Delete the simple statement around `site`."""
        file = self._file(site.file)
        self._edit(file, removal(file.source, file.source.statement(site), file.edits))

    def remove_statements(self, sites: Sequence[Site]) -> None:
        """Delete the statements that begin at `sites`, and the comments directly above them.

        Raises `CannotRewrite` where that would leave a block empty.
        """
        for name in dict.fromkeys(site.file for site in sites):
            file = self._file(name)
            places = [file.source.statement(each) for each in sites if each.file == name]
            self._edit(file, _removals(file.source, places))

    def replace_statement(self, site: Site, statement: str) -> None:
        """Put `statement` in place of the one around `site` and all that it holds."""
        names_imported(statement)  # refuses what is no statement
        file = self._file(site.file)
        source, (node, _) = file.source, file.source.statement(site)
        place = lines_of(source, node)[0]
        text = source.newline.join(_indented(source, place, statement)).lstrip()
        self._edit(file, [Replace(source.span(node), text)])

    def insert_before(self, site: Site, statement: str) -> None:
        """Put `statement` before the statement around `site`, as far indented."""
        names_imported(statement)  # refuses what is no statement
        file = self._file(site.file)
        self._edit(file, [before(file.source, file.source.statement(site)[0], statement)])

    def insert_after(self, site: Site, statement: str) -> None:
        """Put `statement` after the statement around `site` and all it holds, as far indented.

        Raises `CannotRewrite` after `return` and its like, and where it shares its line.
        """
        names_imported(statement)  # refuses what is no statement
        file = self._file(site.file)
        source, (node, _) = file.source, file.source.statement(site)
        end = source.span(node)[1]
        if isinstance(node, ast.Return | ast.Raise | ast.Break | ast.Continue):
            raise CannotRewrite(f"nothing runs after {source.name}:{node.lineno}")
        place = lines_of(source, node)[0]
        lines = _indented(source, place, statement)
        self._edit(file, [below(source, end, lines, Rank.AFTER_STATEMENT, place)])

    def insert_after_imports(self, file: str, statement: str) -> None:
        """Put `statement` after the imports at the top of `file`, at least those it needs."""
        found = self._file(file)
        source, body = found.source, found.source.tree.body
        own = names_imported(statement)
        ready = imports.available_after(source, statement, own | self._added_names(found))
        count = max(ready, imports.block_end(source.tree))
        rank = Rank.IMPORT if own else Rank.AFTER_STATEMENT
        lines = statement.strip("\n").split("\n")
        if count:
            end = source.span(body[count - 1])[1]
            insert = below(source, end, lines if own else ["", *lines], rank)
        elif body:
            place = first_line(source, body[0])
            text = "".join(each + source.newline for each in lines)
            insert = Insert(place, text, rank, (place, place))
        else:
            insert = below(source, len(source.text), lines, rank)
        self._edit(found, [insert])

    def module_name(self, file: str, module: str, site: Site | None = None) -> str:
        """Return the name of `module` in `file`, which is made to import it if need be.

        With `site`, imports in the functions around it count as well.
        """
        line = site.line if site is not None else None
        name, statement = imports.reached(self._file(file).source, module, line)
        if statement:
            self.insert_after_imports(file, statement)
        return name

    def wrap_statements(
        self, first: Site, last: Site, header: str, until: Site | None = None
    ) -> None:
        """Put the statements around `first` to `last`, and all between, under `with ...:`.

        They are the statements of the innermost block that holds all sites. With `until`,
        those before the statement around it go in as well. Edits of what is wrapped go along, as
        does what is inserted between; what begins within a string stays as it is.
        Raises `CannotRewrite` where the sites are not in one function.
        """
        file = self._file(first.file)
        source = file.source
        sites = [first, last] if until is None else [first, last, until]
        if any(self._file(site.file).source is not source for site in sites):
            raise CannotRewrite("the statements stand in different files")
        block, (start, *inner) = _siblings(source, *(source.around(site) for site in sites))
        end = inner[-1]
        if until is not None:
            if end in (start, *inner[:-1]):
                raise CannotRewrite(
                    f"the statement in {source.name}:{block[end].lineno} "
                    "holds what is to stay outside"
                )
            end -= 1
        _check_order(start, end, *inner[:1])
        span = lines_of(source, block[start], block[end])
        lines_within_strings(source.text[slice(*span)])  # raises
        indent = _indent(source, span[0])
        step = "\t" if "\t" in indent else indentation(source)
        head = f"{indent}{header.strip()}{source.newline}"
        self._edit(file, [Indent(span, head, indent, step)])

    def move_into_function(
        self, first: Site, last: Site, head: str, result: str, call: str
    ) -> None:
        """Move the statements around `first` to `last` into a function ahead of all around them.

        `head` are its lines up to `def …:`, `result` its last statement ("" for none), and
        `call` the statement that is put in their place.
        """
        names_imported(f"{head}\n    pass")  # refuses what is no statement
        names_imported(call)
        file = self._file(first.file)
        source, around = file.source, file.source.around(first)
        block, (start, end) = _siblings(source, around, source.around(last))
        _check_order(start, end)
        if block is source.tree.body:
            raise CannotRewrite("the statements are the module's own: others may use what they set")
        top, stop = lines_of(source, block[start], block[end])
        indent, step = _indent(source, top), indentation(source)
        top = with_comments(source, top)
        text = source.text[top:stop]
        within = lines_within_strings(text)
        body = [
            line if number in within else _moved(line, indent, step)
            for number, line in enumerate(text.rstrip().splitlines(), 1)
        ]
        lines = [*head.splitlines(), *body, *([step + result] if result else [])]
        gone = Replace((top, source.span(block[end])[1]), indent + call)
        self._edit(file, [_function_above(source, around, lines), gone])

    def expression_into_function(self, site: Site, head: str, call: str) -> None:
        """Have a function ahead of all around it return the expression at `site`.

        `head` are its lines up to `def …:`, and `call` is put in place of the expression.
        """
        names_imported(f"{head}\n    pass")  # refuses what is no statement
        check_expression(call)
        file = self._file(site.file)
        source, node = file.source, file.source.expression(site)
        text = source.text_of(node) if node.lineno == node.end_lineno else ast.unparse(node)
        lines = [*head.splitlines(), f"{indentation(source)}return {text}"]
        above = _function_above(source, source.around(site), lines)
        self._edit(file, [above, Replace(source.span(node), call)])

    def insert_function(self, file: str, function: str) -> None:
        """Put a function, or a class, below the imports at the top of `file`, once.

        Its modules are asked for with `module_name` before.
        """
        names_imported(function)  # refuses what is no statement
        found = self._file(file)
        source, body, new = found.source, found.source.tree.body, found.source.newline
        ready = imports.available_after(source, function, self._added_names(found))
        count = max(ready, imports.block_end(source.tree))
        lines = function.strip("\n").replace("    ", indentation(source)).split("\n")
        place = source.next_line(source.span(body[count - 1])[1]) if count else 0
        behind = ""
        if count < len(body):
            gap = source.text[place : first_line(source, body[count])]
            behind = new * max(0, GAP - gap.count("\n"))
        lead = "" if source.text[:place].endswith("\n") or not place else new
        text = lead + (GAP * new if place else "") + "".join(each + new for each in lines)
        once = Insert(place, behind, Rank.BEFORE_STATEMENT, (place, place))  # behind the last
        self._edit(found, [Insert(place, text, Rank.AFTER_STATEMENT, (place, place)), once])

    def split_function(self, site: Site, result: str, head: str) -> None:
        """End a function ahead of the statement at `site` with `result`; the rest is under `head`.

        `head` is the line `def …:` of a function of its own, as far indented as the first.
        """
        names_imported(f"{head}\n    {result}")  # refuses what is no statement
        file = self._file(site.file)
        source, around = file.source, file.source.around(site)
        statement, block = around[-1]
        owner = around[-2][0] if len(around) > 1 else None
        if not isinstance(owner, Function) or block is not owner.body:
            raise CannotRewrite(f"{source.name}:{statement.lineno} is no statement of a function")
        line, new = first_line(source, statement), source.newline
        inner, outer = _indent(source, line), _indent(source, first_line(source, owner))
        place = with_comments(source, line)
        gap = new * (1 if outer else GAP)
        text = f"{inner}{result}{new}{gap}{outer}{head}{new}"
        self._edit(file, [Insert(place, text, Rank.BEFORE_STATEMENT, (place, place))])
