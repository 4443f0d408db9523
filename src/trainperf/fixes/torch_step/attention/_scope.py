"""The names of a function that computes attention: what they hold, and where."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from trainperf.errors import CannotRewrite
from trainperf.source.statements import Function, assigned, called
from trainperf.source.text import Place, Source


@dataclass(frozen=True)
class Scope:
    """A function of a file, and the class it is a method of, if any."""

    source: Source
    function: Function

    @cached_property
    def cls(self) -> ast.ClassDef | None:
        """The class around."""
        classes = [node for node in ast.walk(self.source.tree) if isinstance(node, ast.ClassDef)]
        return next((each for each in classes if self.function in each.body), None)

    @cached_property
    def places(self) -> dict[ast.stmt, Place]:
        """Every statement of the function with its block, the function's own included."""
        inner = set(ast.walk(self.function))
        return {node: (node, block) for node, block in self.source.statements if node in inner}

    @cached_property
    def holders(self) -> dict[ast.AST, ast.stmt]:
        """The innermost statement of the function that each of its nodes stands in."""
        found: dict[ast.AST, ast.stmt] = {}
        for statement in self.places:  # parents come before children
            if statement is not self.function:
                found.update(dict.fromkeys(ast.walk(statement), statement))
        return found

    @cached_property
    def owners(self) -> dict[int, ast.stmt]:
        """The statement that holds a block, by the block's identity."""
        found: dict[int, ast.stmt] = {}
        for statement in (self.function, *self.places):
            for _, value in ast.iter_fields(statement):
                if isinstance(value, list):
                    found[id(value)] = statement
        return found

    def above(self, statement: ast.stmt) -> Iterator[ast.stmt]:
        """The statements that ran before one in each call, the nearest first.

        Raises `CannotRewrite` at the head of a loop or another block that may not run once.
        """
        while True:
            block = self.places[statement][1]
            at = next(index for index, each in enumerate(block) if each is statement)
            yield from reversed(block[:at])
            statement = self.owners.get(id(block), self.function)
            if statement is self.function:
                return
            if not isinstance(statement, ast.If | ast.With):
                raise CannotRewrite(f"it begins outside of the block in line {statement.lineno}")

    def changed(self, name: str, before: ast.stmt) -> ast.stmt | None:
        """The nearest statement before another that gives a name a value, or changes it."""
        return next((each for each in self.above(before) if changes(each, name)), None)

    def held(self, name: str, before: ast.stmt) -> tuple[ast.expr, ast.stmt] | None:
        """The value plainly assigned to a name, and the statement; None where it is not plain."""
        found = self.changed(name, before)
        value = plain_value(found, name)
        return None if value is None or found is None else (value, found)

    def attribute(self, name: str) -> list[tuple[ast.expr, Function]]:
        """The values that the class gives `self.name`, each with its method; buffers included."""
        found = []
        for cls in self._classes:
            for method in cls.body:
                if not isinstance(method, Function):
                    continue
                for node in ast.walk(method):
                    value = _given(node, name)
                    if value is not None:
                        found.append((value, method))
        return found

    @cached_property
    def _classes(self) -> list[ast.ClassDef]:
        """The class and those of the file that it derives from."""
        every = {n.name: n for n in ast.walk(self.source.tree) if isinstance(n, ast.ClassDef)}
        found = [self.cls] if self.cls is not None else []
        for cls in found:
            bases = [each.id for each in cls.bases if isinstance(each, ast.Name)]
            found += [every[base] for base in bases if base in every and every[base] not in found]
        return found

    def made_by(self, node: ast.expr) -> str:
        """The class whose object `self.x` is, wherever it is made; '' if not one."""
        name = own_attribute(node)
        made = {called_name(value) for value, _ in self.attribute(name)} if name else set()
        return made.pop() if len(made) == 1 else ""

    def text(self, node: ast.expr) -> str:
        """The source of an expression, in brackets where it goes over lines."""
        text = self.source.text_of(node)
        return ast.unparse(node) if "\n" in text else text

    def reads(self, name: str) -> list[ast.Name]:
        """Every place of the function that reads a name, inner functions included."""
        return [
            node
            for node in ast.walk(self.function)
            if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
        ]


def changes(statement: ast.stmt, name: str) -> bool:
    """Whether a statement, or one within it, binds a name or changes its tensor in place."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Load):
            return True
        for target in assigned(node):
            if isinstance(target, ast.Subscript) and is_name(target.value, name):
                return True
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            called = node.func
            in_place = called.attr.endswith("_") and not called.attr.startswith("_")
            if in_place and is_name(called.value, name):
                return True
    return False


def plain_value(statement: ast.stmt | None, name: str) -> ast.expr | None:
    """The value of `name = value`, None for anything else."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        return statement.value if is_name(statement.targets[0], name) else None
    if isinstance(statement, ast.AnnAssign):
        return statement.value if is_name(statement.target, name) else None
    return None


def _given(node: ast.AST, name: str) -> ast.expr | None:
    """The value that a node gives `self.name`, by assignment or as a buffer."""
    if isinstance(node, ast.Assign):
        return node.value if any(own_attribute(each) == name for each in node.targets) else None
    if isinstance(node, ast.AnnAssign):
        return node.value if own_attribute(node.target) == name else None
    if isinstance(node, ast.Call) and own_attribute(node.func) == "register_buffer":
        given = {each.arg: each.value for each in node.keywords}
        called = node.args[0] if node.args else given.get("name")
        value = node.args[1] if len(node.args) > 1 else given.get("tensor")
        return value if isinstance(called, ast.Constant) and called.value == name else None
    return None


def is_name(node: ast.AST, name: str) -> bool:
    """Whether a node is that plain name."""
    return isinstance(node, ast.Name) and node.id == name


def own_attribute(node: ast.AST) -> str:
    """`x` of `self.x`, '' for anything else."""
    own = isinstance(node, ast.Attribute) and is_name(node.value, "self")
    return node.attr if own else ""  # type: ignore[attr-defined]


def called_name(node: ast.expr) -> str:
    """The last name of what a call calls: `softmax` of `F.softmax(…)`; '' if it is no call."""
    return called(node) if isinstance(node, ast.Call) else ""
