"""Copies to the GPU that no loader explains."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from trainperf.errors import CannotRewrite
from trainperf.fixes import Fix
from trainperf.fixes.common.step import bound_if_saved
from trainperf.fixes.common.words import at, ms, percent, worth
from trainperf.fixes.torch_step._step import part_seconds
from trainperf.model import Equivalence, Evidence, Finding, Loader, Site
from trainperf.rewrite import Script
from trainperf.source.arguments import keyword
from trainperf.source.statements import called, dotted

LEAST_SHARE = 0.10
"""Share of a step in copies below which they are no subject."""

OF_A_BATCH = 4
"""Copies per step that a batch may well need: more of them are of something else."""

_MAKES = ("arange", "empty", "eye", "full", "linspace", "logspace", "ones", "tensor", "zeros")
"""Functions of PyTorch that make the same tensor on any device."""

_SHAPES = (
    "bool", "contiguous", "expand", "float", "int", "long", "repeat", "reshape", "t", "transpose",
    "tril", "triu", "unsqueeze", "view",
)  # fmt: skip
"""Methods that compute the same on any device."""

_DEVICE = re.compile(r"dev|cuda|gpu|rank|^\d+$", re.IGNORECASE)
"""How devices are called."""


class Transfers(Fix):
    """Make tensors on the GPU, and move only what must be moved.

    ## Why it is slow
    A tensor that is built on the CPU and moved with `.to(device)` is written twice, and
    Python waits for the copy unless its memory is pinned. Masks, position numbers and
    constants need not cross at all.

    ## What changes
    With `device=device` the GPU makes the tensor itself. What never changes is made
    once, before the loop, or is a buffer of the model.

    ## When not to
    - Random numbers made on the GPU come from another stream: no edit is written for them.
    - Data that fits into the GPU's memory can be moved there once; else pin it and copy
      with `non_blocking=True`.
    - Copies on a stream of their own that the step never waits for cost it nothing.
    """

    category = "sync"
    equivalence = Equivalence.NUMERICS
    framework = "torch"

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find copies of a tenth of a step that pinning the loader would not explain."""
        if evidence.device.kind != "GPU":
            return None
        part, seconds = evidence.torch.part("transfer"), part_seconds(evidence, "transfer")
        loaders = [each for each in evidence.torch.loaders if each.role == "training"]
        pageable = any(not each.pin_memory for each in loaders)
        share = seconds / evidence.times.real
        if share < LEAST_SHARE or (pageable and part.calls <= OF_A_BATCH):
            return None
        bound = bound_if_saved(evidence, seconds)
        if not worth(evidence, bound):
            return None
        place = f", most at {at(part.where)}" if part.where else ""
        many = f"{part.calls:.0f} copies" if part.calls >= 1.5 else "copies"
        return self.finding(
            title=f"{percent(share)} of every step goes into copies to the GPU",
            text=f"Each step of {ms(evidence.times.real)} spends {ms(seconds)} in {many} between "
            f"CPU and GPU{place}.",
            bound=bound,
            bound_basis="no time spent on copies",
            where=(part.where,) if part.where else (),
            advice="Build tensors with `device=`; move what never changes once, before the loop.",
            snippet="mask = torch.ones(length, length, device=device).tril()",
            data={"pinned": _pins(evidence.torch.loaders)},
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Make what is made and moved on the device; copy pinned batches without a wait."""
        for site in finding.where:
            _made_there(script, site, finding.data["pinned"])


def _made_there(script: Script, site: Site, pinned: bool) -> None:
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
    if "cpu" in text.lower() or not _DEVICE.search(text):  # another tensor, a type
        raise CannotRewrite(f"it may not copy to the GPU: .to({text})")
    return text


def _making(script: Script, site: Site) -> Site | None:
    """The call of PyTorch's that makes the tensor at `site`, None if it is made elsewhere."""
    source = script.source(site.file)
    node = source.expression(site)
    while isinstance(node, ast.Call):
        name = called(node)
        plain = dotted(node.func) == f"torch.{name}"
        if plain and name in _MAKES:
            if any(keyword(node, each) for each in ("device", "out", "pin_memory")):
                raise CannotRewrite("where in memory it is made is said already")
            return script.site_of(site, node)
        if plain and name in ("tril", "triu") and node.args:
            node = node.args[0]
        elif not plain and name in _SHAPES and isinstance(node.func, ast.Attribute):
            node = node.func.value
        else:
            return None
    return None


def _pins(loaders: Iterable[Loader]) -> bool:
    """Whether all batches of the training come out of pinned memory."""
    training = [each for each in loaders if each.role == "training"]
    return bool(training) and all(each.pin_memory for each in training)
