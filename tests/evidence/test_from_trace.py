"""What is derived from recorded traces of real GPU runs; what is true is in their page."""

from __future__ import annotations

import gzip
import json
import lzma
from dataclasses import replace
from functools import cache

import pytest
from click.testing import CliRunner

from kit.kineto import RUNS, trace
from trainperf.commands.cli import cli
from trainperf.diagnose.traced import diagnose_trace
from trainperf.errors import TrainperfError
from trainperf.evidence.traced import evidence_of
from trainperf.model import Evidence
from trainperf.recording.chrome_trace import read

WORKERS_0, WORKERS_4 = "v100_resnet50_workers0", "v100_resnet50_workers4"
HEALTHY, WAITING = "a100_8ranks_healthy", "a100_16ranks_hostbound"
BUSY, FILLS = "v100_2ranks_busy", "v100_resnet_queue_fills"
STARVED = "rtx2080ti_resnet_starved"


@cache
def of(run: str) -> Evidence:
    return evidence_of(trace(run))


@pytest.mark.parametrize("run", [WORKERS_4, HEALTHY, WAITING, BUSY, FILLS])
def test_a_step_that_hardly_waits_for_its_data_is_not_input_bound(run):
    assert not of(run).input_bound
    assert of(run).utilization > 0.98


def test_batches_made_in_the_training_process_hold_the_steps_up():
    evidence = of(WORKERS_0)
    assert evidence.input_bound
    assert 1.4 < evidence.times.real / evidence.times.resident < 1.8
    assert evidence.torch.loader.workers == 0


def test_a_loader_with_workers_may_be_too_slow_as_well():
    evidence = of(STARVED)
    assert evidence.input_bound
    assert not evidence.torch.loaders  # of workers a trace has no number


def test_host_steps_that_only_fill_the_queue_are_no_steps():
    times = of(FILLS).times
    assert times.real == pytest.approx(0.096, rel=0.02)
    assert times.device_s == pytest.approx(times.real, rel=0.02)


@pytest.mark.parametrize("run", [WORKERS_0, WORKERS_4, HEALTHY, WAITING, BUSY, FILLS, STARVED])
def test_the_parts_of_a_step_are_all_of_it(run):
    evidence = of(run)
    whole = sum(part.seconds for part in evidence.torch.split)
    assert whole == pytest.approx(evidence.times.real, rel=0.10)


def test_a_trace_of_a_cpu_has_the_hosts_times():
    """Six steps of two layers, as PyTorch 2.13 traced them: 22 of 23 ms make the batch."""
    evidence = evidence_of(read(RUNS.parent / "cpu_trace.json.gz"))
    assert evidence.device.kind == "CPU"
    assert evidence.times.real == pytest.approx(0.02299, rel=0.01)
    assert evidence.times.input == pytest.approx(0.02173, rel=0.01)
    assert evidence.times.resident == pytest.approx(0.00125, rel=0.01)
    assert evidence.input_bound
    assert evidence.torch.model.modules == {"Conv2d": 0, "Linear": 2}
    assert evidence.torch.optimizer.cls == "Adam"


def test_updates_mark_the_steps_where_the_profiler_was_told_of_none():
    whole = trace(FILLS)
    marked = tuple(event for event in whole.events if "ProfilerStep" not in event.label)
    assert evidence_of(replace(whole, events=marked)).times.device_s is not None


# ----------------------------------------------------------------------------- files


@pytest.fixture
def file(tmp_path):
    def write(run: str):
        written = json.loads(lzma.decompress((RUNS / f"{run}.json.xz").read_bytes()))
        gpu = {"name": "Tesla V100-SXM2-32GB", "computeMajor": 7, "computeMinor": 0}
        path = tmp_path / f"{run}.json.gz"
        path.write_bytes(gzip.compress(json.dumps({**written, "deviceProperties": [gpu]}).encode()))
        return path

    return write


def test_a_trace_is_diagnosed_with_nothing_run(file, tmp_path):
    answer = diagnose_trace(file(WORKERS_0))
    assert answer.verdict.text.startswith("Input-bound")
    assert answer.findings[0].id == "torch_workers"
    assert 1.4 < answer.findings[0].bound < 1.8
    assert not answer.trials
    assert answer.read_from.steps == 6
    left = diagnose_trace(file(WORKERS_0), ("torch_workers",)).findings
    assert "torch_workers" not in {finding.id for finding in left}
    folder = str(tmp_path / "runs")
    words = ["diagnose", "--output-dir", folder, "--from-trace", str(file(WORKERS_0))]
    shown = CliRunner().invoke(cli, words)
    assert shown.exit_code == 0, shown.output
    assert "Predicted from a trace, not tried" in shown.output
    assert "0 cores" not in shown.output


def test_what_only_an_experiment_shows_is_not_said_of_a_trace(file):
    for run in (BUSY, HEALTHY):
        verdict = diagnose_trace(file(run)).verdict
        assert not verdict.healthy
        assert "noise" not in verdict.text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("no JSON", "no Chrome trace"),
        ('{"traceEvents": []}', "no operators"),
        ('[{"name": "x"}]', "no Chrome trace"),
    ],
)
def test_what_is_no_trace_is_refused(tmp_path, text, says):
    path = tmp_path / "trace.json"
    path.write_text(text)
    with pytest.raises(TrainperfError, match=says):
        read(path)


def test_a_trace_of_one_step_is_refused():
    whole = trace(FILLS)
    kept = tuple(
        event for event in whole.events if not event.label.startswith(("Profiler", "Optimizer"))
    )
    with pytest.raises(TrainperfError, match="marks 0 steps"):
        evidence_of(replace(whole, events=kept))
