"""The cases of `torch_last_batch`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fixes.cases.common.torch_cases import LOADER, MODEL, torch_evidence
from rewriting import Example
from trainperf.fixes.torch_step.compiling.torch_recompiling import RECURRING
from trainperf.model import Evidence, Length, Missing
from trainperf.model.torch.compiling import Compiling, Recompiling

GUARD = "tensor 'x' size mismatch at index 0. expected 32, actual 8"

ONCE = Recompiling("forward", 1, 60, 9.0, GUARD, once_s=9.0)

SHORT = Length(900, "3 epochs", epochs=3)

HEAD = "from torch.utils.data import DataLoader\n\nloader = "

EXAMPLES = [
    Example(
        before=f"{HEAD}▸DataLoader(data, batch_size=32, shuffle=True)◂\n",
        after=f"{HEAD}DataLoader(data, batch_size=32, shuffle=True, drop_last=True)\n",
    ),
    Example(
        before=f"{HEAD}▸DataLoader(data, 32, drop_last=False)◂\n",
        after=f"{HEAD}DataLoader(data, 32, drop_last=True)\n",
    ),
    Example.untouched("loader = ▸make_loader(data)◂\n"),
]


def _compiled(
    seen: Recompiling | None, length: Length | Missing = SHORT, **loader: Any
) -> Evidence:
    torch = {"compiling": Compiling(recompiling=seen)}
    model = replace(MODEL, compiled=True)
    return torch_evidence(
        model=model, torch=torch, loader=replace(LOADER, **loader), length_=length
    )


examples = EXAMPLES

silent = [
    torch_evidence(),
    _compiled(None),
    # many shapes, another dimension, larger than usual
    _compiled(replace(ONCE, count=RECURRING)),
    _compiled(replace(ONCE, reason=GUARD.replace("index 0", "index 1"))),
    _compiled(replace(ONCE, reason=GUARD.replace("actual 8", "actual 64"))),
    # not the loader's batches
    _compiled(ONCE, batch_size=16),
    _compiled(ONCE, drop_last=True),
    # over the whole training it is nothing, or nobody knows how long that is
    _compiled(ONCE, replace(SHORT, steps=900_000)),
    _compiled(ONCE, Missing("no end is seen")),
]

fires = [
    _compiled(ONCE),
    _compiled(replace(ONCE, count=2), where=None),
]
