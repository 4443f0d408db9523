"""The cases of `torch_prefetch_factor`."""

from __future__ import annotations

from dataclasses import replace

from fixes.cases.common.cases import machine
from fixes.cases.common.torch_cases import torch_evidence
from fixes.cases.dataloader._input_cases import WITH_WORKERS, starved
from rewriting import Example
from trainperf.fixes.common.words import MIB

silent = [
    torch_evidence(),
    torch_evidence(loader=WITH_WORKERS),
    # no workers, no queue
    starved(),
    # too slow on average
    starved(WITH_WORKERS),
    # a long queue already
    starved(replace(WITH_WORKERS, prefetch_factor=8), real=0.030, input=0.012),
    # no core is left for the training process
    starved(WITH_WORKERS, real=0.030, input=0.012, machine=machine(cores=4)),
    # no room for more batches
    starved(WITH_WORKERS, real=0.030, input=0.012, machine=machine(cores=8, shm_free=40 * MIB)),
    # nothing was timed
    starved(WITH_WORKERS, real=0.030, input=None),
]

fires = [
    starved(WITH_WORKERS, real=0.030, input=0.012),
    starved(replace(WITH_WORKERS, prefetch_factor=4), real=0.030, input=0.012),
    starved(WITH_WORKERS, real=0.030, input=0.012, machine=machine(cores=8, shm_free=100 * MIB)),
]

tries_not = [
    # the loop surely does not wait
    torch_evidence(loader=WITH_WORKERS, resident=0.102),
    starved(),
    starved(replace(WITH_WORKERS, prefetch_factor=8), resident=None),
    starved(WITH_WORKERS, resident=None, machine=machine(cores=8, shm_free=40 * MIB)),
    starved(replace(WITH_WORKERS, where=None), resident=None),
]

tries = [
    starved(WITH_WORKERS),
    starved(WITH_WORKERS, resident=None),
    starved(WITH_WORKERS, real=0.030, input=None),
    starved(WITH_WORKERS, real=0.030, input=0.012, machine=machine(cores=4)),
]

examples = [
    Example(
        before="loader = ▸DataLoader(dataset, num_workers=4)◂\n",
        after="loader = DataLoader(dataset, num_workers=4, prefetch_factor=4)\n",
        data={"prefetch_factor": 4, "variants": [{"prefetch_factor": 4}]},
    ),
    Example(
        before="loader = ▸DataLoader(dataset, num_workers=4, prefetch_factor=2)◂\n",
        after="loader = DataLoader(dataset, num_workers=4, prefetch_factor=8)\n",
        data={"prefetch_factor": 8},
    ),
    Example(  # with 0 workers only None is allowed
        before="loader = ▸DataLoader(dataset, num_workers=n)◂\n",
        after="loader = DataLoader(dataset, num_workers=n, prefetch_factor=4 if n else None)\n",
        data={"prefetch_factor": 4},
    ),
    Example(
        before="loader = ▸DataLoader(dataset, **settings)◂\n",
        after='loader = DataLoader(dataset, **{**settings, "prefetch_factor": 4 if '
        'settings.get("num_workers") else None})\n',
        data={"prefetch_factor": 4},
    ),
]
