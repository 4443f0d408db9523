"""Attention computed by hand: scores, softmax and weighted sum, each in memory."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from trainperf.errors import CannotRewrite, NotMeasured
from trainperf.fixes import Fix
from trainperf.fixes.common.step import bound_if_saved
from trainperf.fixes.common.words import at, ms, percent, worth
from trainperf.fixes.torch_step._step import compute_seconds, part_seconds, to_try
from trainperf.fixes.torch_step.attention._calls import (
    Operand,
    Scope,
    called_name,
    number,
    operation,
    own_attribute,
    plain_value,
    product,
    query_and_key,
    value_and_result,
    whole,
)
from trainperf.fixes.torch_step.attention._masks import Masks
from trainperf.fixes.torch_step.attention._reading import Chain, Step, weights_of
from trainperf.model import Equivalence, Evidence, Finding, Site
from trainperf.rewrite import Script
from trainperf.rewrite.imports import imports, name_of
from trainperf.source.statements import names_in

MOST_NAMED = 3


class ScaledDotProductAttention(Fix):
    """Compute attention in one kernel, with `F.scaled_dot_product_attention`.

    ## Why it is slow
    Written out, attention makes a matrix of scores for each pair of positions, scales it,
    masks it, takes the softmax and multiplies it with the values. Each step writes that
    matrix to memory and reads it back, and backward does so again.

    ## What changes
    One function does all of it block by block, and the matrix is never stored: less time
    and much less memory for long sequences. Masks go in as `attn_mask`, a triangle as
    `is_causal`. The result is the same but for rounding; dropout draws other random numbers.
    A row that is hidden whole by -inf gives 0, where it gave NaN; one hidden by a number
    gives the same, and gets a gradient.

    ## When not to
    - When the attention weights themselves are wanted (plots, extra losses): no edit then.
    - Not every kernel takes a mask, or dropout: on a CPU dropout makes it slower.
    """

    category = "model"
    usual = 1.25
    rarely_all = True
    equivalence = Equivalence.NUMERICS
    framework = "torch"

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find a `forward` that seems to compute attention by hand, in a step it may matter to."""
        heads = evidence.torch.model.attentions
        if not heads:
            return None
        compute = compute_seconds(evidence)
        shares = [_share(evidence, head) for head in heads]
        known = [share for share in shares if share is not None]
        saved = compute
        basis = "at most all of forward and backward"
        if len(known) < len(shares):
            text = (
                f"Forward and backward take {ms(compute)} of the {ms(evidence.times.real)} step; "
                "attention's part of that was not measured."
            )
        else:
            forward = sum(known) * evidence.times.real
            saved = min(compute, forward * _with_backward(evidence))
            basis = "at most all of this function, its backward in proportion"
            text = f"It was found in {percent(min(1.0, sum(known)))} of the samples of the stack."
        bound = bound_if_saved(evidence, saved)
        if not worth(evidence, bound):
            return None
        return self._found(heads, text, bound, basis)

    def possible(self, evidence: Evidence) -> Finding | None:
        """Have it tried wherever a `forward` attends by hand and the step may matter."""
        heads = evidence.torch.model.attentions
        if not heads:
            return None
        bound, basis = to_try(evidence)
        return self._found(heads, "What it takes of a step was not measured.", bound, basis)

    def _found(
        self, heads: tuple[Site, ...], text: str, bound: float | None, basis: str
    ) -> Finding:
        names = " and ".join(f"`{head.function}` at {at(head)}" for head in heads[:MOST_NAMED])
        return self.finding(
            title=f"Attention is written out by hand ({at(heads[0])})",
            text=f"Attention seems to be computed by hand in {names}. {text}",
            bound=bound,
            bound_basis=basis,
            where=heads,
            advice="Replace scores, mask, softmax and weighted sum with one call.",
            snippet=SNIPPET,
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Put the attention of each function into one call, unless that can be done in none."""
        refused = []
        for site in finding.where:
            try:
                use_kernel(script, site)
            except CannotRewrite as error:
                refused.append(error)
        if refused and len(refused) == len(finding.where):
            raise refused[0]


SNIPPET = """\
import torch.nn.functional as F

# q, k, v: (batch, heads, positions, size of a head)
# is_causal=True only where a mask hid the later positions
out = F.scaled_dot_product_attention(q, k, v, is_causal=True)"""


def _share(evidence: Evidence, head: Site) -> float | None:
    """Share of the stack samples that found the function at `head`; None if it says nothing.

    On a GPU the stack shows what is started, not what runs. A function that is not
    among those sampled was found too seldom to be listed.
    """
    if evidence.device.kind == "GPU" or not evidence.functions:
        return None
    name = head.function.rpartition(".")[2]
    inside = [
        cost
        for cost in evidence.functions
        if cost.file == head.file
        and cost.thread == "main"
        and cost.name.rpartition(".")[2] == name
        and cost.line >= head.line
    ]
    nearest = min(inside, key=lambda cost: cost.line, default=None)
    return nearest.share if nearest else 0.0


def _with_backward(evidence: Evidence) -> float:
    """How many times as long forward and backward take as forward alone."""
    forward = part_seconds(evidence, "forward")
    if forward <= 0:
        raise NotMeasured("the forward took no time")
    return 1 + part_seconds(evidence, "backward") / forward


WIDTH = 100
"""Columns from which the call goes over several lines."""

PURE = {
    "size", "dim", "sqrt", "tensor", "tril", "triu", "ones", "full", "zeros", "bool", "to", "view",
    "transpose", "permute", "unsqueeze", "finfo", "float", "logical_not", "eq", "ne", "type",
}  # fmt: skip
"""Calls that a statement which nothing uses any more may be taken out with."""

_SIMPLE = ast.Name | ast.Attribute | ast.Constant | ast.Call | ast.Subscript
_TENSORS = ("Parameter", "tensor", "Tensor", "FloatTensor", "ones", "full", "zeros", "exp")


@dataclass(frozen=True)
class Attention:
    """The product that gives the result, and what of the function it was computed from."""

    product: ast.expr
    at: ast.stmt
    chain: Chain
    value: Operand
    moved: str


def use_kernel(script: Script, site: Site) -> None:
    """Put the attention of the function at `site` into one call; raises `CannotRewrite`."""
    source = script.source(site.file)
    scope = Scope(source, source.function(site))
    for found in attentions(scope):
        _Edit(script, scope, site, found).make()


def attentions(scope: Scope) -> list[Attention]:
    """The attentions that a function computes; raises `CannotRewrite` where it has none."""
    found, refused = [], None
    for node in ast.walk(scope.function):
        made = product(node) if isinstance(node, ast.expr) else None
        at = scope.holders.get(node)
        if made is None or at is None:
            continue
        try:
            chain = weights_of(scope, made.left, at)
            if chain is None:
                continue
            value, moved = value_and_result(made)
            found.append(Attention(node, at, chain, value, moved))  # type: ignore[arg-type]
        except CannotRewrite as error:
            refused = refused or error
    if found:
        return found
    why = "its softmax is not one of scores that a product weights values with"
    raise refused or CannotRewrite(why)


class _Edit:
    """One attention, and the edit that replaces it."""

    def __init__(self, script: Script, scope: Scope, site: Site, found: Attention) -> None:
        self.script, self.scope, self.site, self.found = script, scope, site, found
        self.chain = found.chain
        self.query, self.key = query_and_key(self.chain.product)
        self.used = set(self.chain.used)

    def make(self) -> None:
        """Make the edit; raises `CannotRewrite` before any where it cannot be right."""
        self._check_order()
        arguments = self._arguments()
        self._check_names()
        text = self._text(arguments)
        kept = ast.parse(text, mode="eval")
        gone = self._whole(self.used | self._idle(names_in(kept)))
        self.script.remove_statements([_place(self.scope, each, self.site) for each in gone])
        where = self.scope.source.site(self.found.product, self.site)
        self.script.replace_call(where, text, brackets=True)

    # ------------------------------------------------------------------ what it becomes

    def _arguments(self) -> list[str]:
        scope, steps = self.scope, self.chain.steps
        tensors = [self._operand(each) for each in (self.query, self.key, self.found.value)]
        own = tuple(ast.unparse(each.node) for each in (self.query, self.key) if not each.moved)
        factor = _scale(scope, [step for step in steps if step.kind in ("times", "over")], own)
        torch = self.script.module_name(self.site.file, "torch", self.site)
        masks = Masks(scope, f"{self._typed()}.dtype", torch)
        mask = masks.argument([step for step in steps if step.kind not in ("times", "over")])
        dropped = self.chain.dropped
        arguments = [*tensors, *([mask] if mask else [])]
        if dropped is not None:
            when = f" if {dropped.when} else 0.0" if dropped.when else ""
            arguments.append(f"dropout_p={dropped.probability}{when}")
        return [*arguments, *([f"scale={factor}"] if factor is not None else [])]

    def _operand(self, operand: Operand) -> str:
        text = self.scope.text(operand.node) + operand.moved
        if operand.moved and not _atom(operand.node):
            text = f"({self.scope.text(operand.node)}){operand.moved}"
        if self.chain.rank != 3:  # the fast kernels want four dimensions
            return text
        return f"{text if _atom(ast.parse(text, mode='eval').body) else f'({text})'}.unsqueeze(0)"

    def _typed(self) -> str:
        """A name among the operands whose type the masks take."""
        nodes = [each.node for each in (self.query, self.key, self.found.value)]
        plain = (node for node in nodes if isinstance(node, ast.Name | ast.Subscript))
        return self.scope.text(next(plain, nodes[0]))

    def _text(self, arguments: list[str]) -> str:
        called = f"{self._functional()}.scaled_dot_product_attention"
        tail = (".squeeze(0)" if self.chain.rank == 3 else "") + self.found.moved
        line = ", ".join(arguments)
        source = self.scope.source
        start, end = source.span(self.found.product)
        before = start - source.line_start(start)
        comment = source.comment_after(end)
        behind = (comment[0] if comment else source.line_end(end)) - end
        if before + len(f"{called}({line}){tail}") + behind <= WIDTH:
            return f"{called}({line}){tail}"
        head = source.line_start(source.span(self.found.at)[0])
        indent = source.text[head : source.span(self.found.at)[0]]
        inner = source.newline + indent + "    "
        if len(indent) + 4 + len(line) <= WIDTH:
            return f"{called}({inner}{line}{source.newline}{indent}){tail}"
        rows = "".join(f"{inner}{each}," for each in arguments)
        return f"{called}({rows}{source.newline}{indent}){tail}"

    def _functional(self) -> str:
        """The name of the module of PyTorch's functions in this file."""
        tree = self.scope.source.tree
        for module, within in (("torch.nn.functional", ""), ("torch.nn", ".functional")):
            if name_of(module, imports(tree.body)) is not None:
                return self.script.module_name(self.site.file, module, self.site) + within
        return self.script.module_name(self.site.file, "torch", self.site) + ".nn.functional"

    # ------------------------------------------------------------------- whether it may

    def _check_order(self) -> None:
        if self.chain.rank == 2:
            raise CannotRewrite("its tensors have two dimensions")
        added = False
        for step in self.chain.steps:
            if added and step.kind in ("times", "over"):
                raise CannotRewrite("the scores are scaled after something was added to them")
            added = added or step.kind not in ("hide", "times", "over")

    def _taken(self) -> list[tuple[ast.AST, ast.stmt]]:
        """The nodes that are written elsewhere than they stood, each with its statement."""
        chain, at = self.chain, self.found.at
        parts: list[tuple[ast.AST, ast.stmt]] = [(self.query.node, chain.at)]
        parts += [(self.key.node, self.chain.at), (self.found.value.node, at)]
        for step in chain.steps:
            parts.append((step.value, step.at))
            if step.fill is not None:
                parts.append((step.fill, step.at))
            if step.test is not None:
                parts.append((step.test, step.at))
        if chain.dropped is not None:
            parts += [(each, chain.dropped.at) for each in chain.dropped.parts]
        return parts

    def _check_names(self) -> None:
        """Refuse where a name means something else by then, or the weights are wanted."""
        end = self.found.at
        for node, since in self._taken():
            used = names_in(node)
            if any(each.lineno < since.lineno and used & _stored(each) for each in self.used):
                raise CannotRewrite(f"line {since.lineno} uses what the edit takes out")
            for each in ast.walk(self.scope.function):
                later = isinstance(each, ast.Name) and not isinstance(each.ctx, ast.Load)
                if not later or each.id not in used:  # type: ignore[attr-defined]
                    continue
                if since.lineno < each.lineno < end.lineno and not self._gone(each):  # type: ignore[attr-defined]
                    raise CannotRewrite(f"{each.id} changes in line {each.lineno}")  # type: ignore[attr-defined]
        for name in self.chain.names:
            self._check_reads(name)

    def _check_reads(self, name: str) -> None:
        at = self.found.at
        begins = min(each.lineno for each in self.used if name in _stored(each))
        anew = plain_value(at, name) is not None
        inside = set(ast.walk(self.found.product))
        for read in self.scope.reads(name):
            if self._gone(read) or read in inside or read.lineno < begins:
                continue
            if anew and read.lineno > (at.end_lineno or at.lineno):
                continue
            raise CannotRewrite(f"the weights or scores are used in line {read.lineno} as well")

    def _gone(self, node: ast.AST) -> bool:
        """Whether a node stands in a statement that goes."""
        return any(node is inner for each in self.used for inner in ast.walk(each))

    def _whole(self, gone: set[ast.stmt]) -> set[ast.stmt]:
        """The same, an `if` in place of all that it holds."""
        for statement in self.scope.places:
            plain = isinstance(statement, ast.If) and not statement.orelse
            if plain and all(each in gone for each in statement.body):  # type: ignore[attr-defined]
                gone = (gone - set(statement.body)) | {statement}  # type: ignore[attr-defined]
        return gone

    def _idle(self, kept: set[str]) -> set[ast.stmt]:
        """Plain statements that only gave names to what goes; `kept` are names still used."""
        wanted = {name for each, _ in self._taken() for name in names_in(each)}
        wanted |= {name for each in self.used for name in names_in(each)}
        found: set[ast.stmt] = set()
        for name in wanted - kept:
            reads = [each for each in self.scope.reads(name) if not self._gone(each)]
            inside = set(ast.walk(self.found.product))
            if any(each not in inside for each in reads):
                continue
            stores = [each for each in self.scope.places if plain_value(each, name) is not None]
            others = sum(name in _stored(each) for each in self.scope.places if each in stores)
            if len(stores) != 1 or others != 1 or stores[0] in self.used:
                continue
            value = plain_value(stores[0], name)
            assert value is not None
            called = {called_name(n) for n in ast.walk(value) if isinstance(n, ast.Call)}
            if called <= PURE:
                found.add(stores[0])
        return found


def _atom(node: ast.expr) -> bool:
    return isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.Subscript)


def _stored(statement: ast.stmt) -> set[str]:
    return {
        node.id
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
    }


def _place(scope: Scope, statement: ast.stmt, near: Site) -> Site:
    """Where a statement begins."""
    start = scope.source.span(statement)[0]
    col = start - scope.source.line_start(start)
    return type(near)(near.file, statement.lineno, near.function, col)


def _scale(scope: Scope, steps: list[Step], tensors: tuple[str, ...]) -> str | None:
    """The scale as source, None where it is the kernel's own: 1/√ of the size of a head.

    `tensors` are queries and keys, as written. Raises `CannotRewrite` where the factor may be
    a tensor, or depends on a condition.
    """
    if any(step.test is not None for step in steps):
        raise CannotRewrite("the scores are scaled under a condition")
    if len(steps) == 1 and _own(scope, steps[0], tensors):
        return None
    text = ""
    for step in steps:
        factor = _number(scope, step.value, step.at)
        if step.kind == "over":
            text = f"{text or '1'} / {_in_brackets(factor)}"
        else:
            text = f"{text} * {_in_brackets(factor)}" if text else factor
    return text or "1.0"


def _in_brackets(text: str) -> str:
    return text if isinstance(ast.parse(text, mode="eval").body, _SIMPLE) else f"({text})"


def _number(scope: Scope, node: ast.expr, at: ast.stmt) -> str:
    """A factor as source that gives a number; raises `CannotRewrite` where it may not."""
    made = node
    if isinstance(node, ast.Name):
        held = scope.held(node.id, at)
        made = node if held is None else held[0]
    name = own_attribute(node)
    if name:
        given = [value for value, _ in scope.attribute(name)]
        made = given[0] if len(given) == 1 else node
    for value in (made, node):
        if any(
            called_name(each) in _TENSORS for each in ast.walk(value) if isinstance(each, ast.expr)
        ):
            raise CannotRewrite(f"the scale {ast.unparse(node)} may be a tensor")
    for each in ast.walk(node):
        given = [value for value, _ in scope.attribute(own_attribute(each))]
        if any(called_name(value) in _TENSORS for value in given):
            raise CannotRewrite(f"the scale {ast.unparse(node)} may be a tensor")
    return scope.text(node)


def _own(scope: Scope, step: Step, tensors: tuple[str, ...]) -> bool:
    """Whether a step scales by 1/√ of the last dimension of queries or keys."""
    value, over = step.value, step.kind == "over"
    while not over and isinstance(value, ast.BinOp) and isinstance(value.op, ast.Div):
        if number(value.left) != 1:
            return False
        value, over = value.right, True
    if isinstance(value, ast.Name):
        held = scope.held(value.id, step.at)
        value = held[0] if held is not None and not over else value
    power = -0.5
    if over:
        power = 0.5
        if called_name(value) == "sqrt" and isinstance(value, ast.Call) and len(value.args) == 1:
            return _size(scope, value.args[0], step.at, tensors)
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Pow):
        return number(value.right) == power and _size(scope, value.left, step.at, tensors)
    return False


def _size(scope: Scope, node: ast.expr, at: ast.stmt, tensors: tuple[str, ...]) -> bool:
    """Whether a number is the last dimension of one of the tensors."""
    if isinstance(node, ast.Name):
        held = scope.held(node.id, at)
        if held is None:
            return False
        node, since = held
        if any(
            scope.changed(each, at) is not scope.changed(each, since) for each in names_in(node)
        ):
            return False
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute):
        last = whole(node.slice) if isinstance(node.slice, ast.expr) else None
        shape = node.value.attr == "shape"
        return shape and last == -1 and ast.unparse(node.value.value) in tensors
    found = operation(node)
    if found is None or found.name != "size" or len(found.args) != 1:
        return False
    return whole(found.args[0]) == -1 and ast.unparse(found.of) in tensors
