"""The imports at the top of a file, their names, and where a line may be added."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, count

from trainperf.errors import CannotRewrite
from trainperf.source.text import Function, Source

PREFERRED = {"tensorflow": "tf", "numpy": "np"}
"""The name a module is imported under where a file does not import it yet."""

_NAMED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler,
          ast.MatchAs, ast.MatchStar)  # fmt: skip


def imports(body: Sequence[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    """Return the imports that run when `body` runs, those in `try` and `if` among them."""
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If):
            if "TYPE_CHECKING" not in ast.unparse(node.test):
                yield from imports(node.body)
            yield from imports(node.orelse)
        elif isinstance(node, ast.Try):
            handled = (each for handler in node.handlers for each in handler.body)
            yield from imports([*node.body, *handled, *node.orelse, *node.finalbody])
        elif isinstance(node, ast.With):
            yield from imports(node.body)


def bound(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str, str]]:
    """Return (dotted module, name it is reached under, first part of that name)."""
    for alias in node.names:
        name = alias.asname or alias.name
        if isinstance(node, ast.Import):
            yield alias.name, name, name.partition(".")[0]
        else:
            yield f"{'.' * node.level}{node.module or ''}.{alias.name}", name, name


def everywhere(tree: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Return every import of a file, wherever it stands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node


def _around(tree: ast.Module, line: int) -> Iterator[ast.Import | ast.ImportFrom]:
    """Return the imports before `line` in the functions that hold it."""
    for node in ast.walk(tree):
        if isinstance(node, Function) and node.lineno <= line <= (node.end_lineno or node.lineno):
            yield from (each for each in imports(node.body) if each.lineno < line)


def name_of(module: str, nodes: Iterable[ast.Import | ast.ImportFrom]) -> str | None:
    """Return the name under which `nodes` bind `module`."""
    for node in nodes:
        for dotted, name, _ in bound(node):
            if dotted == module:
                return name
            if name == dotted and dotted.startswith(module + "."):
                return module  # `import tensorflow.keras` binds tensorflow as well
    return None


def _bound_by(node: ast.AST) -> set[str]:
    """The names that a node binds by itself, and is no import."""
    if isinstance(node, ast.Name):
        return set() if isinstance(node.ctx, ast.Load) else {node.id}
    if isinstance(node, ast.arg):
        return {node.arg}
    return {node.name} if isinstance(node, _NAMED) and node.name else set()


def names_in_use(tree: ast.Module) -> set[str]:
    """Return every name that a file binds or reads, wherever it stands."""
    found = {first for node in everywhere(tree) for _, _, first in bound(node)}
    for node in ast.walk(tree):
        found |= {node.id} if isinstance(node, ast.Name) else _bound_by(node)
        if isinstance(node, ast.Global | ast.Nonlocal):
            found |= set(node.names)
    return found


def _other_bindings(tree: ast.Module, module: str) -> set[str]:
    """Return every name the file binds anywhere to something else than `module`."""
    absent = {  # `tf = None` where an import failed
        target
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and ast.unparse(node.value) == "None"
        for target in node.targets
    }
    names = {name for node in ast.walk(tree) if node not in absent for name in _bound_by(node)}
    for node in everywhere(tree):
        names |= {first for dotted, name, first in bound(node) if not _is(dotted, name, module)}
    return names


def _is(dotted: str, name: str, module: str) -> bool:
    if name == dotted and name.partition(".")[0] == module.partition(".")[0]:
        return True  # `import tensorflow.keras` binds tensorflow
    return dotted == module


def reached(source: Source, module: str, line: int | None) -> tuple[str, str]:
    """Return the name a module has in a file, and the import to be added for it, '' if none.

    With `line`, imports in the functions around it count as well. Where no name can be relied on,
    the import gives it another.
    """
    tree = source.tree
    name = name_of(module, imports(tree.body))
    taken = _other_bindings(tree, module)
    if name is None and line is not None:
        name = name_of(module, _around(tree, line))
    if name is not None and name.partition(".")[0] not in taken:
        return name, ""
    preferred = PREFERRED.get(module, module)
    numbered = (f"{preferred.rpartition('.')[2]}_{number}" for number in count(2))
    elsewhere = name_of(module, everywhere(tree)) is not None  # under a name not to be relied on
    names = chain(() if elsewhere else (preferred, module), numbered)
    name = next(one for one in names if one.partition(".")[0] not in taken)
    alias = "" if name == module else f" as {name}"
    return name, f"import {module}{alias}"


# ------------------------------------------------------------------ where a line goes


def block_end(tree: ast.Module) -> int:
    """Return how many statements of the module are its docstring and leading imports.

    Settings between imports (`os.environ[...] = ...`, calls, constants) belong to the
    block; a definition, a loop or a computed value ends it.
    """
    end = 0
    for index, node in enumerate(tree.body):
        if (index == 0 and ast.get_docstring(tree) is not None) or _is_import(node):
            end = index + 1
        elif not _is_setting(node):
            break
    return end


def _is_import(node: ast.stmt) -> bool:
    if isinstance(node, ast.Import | ast.ImportFrom):
        return True
    if _is_script(node) or not isinstance(node, ast.If | ast.Try):
        return False
    inner = [each for each in ast.walk(node) if isinstance(each, ast.stmt)]
    plain = (ast.Import, ast.ImportFrom, ast.Assign, ast.Pass, ast.Expr, ast.Raise, ast.If, ast.Try)
    return all(isinstance(each, plain) for each in inner) and any(everywhere(node))


def _is_script(node: ast.stmt) -> bool:
    """Whether it is `if __name__ == "__main__":`."""
    return isinstance(node, ast.If) and "__name__" in ast.unparse(node.test)


def _is_setting(node: ast.stmt) -> bool:
    if isinstance(node, ast.Expr):
        return True
    return isinstance(node, ast.Assign) and (
        isinstance(node.value, ast.Constant)
        or all(isinstance(target, ast.Subscript | ast.Attribute) for target in node.targets)
    )


def available_after(source: Source, statement: str, added: set[str]) -> int:
    """Return after how many statements of the module the imports `statement` needs are done.

    `added` are names that other edits import. Raises `CannotRewrite` if the top level
    of the file does not import a name that the statement reads.
    """
    nodes = list(ast.walk(ast.parse(statement)))
    own = {name for node in nodes for name in _bound_by(node)}
    read = {node.id for node in nodes if isinstance(node, ast.Name)}
    missing = read - own - added - set(dir(builtins))
    place = 0
    for index, node in enumerate(source.tree.body):
        here = {first for each in imports([node]) for _, _, first in bound(each)} & missing
        if here and _is_script(node):  # a line behind it would run when all is done
            raise CannotRewrite(f"{source.name} imports {min(here)} in line {node.lineno} only")
        if here:
            place = index + 1
            missing -= here
    if missing:
        raise CannotRewrite(
            f"{source.name} does not import {', '.join(sorted(missing))} at its top"
        )
    return place


def names_imported(statement: str) -> set[str]:
    """Return the names that a statement's imports bind; refuse what is no statement."""
    try:
        body = ast.parse(statement).body
    except (SyntaxError, ValueError) as error:
        raise CannotRewrite(f"not a statement: {statement!r}") from error
    return {first for node in imports(body) for _, _, first in bound(node)}
