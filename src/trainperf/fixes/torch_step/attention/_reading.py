"""Attention that is written out, read backwards from the product of weights and values."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace

from trainperf.errors import CannotRewrite
from trainperf.fixes.torch_step.attention._calls import (
    Operation,
    Product,
    Scope,
    called_name,
    changes,
    is_name,
    operation,
    own_attribute,
    plain_value,
    product,
    whole,
)

CASTS = ("float", "contiguous", "to", "type_as", "type")
"""Methods that change a tensor's type or its place in memory, and no value."""


@dataclass(frozen=True)
class Step:
    """A change of the scores: `test` is the `if` around it, `at` the statement."""

    kind: str  # "times", "over", "plus", or "hide" (where `value`)
    value: ast.expr
    at: ast.stmt
    fill: ast.expr | None = None
    test: ast.expr | None = None


@dataclass(frozen=True)
class Dropped:
    """Dropout of the weights: its probability, and when it is on (None: always)."""

    probability: str
    when: str | None
    parts: tuple[ast.expr, ...]
    at: ast.stmt


@dataclass(frozen=True)
class Chain:
    """The computation of a tensor: a product, and the changes of it since.

    `used` are statements that serve nothing else, `names` those they give a value.
    """

    product: Product
    at: ast.stmt
    steps: tuple[Step, ...] = ()
    rank: int | None = None
    soft: bool = False
    dropped: Dropped | None = None
    used: tuple[ast.stmt, ...] = ()
    names: frozenset[str] = frozenset()

    def then(self, step: Step) -> Chain:
        """The same with one more thing done to the scores."""
        if self.soft:
            raise CannotRewrite(f"line {step.at.lineno} changes the weights after the softmax")
        return replace(self, steps=(*self.steps, step))

    def by(self, statement: ast.stmt, name: str) -> Chain:
        """The same, held by a name since a statement."""
        return replace(self, used=(*self.used, statement), names=self.names | {name})


def weights_of(scope: Scope, node: ast.expr, at: ast.stmt) -> Chain | None:
    """Read the weights that `node` is in the statement `at`; None where it is no such thing.

    Raises `CannotRewrite` where they are, and something about them cannot be carried over.
    """
    found = _chain(scope, node, at)
    return found if found is not None and found.soft else None


def _chain(scope: Scope, node: ast.expr, at: ast.stmt) -> Chain | None:
    made = product(node)
    if made is not None:
        return Chain(made, at, rank=made.rank or _rank(scope, made.left, at))
    if isinstance(node, ast.Name):
        return _named(scope, node.id, at)
    if isinstance(node, ast.BinOp):
        return _arithmetic(scope, node, at)
    if not isinstance(node, ast.Call):
        return None
    return _module(scope, node, at) or _called(scope, node, at)


def _rank(scope: Scope, node: ast.expr, at: ast.stmt) -> int | None:
    """How many dimensions `self.query(x)` has, if `B, T, C = x.shape` tells; else None."""
    if isinstance(node, ast.Call) and len(node.args) == 1 and scope.made_by(node.func) == "Linear":
        return _rank(scope, node.args[0], at)
    if not isinstance(node, ast.Name):
        return None
    try:
        held = scope.held(node.id, at)
    except CannotRewrite:
        return None
    if held is not None:
        return _rank(scope, *held)
    counts = {
        len(target.elts)
        for each in ast.walk(scope.function)
        if isinstance(each, ast.Assign)
        and isinstance(target := each.targets[0], ast.Tuple)
        and ast.unparse(each.value) in (f"{node.id}.shape", f"{node.id}.size()")
        and not any(isinstance(part, ast.Starred) for part in target.elts)
    }
    return counts.pop() if len(counts) == 1 else None


# ------------------------------------------------------------------- what a name holds


def _named(scope: Scope, name: str, at: ast.stmt) -> Chain | None:
    try:
        statement = scope.changed(name, at)
    except CannotRewrite:
        return None
    if statement is None:
        return None
    test = None
    doing = statement
    if isinstance(statement, ast.If):
        if statement.orelse:
            return _refused_if_soft(scope, statement, name)
        inside = [each for each in statement.body if changes(each, name)]
        if len(inside) != 1:
            return None
        doing, test = inside[0], statement.test
    value = plain_value(doing, name)
    found = _in_place(scope, doing, name) if value is None else _chain(scope, value, doing)
    if found is None:
        return None
    if test is not None:
        before = _named(scope, name, statement)
        found = None if before is None else _under(before, found, test, doing)
    whole_if = isinstance(statement, ast.If) and len(statement.body) == 1
    return found.by(statement if whole_if else doing, name) if found is not None else None


def _refused_if_soft(scope: Scope, statement: ast.If, name: str) -> Chain | None:
    """Nothing, or the reason where a branch of an `if` holds scores."""
    for branch in (statement.body, statement.orelse):
        for each in branch:
            value = plain_value(each, name)
            if value is not None and _chain(scope, value, each) is not None:
                raise CannotRewrite(f"the `if` in line {statement.lineno} computes it in two ways")
    return None


def _under(before: Chain, found: Chain, test: ast.expr, at: ast.stmt) -> Chain | None:
    """Add the one step, or the dropout, that an `if` adds to the chain `found` in it."""
    kept = replace(before, used=found.used, names=found.names)
    if found.soft == before.soft and len(found.steps) == len(before.steps) + 1:
        return kept.then(replace(found.steps[-1], test=test))
    if before.soft and before.dropped is None and found.dropped is not None:
        when = f" and {found.dropped.when}" if found.dropped.when else ""
        text = ast.unparse(test)
        text = f"({text})" if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or) else text
        parts = (*found.dropped.parts, test)
        return replace(kept, dropped=replace(found.dropped, when=text + when, parts=parts))
    raise CannotRewrite(f"the `if` around line {at.lineno} does more than one thing")


def _in_place(scope: Scope, statement: ast.stmt, name: str) -> Chain | None:
    """`scores *= scale`, `scores.masked_fill_(mask, value)`."""
    if isinstance(statement, ast.AugAssign) and is_name(statement.target, name):
        kind = _KINDS.get(type(statement.op))
        before = _named(scope, name, statement)
        if before is None or kind is None:
            return None
        return before.then(Step(kind, statement.value, statement))
    if isinstance(statement, ast.Expr) and called_name(statement.value).endswith("_"):
        return _called(scope, statement.value, statement)
    return None


# ---------------------------------------------------------------------- what is done to it

_KINDS = {ast.Mult: "times", ast.Div: "over", ast.Add: "plus"}


def _arithmetic(scope: Scope, node: ast.BinOp, at: ast.stmt) -> Chain | None:
    kind = _KINDS.get(type(node.op))
    if kind is None:
        return None
    left = _chain(scope, node.left, at)
    if left is not None:
        return left.then(Step(kind, node.right, at))
    if kind not in ("times", "plus"):
        return None
    right = _chain(scope, node.right, at)
    return None if right is None else right.then(Step(kind, node.left, at))


def _called(scope: Scope, node: ast.expr, at: ast.stmt) -> Chain | None:
    found = operation(node)
    if found is None:
        return None
    name = found.name.removesuffix("_")
    if name not in (*CASTS, "masked_fill", "softmax", "dropout"):
        return None
    chain = _chain(scope, found.of, at)
    if chain is None or name in CASTS:
        return chain
    if name == "softmax":
        return _softened(chain, found.argument(0, "dim"), at)
    if name == "dropout":
        return _functional_dropout(scope, chain, found, at)
    hidden, fill = found.argument(0, "mask"), found.argument(1, "value")
    if hidden is None or fill is None:
        return None
    return chain.then(Step("hide", hidden, at, fill))


def _softened(chain: Chain, dim: ast.expr | None, at: ast.stmt) -> Chain:
    last = whole(dim)
    if chain.soft:
        raise CannotRewrite(f"line {at.lineno} takes a second softmax")
    if last != -1 and (last is None or chain.rank is None or last != chain.rank - 1):
        if last != 3 or chain.rank is not None:
            raise CannotRewrite("the softmax is not over the last dimension, as far as is seen")
        chain = replace(chain, rank=4)
    return replace(chain, soft=True)


# ------------------------------------------------------------------------------ modules


def _module(scope: Scope, node: ast.Call, at: ast.stmt) -> Chain | None:
    """`self.softmax(x)`, `nn.Softmax(dim=-1)(x)`, `self.dropout(x)`, `dropout(x)`."""
    if len(node.args) != 1 or node.keywords:
        return None
    name = own_attribute(node.func)
    cls = scope.made_by(node.func) if name else called_name(node.func)
    if cls not in ("Softmax", "Dropout") and not isinstance(node.func, ast.Name):
        chain = _chain(scope, node.args[0], at) if name else None
        if chain is not None and chain.soft:
            raise CannotRewrite(f"line {at.lineno} gives the weights to self.{name}")
        return None
    if cls == "Softmax":
        chain = _chain(scope, node.args[0], at)
        made = scope.attribute(name)[0][0] if name else node.func
        return None if chain is None else _softened(chain, _dim(made), at)
    if cls == "Dropout" and name:
        chain = _chain(scope, node.args[0], at)
        return _with_dropout(chain, f"self.{name}.p", "self.training", (), at)
    return _parameter_dropout(scope, node, at)


def _dim(made: ast.expr) -> ast.expr | None:
    """The dimension that `nn.Softmax(…)` is given."""
    assert isinstance(made, ast.Call)
    named = next((each.value for each in made.keywords if each.arg == "dim"), None)
    return made.args[0] if made.args else named


def _parameter_dropout(scope: Scope, node: ast.Call, at: ast.stmt) -> Chain | None:
    """`dropout(weights)` where the module is an argument of the function."""
    if not isinstance(node.func, ast.Name):
        return None
    name = node.func.id
    arguments = [*scope.function.args.args, *scope.function.args.kwonlyargs]
    own = next((each for each in arguments if each.arg == name), None)
    if own is None or "dropout" not in name.lower():
        return None
    chain = _chain(scope, node.args[0], at)
    parts = (node.func,)
    return _with_dropout(chain, f"{name}.p", f"{name}.training", parts, at)


def _functional_dropout(scope: Scope, chain: Chain, found: Operation, at: ast.stmt) -> Chain | None:
    """`F.dropout(weights, p=…, training=…)`: always on where it does not say."""
    probability = found.argument(0, "p")
    training = found.argument(1, "training") or found.keywords.get("train")
    if len(found.args) + len(found.keywords) > 1 + (training is not None):
        return None
    text = "0.5" if probability is None else scope.text(probability)
    always = training is None or (isinstance(training, ast.Constant) and training.value is True)
    when = None if always or training is None else scope.text(training)
    parts = tuple(each for each in (probability, training) if each is not None)
    return _with_dropout(chain, text, when, parts, at)


def _with_dropout(
    chain: Chain | None,
    probability: str,
    when: str | None,
    parts: tuple[ast.expr, ...],
    at: ast.stmt,
) -> Chain | None:
    if chain is None or not chain.soft:
        return None
    if chain.dropped is not None:
        raise CannotRewrite(f"line {at.lineno} drops weights a second time")
    return replace(chain, dropped=Dropped(probability, when, parts, at))
