"""Edits of statements, decorators and imports: a part of what `Script` can do."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from trainperf.errors import CannotRewrite
from trainperf.model import Site
from trainperf.rewrite import extraction, imports, layout, statements
from trainperf.rewrite.editing import Editing, check_expression
from trainperf.rewrite.edits import Insert, Rank
from trainperf.rewrite.imports import names_imported


class StatementEdits(Editing):
    """Source files whose statements can be put in, removed, wrapped and moved."""

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
        self._edit(file, extraction.under(file.source, around, header, until is not None))

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

    def expression_into_function(self, site: Site, head: str, call: str) -> None:
        """Have a function ahead of all around it return the expression at `site`.

        `head` are its lines up to `def …:`, and `call` is put in place of the expression.
        """
        names_imported(f"{head}\n    pass")  # refuses what is no statement
        check_expression(call)
        file = self._file(site.file)
        node, around = file.source.expression(site), file.source.around(site)
        self._edit(file, extraction.expression_into_function(file.source, node, around, head, call))

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
