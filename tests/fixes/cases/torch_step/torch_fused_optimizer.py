"""The cases of `torch_fused_optimizer`."""

from __future__ import annotations

from dataclasses import replace

from fixes.cases.common.cases import GPU, SITE, probe
from fixes.cases.common.torch_cases import OPTIMIZER, split, torch_evidence
from rewriting import Example
from trainperf.model import Evidence, Missing

DEAR = split(forward=0.030, backward=0.040, optimizer=0.027, rest=0.002)

NOT_SPLIT = Missing("not split")


def _with_two() -> Evidence:
    case = torch_evidence(split=DEAR)
    other = replace(OPTIMIZER, cls="SGD", where=SITE, tensors=4, parameters=10)
    return replace(case, torch_=replace(case.torch, optimizers=(OPTIMIZER, other)))


silent = [
    # the optimizer is a small part of the step
    torch_evidence(split=split(forward=0.050, backward=0.046, optimizer=0.002)),
    # fused already
    torch_evidence(split=DEAR, optimizer=replace(OPTIMIZER, fused=True)),
    # it cannot be fused here
    torch_evidence(split=DEAR, optimizer=replace(OPTIMIZER, can_fuse=False)),
    # one of the user's own
    torch_evidence(split=DEAR, optimizer=replace(OPTIMIZER, builtin=False)),
    torch_evidence(split=DEAR, optimizer=None),
    # the fused update was no faster, or not surely so
    torch_evidence(split=DEAR, probes={"fused": probe(0.9)}),
    torch_evidence(split=DEAR, probes={"fused": probe(1.2, spread=0.2)}),
    # input-bound
    torch_evidence(split=DEAR, resident=0.020, input=0.098),
    # nothing was timed
    torch_evidence(split=NOT_SPLIT),
]

fires = [
    torch_evidence(split=DEAR),
    torch_evidence(split=DEAR, optimizer=replace(OPTIMIZER, fused=False), device=GPU),
    torch_evidence(split=DEAR, probes={"fused": probe(2.04)}),
    # the probe alone
    torch_evidence(split=NOT_SPLIT, probes={"fused": probe(3.0)}),
    # a loop without a DataLoader
    torch_evidence(split=DEAR, loader=None, resident=None, input=None),
    # built where no edit can reach
    torch_evidence(split=DEAR, optimizer=replace(OPTIMIZER, where=None)),
    # two optimizers in one step
    _with_two(),
]

tries_not = [
    # fused already, or it cannot be
    torch_evidence(split=DEAR, optimizer=replace(OPTIMIZER, fused=True)),
    torch_evidence(split=DEAR, optimizer=replace(OPTIMIZER, can_fuse=False)),
    torch_evidence(split=DEAR, optimizer=replace(OPTIMIZER, builtin=False)),
    torch_evidence(split=DEAR, optimizer=None),
    # built where no edit can reach
    torch_evidence(split=NOT_SPLIT, optimizer=replace(OPTIMIZER, where=None)),
    # nothing the step does matters
    torch_evidence(split=DEAR, resident=0.002, input=0.099),
]

tries = [
    torch_evidence(split=NOT_SPLIT),
    torch_evidence(split=NOT_SPLIT, real=None, resident=None, input=None),
    torch_evidence(split=split(forward=0.050, backward=0.046, optimizer=0.002)),
    torch_evidence(split=DEAR, probes={"fused": probe(0.9)}),
    torch_evidence(split=DEAR, probes={"fused": probe(1.2, spread=0.2)}),
]

examples = [
    Example(
        before="import torch\n\noptimizer = ▸torch.optim.AdamW(model.parameters(), lr=3e-4)◂\n",
        after="import torch\n\n"
        "optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)\n",
    ),
    Example(
        before="optimizer = ▸Adam(groups, foreach=True, lr=rate)◂\n",
        after="optimizer = Adam(groups, fused=True, lr=rate)\n",
    ),
    Example(
        before="optimizer = ▸SGD(\n    weights,\n    lr=0.1,\n    fused=False,\n)◂\n",
        after="optimizer = SGD(\n    weights,\n    lr=0.1,\n    fused=True,\n)\n",
    ),
    Example(  # two optimizers
        before="one, two = ▸Adam(a)◂, ▸Adam(b)◂\n",
        after="one, two = Adam(a, fused=True), Adam(b, fused=True)\n",
    ),
    Example(  # among what cannot be seen
        before="optimizer = ▸AdamW(groups, lr=rate, **extra)◂\n",
        after='optimizer = AdamW(groups, lr=rate, **{**extra, "fused": True})\n',
    ),
    Example(  # by a choice of which both become the same
        before="extra = dict(fused=True) if cuda else dict()\n"
        "optimizer = ▸AdamW(groups, lr=rate, **extra)◂\n",
        after="extra = dict(fused=True)\noptimizer = AdamW(groups, lr=rate, **extra)\n",
        data={"arguments": {"fused": None, "foreach": None}},
    ),
    Example(  # by a class of settings
        before="class Config:\n    fused = False\n\n\n"
        "optimizer = ▸AdamW(groups, lr=Config.lr, fused=Config.fused)◂\n",
        after="class Config:\n    fused = True\n\n\n"
        "optimizer = AdamW(groups, lr=Config.lr, fused=Config.fused)\n",
        data={"arguments": {"fused": False, "foreach": None}},
    ),
    Example.untouched("optimizer = ▸AdamW(groups, **one, **two)◂\n"),
]
