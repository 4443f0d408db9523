"""Gradients that are exchanged in full precision where the network is what costs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from trainperf.fixes import Example, Fix
from trainperf.fixes.common.torch_cases import MODEL
from trainperf.fixes.common.words import worth
from trainperf.fixes.ddp._edits import HOOKS, register_hook
from trainperf.fixes.ranks._exchange import (
    WORTH_CHANGING,
    all_exact,
    bound_by_share,
    ddp_sites,
    exchange,
    exchange_said,
    exchange_share,
    exchanged_said,
    to_try_on_exchange,
)
from trainperf.fixes.ranks._parallel_cases import NCCL, SLOW, ddp, on_gpus, parallel_evidence
from trainperf.fixes.ranks._parallel_cases import exchange as an_exchange
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

    silent = [
        parallel_evidence(parallel_=None),
        # a small share
        parallel_evidence(),
        parallel_evidence(parallel={"exchange": an_exchange(0.008)}),
        # a hook is there
        parallel_evidence(ddp=ddp(comm_hook="bf16_compress_hook"), parallel={"exchange": SLOW}),
        # a backend that has no such hook
        parallel_evidence(parallel={"exchange": an_exchange(0.040, backend="mpi")}),
        # 16 bits already
        parallel_evidence(model=replace(MODEL, dtypes=("bfloat16",)), parallel={"exchange": SLOW}),
        parallel_evidence(parallel={"exchange": SLOW, "ddp": ()}),
        parallel_evidence(parallel={"exchange": an_exchange(None)}),
    ]
    fires = [
        parallel_evidence(parallel={"exchange": SLOW}),
        parallel_evidence(parallel={"exchange": NCCL}, **on_gpus()),
        parallel_evidence(ddp=ddp(where=None), parallel={"exchange": SLOW}),
    ]
    tries_not = [
        parallel_evidence(parallel_=None),
        parallel_evidence(ddp=ddp(comm_hook="bf16_compress_hook"), parallel={"exchange": SLOW}),
        parallel_evidence(parallel={"exchange": an_exchange(0.040, backend="mpi")}),
        parallel_evidence(model=replace(MODEL, dtypes=("bfloat16",)), parallel={"exchange": SLOW}),
        parallel_evidence(parallel={"exchange": an_exchange(0.0001)}),
    ]
    tries = [
        parallel_evidence(parallel={"exchange": an_exchange(None)}),
    ]
    examples = [
        Example(
            before="import torch\n\nmodel = ▸DistributedDataParallel(net)◂\nrun(model)\n",
            after=f"import torch\n{HOOKS}\n\nmodel = DistributedDataParallel(net)\n"
            "model.register_comm_hook(None, default_hooks.fp16_compress_hook)\nrun(model)\n",
            data={"hook": "fp16_compress_hook"},
        ),
        Example(
            before=(
                "from torch.nn.parallel import DistributedDataParallel as DDP\n\n\n"
                "class Trainer:\n    def wrap(self):\n        if self.ranks > 1:\n"
                "            self.model = ▸DDP(self.model, device_ids=[0])◂\n"
            ),
            after=(
                "from torch.nn.parallel import DistributedDataParallel as DDP\n"
                f"{HOOKS}\n\n\n"
                "class Trainer:\n    def wrap(self):\n        if self.ranks > 1:\n"
                "            self.model = DDP(self.model, device_ids=[0])\n"
                "            self.model.register_comm_hook("
                "None, default_hooks.bf16_compress_hook)\n"
            ),
            data={"hook": "bf16_compress_hook"},
        ),
        Example.untouched(
            "return_to(▸DistributedDataParallel(net)◂)\n", {"hook": "fp16_compress_hook"}
        ),
        Example.untouched(
            "model = ▸DistributedDataParallel(net)◂\nif small:\n"
            "    model.register_comm_hook(None, mine)\n",
            {"hook": "fp16_compress_hook"},
        ),
        Example(  # the name is taken
            before="default_hooks = []\nmodel = ▸DistributedDataParallel(net)◂\n",
            after=f"{HOOKS} as default_hooks_2\ndefault_hooks = []\n"
            "model = DistributedDataParallel(net)\n"
            "model.register_comm_hook(None, default_hooks_2.fp16_compress_hook)\n",
            data={"hook": "fp16_compress_hook"},
        ),
    ]

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find float32 gradients whose exchange takes more than a tenth of the step."""
        hook = _hook(evidence)
        if hook is None:
            return None
        bound = bound_by_share(evidence, SAVED)
        if exchange_share(evidence) < WORTH_CHANGING or not worth(evidence, bound):
            return None
        basis = "half of the exchange, as for half of the bytes"
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
