"""Autocast is on, and the model multiplies in float32 all the same."""

from __future__ import annotations

import ast

from trainperf.errors import CannotRewrite, NotMeasured
from trainperf.fixes import Fix
from trainperf.fixes.cause import Cause, Saving
from trainperf.fixes.common.step import step_seconds
from trainperf.fixes.common.words import at, ms, percent, times
from trainperf.fixes.torch_step._step import compute_seconds
from trainperf.model import Equivalence, Evidence, Finding, Site
from trainperf.model.torch.step import Products, WideProduct
from trainperf.rewrite import Script
from trainperf.source.scopes import FUNCTIONS

LEAST = 0.10
"""Share of the products' time in float32 below which it is left alone: a small head, a
router, a last projection are often kept in float32 on purpose."""

TELLING = 0.05
"""Share of the floating-point operations that those in 16 bits must have for their rate to
say how fast 16 bits are here."""

MOST_FASTER = 16.0
"""No 16-bit product is taken to be more than so many times as fast: dense tensor cores over
plain float32 of an H100 (989 and 67 TFLOP/s, NVIDIA's data sheet)."""

FASTER = 1.05
"""16 bits must be faster here by so much: 5 % is the smallest gain told."""

MOST_NAMED = 3

SNIPPET = """\
def forward(self, x):
    x = self.head(x)   # no x.float() before it, no autocast(enabled=False) around it
    return x.float()   # what follows needs the digits: a loss, a sum

class Own(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="{device}")
    def forward(ctx, x, weight): ...

    @staticmethod
    @torch.amp.custom_bwd(device_type="{device}")  # or its products run in float32
    def backward(ctx, grad): ..."""

LOSS_SNIPPET = """\
# one kernel for the last projection and the loss: the logits are never in memory
from liger_kernel.transformers import LigerFusedLinearCrossEntropyLoss

fused = LigerFusedLinearCrossEntropyLoss()
loss = fused(model.head.weight, hidden.flatten(0, 1), targets.flatten())
kept = targets != -100  # or only where there is a target
loss = functional.cross_entropy(head(hidden[kept]), targets[kept])"""

_KEEPS = {"forward": "custom_fwd", "backward": "custom_bwd"}


class TorchAutocastUpcast(Fix):
    """Let autocast compute the matrix products that stay in float32.

    ## Why it is slow
    A region with `autocast(enabled=False)`, a layer called outside of the region, an autograd
    function of one's own without `custom_fwd` and `custom_bwd`, a product that writes into
    `out=`: these still multiply in float32, and so do their gradients. And a loss is computed
    in float32: over the logits of a large vocabulary that is the widest tensor of the step.

    ## What changes
    The named products run in 16 bits like the others; losses, norms and sums stay in float32.
    A loss that is fused with the last projection, or leaves out padding, works on fewer
    logits. Losses differ by rounding.

    ## When not to
    Where float32 was chosen for its digits: the logits of a router, a loss that overflows in
    float16, positions with large values. Compare a validation score first. An edit is written
    for autograd functions only: a region that was switched off was so by somebody.
    """

    category = "model"
    equivalence = Equivalence.NUMERICS
    framework = "torch"

    def look(self, evidence: Evidence) -> Cause | None:
        """Find float32 products, or a loss, that take a real share of a step under autocast."""
        products, calls = evidence.torch.products, evidence.torch.calls
        if products is None or calls is None or not calls.autocast:
            return None
        found = (_of_products(evidence, products, calls.autocast), _of_losses(evidence, products))
        causes = [cause for cause in found if cause is not None]
        return max(causes, key=lambda cause: _most(cause, evidence), default=None)

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Have autograd functions of these files compute under the autocast of their call."""
        for site in {each.file: each for each in finding.where}.values():
            keep_autocast(script, site, finding.data["device"])


def _most(cause: Cause, evidence: Evidence) -> float:
    return (isinstance(cause.saves, Saving) and cause.saves.bound(evidence)) or 0.0


def _of_losses(evidence: Evidence, products: Products) -> Cause | None:
    step = step_seconds(evidence)
    seconds = min(sum(loss.seconds for loss in products.losses), step)
    if seconds < LEAST * step:
        return None
    named = ", ".join(_said(loss, "the loss") for loss in products.losses[:MOST_NAMED])
    millions = f"{max(loss.flops / loss.calls for loss in products.losses) / 1e6:,.0f} million"
    return Cause(
        title=f"The loss works on {millions} logits in float32",
        text=f"Under autocast a loss is computed in float32. Casting {millions} logits to it, and "
        f"their softmax, take {ms(seconds)} of a step: {named}.",
        saves=Saving("these casts and softmaxes cost nothing", seconds),
        where=_places(products.losses),
        rewritable=False,
        advice="Compute the loss together with the last projection, or on fewer logits.",
        snippet=LOSS_SNIPPET,
    )


def _of_products(evidence: Evidence, products: Products, dtype: str) -> Cause | None:
    work = products.wide_flops + products.narrow_flops
    whole = products.wide_s + products.narrow_s
    if whole <= 0 or work <= 0:
        return None
    if products.wide_s < LEAST * whole or products.wide_flops < TELLING * work:
        return None
    faster = None  # so much products in 16 bits were in that step; None where too few ran
    if products.narrow_flops >= TELLING * work and products.narrow_s > 0:
        narrow = products.narrow_flops / products.narrow_s
        faster = min(MOST_FASTER, narrow / (products.wide_flops / products.wide_s))
        if faster < FASTER:
            return None
    try:
        most = compute_seconds(evidence)
    except NotMeasured:
        most = step_seconds(evidence)
    named = ", ".join(_said(product) for product in products.places[:MOST_NAMED])
    rate = "" if faster is None else f" Products in {dtype} ran at {times(faster)} their rate."
    device = "cuda" if evidence.device.kind == "GPU" else "cpu"
    return Cause(
        title=f"Autocast is on, and {percent(products.wide_s / whole)} of the matrix products' "
        "time is in float32",
        text=f"The model runs under autocast ({dtype}), yet {percent(products.wide_flops / work)} "
        "of the floating-point operations of its matrix products are in float32, "
        f"{ms(products.wide_s)} of a step{f': {named}' if named else ''}.{rate}",
        saves=Saving(
            "these products cost nothing"
            if faster is None
            else f"these products at the rate of those in {dtype}, in one step",
            min(products.wide_s, most) * (1 - (1 / faster if faster else 0.0)),
        ),
        where=_places(products.places),
        advice="Take the products named out of what keeps them in float32; keep losses, "
        "norms and sums there.",
        snippet=SNIPPET.format(device=device),
        data={"device": device},
    )


def _said(product: WideProduct, what: str = "a product") -> str:
    """A place with its module and its time: "`head` (net.py:40) 8.00 ms"."""
    part = "the backward" if product.part == "backward" else ""
    name = f"`{product.module}`" if product.module else part or what
    inside = at(product.where)
    if product.module and part:
        name = f"{part} of {name}"
    return f"{name}{f' ({inside})' if inside else ''} {ms(product.seconds)}"


def _places(products: tuple[WideProduct, ...]) -> tuple[Site, ...]:
    """Where they stand, each place once; a backward stands where it was asked for."""
    ahead = [product for product in products if product.part != "backward"]
    found = [product.where for product in (ahead or products) if product.where is not None]
    return tuple(dict.fromkeys(found))


def keep_autocast(script: Script, site: Site, device: str) -> None:
    """Decorate the autograd functions in the file of `site`; raises `CannotRewrite` if none is.

    A backward runs without autocast unless `custom_bwd` brings back that of its forward.
    """
    module = script.source(site.file).module
    methods = [
        (cls, method)
        for cls in module.classes
        if any(ast.unparse(base).rpartition(".")[2] == "Function" for base in cls.bases)
        for method in cls.body
        if isinstance(method, FUNCTIONS) and method.name in _KEEPS
    ]
    for text in (ast.unparse(cls) for cls, _ in methods):
        if "custom_fwd" in text or "custom_bwd" in text or "setup_context" in text:
            raise CannotRewrite("its autograd functions say themselves what they run under")
    if not methods:
        raise CannotRewrite("no autograd function of this file keeps products in float32")
    torch = script.module_name(site.file, "torch", site)
    for _, method in methods:
        line = min([method.lineno, *(each.lineno for each in method.decorator_list)])
        head = Site(site.file, line, method.name)
        script.decorate(head, f'{torch}.amp.{_KEEPS[method.name]}(device_type="{device}")')
