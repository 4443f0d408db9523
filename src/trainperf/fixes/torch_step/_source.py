"""A PyTorch model's name where it is built, and whose `forward` it has."""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import replace

from trainperf.errors import CannotRewrite
from trainperf.model import Site
from trainperf.rewrite import Script
from trainperf.source.statements import Function, called, dotted, walk

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
    call, (statement, _) = source.call(site), source.statement(site)
    targets: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AnnAssign):
        targets = [statement.target]
    if len(targets) != 1 or not dotted(targets[0]):
        raise CannotRewrite("the model is not assigned to a plain name where it is built")
    assert isinstance(statement, ast.Assign | ast.AnnAssign)
    value = statement.value
    while value is not call:
        if not isinstance(value, ast.Call) or called(value) not in RETURN_THE_MODEL:
            raise CannotRewrite("what is assigned where the model is built is not the model")
        value = value.func.value if isinstance(value.func, ast.Attribute) else None
    return source.text_of(targets[0])


def refuse_if_named(script: Script, file: str, name: str) -> None:
    """Raise `CannotRewrite` where `file` speaks of `name`: the user has set it himself."""
    if name in script.source(file).text:
        raise CannotRewrite(f"the file sets {name} itself")


def inherits_forward(text: str, cls: str) -> bool:
    """Whether the class is one of this file's that has its `forward` from PyTorch."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef) and node.name == cls:
            own = {method.name for method in node.body if isinstance(method, ast.FunctionDef)}
            bases = {ast.unparse(base).rpartition(".")[2] for base in node.bases}
            return "forward" not in own and bool(bases & set(OF_TORCH))
    return False


Loop = ast.For | ast.AsyncFor | ast.While


def innermost_loop(script: Script, site: Site) -> Loop:
    """Return the loop whose body runs what stands at `site`; raises `CannotRewrite`.

    The site may be the loop itself: as a whole (CPython 3.11) or in its head.
    """
    loops = _loops(script, site)
    heads = (loop for loop in loops if loop.lineno == site.line)
    found = next(heads, loops[-1] if loops else None)
    if found is None:
        raise CannotRewrite("no loop of the script stands around the step")
    return found


def outermost_loop(script: Script, site: Site) -> Site:
    """Return the site of the outermost loop around `site` within its function.

    Raises `CannotRewrite` where none stands around it.
    """
    loops = _loops(script, site)
    if not loops:
        raise CannotRewrite("no loop stands around the call")
    return replace(site, line=loops[0].lineno, col=loops[0].col_offset, end_line=0, end_col=0)


def _loops(script: Script, site: Site) -> list[Loop]:
    """The loops around a site in its function, the outermost first."""
    found: list[Loop] = []
    for node in script.around(site):
        if isinstance(node, Function | ast.ClassDef):
            found = []
        elif isinstance(node, Loop):
            found.append(node)
    return found


def function_around(script: Script, site: Site) -> Function | None:
    """Return the innermost function that `site` stands in, None on the module's level."""
    functions = [node for node in script.around(site) if isinstance(node, Function)]
    return functions[-1] if functions else None


def counter(loop: Loop) -> str:
    """Return the name that counts the turns of a loop; raises `CannotRewrite` if none does.

    It is the first variable of an `enumerate`, the variable of a `range`, or a name
    that every turn makes larger by one.
    """
    stores = Counter(
        node.id
        for node in walk(loop.body)
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
    )
    name = _of_head(loop) if isinstance(loop, ast.For) else ""
    if name and not stores[name]:
        return name
    for node in loop.body:
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
            name = ast.unparse(node.target)
            if ast.unparse(node.value) == "1" and stores[name] == 1:
                return name
    raise CannotRewrite("the loop has no counter of its steps")


def _of_head(loop: ast.For) -> str:
    """The counter that the head of a loop binds, through a progress bar or not."""
    call: ast.expr | None = loop.iter
    while isinstance(call, ast.Call) and called(call) in ("tqdm", "track"):
        call = call.args[0] if call.args else None
    name = called(call) if isinstance(call, ast.Call) else ""
    target: ast.expr = loop.target
    if name == "enumerate" and isinstance(target, ast.Tuple):
        target = target.elts[0]
    elif name not in ("range", "trange"):
        return ""
    return target.id if isinstance(target, ast.Name) else ""
