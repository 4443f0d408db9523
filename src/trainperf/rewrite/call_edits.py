"""Edits of calls and other expressions: a part of what `Script` can do."""

from __future__ import annotations

import ast

from trainperf.errors import CannotRewrite
from trainperf.model import Site
from trainperf.rewrite import layout, statements
from trainperf.rewrite.editing import Editing, check_expression
from trainperf.rewrite.edits import Replace
from trainperf.source.arguments import keyword, positional, written

PRIMARY = ast.Name | ast.Attribute | ast.Call | ast.Subscript | ast.Dict


class CallEdits(Editing):
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
        old = positional(call, position) if position is not None else None
        if not starred or keyword(call, name) is not None or old is not None:
            self.set_keyword(site, name, value, position)
            return
        check_expression(value)
        if len(starred) > 1 or not isinstance(starred[0], PRIMARY):
            raise CannotRewrite(f"the call takes **keywords, which may hold {name}")
        self._change_call(file, call, lambda change: change.passing(name, value))

    def add_entry(self, file: str, display: ast.Dict | ast.Call, name: str, value: str) -> None:
        """Put `name` into a dictionary of `file` that is written out, or into a call."""
        check_expression(value)
        self._change_call(self._file(file), display, lambda change: change.plus(name, value))

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
        check_expression(value)
        file = self._file(site.file)
        old = positional(file.source.call(site), index)
        if old is None:
            raise CannotRewrite(f"the call has no positional argument {index}")
        self._replace(file, old, value)

    def wrap_argument(self, site: Site, argument: int | str, template: str) -> None:
        """Put an argument of the call at `site` into `template`, such as `f({})`.

        `argument` is its place among the positional ones (from 0), or its keyword.
        """
        check_expression(template.replace("{}", "_"))
        file = self._file(site.file)
        call = file.source.call(site)
        if isinstance(argument, str):
            named = keyword(call, argument)
            node = named.value if named else None
        else:
            node = positional(call, argument)
        if node is None:
            raise CannotRewrite(f"the call does not write out its argument {argument}")
        self._edit(file, layout.wrap(file.source, node, template))

    def append_call(self, site: Site, call: str) -> None:
        """Put `call`, such as `.prefetch(2)`, after the expression at `site`."""
        check_expression(f"_{call}" if call.startswith(".") else "")
        file = self._file(site.file)
        node = file.source.expression(site)
        self._edit(file, layout.append(file.source, node, call))

    def wrap_call(self, site: Site, template: str) -> None:
        """Put the expression at `site` into `template`, such as `f({})`."""
        check_expression(template.replace("{}", "_"))
        file = self._file(site.file)
        self._edit(file, layout.wrap(file.source, file.source.expression(site), template))

    def replace_call(self, site: Site, value: str, brackets: bool = False) -> None:
        """Put the expression `value` in place of the call, or other expression, at `site`.

        With `brackets`, those that only hold that expression together go as well.
        """
        check_expression(value)
        file = self._file(site.file)
        node = file.source.expression(site)
        if brackets:
            span = layout.bracketed(file.source, node)
            self._edit(file, [layout.replaced(file.source, span, value)])
            return
        self._replace(file, node, value)

    def number_turns(self, site: Site, name: str) -> None:
        """Count the turns of the `for` loop over the expression at `site`, from 0, as `name`."""
        check_expression(name)
        file = self._file(site.file)
        self._edit(file, layout.numbered(file.source, file.source.expression(site), name))

    def rename_call(self, site: Site, name: str) -> None:
        """Call another method in the call at `site`: `x.a()` → `x.name()`."""
        check_expression(name)
        file = self._file(site.file)
        call = file.source.call(site)
        if not isinstance(call.func, ast.Attribute):
            raise CannotRewrite(f"no method is called in {file.source.name}:{site.line}")
        self._edit(file, [Replace(layout.name_span(file.source, call.func), name)])

    def drop_call(self, site: Site) -> None:
        """Take the last call of the chain at `site` away: `x.a().b()` → `x.a()`."""
        file = self._file(site.file)
        self._edit(file, layout.drop_call(file.source, file.source.call(site))[1])

    def move_call(self, site: Site, ahead_of: Site) -> None:
        """Move the last call of the chain at `site` ahead of another: `x.a().b().c()` → `x.c()…`.

        Raises `CannotRewrite` where a comment would go astray.
        """
        file = self._file(site.file)
        calls = file.source.call(site), file.source.call(ahead_of)
        self._edit(file, layout.move_call(file.source, *calls))

    def replace_last_call(self, site: Site, call: str) -> None:
        """Put `call`, such as `.cache()`, in place of the last call of the chain at `site`."""
        check_expression(f"_{call}")
        file = self._file(site.file)
        node = file.source.call(site)
        _, gone = layout.drop_call(file.source, node)
        self._edit(file, [*gone, *layout.append(file.source, node, call)])

    def move_call_behind(self, site: Site, behind: Site) -> None:
        """Move the last call of the chain at `site` behind another call, of its statement or not.

        `x = x.a()` goes where nothing else would be left of it.
        """
        file, other = self._file(site.file), self._file(behind.file)
        call = file.source.call(site)
        text, edits = layout.drop_call(file.source, call)
        if file.source is not other.source:
            raise CannotRewrite("the two calls stand in different files")
        node, block = file.source.statement(site)
        alone = isinstance(node, ast.Assign) and node.value is call
        if alone and isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name):
            edits = statements.removal(file.source, (node, block), file.edits)
        self._edit(file, [*edits, *layout.append(file.source, file.source.call(behind), text)])
