"""The cases of `torch_compile_blocks`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fixes.cases.common.cases import SITE
from fixes.cases.common.torch_cases import MODEL, torch_evidence
from rewriting import Example
from trainperf.model import Evidence, Length, Missing, TorchModel
from trainperf.model.torch.compiling import Blocks, CompileCall, Compiling

DEEP = replace(MODEL, compiled=True, name="model", blocks=(Blocks(".blocks", "Block", 12),))

CALL = CompileCall(SITE)

SHORT = Length(900, "3 epochs", epochs=3)

HEAD = "import torch\n\nmodel = Net()\n"

DATA = {"name": "model", "blocks": [{"path": ".blocks"}]}


def _compiled(
    start_s: float,
    *calls: CompileCall,
    model: TorchModel = DEEP,
    length: Length | Missing = SHORT,
) -> Evidence:
    torch: dict[str, Any] = {"compiling": Compiling(calls, start_s=start_s)}
    return torch_evidence(model=model, torch=torch, length_=length)


silent = [
    torch_evidence(),
    # nothing was compiled in the start, or it was kept from before
    _compiled(0.0, CALL),
    _compiled(0.4, CALL),
    # no blocks; not compiled; compiled one by one
    _compiled(60.0, CALL, model=replace(DEEP, blocks=())),
    _compiled(60.0, CALL, model=replace(DEEP, compiled=False)),
    _compiled(60.0, *(CompileCall(replace(SITE, line=line)) for line in range(3))),
    # next to nothing of the whole training, or nobody knows how long that is
    _compiled(60.0, CALL, length=replace(SHORT, steps=900_000)),
    _compiled(60.0, CALL, length=Missing("no end is seen")),
]

fires = [
    _compiled(60.0, CALL),
    # another name where it is compiled: advice
    _compiled(60.0, CALL, model=replace(DEEP, name="")),
]

examples = [
    Example(
        before=HEAD + "model = ▸torch.compile(model, dynamic=True)◂\nrun(model)\n",
        after=HEAD + "for block in model.blocks:\n    block.compile(dynamic=True)\nrun(model)\n",
        data=DATA,
    ),
    Example(
        before=HEAD + "if fast:\n    ▸model.compile()◂\n",
        after=HEAD + "if fast:\n    for block in model.blocks:\n        block.compile()\n",
        data=DATA,
    ),
    # another object, a method of it, or arguments that cannot be seen
    Example.untouched(HEAD + "loss = ▸torch.compile(loss)◂\n", DATA),
    Example.untouched(HEAD + "model.forward = ▸torch.compile(model.forward)◂\n", DATA),
    Example.untouched(HEAD + "model = ▸torch.compile(model, True)◂\n", DATA),
    Example.untouched(HEAD + "fast = ▸torch.compile(model)◂\n", DATA),
]
