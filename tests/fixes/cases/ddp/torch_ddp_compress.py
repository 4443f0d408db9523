"""The cases of `torch_ddp_compress`."""

from __future__ import annotations

from dataclasses import replace

from fixes.cases.common.torch_cases import MODEL
from fixes.cases.ranks._parallel_cases import NCCL, SLOW, ddp, on_gpus, parallel_evidence
from fixes.cases.ranks._parallel_cases import exchange as an_exchange
from rewriting import Example
from trainperf.fixes.ddp._edits import HOOKS

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
