"""Batches copied to the GPU from memory that is not pinned."""

from __future__ import annotations

import ast
import contextlib
import re

from trainperf.errors import CannotRewrite, NotMeasured
from trainperf.fixes import Fix
from trainperf.fixes.common.step import bound_if_saved
from trainperf.fixes.common.words import ms, percent, worth
from trainperf.fixes.dataloader._edits import seen_in_run, set_setting
from trainperf.fixes.dataloader._loader import named, places
from trainperf.fixes.torch_step._step import to_try
from trainperf.model import Equivalence, Evidence, Finding, Site
from trainperf.rewrite import Script

LEAST_SHARE = 0.03
"""Share of a step that copies to the device must take (NVIDIA's and PyTorch's guides
speak of pinning from a few percent on)."""

A_GPU = re.compile(r"cuda|gpu|device|rank", re.IGNORECASE)
"""Names of devices other than the CPU. A copy to the CPU must never go on while the
program reads its result."""

COPIES = "no time spent on copies"


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
