"""The cases of `torch_uneven_shards`."""

from __future__ import annotations

from typing import Any

from fixes.cases.ranks._parallel_cases import ddp, parallel_evidence, rank
from trainperf.model import Evidence


def _of(*steps: int | None, **fields: Any) -> Evidence:
    own = [rank(number, epoch_steps=count) for number, count in enumerate(steps)]
    return parallel_evidence(parallel={"processes": tuple(own)}, **fields)


silent = [
    parallel_evidence(),
    parallel_evidence(parallel_=None),
    # equal
    _of(500, 500, 500),
    # nobody knows
    _of(None, None),
    _of(500, None),
    _of(500),
    # no exchange, so nobody waits
    parallel_evidence(parallel={"processes": (rank(0), rank(1, epoch_steps=3)), "exchange": None}),
    # it trains under Join already
    _of(500, 400, ddp=ddp(settings={"join": True})),
]

fires = [
    _of(500, 400),
    # one batch is enough to hang
    _of(501, 501, 500, 500),
    _of(300, 100, None, loader=None),
]
