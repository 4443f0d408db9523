"""Attention that is written out, read backwards from the product of weights and values.

It is read in the shapes people write: those of nanoGPT, minGPT and BERT, the function of the
annotated Transformer, einsum.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from trainperf.errors import CannotRewrite
from trainperf.source.arguments import argument, starred
from trainperf.source.statements import Function, called, dotted, parameters
from trainperf.source.text import Source

MODULES = ("torch", "th", "F", "nn", "functional", "np", "math")
"""Usual names of the modules of PyTorch, NumPy and Python whose functions are called."""

CASTS = ("float", "contiguous", "to", "type_as", "type")
"""Methods that change a tensor's type or its place in memory, and no value."""

SHAPED = ("bool", "to", "view", "unsqueeze", "float", "contiguous", "type", "reshape", "byte")
"""Methods after which a triangle is one still."""

KINDS = {ast.Mult: "times", ast.Div: "over", ast.Add: "plus"}

ONES = r"torch\.ones\(\(?([\w.]+), \1\)?(?:, [^()]*)?\)"
PART = r"(?:\[(?:.*, )?:([\w.]+), :\2\])?"
LOWER = re.compile(rf"torch\.tril\({ONES}\){PART} == 0")
UPPER = re.compile(rf"torch\.triu\({ONES}, (?:diagonal=)?1\){PART}")
"""Triangles of ones, or the part of one that begins at its corner, as they are spelled."""

CONTINUES = re.compile(r"cache|past|\bcat\b|concat")
"""Stands in functions that may put keys of earlier calls before those of this one."""


@dataclass(frozen=True)
class Operation:
    """A call by its last name, what it works on first, and the arguments after that."""

    name: str
    of: ast.expr
    args: tuple[ast.expr, ...]
    keywords: dict[str | None, ast.expr]

    def argument(self, index: int, name: str) -> ast.expr | None:
        """An argument by its place after the first operand, or by its name."""
        return self.args[index] if index < len(self.args) else self.keywords.get(name)


def operation(node: ast.AST) -> Operation | None:
    """Read `torch.f(x, …)`, `f(x, …)` and `x.f(…)` alike; None for what is no such call."""
    if not isinstance(node, ast.Call) or starred(node):
        return None
    keywords = {given.arg: given.value for given in node.keywords}
    name, args, owner = called(node), tuple(node.args), node.func
    if isinstance(owner, ast.Attribute) and dotted(owner.value).split(".")[0] not in MODULES:
        return Operation(name, owner.value, args, keywords)
    return Operation(name, args[0], args[1:], keywords) if args else None


# ---------------------------------------------------------------------------- products


@dataclass(frozen=True)
class Product:
    """A product of two tensors; of an einsum, the dimensions of both and of the result.

    `flat` where its spelling tells that they have three dimensions.
    """

    left: ast.expr
    right: ast.expr
    dimensions: tuple[str, ...] = ()
    flat: bool = False


@dataclass(frozen=True)
class Operand:
    """A tensor, and the method that puts its dimensions in order ('' where they are)."""

    node: ast.expr
    moved: str = ""


def product(node: ast.AST) -> Product | None:
    """Read `a @ b`, `torch.matmul(a, b)`, `a.bmm(b)`, an einsum; None for anything else."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        return Product(node.left, node.right, flat=_turned(node.right) == ["1", "2"])
    found = operation(node)
    if found is None or found.name not in ("matmul", "bmm", "einsum"):
        return None
    if found.name == "einsum":
        return _einsum(found)
    return Product(found.of, found.args[0], flat=found.name == "bmm") if found.args else None


def _turned(node: ast.expr) -> list[str]:
    """The dimensions that `k.transpose(…)` exchanges, in order; none for anything else."""
    found = operation(node)
    turns = found is not None and found.name == "transpose"
    return sorted(map(ast.unparse, found.args)) if found is not None and turns else []


def _einsum(found: Operation) -> Product | None:
    others = found.args
    if len(others) == 1 and isinstance(others[0], ast.List | ast.Tuple):
        others = tuple(others[0].elts)
    # Where the text comes last it is of einops, and a dimension's name may have several letters.
    text = found.of.value if isinstance(found.of, ast.Constant) else ""
    named = re.fullmatch(r"(\w+),(\w+)->(\w+)", str(text).replace(" ", ""))
    return Product(*others, named.groups()) if named and len(others) == 2 else None


def query_and_key(found: Product) -> tuple[Operand, Operand]:
    """The two operands of a product of scores, each as (…, positions, size of a head)."""
    left, right = found.left, found.right
    if not found.dimensions:
        turned = operation(right)
        if turned is not None and _turned(right) in (["-1", "-2"], ["2", "3"], ["1", "2"]):
            return Operand(left), Operand(turned.of)
        return Operand(left), Operand(right, ".transpose(-2, -1)")
    one, other, scores = found.dimensions
    summed = "".join(name for name in one if name in other and name not in scores)
    asked, known = scores[:-1] + summed, scores[:-2] + scores[-1] + summed
    return Operand(left, _moved(one, asked)), Operand(right, _moved(other, known))


def value_and_result(found: Product) -> tuple[Operand, str]:
    """The values as (…, positions, size of a head), and how the result's dimensions move."""
    if not found.dimensions:
        return Operand(found.right), ""
    weights, values, result = found.dimensions
    sizes = "".join(name for name in values if name not in weights)
    value = Operand(found.right, _moved(values, weights[:-2] + weights[-1] + sizes))
    return value, _moved(weights[:-1] + sizes, result)


def _moved(dimensions: str, wanted: str) -> str:
    """The method that brings dimensions into another order: `.transpose(1, 2)`, or ''."""
    if sorted(dimensions) != sorted(wanted) or len(set(wanted)) != len(wanted):
        raise CannotRewrite("its einsum is no product of queries and keys, or weights and values")
    order = [dimensions.index(name) for name in wanted]
    apart = [index for index, place in enumerate(order) if index != place]
    if len(apart) == 2:
        return f".transpose({apart[0]}, {apart[1]})"
    return f".permute({', '.join(map(str, order))})" if apart else ""


# ------------------------------------------------------------------------------- scores


@dataclass(frozen=True)
class Step:
    """A change of the scores; `test` is the `if` around it."""

    kind: str  # "times", "over", "plus", or "hide" (where `value`)
    value: ast.expr
    fill: ast.expr | None = None
    test: ast.expr | None = None


@dataclass(frozen=True)
class Chain:
    """The computation of a tensor: a product of two, and the changes of it since.

    `dropped` is the probability of a dropout and when it is on ("" for always). `used` are
    statements that serve nothing else, `names` those they give a value.
    """

    product: Product
    flat: bool
    steps: tuple[Step, ...] = ()
    soft: bool = False
    dropped: tuple[str, str] | None = None
    used: tuple[ast.stmt, ...] = ()
    names: frozenset[str] = frozenset()

    def then(self, step: Step) -> Chain:
        """The same with one more thing done to the scores."""
        if self.soft:
            raise CannotRewrite(f"line {step.value.lineno} changes the weights after the softmax")
        if step.kind in ("times", "over") and any(done.kind == "plus" for done in self.steps):
            raise CannotRewrite("the scores are scaled after something was added to them")
        return replace(self, steps=(*self.steps, step))


@dataclass(frozen=True)
class Attention:
    """The product that gives the result, and what of the function it was computed from."""

    product: ast.expr
    chain: Chain
    value: Operand
    moved: str


class Reading:
    """A function of a file, read backwards."""

    def __init__(self, source: Source, function: Function) -> None:
        self.source, self.function, self.module = source, function, source.module
        classes = (node for node in self.module.around(function) if isinstance(node, ast.ClassDef))
        self.cls = next(classes, None)

    def attentions(self) -> list[Attention]:
        """The attentions that the function computes; raises `CannotRewrite` where it has none."""
        found = []
        refused = CannotRewrite("its softmax is not one of scores that a product weights values by")
        for node in ast.walk(self.function):
            made = product(node)
            if made is None or not isinstance(node, ast.expr):
                continue
            try:
                chain = self.chain(made.left)
                if chain is not None and chain.soft:
                    found.append(Attention(node, chain, *value_and_result(made)))
            except CannotRewrite as error:
                refused = error
        if not found:
            raise refused
        return found

    def chain(self, node: ast.expr) -> Chain | None:
        """Read the scores or weights that a node is; None where it is no such thing.

        Raises `CannotRewrite` where they are, and something about them cannot be carried over.
        """
        made = product(node)
        if made is not None:
            return Chain(made, made.flat or self._is_flat(made.left))
        if isinstance(node, ast.Name):
            return self._named(node.id, self.statement(node))
        kind = KINDS.get(type(node.op)) if isinstance(node, ast.BinOp) else None
        if isinstance(node, ast.BinOp) and kind is not None:
            left = self.chain(node.left)
            if left is not None:
                return left.then(Step(kind, node.right))
            right = self.chain(node.right) if kind != "over" else None
            return right and right.then(Step(kind, node.left))
        return self._called(node) if isinstance(node, ast.Call) else None

    def _named(self, name: str, before: ast.stmt) -> Chain | None:
        """What a name holds that was given it by a statement, or by an `if` of one change."""
        statement = doing = self._changed(name, before)
        if statement is None or doing is None:
            return None
        test = None
        if isinstance(statement, ast.If):
            inside = [inner for inner in statement.body if _changes(inner, name)]
            if statement.orelse or len(inside) != 1:
                return None
            doing, test = inside[0], statement.test
        value = _value(doing, name)
        found = None if value is None else self.chain(value)
        if found is not None and test is not None:
            found = _under(self._named(name, statement), found, test)
        if found is None:
            return None
        alone = isinstance(statement, ast.If) and len(statement.body) == 1
        used = (*found.used, statement if alone else doing)
        return replace(found, used=used, names=found.names | {name})

    def _called(self, node: ast.Call) -> Chain | None:
        """A mask, the softmax or dropout, by a function, a method or a module."""
        made = self._attribute(node.func) or node.func
        if isinstance(made, ast.Call) and len(node.args) == 1:
            if called(made) == "Softmax":
                return self._softened(self.chain(node.args[0]), argument(made, "dim", 0))
            module = self.source.text_of(node.func)
            dropped = (f"{module}.p", "self.training")
            return (
                _dropped(self.chain(node.args[0]), dropped) if called(made) == "Dropout" else None
            )
        if isinstance(made, ast.Name) and made.id in parameters(self.function):
            dropped = (f"{made.id}.p", f"{made.id}.training")
            return _dropped(self.chain(node.args[0]), dropped) if "drop" in made.id else None
        found = operation(node)
        name = found.name.removesuffix("_") if found is not None else ""
        if found is None or name not in (*CASTS, "masked_fill", "softmax", "dropout"):
            return None
        chain = self.chain(found.of)
        if chain is None or name in CASTS:
            return chain
        if name == "softmax":
            return self._softened(chain, found.argument(0, "dim"))
        if name == "dropout":
            given, training = found.argument(0, "p"), found.argument(1, "training")
            always = training is None or ast.unparse(training) == "True"
            when = "" if always or training is None else self.text(training)
            return _dropped(chain, ("0.5" if given is None else self.text(given), when))
        hidden, fill = found.argument(0, "mask"), found.argument(1, "value")
        return None if hidden is None else chain.then(Step("hide", hidden, fill))

    def _softened(self, chain: Chain | None, dim: ast.expr | None) -> Chain | None:
        if chain is None:
            return None
        last = "" if dim is None else ast.unparse(dim)
        if chain.soft or last not in ("-1", "2" if chain.flat else "3"):
            raise CannotRewrite("the softmax is not over the last dimension, as far as is seen")
        return replace(chain, soft=True)

    def _is_flat(self, node: ast.expr) -> bool:
        """Whether `x`, or a linear layer of it, has the dimensions of `B, T, C = x.shape`."""
        layer = self._attribute(node.func) if isinstance(node, ast.Call) else None
        if isinstance(node, ast.Call) and isinstance(layer, ast.Call) and called(layer) == "Linear":
            return self._is_flat(node.args[0])
        if not isinstance(node, ast.Name):
            return False
        if (held := self._held(node)) is not None:
            return self._is_flat(held)
        shapes = (f"{node.id}.shape", f"{node.id}.size()")
        return any(
            isinstance(taken.targets[0], ast.Tuple) and len(taken.targets[0].elts) == 3
            for taken in ast.walk(self.function)
            if isinstance(taken, ast.Assign) and ast.unparse(taken.value) in shapes
        )

    # ---------------------------------------------------------------------- what is held

    def statement(self, node: ast.AST) -> ast.stmt:
        """The statement that a node stands in."""
        around = (node, *self.module.around(node))
        return next(inner for inner in around if isinstance(inner, ast.stmt))

    def text(self, node: ast.AST) -> str:
        """The source of an expression on one line."""
        text = self.source.text_of(node) if isinstance(node, ast.expr) else ast.unparse(node)
        return ast.unparse(node) if "\n" in text else text

    def _above(self, statement: ast.stmt) -> Iterator[ast.stmt]:
        """The statements of a function that ran before one in each call, the nearest first."""
        while not isinstance(statement, Function):
            around = self.module.parent(statement)
            blocks = (value for _, value in ast.iter_fields(around or statement))
            block = next(
                value for value in blocks if isinstance(value, list) and statement in value
            )
            yield from reversed(block[: block.index(statement)])
            if not isinstance(around, ast.If | ast.With | Function):
                raise CannotRewrite(f"it begins outside of the block in line {statement.lineno}")
            statement = around

    def _changed(self, name: str, before: ast.stmt) -> ast.stmt | None:
        """The nearest statement before another that gives a name a value, or changes it."""
        return next((inner for inner in self._above(before) if _changes(inner, name)), None)

    def _held(self, node: ast.Name) -> ast.expr | None:
        """The value plainly assigned to a name; None where it is not plain."""
        found = self._changed(node.id, self.statement(node))
        return None if found is None else _value(found, node.id)

    def _attribute(self, node: ast.AST) -> ast.expr | None:
        """The one value that the class gives `self.x`, buffers included; None without one."""
        name, values = _own(node), []
        for inner in ast.walk(self.cls) if name and self.cls is not None else ():
            if isinstance(inner, ast.Assign) and name in map(_own, inner.targets):
                values.append(inner.value)
            elif isinstance(inner, ast.Call) and called(inner) == "register_buffer":
                buffer, value = inner.args[:2]
                values += [value] if ast.unparse(buffer) == repr(name) else []
        return values[0] if len(values) == 1 else None

    # -------------------------------------------------------------------------- triangles

    def hides_later(self, step: Step) -> bool:
        """Whether a step always hides what is above the diagonal of a square, and nothing else.

        `self.bias[…, :T, :T] == 0` and `~mask` of a lower triangle of ones, or an upper one itself.
        """
        if step.kind != "hide" or step.test is not None:
            return False
        if any(CONTINUES.search(ast.unparse(statement)) for statement in self.function.body):
            return False
        mask = self._spelled(step.value)
        return (LOWER.fullmatch(mask) or UPPER.fullmatch(mask)) is not None

    def _spelled(self, node: ast.expr) -> str:
        """The text of a mask, with what names and buffers hold in their places."""
        held = self._held(node) if isinstance(node, ast.Name) else self._attribute(node)
        made = operation(node)
        if held is not None:
            return self._spelled(held)
        if isinstance(node, ast.Subscript):
            part = ast.unparse(node).removeprefix(ast.unparse(node.value))
            return f"{self._spelled(node.value)}{part}"
        if isinstance(node, ast.Compare) and ast.unparse(node).endswith(" == 0"):
            return f"{self._spelled(node.left)} == 0"
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert):
            return f"{self._spelled(node.operand)} == 0"
        return self._spelled(made.of) if made and made.name in SHAPED else ast.unparse(node)


def _under(before: Chain | None, found: Chain, test: ast.expr) -> Chain | None:
    """The chain `found` in an `if` as one step, or dropout, more than there was before it."""
    if before is not None and len(found.steps) == len(before.steps) + 1:
        return replace(found, steps=(*before.steps, replace(found.steps[-1], test=test)))
    if before is None or before.dropped is not None or found.dropped is None:
        return None
    probability, when = found.dropped
    text = ast.unparse(test)
    text = f"({text})" if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or) else text
    return replace(found, dropped=(probability, f"{text} and {when}" if when else text))


def _dropped(chain: Chain | None, dropped: tuple[str, str]) -> Chain | None:
    if chain is None or not chain.soft or chain.dropped is not None:
        return None
    return replace(chain, dropped=dropped)


def _changes(statement: ast.stmt, name: str) -> bool:
    """Whether a statement, or one within it, binds a name or changes its tensor in place."""
    for node in ast.walk(statement):
        bound = isinstance(node, ast.Name | ast.Subscript) and not isinstance(node.ctx, ast.Load)
        in_place = isinstance(node, ast.Attribute) and re.search(r"[a-z]_$", node.attr)
        changed = node if isinstance(node, ast.Name) else getattr(node, "value", None)
        if (bound or in_place) and isinstance(changed, ast.Name) and changed.id == name:
            return True
    return False


def _value(statement: ast.stmt, name: str) -> ast.expr | None:
    """The value of `name = value`, None for anything else."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        return statement.value if ast.unparse(statement.targets[0]) == name else None
    return None


def _own(node: ast.AST) -> str:
    """`x` of `self.x`, '' for anything else."""
    own = isinstance(node, ast.Attribute) and ast.unparse(node.value) == "self"
    return node.attr if isinstance(node, ast.Attribute) and own else ""
