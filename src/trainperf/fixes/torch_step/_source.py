"""A PyTorch model's name where it is built, and whose `forward` it has."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from trainperf.errors import CannotRewrite
from trainperf.model import Site
from trainperf.rewrite import Script
from trainperf.source.statements import Function, called, walk

OF_TORCH = (
    "Sequential", "Linear", "Conv2d", "MultiheadAttention", "Transformer", "TransformerEncoder",
    "TransformerEncoderLayer", "TransformerDecoder", "TransformerDecoderLayer",
    "DistributedDataParallel",
)  # fmt: skip
"""Modules whose `forward` is PyTorch's own: `Module.compile()` skips that silently.

Tried with PyTorch 2.13 (`Sequential`, `Linear`, `Transformer`, its encoder's layer): no
frame is compiled, before or after `.to(device)`, while `torch.compile(module)` compiles
them. Classes of the user's own compile either way.
"""

RETURN_THE_MODEL = (
    "to", "cuda", "cpu", "train", "eval", "float", "half", "double", "bfloat16", "apply",
    "requires_grad_", "share_memory",
)  # fmt: skip
"""Methods of `nn.Module` that return the module itself."""


def model_target(script: Script, site: Site) -> str:
    """Return what the model built by the call at `site` is assigned to: `model`, `self.net`.

    Raises `CannotRewrite` where the statement gives it no plain name, or what is
    assigned is not the model itself.
    """
    source = script.source(site.file)
    call = source.call(site)
    statement, _ = source.statement(site)
    targets: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AnnAssign):
        targets = [statement.target]
    if len(targets) != 1 or not _plain(targets[0]):
        raise CannotRewrite("the model is not assigned to a plain name where it is built")
    value = getattr(statement, "value", None)
    while value is not call:
        if not (
            isinstance(value, ast.Call)
            and isinstance(value.func, ast.Attribute)
            and value.func.attr in RETURN_THE_MODEL
        ):
            raise CannotRewrite("what is assigned where the model is built is not the model")
        value = value.func.value
    return source.text_of(targets[0])


def _plain(node: ast.expr) -> bool:
    """Whether it is a name, or attributes of one: `model`, `self.model`."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)


def file_text(script: Script, file: str) -> str:
    """Return the original text of a file of the user's; raises `CannotRewrite`."""
    return script.source(file).text


def refuse_if_named(script: Script, file: str, name: str) -> None:
    """Raise `CannotRewrite` where `file` speaks of `name`: the user has set it himself."""
    if name in file_text(script, file):
        raise CannotRewrite(f"the file sets {name} itself")


def inherits_forward(text: str, cls: str) -> bool:
    """Whether the class is one of this file's that has its `forward` from PyTorch."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef) and node.name == cls:
            own = {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
            bases = {ast.unparse(base).rpartition(".")[2] for base in node.bases}
            return "forward" not in own and bool(bases & set(OF_TORCH))
    return False


Loop = ast.For | ast.AsyncFor | ast.While
Calling = tuple[ast.Expr, ast.Call]


def innermost_loop(script: Script, site: Site) -> Loop:
    """Return the loop whose body runs what stands at `site`; raises `CannotRewrite`.

    The site may be the loop itself: as a whole (CPython 3.11) or in its head.
    """
    found: Loop | None = None
    for node in script.around(site):
        if isinstance(node, Loop) and node.lineno == site.line:
            return node
        if isinstance(node, Loop):
            found = node
        elif isinstance(node, Function | ast.ClassDef):
            found = None
    if found is None:
        raise CannotRewrite("no loop of the script stands around the step")
    return found


def outermost_loop(script: Script, site: Site) -> Site:
    """Return the site of the outermost loop around `site` within its function.

    Raises `CannotRewrite` where none stands around it.
    """
    found: Loop | None = None
    for node in script.around(site):
        if isinstance(node, Function | ast.ClassDef):
            found = None
        elif isinstance(node, Loop) and found is None:
            found = node
    if found is None:
        raise CannotRewrite("no loop stands around the call")
    return replace(site, line=found.lineno, col=found.col_offset, end_line=0, end_col=0)


def function_around(script: Script, site: Site) -> Function | None:
    """Return the innermost function that `site` stands in, None on the module's level."""
    functions = [node for node in script.around(site) if isinstance(node, Function)]
    return functions[-1] if functions else None


def counter(loop: Loop) -> str:
    """Return the name that counts the turns of a loop; raises `CannotRewrite` if none does.

    It is the first variable of an `enumerate`, the variable of a `range`, or a name
    that every turn makes larger by one.
    """
    name = _of_head(loop) if isinstance(loop, ast.For) else ""
    if name and not _stores(loop.body, name):
        return name
    for node in loop.body:
        counts = (
            isinstance(node, ast.AugAssign)
            and isinstance(node.op, ast.Add)
            and isinstance(node.target, ast.Name)
            and isinstance(node.value, ast.Constant)
            and node.value.value == 1
        )
        if counts and len(_stores(loop.body, node.target.id)) == 1:  # type: ignore[attr-defined]
            return str(node.target.id)  # type: ignore[attr-defined]
    raise CannotRewrite("the loop has no counter of its steps")


def _of_head(loop: ast.For) -> str:
    """The counter that the head of a loop binds, through a progress bar or not."""
    call: ast.expr | None = loop.iter
    while isinstance(call, ast.Call) and called(call) in ("tqdm", "track", "trange"):
        if called(call) == "trange":
            break
        call = call.args[0] if call.args else None
    name = called(call) if isinstance(call, ast.Call) else ""
    target: ast.expr = loop.target
    if name == "enumerate" and isinstance(target, ast.Tuple) and target.elts:
        target = target.elts[0]
    elif name not in ("range", "trange"):
        return ""
    return target.id if isinstance(target, ast.Name) else ""


def _stores(body: Iterable[ast.stmt], name: str) -> list[ast.Name]:
    return [
        node
        for node in walk(body)
        if isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Load)
    ]


def calls_in(loop: Loop, name: str) -> list[Calling]:
    """Return the statements that every turn of a loop makes, and that are only `name(…)`.

    Raises `CannotRewrite` if there is none.
    """
    found = [(each, call) for each, call in _plain_calls(loop.body) if called(call) == name]
    if not found:
        raise CannotRewrite(f"no statement of the loop is a plain call of {name}")
    return found


def call_around(script: Script, site: Site) -> Calling:
    """Return the statement around `site` if it is nothing but a call, one of every turn.

    Raises `CannotRewrite` where its value is used, or it stands under an `if`.
    """
    inside = script.around(site)[-1]
    for each, call in _plain_calls(innermost_loop(script, site).body):
        if each is inside:
            return each, call
    raise CannotRewrite("what reads the number does more than show it")


def _plain_calls(body: Iterable[ast.stmt]) -> Iterator[Calling]:
    for node in body:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            yield node, node.value
        elif isinstance(node, ast.With | ast.AsyncWith):
            yield from _plain_calls(node.body)


def owner(script: Script, anchor: Site, loop: Loop) -> Sequence[ast.stmt]:
    """Return the statements of the function that the loop stands in, or of its module."""
    body: Sequence[ast.stmt] = script.module(anchor.file).body
    for node in script.around(anchor):
        if isinstance(node, Function) and node.lineno <= loop.lineno:
            body = node.body
    return body


def first_expression(statement: ast.stmt) -> ast.expr:
    """Return the first expression of a statement: where it begins, for one of the usual kinds."""
    for node in ast.iter_child_nodes(statement):
        if isinstance(node, ast.expr):
            return node
    raise CannotRewrite("what reads it begins with no expression")


def block_of(loop: Loop, statement: ast.stmt) -> Sequence[ast.stmt]:
    """Return the statements of the block of a loop that a statement stands in."""
    for node in ast.walk(loop):
        body = getattr(node, "body", None)
        if isinstance(body, list) and any(each is statement for each in body):
            return body
    return [statement]
