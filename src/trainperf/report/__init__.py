"""What a report says beside findings: times, stages, parts, what was not measured. Pure."""

from __future__ import annotations

from trainperf.report.absent import not_measured, nothing_measured
from trainperf.report.cost import cost, cost_after
from trainperf.report.no_loop import way_out
from trainperf.report.notes import notes, run_notes
from trainperf.report.parallel import parallel
from trainperf.report.parts import device_memory, kernels, operators, step_parts, sync_points
from trainperf.report.seen import framework_seen
from trainperf.report.stages import stages
from trainperf.report.timeline import timeline
from trainperf.report.times import times

__all__ = [
    "cost",
    "cost_after",
    "device_memory",
    "framework_seen",
    "kernels",
    "not_measured",
    "notes",
    "nothing_measured",
    "operators",
    "parallel",
    "run_notes",
    "stages",
    "step_parts",
    "sync_points",
    "timeline",
    "times",
    "way_out",
]
