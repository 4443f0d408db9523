"""Which names some statements read before they bind them, and which they bind."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(frozen=True)
class Names:
    """Names in the order in which they are first read, and first bound.

    `read` are those that must be there before: read first, or read and bound in one.
    """

    read: tuple[str, ...]
    bound: tuple[str, ...]

    @classmethod
    def of(cls, statements: Iterable[ast.stmt]) -> Names:
        """The names of statements that run one after the other."""
        walk = _Walk()
        for statement in statements:
            walk.visit(statement)
        return cls(tuple(walk.read), tuple(walk.bound))


class _Walk(ast.NodeVisitor):
    """Visits in the order of evaluation, as far as names are concerned."""

    def __init__(self) -> None:
        self.read: dict[str, None] = {}
        self.bound: dict[str, None] = {}
        self._own: list[set[str]] = []

    def visit_Name(self, node: ast.Name) -> None:
        if any(node.id in own for own in self._own):
            return
        if isinstance(node.ctx, ast.Load):
            if node.id not in self.bound:
                self.read[node.id] = None
        else:
            self.bound[node.id] = None

    def visit_Assign(self, node: ast.Assign) -> None:
        self._all(node.value, *node.targets)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._all(node.value, node.target)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name) and node.target.id not in self.bound:
            self.read[node.target.id] = None
        self._all(node.value, node.target)

    def visit_For(self, node: ast.For) -> None:
        self._all(node.iter, node.target, *node.body, *node.orelse)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._all(*node.args.defaults, *node.args.kw_defaults)
        every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        every += [each for each in (node.args.vararg, node.args.kwarg) if each]
        with self._apart({each.arg for each in every}):
            self.visit(node.body)

    def generic_visit(self, node: ast.AST) -> None:
        if not isinstance(node, COMPREHENSIONS):
            super().generic_visit(node)
            return
        self.visit(node.generators[0].iter)
        targets = {
            each.id
            for one in node.generators
            for each in ast.walk(one.target)
            if isinstance(each, ast.Name)
        }
        with self._apart(targets):
            super().generic_visit(node)

    def _all(self, *nodes: ast.AST | None) -> None:
        for node in nodes:
            if node is not None:
                self.visit(node)

    @contextmanager
    def _apart(self, names: set[str]) -> Iterator[None]:
        self._own.append(names)
        yield
        self._own.pop()
