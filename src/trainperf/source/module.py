"""A parsed file in which names are resolved: what the rules are given."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from copy import copy
from functools import cached_property
from typing import Any, Protocol

from trainperf.source.scopes import FUNCTIONS, LOOPS, Binding, Function, Loop, Scope, read_tree

_DEEPEST = 12
"""How many assignments a name is followed through."""

_PREFIXES = (
    ("tensorflow.keras.", "keras."),
    ("tensorflow.python.keras.", "keras."),
    ("tf_keras.", "keras."),
    ("keras.api.", "keras."),
    ("torch.utils.data.dataloader.", "torch.utils.data."),
    ("torch.nn.parallel.distributed.", "torch.nn.parallel."),
)
_WHOLE = {
    "tensorflow.keras": "keras",
    "tf_keras": "keras",
    "torch.nn.parallel.DataParallel": "torch.nn.DataParallel",
}


class Unknown:
    """A value that source alone does not tell."""


UNKNOWN = Unknown()


class Definitions(Protocol):
    """Finds definitions in other files."""

    def definition(self, name: str, path: str) -> tuple[Module, Function | ast.ClassDef] | None:
        """Return what `name`, as imported in the file `path`, stands for, and its file."""


class Module:
    """A file's syntax tree with the questions that rules ask of it.

    Whatever is not certain is answered by None or `UNKNOWN`: rules stay silent then. `path` is
    where the file is, "" where that is not known.
    """

    def __init__(
        self,
        root: ast.Module,
        source: str,
        path: str = "",
        project: Definitions | None = None,
    ) -> None:
        self.source = source
        self.path, self._project = path, project
        self._tree = read_tree(root)
        self.nodes = self._tree.nodes
        self._root = root

    def linked(self, path: str, project: Definitions) -> Module:
        """Return the file at `path` as one whose imports lead into others of a project."""
        linked = copy(self)
        linked.path, linked._project = path, project
        return linked

    @property
    def top(self) -> Scope:
        """The scope of the file itself."""
        return self._tree.scopes[self._root]

    @cached_property
    def _calls(self) -> tuple[dict[str, list[ast.Call]], dict[str, list[ast.Call]]]:
        by_name: dict[str, list[ast.Call]] = {}
        by_method: dict[str, list[ast.Call]] = {}
        for node in self.nodes:
            if not isinstance(node, ast.Call):
                continue
            name = self.name(node.func)
            if name is not None:
                by_name.setdefault(name, []).append(node)
            if isinstance(node.func, ast.Attribute):
                by_method.setdefault(node.func.attr, []).append(node)
        return by_name, by_method

    def calls(self, *names: str) -> Iterator[ast.Call]:
        """Yield the calls of what is known by these dotted names."""
        for name in names:
            yield from self._calls[0].get(name, ())

    def methods(self, *names: str) -> Iterator[ast.Call]:
        """Yield the calls of any object's methods of these names."""
        for name in names:
            yield from self._calls[1].get(name, ())

    @cached_property
    def _lines(self) -> list[str]:
        return self.source.split("\n")

    def line(self, number: int) -> str:
        """Return a line of the source, counted from 1; "" past its end."""
        return self._lines[number - 1] if 0 < number <= len(self._lines) else ""

    @cached_property
    def functions(self) -> tuple[Function, ...]:
        """Every `def`, methods and inner ones included."""
        return tuple(node for node in self.nodes if isinstance(node, FUNCTIONS))

    # ---------------------------------------------------------------- where things stand

    def parent(self, node: ast.AST) -> ast.AST | None:
        """Return the node around `node`."""
        return self._tree.parents.get(node)

    def around(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield the nodes around `node`, the nearest first."""
        while (above := self._tree.parents.get(node)) is not None:
            yield above
            node = above

    def function(self, node: ast.AST) -> Function | ast.Lambda | None:
        """Return the function in whose body `node` stands, None at module level."""
        kinds = (*FUNCTIONS, ast.Lambda)
        return next((each for each in self.around(node) if isinstance(each, kinds)), None)

    def loops(self, node: ast.AST) -> list[Loop]:
        """Return the loops around `node` in the same function, the nearest first."""
        found: list[Loop] = []
        inner = node
        for each in self.around(node):
            if isinstance(each, (*FUNCTIONS, ast.Lambda, ast.ClassDef)):
                break
            if isinstance(each, LOOPS) and not (
                isinstance(each, ast.For | ast.AsyncFor) and inner is each.iter
            ):
                found.append(each)
            inner = each
        return found

    def conditional(self, node: ast.AST, within: ast.AST | None = None) -> bool:
        """Tell whether `node` stands under a condition, up to `within` or its function.

        `if __name__ == "__main__":` is none. The test of an `if` is not under it.
        """
        inner = node
        for each in self.around(node):
            if each is within or isinstance(each, (*FUNCTIONS, ast.Lambda)):
                return False
            asks = isinstance(each, ast.If | ast.IfExp) and inner is not each.test
            if asks and not _is_main(each):
                return True
            if isinstance(each, ast.Match | ast.ExceptHandler | ast.BoolOp):
                return True
            inner = each
        return False

    # ------------------------------------------------------------------- what names mean

    def scope(self, node: ast.AST) -> Scope:
        """Return the scope in which `node` stands."""
        for each in self.around(node):
            if each in self._tree.scopes:
                return self._tree.scopes[each]
        return self.top

    def opened(self, node: ast.AST) -> Scope:
        """Return the scope that a class or function opens."""
        return self._tree.scopes[node]

    def bindings(self, node: ast.expr) -> list[Binding] | None:
        """Return all that binds a name or an attribute of `self`; None if nothing does."""
        if isinstance(node, ast.Name):
            return self.scope(node).find(node.id)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            owner = self.scope(node).owner() if node.value.id == "self" else None
            return owner.bindings.get(f"self.{node.attr}") if owner else None
        return None

    def name(self, node: ast.expr, depth: int = 0) -> str | None:
        """Return the dotted name of what `node` refers to by imports: "torch.nn.Linear".

        A name that nothing binds is a builtin and stands for itself.
        """
        if isinstance(node, ast.Attribute):
            base = self.name(node.value, depth)
            return _canonical(f"{base}.{node.attr}") if base else None
        if not isinstance(node, ast.Name) or depth > _DEEPEST:
            return None
        found = self.bindings(node)
        if found is None:
            return node.id
        certain = [each for each in found if not _is_none(each.value)]
        origins = {
            _canonical(each.origin)
            if each.kind == "import"
            else self.name(each.value, depth + 1)
            if each.kind == "value" and isinstance(each.value, ast.Name | ast.Attribute)
            else None
            for each in certain
        }
        return origins.pop() if len(origins) == 1 else None

    def value(self, node: ast.expr) -> ast.expr:
        """Follow a name that is assigned once to the expression assigned."""
        for _ in range(_DEEPEST):
            found = self.bindings(node)
            if not found or len(found) != 1 or found[0].kind not in ("value", "with"):
                return node
            if found[0].value is None:
                return node
            node = found[0].value
        return node

    def definition(self, node: ast.expr) -> Function | ast.ClassDef | None:
        """Return the `def` or `class` of this file that a name stands for."""
        found = self.bindings(node) if isinstance(node, ast.Name) else None
        if found and len(found) == 1 and found[0].kind == "definition":
            return found[0].node  # type: ignore[return-value]
        return None

    def defined(self, node: ast.expr) -> tuple[Module, Function | ast.ClassDef] | None:
        """Return the `def` or `class` that a name stands for, and the file it stands in.

        Other files are those that are checked together with this one.
        """
        local = self.definition(node)
        if local is not None:
            return self, local
        name = self.name(node)
        if name is None or self._project is None:
            return None
        return self._project.definition(name, self.path)

    def constant(self, node: ast.expr | None) -> Any:
        """Return the number, string, bool or None that `node` is, or `UNKNOWN`."""
        if node is None:
            return UNKNOWN
        node = self.value(node)
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            inner = self.constant(node.operand)
            return -inner if isinstance(inner, int | float) else UNKNOWN
        return UNKNOWN

    def bases(self, node: ast.ClassDef, depth: int = 0) -> set[str]:
        """Return the dotted names of all classes that a class of this file derives from."""
        names = set()
        for base in node.bases:
            target = base.value if isinstance(base, ast.Subscript) else base
            local = self.definition(target)
            if isinstance(local, ast.ClassDef) and depth < _DEEPEST and local is not node:
                names |= self.bases(local, depth + 1)
            elif (name := self.name(target)) is not None:
                names.add(name)
        return names


def inside(node: ast.AST, functions: bool = False) -> Iterator[ast.AST]:
    """Yield what stands in `node`, without the bodies of inner functions unless wanted."""
    stack = list(ast.iter_child_nodes(node))
    while stack:
        each = stack.pop()
        yield each
        if functions or not isinstance(each, (*FUNCTIONS, ast.Lambda, ast.ClassDef)):
            stack.extend(ast.iter_child_nodes(each))


def _is_none(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_main(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.If)
        and isinstance(node.test, ast.Compare)
        and isinstance(node.test.left, ast.Name)
        and node.test.left.id == "__name__"
    )


def _canonical(name: str) -> str:
    """Return the name by which the rules know what `name` stands for."""
    for prefix, short in _PREFIXES:
        if name.startswith(prefix):
            name = short + name[len(prefix) :]
    return _WHOLE.get(name, name)
