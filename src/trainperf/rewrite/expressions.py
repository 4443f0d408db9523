"""Expressions wrapped, replaced, moved and given arguments, laid out as the code around is."""

from __future__ import annotations

import ast

from trainperf.errors import CannotRewrite
from trainperf.model import Site
from trainperf.rewrite.editing import Editing, check_expression
from trainperf.rewrite.edits import Edit, Insert, Rank, Replace
from trainperf.rewrite.statements import removal
from trainperf.source.arguments import keyword, written
from trainperf.source.text import Source, Span

_ATOMS = (
    ast.Call, ast.Name, ast.Attribute, ast.Subscript, ast.List, ast.Dict, ast.Set, ast.ListComp,
    ast.DictComp, ast.SetComp,
)  # fmt: skip
PRIMARY = ast.Name | ast.Attribute | ast.Call | ast.Subscript | ast.Dict


def _appended(source: Source, node: ast.expr, text: str) -> list[Edit]:
    """Put `text` (`.method(…)`) after an expression, on its own line in a chain of lines."""
    span = source.span(node)
    if not isinstance(node, _ATOMS):
        return [
            Insert(span[0], "(", Rank.BEFORE_EXPRESSION, span),
            Insert(span[1], f"){text}", Rank.AFTER_EXPRESSION, span),
        ]
    text = _chain_line(source, node) + text
    return [Insert(span[1], text, Rank.AFTER_EXPRESSION, span)]


def _chain_line(source: Source, node: ast.expr) -> str:
    """What begins a line of a chain behind a call of it; "" where it is none of lines."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return ""
    dot = next(t for t in source.tokens_before(_name_span(source, node.func)[0]))
    indent = source.indent(dot.start)
    if indent is None:
        return ""
    above = source.text[: source.line_start(dot.start)].rstrip("\r\n")
    return (" \\" if above.endswith("\\") else "") + source.newline + indent


def _name_span(source: Source, node: ast.Attribute) -> Span:
    """Return where the name of an attribute stands: `b` of `a.b`."""
    end = source.span(node)[1]
    return end - len(node.attr), end


def _wrapped(source: Source, node: ast.expr, template: str) -> list[Edit]:
    """Put the two halves of `template` around an expression."""
    before, mark, after = template.partition("{}")
    if not mark or "{}" in after:
        raise CannotRewrite(f"not a template with one {{}}: {template!r}")
    span = source.span(node)
    return [
        Insert(span[0], before, Rank.BEFORE_EXPRESSION, span),
        Insert(span[1], after, Rank.AFTER_EXPRESSION, span),
    ]


def _method(call: ast.expr) -> ast.Attribute:
    """The method that a call of a chain calls."""
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        raise CannotRewrite("no method is called here")
    return call.func


def _last_call(source: Source, outer: ast.expr) -> Span:
    """Where the last call of a chain stands, with the lines it stands on.

    A comment ahead of it stays where it is.
    """
    method = _method(outer)
    start, end = source.span(method.value)[1], source.span(outer)[1]
    dot = source.text.rindex(".", start, _name_span(source, method)[0])
    ahead = source.text[start:dot]
    code = (line.partition("#")[0] for line in ahead.splitlines())
    if any(each.strip(" \t\\") for each in code):
        raise CannotRewrite("a bracket stands within the call to be moved")
    if "#" not in ahead:
        return start, end
    lines = ahead[: ahead.rindex("\n")].removesuffix("\r")
    return (start + len(lines) if source.ends_line(end) else dot), end


class ExpressionEdits(Editing):
    """Source files whose calls can be changed, moved and put into others."""

    def set_keyword(self, site: Site, name: str, value: str, position: int | None = None) -> None:
        """Give the call at `site` the keyword argument `name=value`, replacing the old value.

        `value` is source text. `position` is where the parameter stands among the
        positional ones, so that an argument passed that way is replaced instead.
        """
        check_expression(value)
        file = self._file(site.file)
        call = file.source.call(site)
        old = written(call, name, position)
        if old is not None:
            self._replace(file, old, value)
            return
        if any(each.arg is None for each in call.keywords):
            raise CannotRewrite(f"the call takes **keywords, which may hold {name}")
        self._change_call(file, call, lambda change: change.plus(name, value))

    def set_keyword_or_extend(
        self, site: Site, name: str, value: str, position: int | None = None
    ) -> None:
        """Give the call at `site` a keyword argument, in its `**keywords` where it takes some.

        `f(x, **how)` becomes `f(x, **{**how, "name": value})`, whatever `how` holds.
        """
        file = self._file(site.file)
        call = file.source.call(site)
        starred = [each.value for each in call.keywords if each.arg is None]
        if not starred or written(call, name, position) is not None:
            self.set_keyword(site, name, value, position)
            return
        check_expression(value)
        if len(starred) > 1 or not isinstance(starred[0], PRIMARY):
            raise CannotRewrite(f"the call takes **keywords, which may hold {name}")
        self._change_call(file, call, lambda change: change.passing(name, value))

    def replace_node(self, file: str, node: ast.expr, value: str) -> None:
        """Put the expression `value` in place of a node of the syntax tree of `file`."""
        check_expression(value)
        self._replace(self._file(file), node, value)

    def remove_keyword(self, site: Site, name: str) -> None:
        """Take the keyword argument `name` out of the call at `site`."""
        file = self._file(site.file)
        call = file.source.call(site)
        if keyword(call, name) is None:
            raise CannotRewrite(f"the call does not name {name}")
        self._change_call(file, call, lambda change: change.without(name))

    def replace_argument(self, site: Site, index: int, value: str) -> None:
        """Put `value` in place of the positional argument `index` (from 0)."""
        self.replace_node(site.file, self._argument(site, index), value)

    def wrap_argument(self, site: Site, argument: int | str, template: str) -> None:
        """Put an argument of the call at `site` into `template`, such as `f({})`.

        `argument` is its place among the positional ones (from 0), or its keyword.
        """
        self._wrap(site.file, self._argument(site, argument), template)

    def _argument(self, site: Site, argument: int | str) -> ast.expr:
        name, index = (argument, None) if isinstance(argument, str) else ("", argument)
        node = written(self.call(site), name, index)
        if node is None:
            raise CannotRewrite(f"the call does not write out its argument {argument}")
        return node

    def wrap_call(self, site: Site, template: str) -> None:
        """Put the expression at `site` into `template`, such as `f({})`."""
        self._wrap(site.file, self.source(site.file).expression(site), template)

    def _wrap(self, file: str, node: ast.expr, template: str) -> None:
        check_expression(template.replace("{}", "_"))
        self._edit(self._file(file), _wrapped(self.source(file), node, template))

    def append_call(self, site: Site, call: str) -> None:
        """Put `call`, such as `.prefetch(2)`, after the expression at `site`."""
        check_expression(f"_{call}" if call.startswith(".") else "")
        file = self._file(site.file)
        self._edit(file, _appended(file.source, file.source.expression(site), call))

    def replace_call(self, site: Site, value: str) -> None:
        """Put the expression `value` in place of the call, or other expression, at `site`."""
        self.replace_node(site.file, self.source(site.file).expression(site), value)

    def number_turns(self, site: Site, name: str) -> None:
        """Count the turns of the `for` loop over the expression at `site`, from 0, as `name`."""
        check_expression(name)
        file = self._file(site.file)
        source, iterated = file.source, file.source.expression(site)
        loop = source.module.parent(iterated)
        if not isinstance(loop, ast.For) or loop.iter is not iterated:
            raise CannotRewrite("no `for` loop goes over what stands there")
        start, end = span = source.span(loop.target)
        bare = isinstance(loop.target, ast.Tuple) and not source.text[start:end].startswith("(")
        opened, closed = ("(", ")") if bare else ("", "")
        head = Insert(start, f"{name}, {opened}", Rank.BEFORE_EXPRESSION, span)
        tail = Insert(end, closed, Rank.AFTER_EXPRESSION, span)
        self._edit(file, [head, tail, *_wrapped(source, iterated, "enumerate({})")])

    def rename_call(self, site: Site, name: str) -> None:
        """Call another method in the call at `site`: `x.a()` → `x.name()`."""
        check_expression(name)
        file = self._file(site.file)
        method = _method(file.source.call(site))
        self._edit(file, [Replace(_name_span(file.source, method), name)])

    def drop_call(self, site: Site) -> None:
        """Take the last call of the chain at `site` away: `x.a().b()` → `x.a()`."""
        file = self._file(site.file)
        self._edit(file, [Replace(_last_call(file.source, file.source.call(site)), "")])

    def move_call_behind(self, site: Site, behind: Site) -> None:
        """Move the last call of the chain at `site` behind another call, of its statement or not.

        `x = x.a()` goes where nothing else would be left of it.
        """
        file = self._file(site.file)
        source, call = file.source, file.source.call(site)
        span = _last_call(source, call)
        if source is not self.source(behind.file):
            raise CannotRewrite("the two calls stand in different files")
        statement = source.statement(site)[0]
        alone = isinstance(statement, ast.Assign) and statement.value is call
        gone: list[Edit] = [Replace(span, "")]
        if alone and isinstance(_method(call).value, ast.Name):
            gone = removal(source, source.statement(site), file.edits)
        text = source.text[slice(*span)].lstrip(" \t\r\n\\")
        self._edit(file, [*gone, *_appended(source, source.call(behind), text)])
