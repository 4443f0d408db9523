"""The cases of `torch_ddp_bucket_size`."""

from __future__ import annotations

from dataclasses import replace

from fixes.cases.ranks._parallel_cases import DDP, NCCL, SLOW, ddp, on_gpus, parallel_evidence
from fixes.cases.ranks._parallel_cases import exchange as an_exchange
from rewriting import Example
from trainperf.fixes.common.words import MIB

silent = [
    parallel_evidence(parallel_=None),
    # the exchange is a small share
    parallel_evidence(),
    parallel_evidence(parallel={"exchange": an_exchange(0.008)}),
    # nobody knows how many bytes there are, or how they are cut
    parallel_evidence(parallel={"exchange": an_exchange(0.040, bytes=None)}),
    parallel_evidence(ddp=replace(DDP, settings={}), parallel={"exchange": SLOW}),
    # several exchanges for each update: the others can be left out altogether
    parallel_evidence(ddp=ddp(micro_steps=4.0, synced=4.0), parallel={"exchange": SLOW}),
    # so few that no size makes a difference
    parallel_evidence(parallel={"exchange": an_exchange(0.040, bytes=MIB // 2)}),
    parallel_evidence(parallel={"exchange": SLOW, "ddp": ()}),
    parallel_evidence(parallel={"exchange": an_exchange(None)}),
]

fires = [
    parallel_evidence(parallel={"exchange": SLOW}),
    parallel_evidence(parallel={"exchange": NCCL}, **on_gpus()),
    # all in one bucket
    parallel_evidence(
        parallel={"exchange": an_exchange(0.040, bytes=16 * MIB, buckets=(16 * MIB,))}
    ),
    # many small ones
    parallel_evidence(
        ddp=ddp(settings={"bucket_cap_mb": 1}),
        parallel={"exchange": an_exchange(0.040, bytes=60 * MIB, buckets=(MIB,) * 60)},
    ),
]

examples = [
    Example(
        before="model = ▸DistributedDataParallel(net)◂\n",
        after="model = DistributedDataParallel(net, bucket_cap_mb=100)\n",
        data={"bucket_cap_mb": 100, "variants": [{"bucket_cap_mb": 100}]},
    ),
    Example(
        before="model = ▸DistributedDataParallel(net, bucket_cap_mb=1, device_ids=[r])◂\n",
        after="model = DistributedDataParallel(net, bucket_cap_mb=10, device_ids=[r])\n",
        data={"bucket_cap_mb": 10},
    ),
    Example.untouched(
        "model = ▸DistributedDataParallel(net, bucket_cap_mb=args.bucket)◂\n",
        {"bucket_cap_mb": 10},
    ),
    Example.untouched("model = ▸wrap(net)◂\n", {"bucket_cap_mb": 10}),
]
