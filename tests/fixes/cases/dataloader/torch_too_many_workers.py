"""The cases of `torch_too_many_workers`."""

from __future__ import annotations

from dataclasses import replace

from fixes.cases.common.cases import machine
from fixes.cases.common.torch_cases import LOADER, torch_evidence
from fixes.cases.dataloader._input_cases import WITH_WORKERS, drained, made, starved
from rewriting import Example
from trainperf.model import Missing

MANY = replace(WITH_WORKERS, workers=32)

silent = [
    torch_evidence(),
    torch_evidence(loader=MANY),  # too many, yet nothing waits for them
    starved(),  # none at all
    starved(WITH_WORKERS),
    starved(replace(WITH_WORKERS, workers=8)),
    # they wait for a disk
    starved(MANY, use=drained(1.1)),
    starved(MANY, use=drained(4.2)),
    # nothing was timed
    starved(MANY, resident=None),
    starved(MANY, stages=Missing("not timed")),
    starved(replace(LOADER, role="")),
]

fires = [
    starved(MANY),
    starved(MANY, use=drained(7.6)),
    starved(replace(MANY, random=True), machine=machine(cores=2)),
    starved(replace(MANY, workers=4), machine=machine(cores=16), facts={"local_world_size": 8}),
    starved(replace(MANY, workers=16), real=0.025, stages=made(0.040), input=0.010),
]

tries_not = [
    # nothing waits for them
    torch_evidence(loader=MANY, resident=0.102),
    # fewer than cores, or one
    starved(WITH_WORKERS, resident=None),
    starved(replace(WITH_WORKERS, workers=1), resident=None, machine=machine(cores=1)),
    # a loader built where no edit can reach
    starved(replace(MANY, where=None), resident=None),
]

tries = [
    starved(MANY, resident=None),
    starved(MANY, stages=Missing("not timed")),
    starved(MANY, use=drained(1.1)),
    starved(replace(WITH_WORKERS, workers=2), machine=machine(cores=2)),
]

examples = [
    Example(
        before="loader = ▸DataLoader(dataset, batch_size=32, num_workers=32)◂\n",
        after="loader = DataLoader(dataset, batch_size=32, num_workers=4)\n",
        data={"workers": 4, "variants": [{"workers": 2}, {"workers": 4}]},
    ),
    Example(  # a constant
        before="WORKERS = 32\nloader = ▸DataLoader(dataset, num_workers=WORKERS)◂\n",
        after="WORKERS = 4\nloader = DataLoader(dataset, num_workers=WORKERS)\n",
        data={"workers": 4, "now": 32},
    ),
    Example(  # among other settings
        before="how = dict(num_workers=32)\nloader = ▸DataLoader(dataset, **how)◂\n",
        after="how = dict(num_workers=4)\nloader = DataLoader(dataset, **how)\n",
        data={"workers": 4, "now": 32},
    ),
    Example.untouched(
        "loader = ▸DataLoader(dataset, num_workers=os.cpu_count())◂\n", {"workers": 4}
    ),
    Example.untouched("loader = ▸DataLoader(dataset, 32, *rest)◂\n", {"workers": 4}),
]
