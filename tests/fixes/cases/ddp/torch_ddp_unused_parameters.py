"""The cases of `torch_ddp_unused_parameters`."""

from __future__ import annotations

from dataclasses import replace

from fixes.cases.ranks._parallel_cases import NCCL, SLOW, ddp, on_gpus, parallel_evidence
from fixes.cases.ranks._parallel_cases import exchange as an_exchange
from rewriting import Example
from trainperf.fixes.ddp.torch_ddp_unused_parameters import SETTING

SEARCHING = ddp(settings={SETTING: True}, unused=0, graph_is_static=True, given=(SETTING,))

silent = [
    parallel_evidence(parallel_=None),
    parallel_evidence(),
    # nothing is searched
    parallel_evidence(parallel={"exchange": SLOW}),
    # some are unused, or nobody looked
    parallel_evidence(ddp=replace(SEARCHING, unused=2), parallel={"exchange": SLOW}),
    parallel_evidence(ddp=replace(SEARCHING, unused=None), parallel={"exchange": SLOW}),
    # what is used changes
    parallel_evidence(ddp=replace(SEARCHING, graph_is_static=False), parallel={"exchange": SLOW}),
    # the exchange is small, or was not measured
    parallel_evidence(ddp=SEARCHING),
    parallel_evidence(ddp=SEARCHING, parallel={"exchange": an_exchange(None)}),
]

fires = [
    parallel_evidence(ddp=SEARCHING, parallel={"exchange": SLOW}),
    parallel_evidence(
        ddp=replace(SEARCHING, graph_is_static=None), parallel={"exchange": NCCL}, **on_gpus()
    ),
]

tries_not = [
    parallel_evidence(parallel_=None),
    parallel_evidence(parallel={"exchange": SLOW}),
    parallel_evidence(ddp=replace(SEARCHING, unused=2), parallel={"exchange": SLOW}),
    parallel_evidence(ddp=SEARCHING, parallel={"exchange": an_exchange(0.0001)}),
]

tries = [
    parallel_evidence(ddp=replace(SEARCHING, unused=0), parallel={"exchange": an_exchange(None)}),
]

examples = [
    Example(
        before="model = ▸DistributedDataParallel(net, find_unused_parameters=True)◂\n",
        after="model = DistributedDataParallel(net)\n",
    ),
    Example(
        before="model = ▸parallel.DistributedDataParallel(\n    net,\n    device_ids=[0],\n"
        "    find_unused_parameters=True,\n)◂\n",
        after="model = parallel.DistributedDataParallel(\n    net,\n    device_ids=[0],\n)\n",
    ),
    Example(  # by its place
        before="m = ▸DistributedDataParallel(n, None, None, 0, True, True, None, 25, True)◂\n",
        after="m = DistributedDataParallel(n, None, None, 0, True, True, None, 25, False)\n",
    ),
    Example.untouched("model = ▸DistributedDataParallel(net, find_unused_parameters=args.find)◂\n"),
    Example(  # not in the call that can be seen
        before="model = ▸DistributedDataParallel(net, **settings)◂\n",
        after="model = DistributedDataParallel("
        'net, **{**settings, "find_unused_parameters": False})\n',
    ),
]
