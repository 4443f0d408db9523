"""Gradients that are exchanged in full precision where the network is what costs."""

from __future__ import annotations

from typing import Any

from trainperf.fixes.ddp._edits import HOOKS, DdpSetting, register_hook
from trainperf.fixes.ranks._exchange import (
    WORTH_CHANGING,
    bound_if_sent,
    exchange,
    exchange_share,
)
from trainperf.model import Ddp, Equivalence, Evidence, Finding
from trainperf.rewrite import Script

HOOK_OF = {"nccl": "bf16_compress_hook", "gloo": "fp16_compress_hook"}
"""PyTorch refuses the bfloat16 hook on any backend but NCCL and XCCL (tried with 2.13)."""

KIND = {"bf16_compress_hook": "bfloat16", "fp16_compress_hook": "float16"}


class Compress(DdpSetting):
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

    equivalence = Equivalence.NUMERICS
    try_before = ("torch_ddp_no_sync",)
    share = 0.5
    """Half of the bytes are left; what an exchange costs besides its bytes stays."""
    basis = "half of the exchange, or of the all-reduces alone: half of the bytes"

    def models(self, evidence: Evidence) -> tuple[Ddp, ...]:
        """Return all, of float32 gradients, where none has a hook and one would halve them."""
        found = evidence.parallel.ddp
        if any(one.comm_hook for one in found) or evidence.torch.model.dtypes != ("float32",):
            return ()
        return found if exchange(evidence).backend.lower() in HOOK_OF else ()

    def bound(self, evidence: Evidence) -> float:
        """Return the speed-up at most; 1 where a small part of the step is exchange."""
        worthwhile = exchange_share(evidence) >= WORTH_CHANGING
        return bound_if_sent(evidence, self.share) if worthwhile else 1.0

    def told(self, evidence: Evidence, models: tuple[Ddp, ...], said: str) -> dict[str, Any]:
        """Name the hook, and what it makes of float32."""
        hook = HOOK_OF[exchange(evidence).backend.lower()]
        return {
            "title": "Gradients are exchanged in float32",
            "text": f"{said}. In {KIND[hook]} it would be half the bytes.",
            "advice": f"Register PyTorch's {hook}, and compare the losses.",
            "snippet": f"{HOOKS}\n\nmodel.register_comm_hook(None, default_hooks.{hook})",
            "data": {"hook": hook},
        }

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Register the hook right after each model is wrapped."""
        for site in finding.where:
            register_hook(script, site, str(finding.data["hook"]))
