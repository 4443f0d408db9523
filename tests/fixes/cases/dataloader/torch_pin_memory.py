"""The cases of `torch_pin_memory`."""

from __future__ import annotations

from dataclasses import replace

from fixes.cases.common.cases import GPU, OTHER_SITE
from fixes.cases.common.torch_cases import LOADER, split, torch_evidence
from rewriting import Example
from trainperf.model import Missing, StepPart

BUSY = split(input=0.001, transfer=0.020, forward=0.025, backward=0.050, rest=0.002)

TO_DEVICE = (StepPart("transfer", 0.020, 2.0, OTHER_SITE), *split(forward=0.025, backward=0.05))

silent = [
    torch_evidence(),
    # no GPU
    torch_evidence(split=BUSY),
    # nothing is copied
    torch_evidence(device=GPU),
    torch_evidence(device=GPU, split=split(transfer=0.002, forward=0.09)),
    # on a stream beside the step, which never waits for it
    torch_evidence(device=GPU, split=split(transfer=0.0001, forward=0.09)),
    # pinned already
    torch_evidence(device=GPU, split=BUSY, loader=replace(LOADER, pin_memory=True)),
    # the parts were not timed
    torch_evidence(device=GPU, split=Missing("not timed")),
    torch_evidence(device=GPU, split=split(forward=0.09)),
    # the loop waits for its input, with or without this
    torch_evidence(device=GPU, split=BUSY, real=0.1, resident=0.03, input=0.099),
    torch_evidence(device=GPU, split=BUSY, loader=None),
]

fires = [
    torch_evidence(device=GPU, split=BUSY),
    torch_evidence(device=GPU, split=TO_DEVICE),
    torch_evidence(device=GPU, split=BUSY, loader=replace(LOADER, where=None)),
]

tries_not = [
    torch_evidence(split=BUSY),
    torch_evidence(device=GPU, loader=replace(LOADER, pin_memory=True)),
    torch_evidence(device=GPU, loader=replace(LOADER, where=None)),
    torch_evidence(device=GPU, loader=None),
    torch_evidence(device=GPU, resident=0.002, input=0.099),
]

tries = [
    torch_evidence(device=GPU),
    torch_evidence(device=GPU, split=split(transfer=0.002, forward=0.09)),
    torch_evidence(device=GPU, split=Missing("not timed")),
]

examples = [
    Example(
        before="loader = ▸DataLoader(dataset, batch_size=32)◂\n",
        after="loader = DataLoader(dataset, batch_size=32, pin_memory=True)\n",
    ),
    Example(
        before=(
            "loader = ▸DataLoader(dataset, pin_memory=False)◂\n"
            "for x, y in loader:\n    x, y = ▸x.to(device)◂, ▸y.cuda()◂\n"
        ),
        after=(
            "loader = DataLoader(dataset, pin_memory=True)\n"
            "for x, y in loader:\n"
            "    x, y = x.to(device, non_blocking=True), y.cuda(non_blocking=True)\n"
        ),
    ),
    Example(  # to the CPU, to who knows where, and with arguments of another order
        before=(
            "loader = ▸DataLoader(dataset)◂\n"
            'a, b, c = ▸x.to("cpu")◂, ▸y.to(other)◂, ▸z.to(device, torch.float16)◂\n'
        ),
        after=(
            "loader = DataLoader(dataset, pin_memory=True)\n"
            'a, b, c = x.to("cpu"), y.to(other), z.to(device, torch.float16)\n'
        ),
    ),
    Example(  # a call of that name that takes other arguments
        before=("loader = ▸DataLoader(dataset)◂\nx = ▸to(device)◂\ny = ▸z.to(device, **how)◂\n"),
        after=(
            "loader = DataLoader(dataset, pin_memory=True)\n"
            "x = to(device)\ny = z.to(device, **how)\n"
        ),
    ),
    Example(
        before="PIN = False\nloader = ▸DataLoader(dataset, pin_memory=PIN)◂\n",
        after="PIN = True\nloader = DataLoader(dataset, pin_memory=PIN)\n",
        data={"now": False},
    ),
    Example.untouched("loader = ▸DataLoader(dataset, pin_memory=use_cuda)◂\n"),
]
