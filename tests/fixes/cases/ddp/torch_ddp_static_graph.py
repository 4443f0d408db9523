"""The cases of `torch_ddp_static_graph`."""

from __future__ import annotations

from dataclasses import replace

from fixes.cases.ranks._parallel_cases import SLOW, ddp, parallel_evidence
from fixes.cases.ranks._parallel_cases import exchange as an_exchange
from rewriting import Example

SEARCHING = ddp(settings={"find_unused_parameters": True}, unused=3, graph_is_static=True)

silent = [
    parallel_evidence(parallel_=None),
    parallel_evidence(),
    # nothing is searched
    parallel_evidence(ddp=ddp(unused=0, graph_is_static=True), parallel={"exchange": SLOW}),
    # the graph changes, or nobody knows
    parallel_evidence(ddp=replace(SEARCHING, graph_is_static=False), parallel={"exchange": SLOW}),
    parallel_evidence(ddp=replace(SEARCHING, graph_is_static=None), parallel={"exchange": SLOW}),
    # nothing is unused: searching can simply be left out
    parallel_evidence(ddp=replace(SEARCHING, unused=0), parallel={"exchange": SLOW}),
    # set already
    parallel_evidence(
        ddp=replace(SEARCHING, settings={**SEARCHING.settings, "static_graph": True}),
        parallel={"exchange": SLOW},
    ),
    # the exchange is small, or was not measured
    parallel_evidence(ddp=SEARCHING),
    parallel_evidence(ddp=SEARCHING, parallel={"exchange": an_exchange(None)}),
]

fires = [
    parallel_evidence(ddp=SEARCHING, parallel={"exchange": SLOW}),
    parallel_evidence(ddp=replace(SEARCHING, unused=1), parallel={"exchange": SLOW}),
    parallel_evidence(ddp=replace(SEARCHING, unused=None), parallel={"exchange": SLOW}),
]

tries_not = [
    parallel_evidence(parallel_=None),
    parallel_evidence(ddp=replace(SEARCHING, graph_is_static=False), parallel={"exchange": SLOW}),
    parallel_evidence(ddp=replace(SEARCHING, unused=0), parallel={"exchange": SLOW}),
    parallel_evidence(ddp=SEARCHING, parallel={"exchange": an_exchange(0.0001)}),
]

tries = [
    parallel_evidence(ddp=SEARCHING, parallel={"exchange": an_exchange(None)}),
]

examples = [
    Example(
        before="model = ▸DistributedDataParallel(net, find_unused_parameters=True)◂\n",
        after="model = DistributedDataParallel(net, find_unused_parameters=True, "
        "static_graph=True)\n",
    ),
    Example.untouched("model = ▸DistributedDataParallel(net, static_graph=config.static)◂\n"),
    Example.untouched("model = ▸OurParallel(net)◂\n"),
]
