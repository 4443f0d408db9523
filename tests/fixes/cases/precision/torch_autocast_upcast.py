"""The cases of `torch_autocast_upcast`."""

from __future__ import annotations

from dataclasses import replace

from fixes.cases.common.cases import GPU
from fixes.cases.common.torch_cases import BACKWARD_SITE, CALLS, FORWARD_SITE, torch_evidence
from fixes.cases.precision._autograd_edits import EXAMPLES
from trainperf.model import Missing, Site
from trainperf.model.torch.products import Products, WideProduct

HEAD = WideProduct(Site("net.py", 40, "forward"), "head", "forward", 0.008, 2e9, 1)

BACK = WideProduct(BACKWARD_SITE, "", "backward", 0.016, 4e9, 2)

PRODUCTS = Products(0.024, 6e9, 0.012, 12e9, (BACK, HEAD))

ALL_NARROW = Products(0.0, 0.0, 0.030, 12e9)

MIXED = replace(CALLS, autocast="bfloat16")

LOGITS = WideProduct(FORWARD_SITE, "", "rest", 0.020, 5.0e7, 3)

examples = EXAMPLES

silent = [
    torch_evidence(),
    # nothing was watched, or nothing runs under autocast
    torch_evidence(calls=MIXED),
    torch_evidence(torch={"products": PRODUCTS}),
    torch_evidence(calls=None, torch={"products": PRODUCTS}),
    # nearly all, or all, is in 16 bits
    torch_evidence(
        calls=MIXED, torch={"products": replace(PRODUCTS, wide_s=0.001, wide_flops=1e8)}
    ),
    torch_evidence(calls=MIXED, torch={"products": ALL_NARROW}),
    # many calls, hardly any work: their time is that of starting them
    torch_evidence(calls=MIXED, torch={"products": replace(PRODUCTS, wide_flops=1e7)}),
    # this device is no faster in 16 bits
    torch_evidence(calls=MIXED, torch={"products": replace(PRODUCTS, narrow_s=0.060)}),
    # input-bound: a faster step only waits longer
    torch_evidence(
        calls=MIXED,
        torch={"products": PRODUCTS},
        resident=0.020,
        input=0.098,
        split=Missing("no"),
    ),
    torch_evidence(calls=MIXED, torch={"products": PRODUCTS}, real=None),
    # a small part of the step is its loss
    torch_evidence(
        calls=MIXED,
        torch={"products": replace(ALL_NARROW, losses=(replace(LOGITS, seconds=0.002),))},
    ),
]

fires = [
    torch_evidence(calls=MIXED, torch={"products": PRODUCTS}),
    torch_evidence(calls=MIXED, torch={"products": PRODUCTS}, split=Missing("no")),
    torch_evidence(calls=MIXED, device=GPU, torch={"products": PRODUCTS}),
    # nothing is in 16 bits; nobody knows where
    torch_evidence(calls=MIXED, torch={"products": Products(0.030, 9e9, 0.0, 0.0)}),
    torch_evidence(
        calls=MIXED,
        torch={"products": replace(PRODUCTS, places=(replace(HEAD, where=None, module=""),))},
    ),
    # the products are in 16 bits, and a loss over many logits is not
    torch_evidence(calls=MIXED, torch={"products": replace(ALL_NARROW, losses=(LOGITS,))}),
    torch_evidence(calls=MIXED, torch={"products": Products(0, 0, 0, 0, losses=(LOGITS,))}),
]
