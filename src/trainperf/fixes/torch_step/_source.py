"""A PyTorch model's name where it is built, and whose `forward` it has."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from trainperf.errors import CannotRewrite
from trainperf.model import Site

if TYPE_CHECKING:
    from trainperf.rewrite import Script

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
