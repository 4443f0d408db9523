"""Calls of tensors' operations, whether written as functions of PyTorch or as methods."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from trainperf.errors import CannotRewrite
from trainperf.source.statements import Function, assigned, called, dotted
from trainperf.source.text import Place, Source

MODULES = ("torch", "th", "F", "nn", "functional", "np", "math")
"""Usual names of the modules of PyTorch, NumPy and Python whose functions are called."""


@dataclass(frozen=True)
class Operation:
    """A call by its last name, what it works on first, and the arguments after that."""

    name: str
    of: ast.expr
    args: tuple[ast.expr, ...]
    keywords: dict[str, ast.expr]

    def argument(self, index: int, name: str) -> ast.expr | None:
        """An argument by its place after the first operand, or by its name."""
        return self.args[index] if index < len(self.args) else self.keywords.get(name)


def operation(node: ast.expr) -> Operation | None:
    """Read `torch.f(x, …)`, `f(x, …)` and `x.f(…)` alike; None for what is no such call."""
    if not isinstance(node, ast.Call) or any(each.arg is None for each in node.keywords):
        return None
    if any(isinstance(each, ast.Starred) for each in node.args):
        return None
    keywords = {str(each.arg): each.value for each in node.keywords}
    name, args = called_name(node), tuple(node.args)
    if isinstance(node.func, ast.Attribute) and not _module(node.func.value):
        return Operation(name, node.func.value, args, keywords)
    return Operation(name, args[0], args[1:], keywords) if args else None


def _module(node: ast.expr) -> bool:
    return dotted(node).partition(".")[0] in MODULES


def number(node: ast.expr | None) -> float | None:
    """The number that a piece of source is: `-1e9`, `float("-inf")`, `2 ** 15`; None if none."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return float(node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = number(node.operand)
        return None if inner is None else -inner
    if isinstance(node, ast.Attribute) and node.attr == "inf":
        return float("inf")
    if isinstance(node, ast.Call) and called_name(node) in ("float", "tensor") and node.args:
        given = node.args[0]
        text = given.value if isinstance(given, ast.Constant) else None
        return float(text) if isinstance(text, str) else number(given)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div | ast.Pow):
        one, other = number(node.left), number(node.right)
        if one is None or not other:
            return None
        return one / other if isinstance(node.op, ast.Div) else float(one**other)
    return None


def whole(node: ast.expr | None) -> int | None:
    """A whole number that is written out, None for anything else."""
    found = number(node)
    return int(found) if found is not None and found.is_integer() else None


PRODUCTS = ("matmul", "bmm", "einsum")


@dataclass(frozen=True)
class Product:
    """A product of two tensors; `rank` is their number of dimensions, None if not known.

    `equation` are the names of the dimensions of both and of the result, for an einsum.
    """

    left: ast.expr
    right: ast.expr
    rank: int | None = None
    equation: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True)
class Operand:
    """A tensor, and the method that puts its dimensions in order ('' where they are)."""

    node: ast.expr
    moved: str = ""


def product(node: ast.expr) -> Product | None:
    """Read `a @ b`, `torch.matmul(a, b)`, `a.bmm(b)`, an einsum; None for anything else."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        return Product(node.left, node.right, _told(node.right))
    if called_name(node) not in PRODUCTS:
        return None
    if called_name(node) == "einsum":
        return _einsum(node)
    found = operation(node)
    other = found.argument(0, "other") or found.argument(0, "mat2") if found else None
    if found is None or other is None:
        return None
    return Product(found.of, other, 3 if found.name == "bmm" else _told(other))


def _einsum(node: ast.expr) -> Product | None:
    assert isinstance(node, ast.Call)
    others = node.args[1:]
    if len(others) == 1 and isinstance(others[0], ast.List | ast.Tuple):
        others = list(others[0].elts)
    # Where the text comes last it is of einops, and a dimension's name may have several letters.
    if len(others) != 2 or not isinstance(node.args[0], ast.Constant) or node.keywords:
        return None
    text = str(node.args[0].value)
    inputs, arrow, result = text.partition("->")
    parts = [*inputs.split(","), result]
    if not arrow or len(parts) != 3:
        return None
    named = tuple(map(_dimensions, parts))
    if len(named[0]) < 2 or len(named[2]) < 2:
        return None
    rank = None if "..." in text else len(named[2])
    return Product(others[0], others[1], rank, named)


def _dimensions(text: str) -> tuple[str, ...]:
    plain = text.replace(" ", "")
    head = ("...",) if plain.startswith("...") else ()
    return (*head, *plain.removeprefix("..."))


def query_and_key(found: Product) -> tuple[Operand, Operand]:
    """The two operands of a product of scores, each as (…, positions, size of a head)."""
    if not found.equation:
        return Operand(found.left), _untransposed(found.right)
    one, other, scores = found.equation
    *batch, asked, known = scores
    summed = [each for each in one if each in other and each not in scores]
    if len(summed) != 1 or asked in other or known in one or known not in other:
        raise CannotRewrite("its einsum is no product of queries and keys")
    return (
        Operand(found.left, moved(one, (*batch, asked, *summed))),
        Operand(found.right, moved(other, (*batch, known, *summed))),
    )


def value_and_result(found: Product) -> tuple[Operand, str]:
    """The values as (…, positions, size of a head), and how the result's dimensions move."""
    if not found.equation:
        return Operand(found.right), ""
    weights, values, result = found.equation
    *batch, asked, known = weights
    sizes = [each for each in values if each not in weights]
    if len(sizes) != 1 or known not in values or asked in values or known in result:
        raise CannotRewrite("its einsum is no product of weights and values")
    return (
        Operand(found.right, moved(values, (*batch, known, *sizes))),
        moved((*batch, asked, *sizes), result),
    )


def moved(dimensions: tuple[str, ...], wanted: tuple[str, ...]) -> str:
    """The method that brings named dimensions into another order: `.transpose(1, 2)`, or ''.

    Raises `CannotRewrite` where they are not the same.
    """
    if sorted(dimensions) != sorted(wanted) or len(set(wanted)) != len(wanted):
        raise CannotRewrite("its einsum leaves dimensions out, or repeats them")
    order = [dimensions.index(each) for each in wanted]
    apart = [index for index, each in enumerate(order) if index != each]
    if not apart:
        return ""
    if "..." in wanted:
        raise CannotRewrite("its einsum moves dimensions behind those it does not name")
    if len(apart) == 2:
        return f".transpose({apart[0]}, {apart[1]})"
    return f".permute({', '.join(map(str, order))})"


def untransposed(node: ast.expr) -> tuple[ast.expr, int | None] | None:
    """`k` of `k.transpose(-2, -1)` and its like, and the number of its dimensions if it tells."""
    if isinstance(node, ast.Attribute) and node.attr == "mT":
        return node.value, None
    found = operation(node)
    if found is None:
        return None
    places = [whole(each) for each in found.args]
    if found.name in ("transpose", "swapaxes", "swapdims"):
        ranks = {(-2, -1): None, (2, 3): 4, (1, 2): 3}
        pair = tuple(sorted(each for each in places if each is not None))
        return (found.of, ranks[pair]) if pair in ranks else None
    return None


def _told(right: ast.expr) -> int | None:
    """The number of dimensions that a transposition tells."""
    found = untransposed(right)
    return None if found is None else found[1]


def _untransposed(node: ast.expr) -> Operand:
    if (isinstance(node, ast.Attribute) and node.attr == "T") or called_name(node) == "t":
        raise CannotRewrite("its tensors have two dimensions")
    found = untransposed(node)
    return Operand(node, ".transpose(-2, -1)") if found is None else Operand(found[0])


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
