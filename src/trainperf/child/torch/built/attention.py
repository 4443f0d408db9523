"""Tell a `forward` of the user's that computes attention by hand.

It is told by what its code does, and the user's functions it calls: two matrix
products, a softmax and a scale, and nowhere a fused attention.
"""

from __future__ import annotations

import dis
from collections.abc import Iterator
from types import CodeType
from typing import Any

from ...process import frames

PRODUCTS = {"matmul", "bmm", "einsum", "baddbmm", "mm", "__matmul__"}
SCALES = {"div", "div_", "true_divide", "mul", "mul_", "sqrt", "rsqrt", "scale", "baddbmm"}
SOFTMAXES = {"softmax", "_softmax", "Softmax"}
FUSED = {
    "scaled_dot_product_attention",
    "memory_efficient_attention",
    "flash_attn_func",
    "flash_attn_varlen_func",
    "flash_attn_qkvpacked_func",
    "flex_attention",
    "sdpa",
}
DEEPEST = 2
"""So many calls into the user's own functions are followed."""


def by_hand(model: Any) -> dict[str, Any] | None:
    """Where the first `forward` that computes attention by hand is defined, None if none does."""
    seen: set[int] = set()
    for module in model.modules():
        code = getattr(getattr(type(module), "forward", None), "__code__", None)
        if code is None or id(code) in seen or not frames.is_users(code.co_filename):
            continue
        seen.add(id(code))
        if _attends(module, type(module).forward):
            return frames.definition(code)
    return None


def _attends(module: Any, forward: Any) -> bool:
    names: set[str] = set()
    products = scales = 0
    for code in _reached(module, forward, DEEPEST, set()):
        for instruction in dis.get_instructions(code):
            what = instruction.argrepr.removeprefix("NULL + ")
            if instruction.opname == "BINARY_OP":
                products += what in ("@", "@=")
                scales += what in ("/", "/=", "*", "*=")
            elif instruction.opname.startswith("LOAD") and isinstance(instruction.argval, str):
                names.add(instruction.argval)
                products += instruction.argval in PRODUCTS
                scales += instruction.argval in SCALES
    softmax = bool(names & SOFTMAXES) or any(
        type(child).__name__ == "Softmax" and name in names
        for name, child in module.named_children()
    )
    return softmax and products >= 2 and scales > 0 and not names & FUSED


def _reached(owner: Any, function: Any, deeper: int, seen: set[int]) -> Iterator[CodeType]:
    """The code of a function, the code inside it, and that of the user's functions it calls."""
    code = getattr(function, "__code__", None)
    if code is None or id(code) in seen or not frames.is_users(code.co_filename):
        return
    seen.add(id(code))
    for one in _nested(code):
        yield one
        for name in one.co_names if deeper else ():
            called = vars(type(owner)).get(name) or getattr(function, "__globals__", {}).get(name)
            called = getattr(called, "__func__", called)
            yield from _reached(owner, called, deeper - 1, seen)


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested(constant)
