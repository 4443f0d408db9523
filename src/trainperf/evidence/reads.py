"""One step's reads, and their rate if its input never made it wait."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from trainperf.evidence.events import Observed
from trainperf.model import Event, Measure, Missing, Reads, Stage

LEAST_BYTES = 4096
"""Below a page in each step, read calls are not how the data comes in."""

READ_OP = "ReadFile"
"""The operation in a graph where `tf.io.read_file` is mapped over file names."""


def reads(
    found: Sequence[Reads],
    observed: Observed,
    resident: Measure | Missing,
    stages: tuple[Stage, ...] | Missing = (),
) -> tuple[Reads, ...]:
    """`found`, with opens and bytes per step, and the rate that the resident step needs.

    What was opened and read is counted from the first timed block to the last, and divided
    by the batches taken meanwhile; what read-ahead had ready at either end makes that a few
    per cent inexact. Bytes are those of the system calls, or opens times the mean size where
    that is less. Where files are opened and next to nothing is read by calls they are mapped
    (`numpy.memmap`), and what is taken of them is not known.
    """
    event = next((one for one in reversed(list(observed.of("reads")))), None)
    steps = 0.0 if event is None else _steps(observed, event)
    if event is None or not steps:
        return tuple(found)
    own_files = max(1, sum(one.files for one in found))
    own_opens = sum(one.opens for one in found)
    return tuple(
        _of_step(
            one,
            event,
            steps,
            one.opens / own_opens if own_opens else one.files / own_files,
            resident,
            stages,
        )
        for one in found
    )


def _steps(observed: Observed, event: Event) -> float:
    """Steps whose batches were taken from the input while `event` counted."""
    since, until = event["since"], event["t"]
    real = sum(
        1
        for step in observed.of("step")
        if since <= step["t"] <= until and not step["p"].startswith("resident")
    )
    drained = sum(
        one["marks"][-1][1]
        for one in observed.of("input")
        if one["marks"] and since <= one["t"] <= until
    )
    per_step = int(observed.facts.get("batches_per_step") or 1)
    return real * observed.steps_per_call + float(drained) / per_step


def _of_step(
    one: Reads,
    event: Event,
    steps: float,
    share: float,
    resident: Measure | Missing,
    stages: tuple[Stage, ...] | Missing,
) -> Reads:
    opens = share * event["opens"] / steps if event["opens"] else _graph_opens(stages)
    by_calls = share * event["read_bytes"] / steps if event["counted"] else None
    mapped = by_calls is not None and by_calls < LEAST_BYTES and not event.get("workers")
    by_sizes = opens * one.mean_bytes if opens and one.mean_bytes and not mapped else None
    known = [value for value in (by_calls, by_sizes) if value is not None and value >= LEAST_BYTES]
    taken = min(known, default=None)
    basis = ""
    if taken is not None:
        basis = "opens times mean size" if taken == by_sizes else "by its read calls"
    return replace(
        one,
        opens_per_step=opens,
        bytes_per_step=taken,
        bytes_basis=basis,
        stored_per_step=share * event["stored_bytes"] / steps if event["counted"] else None,
        needed_bytes_s=taken / resident.seconds
        if taken is not None and isinstance(resident, Measure) and resident.seconds > 0
        else None,
    )


def _graph_opens(stages: tuple[Stage, ...] | Missing) -> float | None:
    """Files that a tf.data chain reads in each step: elements of the stage that reads them."""
    for stage in () if isinstance(stages, Missing) else stages:
        if READ_OP in stage.ops:
            return stage.elements_per_step
    return None
