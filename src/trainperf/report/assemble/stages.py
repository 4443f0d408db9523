"""The stages of the input pipeline, as reported."""

from __future__ import annotations

from collections.abc import Iterator

from trainperf.model import Evidence, Missing, ReportedStage, Stage

OF_LOADERS = ("sampler", "dataset item", "collate", "inter-process copy", "pin")
"""The stages of a PyTorch `DataLoader`; that they are Python goes without saying."""


def stages(evidence: Evidence) -> tuple[ReportedStage, ...]:
    """The stages of the pipeline with their share of its time."""
    if isinstance(evidence.stages_, Missing):
        return ()
    total = sum(
        stage.seconds_per_step
        for stage in evidence.stages_
        if not isinstance(stage.seconds_per_step_, Missing)
    )
    return tuple(_stage(stage, total) for stage in evidence.stages_)


def _stage(stage: Stage, total: float) -> ReportedStage:
    own = stage.seconds_per_step_
    seconds = None if isinstance(own, Missing) else own
    return ReportedStage(
        name=stage.op,
        where=stage.where,
        seconds_per_step=seconds,
        share=seconds / total if seconds is not None and total > 0 else None,
        function=stage.function,
        detail=", ".join(_details(stage)),
    )


def _details(stage: Stage) -> Iterator[str]:
    calls = stage.arguments.get("num_parallel_calls", "absent")
    if stage.python and stage.op not in OF_LOADERS:
        yield "Python"
    elif calls is None and stage.parallelised_by_default:
        yield "run in parallel by tf.data"
    if calls is None and not stage.parallelised_by_default:
        yield "serial"
    elif isinstance(calls, int):
        yield "AUTOTUNE" if calls == -1 else f"{calls} calls in parallel"
    for name in ("batch_size", "buffer_size"):
        if isinstance(value := stage.arguments.get(name), int):
            yield f"{name.partition('_')[0]} {'AUTOTUNE' if value == -1 else value}"
    if isinstance(workers := stage.arguments.get("workers"), int):
        yield "1 worker" if workers == 1 else f"{workers} workers"
    if isinstance(ahead := stage.arguments.get("prefetch_factor"), int):
        yield f"{ahead} batches ahead each"
