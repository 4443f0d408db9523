"""Evidence of PyTorch loops that wait for their loader, for the cases of the loader's fixes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fixes.cases.common.cases import SITE, stage
from fixes.cases.common.torch_cases import LOADER, torch_evidence
from trainperf.fixes.common.words import MIB
from trainperf.model import Evidence, Loader, Loop, Missing, PhaseUse, Stage

LOOP = Loop(
    "iterator",
    where=SITE,
    batch_size=32,
    batch_bytes=4 * MIB,
    epoch_steps=500,
    input_kind="DataLoader",
)
SHORT_EPOCHS = replace(LOOP, epoch_steps=50)
WITH_WORKERS = replace(LOADER, workers=4, prefetch_factor=2, start_method="fork")


def made(item: float | None = 0.070, collate: float | None = 0.010) -> tuple[Stage, ...]:
    """The stages of a loader, as one process takes for a step."""
    own = {"where": None, "by_user": False}
    return (
        stage("sampler", 0.0001, **own),
        stage("dataset item", item),
        stage("collate", collate, **own),
    )


def drained(cpu_cores: float, samples: int = 20) -> tuple[PhaseUse, ...]:
    """How many cores were busy while the loader was drained."""
    return (PhaseUse("input", samples, cpu_cores=cpu_cores),)


def starved(
    loader: Loader = LOADER,
    *,
    stages: tuple[Stage, ...] | Missing | None = None,
    real: float | None = 0.100,
    resident: float | None = 0.020,
    input: float | None = 0.080,
    **fields: Any,
) -> Evidence:
    """A loop whose step takes 20 ms and then waits 80 ms for its batch."""
    fields.setdefault("loop", LOOP)
    return torch_evidence(
        loader=loader,
        stages_=made() if stages is None else stages,
        real=real,
        resident=resident,
        input=input,
        **fields,
    )
