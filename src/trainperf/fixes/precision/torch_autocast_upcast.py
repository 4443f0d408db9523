"""Autocast is on, and the model multiplies in float32 all the same."""

from __future__ import annotations

import ast

from trainperf.errors import CannotRewrite, NotMeasured
from trainperf.fixes import Fix
from trainperf.fixes.common.step import bound_if_saved, step_seconds
from trainperf.fixes.common.words import at, ms, percent, times, worth
from trainperf.fixes.torch_step._step import compute_seconds
from trainperf.model import Equivalence, Evidence, Finding, Site
from trainperf.model.torch.step import Products, WideProduct
from trainperf.rewrite import Script
from trainperf.source.statements import Function

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

# or only where there is a target
kept = targets != -100
loss = functional.cross_entropy(head(hidden[kept]), targets[kept])"""

_KEEPS = {"forward": "custom_fwd", "backward": "custom_bwd"}


class AutocastUpcast(Fix):
    """Let autocast compute the matrix products that stay in float32.

    ## Why it is slow
    Autocast changes what it sees. A region with `autocast(enabled=False)`, a layer called
    outside of the region, an autograd function of one's own without `custom_fwd` and
    `custom_bwd`, a product that writes into `out=`: these still multiply in float32, at a
    fraction of the rate, and so do their gradients. And a loss is computed in float32: over
    the logits of a large vocabulary that is the widest tensor of the step, several times.

    ## What changes
    The named products run in 16 bits like the others. What needs the digits (losses, norms,
    sums) stays in float32: only the product does not. A loss that is fused with the last
    projection, or leaves out padding, works on fewer logits. Losses differ by rounding.

    ## When not to
    Where float32 was chosen for its digits: the logits of a router, a loss that overflows in
    float16, positions with large values. Compare a validation score first. An edit is written
    for autograd functions only: a region that was switched off was so by somebody.
    """

    category = "model"
    equivalence = Equivalence.NUMERICS
    framework = "torch"

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find float32 products that take a real share of a step under autocast."""
        products, calls = evidence.torch.products, evidence.torch.calls
        if products is None or calls is None or not calls.autocast:
            return None
        found = self._of_products(evidence, products, calls.autocast)
        return self._of_losses(evidence, products) if found is None else found

    def _of_losses(self, evidence: Evidence, products: Products) -> Finding | None:
        seconds = min(sum(one.seconds for one in products.losses), step_seconds(evidence))
        if seconds < LEAST * step_seconds(evidence):
            return None
        bound = bound_if_saved(evidence, seconds)
        if not worth(evidence, bound):
            return None
        named = ", ".join(_said(one, "the loss") for one in products.losses[:MOST_NAMED])
        largest = max(one.flops / one.calls for one in products.losses)
        return self.finding(
            title=f"The loss works on {largest / 1e6:,.0f} million logits in float32",
            text=f"Under autocast a loss is computed in float32. Casting {largest / 1e6:,.0f} "
            f"million logits to it, and their softmax, take {ms(seconds)} of a step: {named}.",
            bound=bound,
            bound_basis="these casts and softmaxes cost nothing",
            where=_places(products.losses),
            rewritable=False,
            advice="Compute the loss together with the last projection, or on fewer logits.",
            snippet=LOSS_SNIPPET,
        )

    def _of_products(self, evidence: Evidence, products: Products, dtype: str) -> Finding | None:
        work = products.wide_flops + products.narrow_flops
        whole = products.wide_s + products.narrow_s
        if whole <= 0 or work <= 0:
            return None
        if products.wide_s < LEAST * whole or products.wide_flops < TELLING * work:
            return None
        faster = _faster(products, work)
        if faster is not None and faster < FASTER:
            return None
        left = 0.0 if faster is None else 1 / faster
        saved = min(products.wide_s, _most(evidence)) * (1 - left)
        bound = bound_if_saved(evidence, saved)
        if not worth(evidence, bound):
            return None
        share = percent(products.wide_s / whole)
        device = "cuda" if evidence.device.kind == "GPU" else "cpu"
        return self.finding(
            title=f"Autocast is on, and {share} of the matrix products' time is in float32",
            text=_text(products, dtype, work, faster),
            bound=bound,
            bound_basis="these products cost nothing"
            if faster is None
            else f"these products at the rate of those in {dtype}, in one step",
            where=_places(products.places),
            advice="Take the products named out of what keeps them in float32; keep losses, "
            "norms and sums there.",
            snippet=SNIPPET.format(device=device),
            data={"device": device},
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Have autograd functions of these files compute under the autocast of their call."""
        for site in {each.file: each for each in finding.where}.values():
            keep_autocast(script, site, finding.data["device"])


def _faster(products: Products, work: float) -> float | None:
    """How much faster products in 16 bits ran in that step; None where too few did."""
    if products.narrow_flops < TELLING * work or products.narrow_s <= 0:
        return None
    narrow = products.narrow_flops / products.narrow_s
    return min(MOST_FASTER, narrow / (products.wide_flops / products.wide_s))


def _most(evidence: Evidence) -> float:
    """Seconds that products can take of a step at most."""
    try:
        return compute_seconds(evidence)
    except NotMeasured:
        return step_seconds(evidence)


def _text(products: Products, dtype: str, work: float, faster: float | None) -> str:
    text = (
        f"The model runs under autocast ({dtype}), yet {percent(products.wide_flops / work)} of "
        "the floating-point operations of its matrix products are in float32, "
        f"{ms(products.wide_s)} of a step"
    )
    named = [_said(one) for one in products.places[:MOST_NAMED]]
    text += f": {', '.join(named)}." if named else "."
    if faster is not None:
        text += f" Products in {dtype} ran at {times(faster)} their rate."
    return text


def _said(one: WideProduct, what: str = "a product") -> str:
    """A place with its module and its time: "`head` (net.py:40) 8.00 ms"."""
    part = "the backward" if one.part == "backward" else ""
    name = f"`{one.module}`" if one.module else part or what
    inside = at(one.where)
    if one.module and part:
        name = f"{part} of {name}"
    return f"{name}{f' ({inside})' if inside else ''} {ms(one.seconds)}"


def _places(products: tuple[WideProduct, ...]) -> tuple[Site, ...]:
    """Where they stand, each place once; a backward stands where it was asked for."""
    ahead = [one for one in products if one.part != "backward"]
    found = [one.where for one in (ahead or products) if one.where is not None]
    return tuple(dict.fromkeys(found))


def keep_autocast(script: Script, site: Site, device: str) -> None:
    """Decorate the autograd functions in the file of `site`; raises `CannotRewrite` if none is.

    A backward runs without autocast unless `custom_bwd` brings back that of its forward.
    """
    methods = [
        (cls, method)
        for cls in ast.walk(script.module(site.file))
        if isinstance(cls, ast.ClassDef) and any(map(_is_function, cls.bases))
        for method in cls.body
        if isinstance(method, Function) and method.name in _KEEPS
    ]
    if any("custom_" in ast.unparse(each) for _, m in methods for each in m.decorator_list):
        raise CannotRewrite("its autograd functions say themselves what autocast they run under")
    if any("setup_context" in ast.unparse(cls) for cls, _ in methods):
        raise CannotRewrite("its autograd functions set up their context apart")
    if not methods:
        raise CannotRewrite("no autograd function of this file keeps products in float32")
    torch = script.module_name(site.file, "torch", site)
    for _, method in methods:
        line = min([method.lineno, *(each.lineno for each in method.decorator_list)])
        head = type(site)(site.file, line, method.name)
        script.decorate(head, f'{torch}.amp.{_KEEPS[method.name]}(device_type="{device}")')


def _is_function(base: ast.expr) -> bool:
    return ast.unparse(base) in ("torch.autograd.Function", "autograd.Function", "Function")
