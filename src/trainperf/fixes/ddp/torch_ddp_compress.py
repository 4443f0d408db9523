"""Gradients that are exchanged in full precision where the network is what costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainperf.fixes import Fix
from trainperf.fixes.common.words import worth
from trainperf.fixes.ddp._edits import HOOKS, register_hook
from trainperf.fixes.ranks._exchange import (
    WORTH_CHANGING,
    all_exact,
    bound_if_sent,
    ddp_sites,
    exchange,
    exchange_said,
    exchange_share,
    exchanged_said,
    to_try_on_exchange,
)
from trainperf.model import Equivalence, Evidence, Finding

if TYPE_CHECKING:
    from trainperf.rewrite import Script

HOOK_OF = {"nccl": "bf16_compress_hook", "gloo": "fp16_compress_hook"}
"""PyTorch refuses the bfloat16 hook on any backend but NCCL and XCCL (tried with 2.13)."""

KIND = {"bf16_compress_hook": "bfloat16", "fp16_compress_hook": "float16"}

SAVED = 0.5
"""Half of the bytes are left; what an exchange costs besides its bytes stays."""


class Compress(Fix):
    """Exchange gradients in 16 bits: a compression hook of DDP.

    ## Why it is slow
    Gradients in float32 take four bytes per weight, and each step sends all of them
    over the network, the bus or the loopback.

    ## What changes
    DDP rounds each bucket to 16 bits before its all-reduce and widens the result: half
    the bytes. Gradients lose digits: about 3 decimal ones are left in bfloat16 (NCCL), 4
    in float16 (gloo), whose numbers end at 65,504. Weights and updates stay float32.

    ## When not to
    - Training that is sensitive to small gradients: compare the loss over an epoch.
    - float16 with gradients above 65,504, for example of a scaled loss: they overflow.
    - Where the processor, not the link, is what the exchange waits for.
    """

    category = "sync"
    equivalence = Equivalence.NUMERICS
    framework = "torch"
    try_before = ("torch_ddp_no_sync",)

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find float32 gradients whose exchange takes more than a tenth of the step."""
        hook = _hook(evidence)
        if hook is None:
            return None
        bound = bound_if_sent(evidence, SAVED)
        if exchange_share(evidence) < WORTH_CHANGING or not worth(evidence, bound):
            return None
        basis = "half of the exchange, or of the all-reduces alone: half of the bytes"
        return self._finding(evidence, hook, exchange_said(evidence), bound, basis)

    def possible(self, evidence: Evidence) -> Finding | None:
        """Try it wherever float32 gradients are exchanged."""
        hook = _hook(evidence)
        if hook is None:
            return None
        bound, basis = to_try_on_exchange(evidence, SAVED)
        return self._finding(evidence, hook, exchanged_said(evidence), bound, basis)

    def _finding(
        self, evidence: Evidence, hook: str, said: str, bound: float | None, basis: str
    ) -> Finding:
        found = evidence.parallel.ddp
        return self.finding(
            title="Gradients are exchanged in float32",
            text=f"{said}. In {KIND[hook]} it would be half the bytes.",
            bound=bound,
            bound_basis=basis,
            where=ddp_sites(found),
            advice=f"Register PyTorch's {hook}, and compare the losses.",
            snippet=f"{HOOKS}\n\nmodel.register_comm_hook(None, default_hooks.{hook})",
            data={"hook": hook},
            rewritable=all_exact(found),
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Register the hook right after each model is wrapped."""
        for site in finding.where:
            register_hook(script, site, str(finding.data["hook"]))


def _hook(evidence: Evidence) -> str | None:
    """The hook that halves what is exchanged; None where there is one, or none would."""
    found = evidence.parallel.ddp
    if not found or any(one.comm_hook for one in found):
        return None
    if evidence.torch.model.dtypes != ("float32",):
        return None
    return HOOK_OF.get(exchange(evidence).backend.lower())
