"""Edits of a copy to the GPU: the tensor is made there, or copied without a wait."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from trainperf.errors import CannotRewrite
from trainperf.source.arguments import keyword
from trainperf.source.statements import called, dotted

if TYPE_CHECKING:
    from trainperf.model import Loader, Site
    from trainperf.rewrite import Script

MAKES = ("arange", "empty", "eye", "full", "linspace", "logspace", "ones", "tensor", "zeros")
"""Functions of PyTorch that make the same tensor on any device."""

SHAPES = (
    "bool",
    "contiguous",
    "expand",
    "float",
    "int",
    "long",
    "repeat",
    "reshape",
    "t",
    "transpose",
    "tril",
    "triu",
    "unsqueeze",
    "view",
)
"""Methods that compute the same on any device."""


DEVICE = re.compile(r"dev|cuda|gpu|rank|^\d+$", re.IGNORECASE)
"""How devices are called."""


def made_there(script: Script, site: Site, pinned: bool) -> None:
    """Change the copy `x.to(device)` at `site`; raises `CannotRewrite`.

    A tensor that is made in the same expression is made on the device. Another is copied with
    `non_blocking=True`, if `pinned`: the batches lie in pinned memory.
    """
    call = ast.parse(f"({script.expression(site)})", mode="eval").body
    if not isinstance(call, ast.Call):
        raise CannotRewrite("what waits there is no copy to the GPU")
    device = _device(call)
    receiver = script.receiver(site)
    made = _making(script, receiver)
    if made is not None:
        script.set_keyword(made, "device", device)
        script.drop_call(site)
        return
    if not pinned:
        raise CannotRewrite("what is copied is made elsewhere, and its memory is not pinned")
    value = ast.parse(f"({script.expression(receiver)})", mode="eval").body
    if not isinstance(value, ast.Name | ast.Subscript | ast.Attribute):
        raise CannotRewrite("what is copied is no batch as the loader gave it")
    script.set_keyword(site, "non_blocking", "True")


def _device(call: ast.Call) -> str:
    """The device that a call copies to, as source."""
    given = [*call.args, *(each.value for each in call.keywords if each.arg == "device")]
    if called(call) == "cuda" and not call.args and not call.keywords:
        return '"cuda"'
    if called(call) != "to" or len(given) != 1 or len(call.args) + len(call.keywords) != 1:
        raise CannotRewrite("it does more than copy to a device")
    text = ast.unparse(given[0])
    if "cpu" in text.lower() or not DEVICE.search(text):  # another tensor, a type
        raise CannotRewrite(f"it may not copy to the GPU: .to({text})")
    return text


def _making(script: Script, site: Site) -> Site | None:
    """The call of PyTorch's that makes the tensor at `site`, None if it is made elsewhere."""
    source = script.source(site.file)
    node = source.expression(site)
    while isinstance(node, ast.Call):
        name = called(node)
        plain = dotted(node.func) == f"torch.{name}"
        if plain and name in MAKES:
            if any(keyword(node, each) for each in ("device", "out", "pin_memory")):
                raise CannotRewrite("where in memory it is made is said already")
            return script.site_of(site, node)
        if plain and name in ("tril", "triu") and node.args:
            node = node.args[0]
        elif not plain and name in SHAPES and isinstance(node.func, ast.Attribute):
            node = node.func.value
        else:
            return None
    return None


def pins(loaders: Iterable[Loader]) -> bool:
    """Whether all batches of the training come out of pinned memory."""
    training = [each for each in loaders if each.role == "training"]
    return bool(training) and all(each.pin_memory for each in training)
