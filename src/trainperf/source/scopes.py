"""Which names a file binds, and where: one walk over its syntax tree."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

Function = ast.FunctionDef | ast.AsyncFunctionDef
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
Loop = ast.For | ast.AsyncFor | ast.While
LOOPS = (ast.For, ast.AsyncFor, ast.While)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_SCOPES = (*FUNCTIONS, ast.Lambda, ast.ClassDef, *_COMPREHENSIONS)

Kind = Literal["import", "value", "parameter", "definition", "loop", "with", "other"]


@dataclass(frozen=True)
class Binding:
    """One place that gives a name its meaning.

    `origin` is the dotted name of an import, `value` the expression assigned or entered
    by `with`, the annotation of a parameter, or None where it cannot be said.
    """

    kind: Kind
    node: ast.AST
    value: ast.expr | None = None
    origin: str = ""


@dataclass
class Scope:
    """A module, class, function or comprehension, and the names it binds."""

    node: ast.AST
    parent: Scope | None
    bindings: dict[str, list[Binding]] = field(default_factory=dict)
    declared: dict[str, Scope] = field(default_factory=dict)
    """The scopes of the names that are `global` or `nonlocal` here."""

    def bind(self, name: str, binding: Binding) -> None:
        """Add a place that binds `name`."""
        scope = self.declared.get(name, self)
        scope.bindings.setdefault(name, []).append(binding)

    def find(self, name: str) -> list[Binding] | None:
        """Return what binds `name` here or further out; None where nothing does."""
        scope: Scope | None = self
        while scope is not None:
            inner_class = isinstance(scope.node, ast.ClassDef) and scope is not self
            if name in scope.bindings and not inner_class:
                return scope.bindings[name]
            scope = scope.parent
        return None

    def owner(self) -> Scope | None:
        """Return the class around, whose `self` is meant here."""
        scope: Scope | None = self
        while scope is not None and not isinstance(scope.node, ast.ClassDef):
            scope = scope.parent
        return scope


@dataclass
class Tree:
    """A syntax tree with each node's parent and scope, in order of the source."""

    nodes: list[ast.AST]
    parents: dict[ast.AST, ast.AST]
    scopes: dict[ast.AST, Scope]
    """The scope of each node that opens one."""


def read_tree(root: ast.Module) -> Tree:
    """Walk `root` once, without recursion: deep nesting is no error here."""
    tree = Tree([], {}, {root: Scope(root, None)})
    nodes, parents = tree.nodes, tree.parents
    stack: list[tuple[ast.AST, Scope]] = [(root, tree.scopes[root])]
    while stack:
        node, scope = stack.pop()
        nodes.append(node)
        if isinstance(node, ast.stmt | ast.ExceptHandler | ast.NamedExpr):
            _bind(node, scope)
        if type(node) in _SCOPES:
            scope = Scope(node, scope)
            tree.scopes[node] = scope
            _bind_inside(node, scope)
        for child in _children(node):
            parents[child] = node
            stack.append((child, scope))
    return tree


def _children(node: ast.AST) -> list[ast.AST]:
    """Return the nodes right below, the last first; contexts and operators are left out."""
    found: list[ast.AST] = []
    for name in node._fields:
        value = getattr(node, name, None)
        if isinstance(value, list):
            found += [each for each in value if isinstance(each, ast.AST)]
        elif (isinstance(value, ast.AST) and value._attributes) or isinstance(value, ast.arguments):
            found.append(value)
    found.reverse()
    return found


def _bind(node: ast.stmt | ast.ExceptHandler | ast.NamedExpr, scope: Scope) -> None:
    """Add what a node binds in the scope that it stands in."""
    match node:
        case ast.Import():
            for alias in node.names:
                name = alias.asname or alias.name.partition(".")[0]
                origin = alias.name if alias.asname else name
                scope.bind(name, Binding("import", node, origin=origin))
        case ast.ImportFrom():
            folder = "." * node.level + (node.module or "")
            folder += "" if folder.endswith(".") else "."
            for alias in node.names:
                origin = f"{folder}{alias.name}"
                scope.bind(alias.asname or alias.name, Binding("import", node, origin=origin))
        case ast.Assign():
            for target in node.targets:
                _assign(target, node.value, node, scope)
        case ast.AnnAssign() | ast.NamedExpr():
            _assign(node.target, node.value, node, scope)
        case ast.AugAssign():
            _assign(node.target, None, node, scope)
        case ast.For() | ast.AsyncFor():
            for name in _names(node.target):
                scope.bind(name, Binding("loop", node))
        case ast.With() | ast.AsyncWith():
            for item in node.items:
                if isinstance(item.optional_vars, ast.Name):
                    binding = Binding("with", node, item.context_expr)
                    scope.bind(item.optional_vars.id, binding)
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            scope.bind(node.name, Binding("definition", node))
        case ast.ExceptHandler(name=str(name)):
            scope.bind(name, Binding("other", node))
        case ast.Global():
            top = scope
            while top.parent is not None:
                top = top.parent
            scope.declared.update(dict.fromkeys(node.names, top))
        case ast.Nonlocal():
            for name in node.names:
                outer = scope.parent
                while outer is not None and name not in outer.bindings:
                    outer = outer.parent
                if outer is not None:
                    scope.declared[name] = outer


def _bind_inside(node: ast.AST, scope: Scope) -> None:
    if isinstance(node, (*FUNCTIONS, ast.Lambda)):
        spec = node.args
        for each in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs):
            scope.bind(each.arg, Binding("parameter", each, each.annotation))
        for other in (spec.vararg, spec.kwarg):
            if other is not None:
                scope.bind(other.arg, Binding("parameter", other))
    elif isinstance(node, _COMPREHENSIONS):
        for generator in node.generators:
            for name in _names(generator.target):
                scope.bind(name, Binding("loop", generator))


def _assign(target: ast.expr, value: ast.expr | None, node: ast.AST, scope: Scope) -> None:
    if isinstance(target, ast.Name):
        kind: Kind = "other" if value is None else "value"
        scope.bind(target.id, Binding(kind, node, value))
    elif isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
        owner = scope.owner()
        if target.value.id == "self" and owner is not None:
            kind = "other" if value is None else "value"
            owner.bind(f"self.{target.attr}", Binding(kind, node, value))
    elif isinstance(target, ast.Tuple | ast.List):
        values: list[ast.expr | None] = [None] * len(target.elts)
        if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(values):
            values = list(value.elts)
        for each, its in zip(target.elts, values, strict=True):
            _assign(each, its, node, scope)
    elif isinstance(target, ast.Starred):
        _assign(target.value, None, node, scope)


def _names(target: ast.expr) -> Iterator[str]:
    for node in ast.walk(target):
        if isinstance(node, ast.Name):
            yield node.id
