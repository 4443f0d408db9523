"""Batches copied to the GPU from memory that is not pinned."""

from __future__ import annotations

import ast
import contextlib
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from trainperf.errors import CannotRewrite, NotMeasured
from trainperf.fixes import Example, Fix
from trainperf.fixes.common.cases import GPU, OTHER_SITE
from trainperf.fixes.common.step import bound_if_saved
from trainperf.fixes.common.torch_cases import LOADER, split, torch_evidence
from trainperf.fixes.common.words import ms, percent, worth
from trainperf.fixes.dataloader._edits import seen_in_run, set_setting
from trainperf.fixes.dataloader._loader import named, places
from trainperf.fixes.torch_step._step import to_try
from trainperf.model import Equivalence, Evidence, Finding, Missing, StepPart

if TYPE_CHECKING:
    from trainperf.model import Site
    from trainperf.rewrite import Script

LEAST_SHARE = 0.03
"""Share of a step that copies to the device must take (NVIDIA's and PyTorch's guides
speak of pinning from a few percent on)."""

A_GPU = re.compile(r"cuda|gpu|device|rank", re.IGNORECASE)
"""Names of devices other than the CPU. A copy to the CPU must never go on while the
program reads its result."""

COPIES = "no time spent on copies"

BUSY = split(input=0.001, transfer=0.020, forward=0.025, backward=0.050, rest=0.002)
TO_DEVICE = (StepPart("transfer", 0.020, 2.0, OTHER_SITE), *split(forward=0.025, backward=0.05))


class PinMemory(Fix):
    """Copy batches to the GPU from pinned memory.

    ## Why it is slow
    The GPU cannot read ordinary memory: the driver first copies each batch into a buffer
    of its own, and the training process waits for the whole transfer.

    ## What changes
    `pin_memory=True` lets a thread of the loader put batches into page-locked memory,
    from which the GPU reads by itself. `non_blocking=True` in `.to(device)` lets Python
    go on meanwhile. Values and order stay the same.

    ## When not to
    - When memory is short: pinned pages cannot be swapped out.
    - When the dataset returns tensors that are on the GPU already.
    - Never `non_blocking=True` for copies to the CPU: the values may be read too early.
    """

    framework = "torch"
    category = "input"
    equivalence = Equivalence.EXACT

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
            before=(
                "loader = ▸DataLoader(dataset)◂\nx = ▸to(device)◂\ny = ▸z.to(device, **how)◂\n"
            ),
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

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find copies to the GPU that take a real share of a step, out of pageable memory."""
        if evidence.device.kind != "GPU" or evidence.torch.loader.pin_memory:
            return None
        loader, copies = evidence.torch.loader, evidence.torch.part("transfer")
        share = copies.seconds / evidence.times.real
        bound = bound_if_saved(evidence, copies.seconds)
        if share < LEAST_SHARE or not worth(evidence, bound):
            return None
        text = (
            f"{named(loader)} is loaded without `pin_memory`, and each step spends "
            f"{ms(copies.seconds)} ({percent(share)}) copying to {evidence.device.name}."
        )
        return self._finding(evidence, copies.where, text, bound, COPIES)

    def possible(self, evidence: Evidence) -> Finding | None:
        """Try it wherever a GPU is fed by a loader."""
        if evidence.device.kind != "GPU" or evidence.torch.loader.pin_memory:
            return None
        bound, basis = to_try(evidence)
        site = None
        try:
            copies = evidence.torch.part("transfer")
            site, basis = copies.where, COPIES
            bound = bound_if_saved(evidence, copies.seconds)
        except NotMeasured:
            pass
        text = f"{named(evidence.torch.loader)} is loaded without `pin_memory`, for "
        text += f"{evidence.device.name}."
        return self._finding(evidence, site, text, bound, basis)

    def _finding(
        self, evidence: Evidence, site: Site | None, text: str, bound: float | None, basis: str
    ) -> Finding:
        loader = evidence.torch.loader
        known = site is not None and site.exact
        return self.finding(
            title="Batches are copied from memory that is not pinned",
            text=text,
            bound=bound,
            bound_basis=basis,
            where=places(loader) + ((site,) if site is not None and known else ()),
            advice="Give the loader `pin_memory=True` and `.to(device)` `non_blocking=True`.",
            snippet="loader = DataLoader(dataset, ..., pin_memory=True)\n"
            "images = images.to(device, non_blocking=True)",
            data=seen_in_run(evidence),
            rewritable=None if loader.where is not None else False,
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Pin the loader's memory, and let copies to a GPU go on by themselves."""
        loader, *copies = finding.where
        set_setting(script, loader, "pin_memory", "True", finding.data)
        for site in copies:
            with contextlib.suppress(CannotRewrite):  # pinned memory alone is a gain, too
                if _goes_to_a_gpu(script, site):
                    script.set_keyword(site, "non_blocking", "True")


def _goes_to_a_gpu(script: Script, site: Site) -> bool:
    """Say whether the call is `x.cuda()`, or `x.to(…)` with one argument that is a GPU."""
    call = ast.parse(f"({script.expression(site)})", mode="eval").body
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return False
    if any(each.arg != "device" for each in call.keywords) or len(call.args) > 1:
        return False
    targets = [*call.args, *(each.value for each in call.keywords)]
    if call.func.attr == "cuda":
        return True
    text = ast.unparse(targets[0]) if targets else ""
    return call.func.attr == "to" and bool(A_GPU.search(text)) and "cpu" not in text.lower()
