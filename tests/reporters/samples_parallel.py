"""Diagnoses of jobs with several ranks: an exchange that dominates, a rank that is late."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fixes.cases.common.torch_cases import split, torch_evidence
from fixes.cases.ranks._parallel_cases import rank
from recordings import recording
from reporters.samples_observed import CPU_BOX
from reporters.samples_torch import SCRIPT, diagnosed
from trainperf.evidence.events import Observed
from trainperf.evidence.parallel import joined, whole_job, with_scaling
from trainperf.model import (
    Device,
    Diagnosis,
    Equivalence,
    Evidence,
    Finding,
    Framework,
    Link,
    Loop,
    Measure,
    Overlap,
    Rank,
    ScalingPoint,
    Site,
    StartUp,
    Straggler,
)
from trainperf.model.reported_parallel import ReportedParallel
from trainperf.report import assemble as report

BOX = replace(CPU_BOX, visible_cores=8, affinity_cores=8, cores=8.0, quota_cores=None)
WRAPPED = {"file": SCRIPT, "line": 61, "function": "main", "col": 12, "end_line": 61, "end_col": 22}


def lead(size: int, *events: dict[str, Any], **place: Any) -> Observed:
    """The record of rank 0 of a job of so many ranks."""
    first = {"e": "rank", "rank": 0, "world_size": size, "backend": "gloo", **place}
    whole = ({"t": 0.0, **first}, *({"t": 1.0, **event} for event in events))
    return Observed(whole, {"e": "loop", "kind": "iterator", "framework": "torch"}, whole[1:])


def near(seconds: float, by: float = 0.02) -> Measure:
    """A measure of six blocks that are `by` apart from their mean."""
    blocks = tuple(seconds * (1 + by * sign) for sign in (-1, 1, -1, 1, -1, 1))
    return Measure(seconds, 60, blocks, seconds * (1 - by), seconds * (1 + by), blocks[::2])


def of_ranks(processes: list[Rank], observed: Observed, **fields: Any) -> Evidence:
    """The evidence of a job, as rank 0 tells of it."""
    job = joined(processes, observed)
    assert job is not None
    loop = Loop(
        "iterator",
        where=Site(SCRIPT, 70, "main"),
        batch_size=processes[0].batch_size,
        batch_dtypes=("float32", "int64"),
        epoch_steps=processes[0].epoch_steps,
        input_kind="DataLoader",
    )
    made = torch_evidence(
        device=Device("CPU", "AMD EPYC 7R13", 1),
        machine=BOX,
        framework=Framework("torch", "2.13.0", built_with_cuda=False),
        startup=StartUp(4.1, imports_s=1.9, setup_s=2.2, warm_up_steps=8),
        loop=whole_job(loop, job),
        parallel_=job,
        **fields,
    )
    first = job.processes[0]
    times = replace(made.times, real_=first.real, resident_=first.resident, input_=first.input_)
    return replace(made, times=times)


def several(evidence: Evidence, findings: tuple[Finding, ...]) -> Diagnosis:
    """The report on a job of several ranks."""
    found = report.not_measured(recording(), evidence)
    return replace(
        diagnosed(evidence, findings),
        script="train_ddp.py",
        command=("torchrun", "--nproc_per_node", "2", "train_ddp.py"),
        parallel=report.parallel(evidence),
        not_measured=tuple(one for one in found if "between epochs" not in one.what),
        notes=() if evidence.parallel_ is None else evidence.parallel_.notes,
    )


BUCKETS = [1_048_576, 8_912_896, 2_660_352]
SYNC = of_ranks(
    [
        rank(
            number,
            real=near(0.0761),
            resident=near(0.0752),
            local=near(0.0445 + 0.0006 * number),
            input_=near(0.0041),
            device="CPU",
            batch_size=32,
            epoch_steps=391,
            threads=4,
        )
        for number in range(2)
    ],
    lead(
        2,
        {"e": "exchange", "method": "DistributedDataParallel", "backend": "gloo", "replicas": 2}
        | {"bytes": sum(BUCKETS), "buckets": BUCKETS},
        {"e": "all_reduce", "devices": 2, "seconds": 0.0183, "bytes": sum(BUCKETS)}
        | {"calls": [[size, size / 7e8] for size in BUCKETS]},
        {"e": "link", "kind": "loopback", "bytes_s": 1.9e9, "source": "measured in this run"},
        {"e": "overlap", "compute_s": 0.0291, "exchange_s": 0.0352, "overlap_s": 0.0064}
        | {"steps": 10},
        {"e": "ddp", "model": "Net", "where": WRAPPED, "settings": {"bucket_cap_mb": 25}}
        | {"unused": 0, "micro_steps": 1.0, "synced": 1.0},
        launcher="torchrun",
        local_world_size=2,
    ),
    split=split(input=0.001, forward=0.012, backward=0.060, optimizer=0.003),
)
assert SYNC.parallel_ is not None
SCALED = replace(
    SYNC,
    parallel_=with_scaling(
        SYNC.parallel_,
        [ScalingPoint(2, 0.0761, 841.0), ScalingPoint(1, 0.0439, 729.0)],
    ),
)

HALVED = Finding(
    id="ddp_bf16_hook",
    category="sync",
    title="Exchange the gradients in bfloat16",
    text="The exchange takes 31 ms of each 76.1 ms step, for 12 MiB of float32.",
    bound=1.26,
    bound_basis="as if half of the exchange were gone",
    equivalence=Equivalence.NUMERICS,
    where=(Site(SCRIPT, 61, "main"),),
    advice="Register PyTorch's own compression hook on the wrapped model.",
    snippet="model.register_comm_hook(group, bf16_compress_hook)",
)

LATE = of_ranks(
    [
        rank(
            number,
            real=near(0.0405),
            resident=near(0.0131),
            local=near(0.0382 if number == 1 else 0.0119),
            input_=near(0.0267 if number == 1 else 0.0012),
            device="CPU",
            host="node-b" if number > 1 else "node-a",
            batch_size=32,
            epoch_steps=391 if number != 2 else 388,
            threads=2,
            cores=tuple(range(4 * number % 8, 4 * number % 8 + 4)),
            ended="measured" if number != 2 else "failed in the input phase with ValueError: NaN",
        )
        for number in range(3)
    ],
    lead(
        4,
        {"e": "exchange", "method": "DistributedDataParallel", "backend": "gloo", "replicas": 4}
        | {"bytes": 4_400_000, "buckets": [4_400_000]},
        {"e": "missing", "what": "all_reduce", "reason": "not all ranks came to it"},
        {"e": "ddp", "model": "Net", "where": WRAPPED},
        launcher="torchrun",
        local_world_size=2,
    ),
    split=split(input=0.027, forward=0.004, backward=0.008, optimizer=0.001),
)

PARALLEL = {
    "ddp_sync_bound": several(SCALED, (HALVED,)),
    "straggler": several(LATE, ()),
}


def hostile(name: str) -> ReportedParallel:
    """A job whose every text is `name`, on more ranks than are shown."""
    job = PARALLEL["straggler"].parallel
    assert job is not None
    assert job.exchange is not None
    first = replace(job.ranks[0], host=name, device=name, ended=name)
    return replace(
        job,
        expected=1_000_000,
        absent=tuple(range(12, 400)),
        launcher=name,
        ranks=tuple(
            replace(first, rank=number, real_s=1e5 * number, local_s=None, waits_s=None)
            for number in range(12)
        ),
        exchange=replace(
            job.exchange,
            method=name,
            backend=name,
            low_s=0.0,
            link=Link(name, 1e15, name),
            overlap=Overlap(0.0, 1e6, 0.0, 1),
        ),
        stragglers=tuple(Straggler(number, "step", 1e6, 12.0, name * 9) for number in range(12)),
        scaling=(ScalingPoint(1, 1e-9, None), ScalingPoint(10**6, 1e9, 1e12, 1e-9)),
        break_even_batch=1e12,
    )
