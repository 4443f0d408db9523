"""The cases of `torch_ddp_bucket_view`."""

from __future__ import annotations

from dataclasses import replace

from fixes.cases.ranks._parallel_cases import DDP, NCCL, SLOW, ddp, on_gpus, parallel_evidence
from fixes.cases.ranks._parallel_cases import exchange as an_exchange
from rewriting import Example
from trainperf.fixes.ddp.torch_ddp_bucket_view import SETTING

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
    Example.untouched("model = ▸DistributedDataParallel(net, gradient_as_bucket_view=a.view)◂\n"),
    Example(  # settings that cannot be seen
        before="model = ▸DistributedDataParallel(net, **settings)◂\n",
        after="model = DistributedDataParallel("
        'net, **{**settings, "gradient_as_bucket_view": True})\n',
    ),
    Example.untouched("model = ▸make_parallel(net)◂\n"),
]
