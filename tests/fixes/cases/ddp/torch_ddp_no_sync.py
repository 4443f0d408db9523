"""The cases of `torch_ddp_no_sync`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fixes.cases.common.torch_cases import CALLS, OPTIMIZER
from fixes.cases.ddp._no_sync_examples import EXAMPLES
from fixes.cases.ranks._parallel_cases import SLOW, ddp, parallel_evidence
from fixes.cases.ranks._parallel_cases import exchange as an_exchange
from trainperf.model import Exchange, Measure, Missing, Site

ADDING = ddp(micro_steps=4.0, synced=4.0)

STEP = Site("train.py", 24, "main", col=12, end_line=24, end_col=28)

UPDATING: dict[str, Any] = {
    "calls": replace(CALLS, step=STEP),
    "optimizer": replace(OPTIMIZER, step_where=STEP),
}


def _noisy(seconds: float, high: float) -> Exchange:
    return replace(SLOW, seconds_=Measure(seconds, 30, (), low=0.0, high=high))


silent = [
    parallel_evidence(parallel_=None),
    # one backward per update
    parallel_evidence(parallel={"exchange": SLOW}, **UPDATING),
    # no_sync is there
    parallel_evidence(ddp=replace(ADDING, synced=1.0), parallel={"exchange": SLOW}),
    # nobody counted
    parallel_evidence(
        ddp=replace(ADDING, micro_steps=None, synced=None), parallel={"exchange": SLOW}
    ),
    # the exchange costs little, surely or within the noise, or was not measured
    parallel_evidence(ddp=ADDING),
    parallel_evidence(ddp=ADDING, parallel={"exchange": _noisy(0.001, 0.003)}),
    parallel_evidence(ddp=ADDING, parallel={"exchange": an_exchange(None)}),
    parallel_evidence(ddp=ADDING, parallel={"exchange": SLOW}, real=None),
    # input-bound
    parallel_evidence(ddp=ADDING, parallel={"exchange": SLOW}, resident=0.05, input=0.099),
]

fires = [
    parallel_evidence(ddp=ADDING, parallel={"exchange": SLOW}, **UPDATING),
    parallel_evidence(ddp=replace(ADDING, where=None), parallel={"exchange": SLOW}, **UPDATING),
    # two backward passes for each update, and one of four without exchange
    parallel_evidence(
        ddp=replace(ADDING, micro_steps=2.0, synced=2.0), parallel={"exchange": SLOW}
    ),
    parallel_evidence(ddp=replace(ADDING, synced=3.0), parallel={"exchange": SLOW}),
    # that there are four is certain, what they cost is not
    parallel_evidence(ddp=ADDING, parallel={"exchange": _noisy(0.040, 0.081)}, **UPDATING),
    # where the calls stand is not known
    parallel_evidence(
        ddp=ADDING, parallel={"exchange": SLOW}, calls=None, split=Missing("not timed")
    ),
]

tries_not = [
    parallel_evidence(parallel_=None),
    # one backward per update, or nobody counted
    parallel_evidence(parallel={"exchange": SLOW}, **UPDATING),
    # an update that no edit can reach
    parallel_evidence(ddp=ADDING, parallel={"exchange": an_exchange(None)}),
]

tries = [
    parallel_evidence(ddp=ADDING, parallel={"exchange": an_exchange(None)}, **UPDATING),
]

examples = EXAMPLES
