"""Tell a `forward` of the user's that computes attention by hand.

It is told by what its code does, and the user's functions it calls: two matrix
products, a softmax and a scale, and nowhere a fused attention. A function of the user's
may have the name of one.
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


def by_hand(model: Any) -> list[dict[str, Any]]:
    """The heads of the functions that compute attention by hand, each once.

    A head is the `forward` of a module, or what it calls to take the softmax.
    """
    seen: set[int] = set()
    found: dict[CodeType, dict[str, Any]] = {}
    for module in model.modules():
        code = getattr(getattr(type(module), "forward", None), "__code__", None)
        if code is None or id(code) in seen or not frames.is_users(code.co_filename):
            continue
        seen.add(id(code))
        for head in _heads(module, type(module).forward):
            place = frames.definition(head)
            found[head] = place | {"end_line": place["line"]}
    return list(found.values())


def _heads(module: Any, forward: Any) -> list[CodeType]:
    """The functions that take the softmax where a `forward` attends by hand, else none."""
    names: set[str] = set()
    heads: list[CodeType] = []
    soft = {name for name, child in module.named_children() if type(child).__name__ == "Softmax"}
    products = scales = 0
    for head, code, own in _reached(module, forward, DEEPEST, set()):
        here: set[str] = set()
        for instruction in dis.get_instructions(code):
            what = instruction.argrepr.removeprefix("NULL + ")
            if instruction.opname == "BINARY_OP":
                products += what in ("@", "@=")
                scales += what in ("/", "/=", "*", "*=")
            elif instruction.opname.startswith("LOAD") and isinstance(instruction.argval, str):
                here.add(instruction.argval)
                products += instruction.argval in PRODUCTS
                scales += instruction.argval in SCALES
        if here & (SOFTMAXES | soft) and head not in heads:
            heads.append(head)
        names |= here - own
    return heads if products >= 2 and scales > 0 and not names & FUSED else []


def _reached(
    owner: Any, function: Any, deeper: int, seen: set[int]
) -> Iterator[tuple[CodeType, CodeType, set[str]]]:
    """A function's code with the code inside it, and that of the user's functions it calls.

    Each comes with the function's own, and with the names that stand for the user's functions.
    """
    code = getattr(function, "__code__", None)
    if code is None or id(code) in seen or not frames.is_users(code.co_filename):
        return
    seen.add(id(code))
    for one in _nested(code):
        called = {
            name: getattr(found, "__func__", found)
            for name in one.co_names
            if (found := _users(owner, function, name)) is not None
        }
        yield code, one, set(called)
        for each in called.values() if deeper else ():
            yield from _reached(owner, each, deeper - 1, seen)


def _users(owner: Any, function: Any, name: str) -> Any:
    """The function of the user's that a name within `function` stands for, None if none."""
    found = vars(type(owner)).get(name) or getattr(function, "__globals__", {}).get(name)
    code = getattr(getattr(found, "__func__", found), "__code__", None)
    return found if code is not None and frames.is_users(code.co_filename) else None


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested(constant)
