"""An autograd function that was decorated computes its backward in 16 bits under autocast."""

from __future__ import annotations

from typing import Any

import pytest

from fixes.case_text import rewrites
from rewriting import changed, executed, marked, script_of
from trainperf.fixes.precision.torch_autocast_upcast import keep_autocast

torch = pytest.importorskip("torch")

OWN = rewrites("torch_autocast_upcast")["a function of autograd"].before.partition("\n\nloss")[0]

CALL = """\

seen = []


def run():
    x = torch.randn(4, 3, requires_grad=True)
    weight = torch.randn(3, 2, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        out = ▸Own.apply(x, weight)◂
    out.float().sum().backward()
    return seen
"""


def types_of(text: str) -> list[Any]:
    space = executed(text)
    found: list[Any] = space["run"]()
    return found


def test_the_backward_computes_in_the_type_of_the_forward() -> None:
    kept = "        grad = grad.float()  # as those who met the error wrote\n"
    told = "        seen.append((grad @ weight.t()).dtype)\n"
    own = OWN.replace("        return grad @", f"{kept}{told}        return grad @")
    script, (call,) = script_of(own + CALL)
    keep_autocast(script, call, "cpu")
    after = changed(script)

    assert types_of(marked(own + CALL)[0]) == [torch.float32]
    assert types_of(after) == [torch.bfloat16]
