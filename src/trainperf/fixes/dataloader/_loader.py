"""Questions of the fixes to a `DataLoader`: what its parts cost, and how its settings change."""

from __future__ import annotations

import math
from typing import Any

from trainperf.errors import NotMeasured
from trainperf.fixes.common.pipeline import cores, pipeline_seconds
from trainperf.fixes.common.trainers import seen_in_call
from trainperf.fixes.common.words import measured_or, ms
from trainperf.fixes.rows import Callee
from trainperf.model import Evidence, Loader, Site, is_taken
from trainperf.model.facts import DATASET_ITEM

DATA_LOADER = Callee(
    "DataLoader",
    defaults={
        "num_workers": 0,
        "pin_memory": False,
        "persistent_workers": False,
        "prefetch_factor": 2,
    },
    positions={"num_workers": 5, "pin_memory": 7},
)
"""Settings without a place are keyword-only (PyTorch 2.13); `prefetch_factor` is 2 where there
are workers."""

ITEM, COLLATE, SAMPLER = DATASET_ITEM, "collate", "sampler"
"""Names of the stages that worker processes take over, and of the one they leave behind."""

FITS = 0.90
"""Input that alone takes less than this share of a step could be hidden behind it: the
line below which a job is input-bound (MLPerf Storage)."""

PREFETCH = 2
"""PyTorch's own `prefetch_factor` where there are workers."""


def seen_in_run(evidence: Evidence) -> dict[str, Any]:
    """Return what a finding's data must hold for a setting to be changed where it came from.

    Empty where that may also be the setting of a loader which cannot take workers.
    """
    others = [loader for loader in evidence.torch.loaders if loader.role != "training"]
    if any((other.iterable and not other.sharded) or other.shared_state for other in others):
        return {}
    loader = evidence.torch.loader
    arguments: dict[str, object] = {
        "num_workers": loader.workers,
        "pin_memory": loader.pin_memory,
        "persistent_workers": loader.persistent_workers,
    }
    if loader.prefetch_factor is not None:
        arguments["prefetch_factor"] = loader.prefetch_factor
    return seen_in_call(evidence, **arguments)


def places(loader: Loader) -> tuple[Site, ...]:
    """Return where the loader is built, if that is in the user's source."""
    return (loader.where,) if loader.where is not None else ()


def exact(where: Site | None) -> bool:
    """Say whether it is known which call of the user's builds the loader."""
    return where is not None and where.exact


def in_tensors(loader: Loader) -> bool:
    """Say whether samples lie in the tensors of PyTorch's `TensorDataset`, read by no worker."""
    return loader.dataset == "TensorDataset" and loader.item is None and loader.workers == 0


def named(loader: Loader) -> str:
    """Name the dataset at the start of a sentence: "`Images`"; a plain list has no name."""
    plain = loader.dataset in ("list", "tuple", "dict") or not loader.dataset.isidentifier()
    return "The dataset" if plain else f"`{loader.dataset}`"


def ranks(evidence: Evidence) -> int:
    """Return how many training processes share the machine; 1 where nothing says so."""
    try:
        return max(1, int(evidence.fact("local_world_size")))
    except (NotMeasured, TypeError, ValueError):
        pass
    if evidence.parallel_ is None or not evidence.parallel_.processes:
        return 1
    here = evidence.parallel_.processes[0].host
    return sum(process.host == here for process in evidence.parallel_.processes)


def cores_per_rank(evidence: Evidence) -> int:
    """Return the whole cores for each training process on the machine, at least 0."""
    return cores(evidence) // ranks(evidence)


def stage_seconds(evidence: Evidence) -> dict[str, float]:
    """Return the seconds per step of the stages that were timed, by their names."""
    found: dict[str, float] = {}
    for stage in evidence.stages if is_taken(evidence.stages_) else ():
        if is_taken(stage.seconds_per_step_):
            found[stage.op] = found.get(stage.op, 0.0) + stage.seconds_per_step
    return found


def made_s(evidence: Evidence) -> float:
    """Return the seconds one process takes to make one step's data: items and collate.

    Without workers that is at most what draining the loader took, which also stands in
    where stages were not timed. Raises `NotMeasured` where there is neither.
    """
    serial = evidence.torch.loader.workers == 0 and is_taken(evidence.times.input_)
    whole = evidence.times.input if serial else math.inf
    timed = stage_seconds(evidence)
    if ITEM in timed:
        return min(whole, timed[ITEM] + timed.get(COLLATE, 0.0))
    if not serial:
        raise NotMeasured("what one process needs to make a batch was not timed")
    return whole


def costs_said(evidence: Evidence) -> str:
    """Say what a batch costs one process: "70.0 ms for the items and 5.0 ms to collate them"."""
    timed = stage_seconds(evidence)
    if ITEM not in timed:
        return ms(made_s(evidence))
    more = f" and {ms(timed[COLLATE])} to collate them" if timed.get(COLLATE) else ""
    return f"{ms(timed[ITEM])} for the items{more}"


def bound_without(evidence: Evidence, seconds: float) -> float:
    """Upper bound of the speed-up if a part of making a batch takes nothing.

    The part takes one process `seconds` a step. Workers share it with the rest, so it is as large
    a part of what they take. Where it is not known how long a step waits, it waits for no more
    than that part. Raises `NotMeasured`.
    """
    workers = evidence.torch.loader.workers
    try:
        whole = pipeline_seconds(evidence)
        if not workers:
            whole = max(whole, evidence.times.input)
        share = min(1.0, seconds / max(whole, 1e-9))
        return max(1.0, evidence.bound_if_input_saves(evidence.times.input * share))
    except NotMeasured:
        waits = is_taken(evidence.times.resident_)
        bound = evidence.bound_if_input_saves if waits else evidence.bound_if_step_saves
        return bound(seconds / max(1, workers))


def keeps_up(evidence: Evidence) -> bool:
    """Say whether the input alone is quicker than the step; False where it was not measured."""
    return measured_or(False, lambda: evidence.times.input < FITS * evidence.times.resident)


def fits_shm(evidence: Evidence, workers: int, prefetch: int) -> bool:
    """Say whether `/dev/shm` holds the batches in flight; True where that is not known."""
    free, size = evidence.machine.shm_free, evidence.loop.batch_bytes
    return free is None or not size or workers * prefetch * size <= free
