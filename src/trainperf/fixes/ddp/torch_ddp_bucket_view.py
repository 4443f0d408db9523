"""Gradients that DDP copies into its buckets and back."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from trainperf.fixes import Example, Fix
from trainperf.fixes.common.words import worth
from trainperf.fixes.ddp._edits import ddp_seen, set_ddp
from trainperf.fixes.ranks._exchange import (
    all_exact,
    bound_if_uncopied,
    ddp_sites,
    ddps_with,
    exchange,
    exchange_said,
    exchanged_said,
    to_try_on_exchange,
)
from trainperf.fixes.ranks._parallel_cases import DDP, NCCL, SLOW, ddp, on_gpus, parallel_evidence
from trainperf.fixes.ranks._parallel_cases import exchange as an_exchange
from trainperf.model import Ddp, Equivalence, Evidence, Finding
from trainperf.model.words import size

if TYPE_CHECKING:
    from trainperf.rewrite import Script

SETTING = "gradient_as_bucket_view"


class BucketView(Fix):
    """Let gradients live in DDP's buckets: `gradient_as_bucket_view=True`.

    ## Why it is slow
    DDP copies each gradient into a bucket before its all-reduce, and copies the result
    back into `.grad` afterwards. All gradients are read and written twice more, and
    they are kept in memory twice.

    ## What changes
    `.grad` becomes a view into the bucket, so nothing is copied. The numbers are the
    same, and the gradients take half the memory.

    ## When not to
    - Code that calls `detach_()` on gradients, or puts other tensors in their place.
    - Where the first steps must not differ in memory: the views are made after one.
    """

    category = "sync"
    equivalence = Equivalence.EXACT
    framework = "torch"
    try_before = ("torch_ddp_no_sync",)

    silent = [
        # one process on one device
        parallel_evidence(parallel_=None),
        # the exchange costs next to nothing
        parallel_evidence(),
        # on already, or not known
        parallel_evidence(ddp=ddp(settings={SETTING: True}), parallel={"exchange": SLOW}),
        parallel_evidence(ddp=replace(DDP, settings={}), parallel={"exchange": SLOW}),
        # no DDP: something else exchanges
        parallel_evidence(parallel={"exchange": SLOW, "ddp": ()}),
        # it was not measured, or is lost in the noise
        parallel_evidence(parallel={"exchange": an_exchange(None)}),
        parallel_evidence(parallel={"exchange": None}),
        # input-bound
        parallel_evidence(parallel={"exchange": SLOW}, resident=0.050, input=0.099),
    ]
    fires = [
        parallel_evidence(parallel={"exchange": SLOW}),
        parallel_evidence(parallel={"exchange": NCCL}, **on_gpus()),
        parallel_evidence(ddp=ddp(where=None), parallel={"exchange": SLOW}),
    ]
    tries_not = [
        parallel_evidence(parallel_=None),
        parallel_evidence(ddp=ddp(settings={SETTING: True}), parallel={"exchange": SLOW}),
        parallel_evidence(ddp=ddp(where=None), parallel={"exchange": an_exchange(None)}),
        parallel_evidence(parallel={"exchange": None}),
        parallel_evidence(parallel={"exchange": an_exchange(0.0001)}),
    ]
    tries = [
        parallel_evidence(parallel={"exchange": an_exchange(None)}),
    ]
    examples = [
        Example(
            before="model = ▸DistributedDataParallel(Net())◂\n",
            after="model = DistributedDataParallel(Net(), gradient_as_bucket_view=True)\n",
        ),
        Example(
            before=(
                "model = ▸DDP(\n    net,\n    device_ids=[rank],\n"
                "    gradient_as_bucket_view=False,\n)◂\n"
                "from torch.nn.parallel import DistributedDataParallel as DDP\n"
            ),
            after=(
                "model = DDP(\n    net,\n    device_ids=[rank],\n"
                "    gradient_as_bucket_view=True,\n)\n"
                "from torch.nn.parallel import DistributedDataParallel as DDP\n"
            ),
        ),
        Example.untouched(
            "model = ▸DistributedDataParallel(net, gradient_as_bucket_view=a.view)◂\n"
        ),
        Example(  # settings that cannot be seen
            before="model = ▸DistributedDataParallel(net, **settings)◂\n",
            after="model = DistributedDataParallel("
            'net, **{**settings, "gradient_as_bucket_view": True})\n',
        ),
        Example.untouched("model = ▸make_parallel(net)◂\n"),
    ]

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find DDP models that copy, where the exchange takes a real part of the step."""
        copying = ddps_with(evidence, SETTING, False)
        if not copying:
            return None
        bound = bound_if_uncopied(evidence)
        if not worth(evidence, bound):
            return None
        given = exchange(evidence).bytes
        much = f"{size(given)} are" if given else "each gradient is"
        text = (
            f"{exchange_said(evidence)}. In it {much} copied into buckets, and back into `.grad`."
        )
        basis = "copies take no longer than the all-reduces alone, or the whole exchange"
        return self._finding(evidence, copying, text, bound, basis)

    def possible(self, evidence: Evidence) -> Finding | None:
        """Try it wherever DDP copies."""
        copying = ddps_with(evidence, SETTING, False)
        if not copying:
            return None
        bound, basis = to_try_on_exchange(evidence)
        text = f"{exchanged_said(evidence)}, copied into buckets and back into `.grad`."
        return self._finding(evidence, copying, text, bound, basis)

    def _finding(
        self,
        evidence: Evidence,
        copying: tuple[Ddp, ...],
        text: str,
        bound: float | None,
        basis: str,
    ) -> Finding:
        return self.finding(
            title="DDP copies all gradients into its buckets and back",
            text=text,
            bound=bound,
            bound_basis=basis,
            where=ddp_sites(copying),
            advice=f"Give DistributedDataParallel {SETTING}=True.",
            snippet=f"model = DistributedDataParallel(model, {SETTING}=True)",
            data=ddp_seen(evidence, copying),
            rewritable=all_exact(copying),
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Set the keyword in each call."""
        for site in finding.where:
            set_ddp(script, site, SETTING, "True", finding.data)
