"""From evidence, findings and trials to a `Diagnosis`: times, stages, parts, what is missing."""

from __future__ import annotations

from trainperf.report.assemble.absent import not_measured, nothing_measured
from trainperf.report.assemble.cost import cost, cost_after
from trainperf.report.assemble.experiments import experiment_changes
from trainperf.report.assemble.no_loop import way_out
from trainperf.report.assemble.notes import notes, run_notes
from trainperf.report.assemble.parallel import parallel
from trainperf.report.assemble.parts import (
    device_memory,
    kernels,
    log_calls,
    operators,
    step_parts,
    sync_points,
)
from trainperf.report.assemble.seen import framework_seen
from trainperf.report.assemble.stages import stages
from trainperf.report.assemble.timeline import timeline
from trainperf.report.assemble.times import times

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
