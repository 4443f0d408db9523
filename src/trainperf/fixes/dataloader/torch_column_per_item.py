"""Items that take whole columns of a table of `datasets`."""

from __future__ import annotations

import ast
from collections.abc import Collection

from trainperf.errors import CannotRewrite
from trainperf.fixes import Fix
from trainperf.fixes.common.repeating import class_of_items
from trainperf.fixes.common.words import at, ms, percent
from trainperf.fixes.dataloader._loader import dearest, named
from trainperf.model import Equivalence, Evidence, Finding, Site
from trainperf.rewrite import Script
from trainperf.source.module import Module, inside
from trainperf.source.scopes import Function
from trainperf.source.statements import names_in

SNIPPET = """\
row = self.table[index]  # not self.table["text"][index]
text, label = row["text"], row["label"]"""

FOR_COLUMNS = """\
self.texts = list(dataset["text"])  # a column alone is a view: each element is read anew"""

_ROWS = ("row", "example", "taken")
"""Names for the row of an item, the first that the file does not use."""


class ColumnPerItem(Fix):
    """Take the row of an item, not its columns.

    ## Why it is slow
    `dataset["text"]` of Hugging Face's `datasets` makes a view of the column (before version 4 it
    reads all of it), and `[index]` looks an element of it up. That is done for each column and
    each item; a row is looked up once.

    ## What changes
    `self.table["text"][index]` becomes `self.table[index]["text"]`, of one row where several
    columns are taken. Columns that the dataset keeps as attributes become lists when it is
    built. The values are the same.

    ## When not to
    When a row has columns that are dear to decode (images, audio) and the item needs none of
    them: `select_columns` leaves them out. Lists hold their whole column in memory.
    """

    framework = "torch"
    category = "input"
    equivalence = Equivalence.EXACT
    usual = 1.5

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find elements of columns that items look up, where the loop waits for the items."""
        found = dearest(evidence, ("column",))
        if found is None:
            return None
        access, bound = found
        loader = evidence.torch.loader
        place = f" ({at(loader.item)})" if loader.item is not None else ""
        held = access.tables or access.columns
        return self.finding(
            title="Every item looks its columns up anew",
            text=f"{named(loader)}{place} takes {access.calls:.0f} elements of columns for each "
            f"item: {ms(access.seconds)}, {percent(access.share)} of what an item takes.",
            bound=bound,
            bound_basis="columns cost nothing",
            where=() if loader.item is None else (loader.item,),
            advice="Take the row and then its fields, or lists of the columns.",
            snippet=SNIPPET if access.tables else FOR_COLUMNS,
            data={"tables": list(access.tables), "columns": list(access.columns)},
            rewritable=bool(held) and loader.item is not None,
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Look up one row for each item."""
        _take_rows(script, finding.where[0], finding.data["tables"], finding.data["columns"])


def _take_rows(
    script: Script, site: Site, tables: Collection[str], columns: Collection[str]
) -> None:
    """Have the `__getitem__` whose head is at `site` take its row of a table, not its columns.

    Attributes of the dataset that are `columns` become lists in its `__init__`. Raises
    `CannotRewrite` where neither is plain in the source.
    """
    function = script.definition(site)
    module = script.linked(site.file)
    taken = _elements(module, function, tables)
    free = script.free_name(site.file, *_ROWS)
    for one in taken:
        key = script.expression(script.site_of(site, one.value.slice))  # type: ignore[attr-defined]
        row = free if len(taken) > 1 else _row_of(one)
        script.replace_call(script.site_of(site, one), f"{row}[{key}]")
    if len(taken) > 1:
        script.insert_first(site, f"{free} = {_row_of(taken[0])}")
    held = [] if taken else _assigned(class_of_items(module, function), columns)
    for value in held:
        there = script.site_of(site, value)
        script.replace_call(there, f"list({script.expression(there)})")
    if not taken and not held:
        raise CannotRewrite("where items take their columns cannot be seen")


def _elements(module: Module, function: Function, tables: Collection[str]) -> list[ast.Subscript]:
    """The elements of columns, `self.table["text"][index]`; all must be of one row."""
    found = []
    for node in inside(function):
        if not isinstance(node, ast.Subscript) or not isinstance(node.value, ast.Subscript):
            continue
        table, key = node.value.value, node.value.slice
        known = any(ast.unparse(table) == f"self.{each}" for each in tables)
        if (
            known
            and isinstance(module.constant(key), str)
            and not isinstance(node.slice, ast.Slice)
        ):
            found.append(node)
    if len({_row_of(one) for one in found}) > 1:
        raise CannotRewrite("its columns are of several rows")
    names = {name for one in found for name in names_in(one.slice)}
    if any(len(module.opened(function).bindings.get(name, ())) > 1 for name in names):
        raise CannotRewrite("the index changes within __getitem__")
    parameters = {each.arg for each in function.args.args}
    if len(found) > 1 and not names <= parameters:
        raise CannotRewrite("the index is made within __getitem__")
    return found


def _row_of(element: ast.Subscript) -> str:
    return f"{ast.unparse(element.value.value)}[{ast.unparse(element.slice)}]"  # type: ignore[attr-defined]


def _assigned(owner: ast.ClassDef, columns: Collection[str]) -> list[ast.expr]:
    """What is assigned to the attributes that are columns, each of them once."""
    found: dict[str, list[ast.expr]] = {}
    for node in ast.walk(owner):
        for target in node.targets if isinstance(node, ast.Assign) else ():
            name = ast.unparse(target).removeprefix("self.")
            if name in columns and isinstance(target, ast.Attribute):
                found.setdefault(name, []).append(node.value)  # type: ignore[attr-defined]
    return [values[0] for values in found.values() if len(values) == 1]
