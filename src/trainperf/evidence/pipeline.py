"""The stages of the input pipeline, with what each adds to a step."""

from __future__ import annotations

from typing import Any

from trainperf.evidence.events import Observed, site
from trainperf.model import DrawnFrom, Event, Function, Measure, Missing, Stage

ALONE = Missing("the input was not drained")


def stages(observed: Observed, drained: Measure | Missing = ALONE) -> tuple[Stage, ...] | Missing:
    """The stages from source to last, or why the pipeline was not taken apart.

    A pipeline of one stage that could not be opened a second time (a generator that
    is spent) took what draining the loop's own input took: `drained`.
    """
    described = list(observed.of("stage"))
    if not described:
        reason = "the run ended before the pipeline was taken apart"
        if "input" not in observed.start["phases"]:
            reason = "the loop makes its own batches"
        return observed.missing("stages", reason)
    timed = {event["index"]: event for event in observed.of("stage_time")}
    built: list[Stage] = []
    before = 0.0
    for event in described:
        cumulative = _cumulative(timed.get(event["index"]))
        if isinstance(cumulative, Missing) and len(described) == 1:
            cumulative = drained.seconds if isinstance(drained, Measure) else cumulative
        own: float | Missing
        if isinstance(cumulative, Missing):
            own = cumulative
        else:
            own = max(0.0, cumulative - before)
            before = max(before, cumulative)
        built.append(_stage(event, timed.get(event["index"], {}), own, cumulative))
    return tuple(built)


def _cumulative(event: Event | None) -> float | Missing:
    if event is None:
        return Missing("the run ended before this stage was timed")
    if "missing" in event:
        return Missing(str(event["missing"]))
    if event.get("elements_per_step") is None:
        return Missing("how many of its elements make a step cannot be told")
    return float(event["seconds"] * event["elements_per_step"])


def _stage(event: Event, timed: Event, own: float | Missing, cumulative: float | Missing) -> Stage:
    ops: tuple[str, ...] = tuple(event.get("ops") or ())
    serial = event["op"] == "map" and event["arguments"].get("num_parallel_calls") is None
    return Stage(
        index=event["index"],
        op=event["op"],
        seconds_per_step_=own,
        cumulative_=cumulative,
        where=site(event.get("where")),
        function=function(event.get("function")),
        arguments=dict(event["arguments"]),
        elements_per_step=timed.get("elements_per_step"),
        element_bytes=timed.get("element_bytes"),
        cardinality=event.get("cardinality"),
        first_s=timed.get("first_s"),
        ops=ops,
        stateful_random=bool(event.get("random")),
        drawn_from=_drawn_from(timed.get("drawn_from")),
        python=bool(event.get("python")),
        parallelised_by_default=serial and not event.get("stateful"),
        by_user=bool(event.get("by_user")),
    )


def _drawn_from(value: Any) -> DrawnFrom | None:
    return DrawnFrom(value["line"], value["bytes"]) if isinstance(value, dict) else None


def function(value: Any) -> Function | None:
    """Read a function of the user's from an event."""
    if not isinstance(value, dict):
        return None
    return Function(str(value["name"]), str(value["file"]), int(value["line"]))
