"""From evidence, findings and trials to a `Diagnosis`: times, stages, parts, what is missing."""

from __future__ import annotations

from trainperf.report.assemble.absent import not_measured, nothing_measured
from trainperf.report.assemble.diagnosis import cost, cost_after
from trainperf.report.assemble.no_loop import framework_seen, way_out
from trainperf.report.assemble.notes import experiment_changes, notes, run_notes
from trainperf.report.assemble.parallel import parallel
from trainperf.report.assemble.parts import (
    device_memory,
    kernels,
    log_calls,
    operators,
    stages,
    step_parts,
    sync_points,
)
from trainperf.report.assemble.timeline import timeline, times

__all__ = [
    "cost",
    "cost_after",
    "device_memory",
    "experiment_changes",
    "framework_seen",
    "kernels",
    "log_calls",
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
