"""Attention that is written out, read backwards from the product of weights and values.

It is read in the shapes people write, those of nanoGPT, minGPT, BERT and einsum, and put into one
call of `scaled_dot_product_attention`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from trainperf.errors import CannotRewrite
from trainperf.model import Site
from trainperf.rewrite import Script
from trainperf.rewrite.imports import imports, name_of
from trainperf.source.arguments import argument, starred
from trainperf.source.statements import Function, assigned, called, dotted, names_in
from trainperf.source.text import Source

WIDTH = 100
"""Columns from which each argument of the call has a line."""

ATOM = ast.Name | ast.Attribute | ast.Subscript | ast.Call | ast.Constant

MODULES = ("torch", "th", "F", "nn", "functional", "np", "math")
"""Usual names of the modules of PyTorch, NumPy and Python whose functions are called."""

CASTS = ("float", "contiguous", "to", "type_as", "type")
"""Methods that change a tensor's type or its place in memory, and no value."""

SHAPED = ("bool", "to", "view", "unsqueeze", "float", "contiguous", "type", "reshape", "byte")
"""Methods after which a triangle is one still."""

KINDS = {ast.Mult: "times", ast.Div: "over", ast.Add: "plus"}

INFINITE = re.compile(r"-?float\(['\"]-?inf(inity)?['\"]\)|-\w+\.inf")
"""What hides a score altogether; other numbers are added to it, as they would be in its place."""

SIZE = r"(\w+)\.(?:size\(-1\)|shape\[-1\])"
OWN_SCALE = re.compile(rf"1(?:\.0)? / (?:\w+\.)?sqrt\({SIZE}\)|{SIZE} ?\*\* ?-0\.5")
"""The scale that the kernel has by itself, of the queries or keys that it names."""

ONES = r"torch\.ones\(\(?([\w.]+), \1\)?(?:, [^()]*)?\)"
PART = r"(?:\[(?:.*, )?:([\w.]+), :\2\])?"
LOWER = re.compile(rf"torch\.tril\({ONES}\){PART} == 0")
UPPER = re.compile(rf"torch\.triu\({ONES}, (?:diagonal=)?1\){PART}")
"""Triangles of ones, or the part of one that begins at its corner, as they are spelled."""

CONTINUES = re.compile(r"cache|past|\bcat\b|concat")
"""Stands in functions that may put keys of earlier calls before those of this one."""

Operand = tuple[ast.expr, str]
"""A tensor, and the method that puts its dimensions in order ('' where they are)."""


def use_kernel(script: Script, site: Site) -> None:
    """Put the attention of the function at `site` into one call; raises `CannotRewrite`."""
    source = script.source(site.file)
    reading, found = Reading(source, source.function(site)), 0
    refused = CannotRewrite("its softmax is not one of scores that a product weights values by")
    for node in ast.walk(reading.function):
        try:
            made = product(node)
            chain = None if made is None else reading.chain(made.left)
            if made is not None and chain is not None and chain.soft:
                _use_kernel(script, reading, site, made, chain)
                found += 1
        except CannotRewrite as error:
            refused = error
    if not found:
        raise refused


def _use_kernel(
    script: Script, reading: Reading, site: Site, result: Product, chain: Chain
) -> None:
    """Put one attention into one call; raises `CannotRewrite`."""
    source = reading.source
    value, moved = value_and_result(result)
    operands = [*query_and_key(chain.product), value]
    typed = next((node for node, _ in operands if isinstance(node, ast.Name)), operands[0][0])
    torch = script.module_name(site.file, "torch", site)
    arguments = []
    for node, order in operands:  # fused kernels want four dimensions
        order += ".unsqueeze(0)" if chain.flat else ""
        arguments.append(_in_brackets(reading.text(node)) + order if order else reading.text(node))
    if mask := _mask(reading, chain.steps, f"{reading.text(typed)}.dtype", torch):
        arguments.append(mask)
    if chain.dropped is not None:
        probability, when = chain.dropped
        arguments.append(f"dropout_p={probability}{f' if {when} else 0.0' if when else ''}")
    scale = _scale(reading, chain.steps)
    own = OWN_SCALE.fullmatch(scale)
    if own is None or (own[1] or own[2]) not in [reading.text(node) for node, _ in operands[:2]]:
        arguments.append(f"scale={scale}")
    functional = name_of("torch.nn.functional", imports(source.tree.body))
    head = f"{functional or f'{torch}.nn.functional'}.scaled_dot_product_attention"
    end = f"{'.squeeze(0)' if chain.flat else ''}{moved}"
    text = _written(reading, result.node, head, arguments, end)
    _check_names(reading, result.node, chain, names_in(ast.parse(text)))
    starts = [(used, source.span(used)[0]) for used in chain.used]
    script.remove_statements(
        [
            Site(site.file, used.lineno, site.function, start - source.line_start(start))
            for used, start in starts
        ]
    )
    script.replace_call(source.site(result.node, site), text)


def _mask(reading: Reading, steps: tuple[Step, ...], dtype: str, torch: str) -> str:
    """The argument for what is hidden or added, such as `is_causal=True`; '' for none."""
    masks = [step for step in steps if step.kind in ("hide", "plus")]
    if not masks:
        return ""
    if len(masks) > 1:
        raise CannotRewrite("it has more than one mask")
    (step,) = masks
    if reading.hides_later(step):
        return "is_causal=True"
    value = reading.text(step.value)
    fill = "" if step.fill is None else reading.text(step.fill)
    if INFINITE.fullmatch(fill):
        text = f"~{_in_brackets(value)}"
    elif fill:
        text = f"{torch}.where({value}, {fill}, 0.0).to({dtype})"
    else:
        text = f"{_in_brackets(value)}.to({dtype})"
    return f"attn_mask={text}{f' if {reading.text(step.test)} else None' if step.test else ''}"


def _scale(reading: Reading, steps: tuple[Step, ...]) -> str:
    """The scale as source; raises `CannotRewrite` where it depends on a condition."""
    text = ""
    for step in steps:
        if step.kind not in ("times", "over"):
            continue
        if step.test is not None:
            raise CannotRewrite("the scores are scaled under a condition")
        factor = reading.text(step.value)
        if step.kind == "over":
            text = f"{text or '1'} / {_in_brackets(factor)}"
        else:
            text = f"{text} * {_in_brackets(factor)}" if text else factor
    return text or "1.0"


def _in_brackets(text: str) -> str:
    return text if isinstance(ast.parse(text, mode="eval").body, ATOM) else f"({text})"


def _written(reading: Reading, node: ast.expr, head: str, arguments: list[str], end: str) -> str:
    """The call on one line where that has room, else with a line for each argument."""
    source = reading.source
    start, stop = source.span(node)
    text = f"{head}({', '.join(arguments)}){end}"
    if start - source.line_start(start) + len(text) + source.line_end(stop) - stop <= WIDTH:
        return text
    first = source.span(reading.statement(node))[0]
    margin = source.newline + source.text[source.line_start(first) : first]
    lines = "".join(f"{margin}    {argument}," for argument in arguments)
    return f"{head}({lines}{margin}){end}"


def _check_names(reading: Reading, result: ast.expr, chain: Chain, kept: set[str]) -> None:
    """Refuse where what goes is wanted: by the call, or as weights or scores elsewhere."""
    if wanted := kept & chain.names:
        raise CannotRewrite(f"the call needs {', '.join(sorted(wanted))}, which goes")
    statement = reading.statement(result)
    gone = {node for taken in (*chain.used, result) for node in ast.walk(taken)}
    begins = min((used.lineno for used in chain.used), default=0)
    ends = statement.end_lineno or statement.lineno
    anew = {ast.unparse(target) for target in assigned(statement)}
    for node in ast.walk(reading.function):
        if not isinstance(node, ast.Name) or node.id not in chain.names or node in gone:
            continue
        read = isinstance(node.ctx, ast.Load) and begins <= node.lineno
        if read and not (node.id in anew and node.lineno > ends):
            raise CannotRewrite(f"the weights or scores are used in line {node.lineno} as well")


# ---------------------------------------------------------------------------- products


@dataclass(frozen=True)
class Product:
    """A product of two tensors; of an einsum, the dimensions of both and of the result.

    `flat` where its spelling tells that they have three dimensions.
    """

    node: ast.expr
    left: ast.expr
    right: ast.expr
    dimensions: tuple[str, ...] = ()
    flat: bool = False


def operation(node: ast.AST) -> tuple[str, list[ast.expr], dict[str | None, ast.expr]]:
    """The last name of a call, what it works on and is given by place, and by name.

    `torch.f(x, …)`, `f(x, …)` and `x.f(…)` are the same; nothing of what is no such call.
    """
    if not isinstance(node, ast.Call) or starred(node):
        return "", [], {}
    given, owner = list(node.args), node.func
    if isinstance(owner, ast.Attribute) and dotted(owner.value).split(".")[0] not in MODULES:
        given = [owner.value, *given]
    named = {keyword.arg: keyword.value for keyword in node.keywords}
    return (called(node), given, named) if given else ("", [], {})


def product(node: ast.AST) -> Product | None:
    """Read `a @ b`, `torch.matmul(a, b)`, `a.bmm(b)`, an einsum; None for anything else."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        return Product(node, node.left, node.right, flat=_turned(node.right) == ["1", "2"])
    name, given, _ = operation(node)
    if name in ("matmul", "bmm") and len(given) == 2 and isinstance(node, ast.expr):
        return Product(node, given[0], given[1], flat=name == "bmm")
    if name != "einsum" or not isinstance(node, ast.expr):
        return None
    equation, *operands = given
    if len(operands) == 1 and isinstance(operands[0], ast.List | ast.Tuple):
        operands = operands[0].elts
    # where the text comes last it is of einops, and a dimension's name may have several letters
    text = str(equation.value) if isinstance(equation, ast.Constant) else ""
    named = re.fullmatch(r"(\w+),(\w+)->(\w+)", text.replace(" ", ""))
    if named is None or len(operands) != 2:
        return None
    return Product(node, operands[0], operands[1], named.groups())


def _turned(node: ast.expr) -> list[str]:
    """The dimensions that `k.transpose(…)` exchanges, in order; none for anything else."""
    name, given, _ = operation(node)
    return sorted(map(ast.unparse, given[1:])) if name == "transpose" else []


def query_and_key(found: Product) -> tuple[Operand, Operand]:
    """The two operands of a product of scores, each as (…, positions, size of a head)."""
    if not found.dimensions:
        if _turned(found.right) in (["-1", "-2"], ["2", "3"], ["1", "2"]):
            return (found.left, ""), (operation(found.right)[1][0], "")
        return (found.left, ""), (found.right, ".transpose(-2, -1)")
    left, right, scores = found.dimensions
    summed = "".join(name for name in left if name in right and name not in scores)
    asked, known = scores[:-1] + summed, scores[:-2] + scores[-1] + summed
    return (found.left, _moved(left, asked)), (found.right, _moved(right, known))


def value_and_result(found: Product) -> tuple[Operand, str]:
    """The values as (…, positions, size of a head), and how the result's dimensions move."""
    if not found.dimensions:
        return (found.right, ""), ""
    weights, values, result = found.dimensions
    sizes = "".join(name for name in values if name not in weights)
    value = (found.right, _moved(values, weights[:-2] + weights[-1] + sizes))
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
    used: frozenset[ast.stmt] = frozenset()
    names: frozenset[str] = frozenset()

    def then(self, step: Step) -> Chain:
        """The same with one more thing done to the scores."""
        if self.soft:
            raise CannotRewrite(f"line {step.value.lineno} changes the weights after the softmax")
        if step.kind in ("times", "over") and any(done.kind == "plus" for done in self.steps):
            raise CannotRewrite("the scores are scaled after something was added to them")
        return replace(self, steps=(*self.steps, step))

    def dropping(self, probability: str, when: str) -> Chain | None:
        """The same with a dropout of the weights; None of what is none, or has one."""
        if not self.soft or self.dropped is not None:
            return None
        return replace(self, dropped=(probability, when))


class Reading:
    """A function of a file, read backwards."""

    def __init__(self, source: Source, function: Function) -> None:
        self.source, self.function, self.module = source, function, source.module
        classes = (node for node in self.module.around(function) if isinstance(node, ast.ClassDef))
        self.cls = next(classes, None)

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
        statement = self._changed(name, before)
        if not isinstance(statement, ast.If):
            value = None if statement is None else _value(statement, name)
            found = None if value is None else self.chain(value)
            if found is None or statement is None:
                return None
            return replace(found, used=found.used | {statement}, names=found.names | {name})
        if statement.orelse or len(statement.body) != 1:
            return None
        value = _value(statement.body[0], name)
        found, ahead = None if value is None else self.chain(value), self._named(name, statement)
        if found is None or ahead is None or len(found.steps) != len(ahead.steps) + 1:
            return None
        step = replace(found.steps[-1], test=statement.test)
        return replace(found, steps=(*ahead.steps, step), used=found.used | {statement})

    def _called(self, node: ast.Call) -> Chain | None:
        """A mask, the softmax or dropout, by a function, a method or a module."""
        made = self._attribute(node.func) or node.func
        if isinstance(made, ast.Call) and len(node.args) == 1:
            chain = self.chain(node.args[0])
            if chain is not None and called(made) == "Softmax":
                return _softened(chain, argument(made, "dim", 0))
            dropout = chain is not None and called(made) == "Dropout"
            module = self.source.text_of(node.func)
            return chain.dropping(f"{module}.p", "self.training") if chain and dropout else None
        name, given, named = operation(node)
        name = name.removesuffix("_")
        known = name in (*CASTS, "masked_fill", "softmax", "dropout")
        chain = self.chain(given[0]) if known else None
        if chain is None or name in CASTS:
            return chain
        first, second = [*given[1:], None, None][:2]
        if name == "softmax":
            return _softened(chain, first or named.get("dim"))
        if name == "dropout":
            rate, training = first or named.get("p"), second or named.get("training")
            when = "" if training is None else self.text(training)
            return chain.dropping(
                "0.5" if rate is None else self.text(rate), when.removeprefix("True")
            )
        hidden = first or named.get("mask")
        if hidden is None:
            return None
        return chain.then(Step("hide", hidden, second or named.get("value")))

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

    def text(self, node: ast.expr) -> str:
        """The source of an expression on one line."""
        text = self.source.text_of(node)
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

    def _attribute(self, node: ast.expr) -> ast.expr | None:
        """The one value that the class gives `self.x`, buffers included; None without one."""
        if not isinstance(node, ast.Attribute) or ast.unparse(node.value) != "self":
            return None
        values = [binding.value for binding in self.module.bindings(node) or ()]
        values += [
            call.args[1]
            for call in self.module.methods("register_buffer")
            if ast.unparse(call.args[0]) == repr(node.attr)
            and any(around is self.cls for around in self.module.around(call))
        ]
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
        if held is not None:
            return self._spelled(held)
        if isinstance(node, ast.Subscript):
            part = ast.unparse(node).removeprefix(ast.unparse(node.value))
            return f"{self._spelled(node.value)}{part}"
        if isinstance(node, ast.Compare) and ast.unparse(node).endswith(" == 0"):
            return f"{self._spelled(node.left)} == 0"
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert):
            return f"{self._spelled(node.operand)} == 0"
        name, given, _ = operation(node)
        return self._spelled(given[0]) if name in SHAPED else ast.unparse(node)


def _softened(chain: Chain, dim: ast.expr | None) -> Chain:
    last = "" if dim is None else ast.unparse(dim)
    if chain.soft or last not in ("-1", "2" if chain.flat else "3"):
        raise CannotRewrite("the softmax is not over the last dimension, as far as is seen")
    return replace(chain, soft=True)


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
