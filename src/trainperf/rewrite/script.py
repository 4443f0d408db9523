"""The vocabulary of edits a fix may make in the user's source."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Sequence
from dataclasses import replace

from trainperf.errors import CannotRewrite
from trainperf.model import Site
from trainperf.rewrite import extraction, imports, layout, statements, wrapping
from trainperf.rewrite.calls import CallChange
from trainperf.rewrite.checks import check_expression, names_imported
from trainperf.rewrite.diff import of_file, shown, unified
from trainperf.rewrite.edited import EditedFile
from trainperf.rewrite.edits import Insert, Rank, Replace
from trainperf.rewrite.moving import Moving
from trainperf.rewrite.reading import Reader, default_reader
from trainperf.source.arguments import keyword, positional
from trainperf.source.text import Source

PRIMARY = ast.Name | ast.Attribute | ast.Call | ast.Subscript | ast.Dict

__all__ = ["Reader", "Script", "default_reader"]


class Script(Moving):
    """The user's source files with the edits made to them so far.

    Sites point into the original files, whatever edits were made before, so edits
    come in any order. The same edit asked for twice is made once. Every method that
    edits raises `CannotRewrite` and changes nothing where it cannot do so.

    `root` is the folder whose files may be edited; `read` returns the bytes of a file
    by its absolute path. Nothing is written.
    """

    def copy(self) -> Script:
        """Return a script with the same edits; further edits of one leave the other alone."""
        copied = Script(self.root, self._read)
        copied._files = dict(self._files)
        copied._take_from(self)
        return copied

    # ---------------------------------------------------------------------- calls

    def set_keyword(self, site: Site, name: str, value: str, position: int | None = None) -> None:
        """Give the call at `site` the keyword argument `name=value`, replacing the old value.

        `value` is source text. `position` is where the parameter stands among the
        positional ones, so that an argument passed that way is replaced instead.
        """
        check_expression(value)
        file = self._file(site.file)
        call = file.source.call(site)
        node = keyword(call, name)
        old = node.value if node else None
        if node is None and position is not None:
            old = positional(call, position)
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
        call = file.source.call(site)
        if not isinstance(call.func, ast.Attribute):
            raise CannotRewrite(f"no method is called in {file.source.name}:{site.line}")
        span = file.source.span(call.func.value)[1], file.source.span(call)[1]
        if "#" in file.source.text[slice(*span)]:
            raise CannotRewrite("a comment stands within the call to be taken away")
        self._edit(file, [Replace(span, "")])

    def swap_last_two_calls(self, site: Site) -> None:
        """Exchange the last two calls of the chain at `site`: `x.a().b()` → `x.b().a()`."""
        file = self._file(site.file)
        self._edit(file, layout.swap_calls(file.source, file.source.call(site)))

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

    # ------------------------------------------------------------------ statements

    def swap_statements(self, one: Site, other: Site) -> None:
        """Exchange two neighbouring statements `x = x.a()` and `x = x.b()`."""
        file = self._file(one.file)
        if self._file(other.file).source is not file.source:
            raise CannotRewrite("the two statements stand in different files")
        places = file.source.statement(one), file.source.statement(other)
        self._edit(file, layout.swap_assignments(file.source, *places))

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
        self._edit(file, statements.first(file.source, function, statement, after))

    def remove_statement(self, site: Site) -> None:
        """Delete the simple statement around `site`."""
        file = self._file(site.file)
        place = file.source.statement(site)
        edits = statements.removal(file.source, place, file.edits)
        self._edit(file, edits)

    def remove_statements(self, sites: Sequence[Site]) -> None:
        """Delete the statements that begin at `sites`, and the comments directly above them.

        Raises `CannotRewrite` where that would leave a block empty.
        """
        for site in sites:
            file = self._file(site.file)
            places = [file.source.statement(each) for each in sites if each.file == site.file]
            self._edit(file, statements.removals(file.source, places))

    def replace_statement(self, site: Site, statement: str) -> None:
        """Put `statement` in place of the one around `site` and all that it holds."""
        names_imported(statement)  # refuses what is no statement
        file = self._file(site.file)
        node, _ = file.source.statement(site)
        self._edit(file, statements.replacement(file.source, node, statement))

    def insert_before(self, site: Site, statement: str) -> None:
        """Put `statement` before the statement around `site`, as far indented."""
        names_imported(statement)  # refuses what is no statement
        file = self._file(site.file)
        node, _ = file.source.statement(site)
        self._edit(file, statements.before(file.source, node, statement))

    def insert_after(self, site: Site, statement: str) -> None:
        """Put `statement` after the statement around `site` and all it holds, as far indented.

        Raises `CannotRewrite` after `return` and its like, and within a line.
        """
        names_imported(statement)  # refuses what is no statement
        file = self._file(site.file)
        node, _ = file.source.statement(site)
        self._edit(file, statements.behind(file.source, node, statement))

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
        sites = [first, last] if until is None else [first, last, until]
        if any(self._file(site.file).source is not file.source for site in sites):
            raise CannotRewrite("the statements stand in different files")
        around = [file.source.around(site) for site in sites]
        self._edit(file, wrapping.under(file.source, around, header, until is not None))

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
        around = (file.source.around(first), file.source.around(last))
        self._edit(file, extraction.into_function(file.source, around, head, result, call))

    def insert_after_imports(self, file: str, statement: str) -> None:
        """Put `statement` after the imports at the top of `file`, at least those it needs."""
        found = self._file(file)
        own = names_imported(statement)
        ready = imports.available_after(found.source, statement, own | self._added_names(found))
        place = max(ready, imports.block_end(found.source.tree))
        rank = Rank.IMPORT if own else Rank.AFTER_STATEMENT
        gap = place > 0 and not own
        self._edit(found, statements.after(found.source, place, statement, rank, gap))

    def insert_function(self, file: str, function: str) -> None:
        """Put a function, or a class, below the imports at the top of `file`, once.

        Its modules are asked for with `module_name` before.
        """
        names_imported(function)  # refuses what is no statement
        found = self._file(file)
        ready = imports.available_after(found.source, function, self._added_names(found))
        self._edit(found, extraction.below_imports(found.source, function, ready))

    def module_name(self, file: str, module: str, site: Site | None = None) -> str:
        """Return the name of `module` in `file`, which is made to import it if need be.

        With `site`, imports in the functions around it count as well.
        """
        line = site.line if site is not None else None
        name, statement = imports.reached(self._file(file).source, module, line)
        if statement:
            self.insert_after_imports(file, statement)
        return name

    # --------------------------------------------------------------------- results

    def sources(self) -> dict[str, str]:
        """Return the changed files: absolute path to new text, without byte order mark."""
        return {file.path: text for file, text in self._changed()}

    def contents(self) -> dict[str, bytes]:
        """Return the changed files as bytes, each in the encoding of its original."""
        settings = {one.path: one.text.encode() for one in self._configured()}
        return settings | {file.path: file.source.encode(text) for file, text in self._changed()}

    def originals(self) -> dict[str, bytes]:
        """Return the bytes that the changed files were read as."""
        settings = {one.path: one.data for one in self._configured()}
        return settings | {file.path: file.source.data for file, _ in self._changed()}

    def diff(self) -> str:
        """Return all changes as one unified diff that `git apply` takes in `root`.

        To be written as UTF-8 without translating line endings. Raises
        `CannotRewrite` where a file in another encoding would not survive that.
        """
        return self._diff(of_file)

    def shown(self) -> str:
        """Return all changes as one unified diff to be read: those of notebooks by cells."""
        return self._diff(shown)

    # -------------------------------------------------------------------- the works

    def _changed(self) -> list[tuple[EditedFile, str]]:
        texts = [(file, file.text()) for file in self._files.values()]
        return [(file, text) for file, text in texts if text != file.source.text]

    def _diff(self, of: Callable[[str, Source, str], str]) -> str:
        pieces = [unified(one.name, one.before, one.text) for one in self._configured()]
        changed = sorted(
            (os.path.realpath(file.path), file, text) for file, text in self._changed()
        )
        for real, file, text in changed:
            relative = os.path.relpath(real, self.root).replace(os.sep, "/")
            pieces.append(of(relative, file.source, text))
        return "".join(pieces)

    def _replace(self, file: EditedFile, node: ast.expr, value: str) -> None:
        if file.source.text_of(node) != value:
            self._edit(file, [layout.replaced(file.source, file.source.span(node), value)])

    def _change_call(
        self,
        file: EditedFile,
        call: ast.Call | ast.Dict,
        change: Callable[[CallChange], CallChange],
    ) -> None:
        key = file.source.span(call)[1]
        changed = change(file.calls.get(key, CallChange(call)))
        self._put(replace(file, calls={**file.calls, key: changed}))

    def _added_names(self, file: EditedFile) -> set[str]:
        texts = [e.text for e in file.edits if isinstance(e, Insert) and e.rank is Rank.IMPORT]
        return {name for text in texts for name in names_imported(text)}
