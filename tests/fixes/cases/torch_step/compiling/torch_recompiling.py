"""The cases of `torch_recompiling`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fixes.cases.common.cases import SITE
from fixes.cases.common.torch_cases import MODEL, torch_evidence
from fixes.cases.torch_step.compiling._recompiling_examples import EXAMPLES
from trainperf.model import Evidence, Operator, Padding, Site, Trace
from trainperf.model.torch.compiling import CompileCall, Compiling, Recompiling

WIDTH = "tensor 'x' size mismatch at index 1. expected 20, actual 21"

COUNT = "self.count == 3"

HEAD = Site("net.py", 12, "forward")

CALL = CompileCall(SITE, False)

RECURS = Recompiling("forward", 8, 60, 9.0, WIDTH, HEAD, lasting_s=0.045, once_s=7.0)

ENDED = replace(RECURS, lasting_s=0.0, once_s=9.0)

LIMITED = replace(ENDED, limit=True)

EAGER = Trace("cpu", 3, (Operator("aten::mul", 60, 0.060),), 0.010, 240, fusable_s=0.065)

PRODUCTS = replace(EAGER, operators=(Operator("aten::addmm", 60, 0.090),), fusable_s=0.0)

COMPILED = replace(MODEL, compiled=True)

PADS = Padding(80, 150, 90, 64, longest_length=150, masked=True, collator="DataCollatorWithPadding")


def _compiled(
    seen: Recompiling | None, *calls: CompileCall, padding: Padding | None = None, **torch: Any
) -> Evidence:
    torch |= {"compiling": Compiling(calls, seen)}
    return torch_evidence(model=COMPILED, torch=torch, padding=padding)


silent = [
    torch_evidence(),
    # compiled once
    _compiled(None, CALL),
    # a second time, for shapes that vary; the smaller last batch
    _compiled(replace(RECURS, count=2), CALL),
    _compiled(None, padding=PADS),
    # as many as there are lengths, all before the steps were timed
    _compiled(ENDED, CALL),
    # recurring, but cheap
    _compiled(replace(RECURS, lasting_s=0.0005), CALL),
    # PyTorch has given up, and there is nothing to fuse
    _compiled(LIMITED, CALL, trace=PRODUCTS),
]

fires = [
    _compiled(RECURS, CompileCall(SITE, None)),
    # compiled by a library, or for all shapes already: advice
    _compiled(RECURS),
    _compiled(RECURS, CompileCall(SITE, True)),
    _compiled(RECURS, CompileCall(SITE, True), padding=PADS),
    _compiled(replace(RECURS, reason=COUNT), CALL),
    _compiled(LIMITED, CALL, trace=EAGER),
    _compiled(replace(LIMITED, reason=COUNT), CALL, trace=EAGER),
]

tries_not = [
    torch_evidence(),
    # a second time, for shapes that vary; the smaller last batch
    _compiled(replace(ENDED, count=2), CALL),
    # no call of the user's to change, or one for all shapes
    _compiled(ENDED),
    _compiled(ENDED, CompileCall(SITE, True)),
    _compiled(replace(ENDED, reason=COUNT), CALL),
    # a model that reads padding, a collator of the user's own
    _compiled(ENDED, padding=replace(PADS, masked=False)),
    _compiled(ENDED, padding=replace(PADS, collator="")),
    _compiled(replace(ENDED, reason=COUNT), padding=PADS),
]

tries = [
    _compiled(ENDED, CALL),
    _compiled(ENDED, padding=PADS),
    _compiled(LIMITED, CALL),
]

examples = EXAMPLES
