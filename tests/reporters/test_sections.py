"""Sections of the report: what each says of what was measured, silent of what was not."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from reporters.rendering import coloured, of, section, text
from reporters.samples import (
    GIB,
    HEALTHY,
    INPUT_BOUND,
    ON_A_GPU,
    PARTIAL,
    PRICE,
    SAMPLES,
    TORCH,
    TWO_GPUS,
    finding,
    first,
    on_torch,
    over,
    timed,
)
from trainperf.model import (
    ContainerUse,
    Cost,
    CudaDevice,
    Device,
    Framework,
    Instance,
    Missing,
    OwnCode,
    PhaseUse,
    Probe,
    SyncPoint,
    TraceFile,
    Trials,
    Verdict,
)
from trainperf.model.diagnosis import RunningJob
from trainperf.model.torch import StepPart
from trainperf.report.sections import closing, machine, step, training
from trainperf.report.sections.step import shares
from trainperf.report.whole import report as sections_of

MIB = 1024**2
PARTS, WAITS = "Parts of a step", "Calls that wait for the GPU"
MACHINE = "Machine"


# ------------------------------------------------------------------------------ the bar


@pytest.mark.parametrize("name", SAMPLES)
def test_the_parts_of_the_bar_add_up_to_the_step(name: str) -> None:
    diagnosis = SAMPLES[name]
    parts = shares(diagnosis)
    assert not parts or sum(part[1] for part in parts) == pytest.approx(diagnosis.step_s)


def named(verdict: Verdict, real: float, resident: float, input: float) -> dict[str, float]:
    other = timed(TORCH, real=real, resident=resident, input=input, host=None)
    parts = shares(replace(other, verdict=verdict))
    return {name: seconds for name, seconds, _ in parts}


def test_what_is_not_explained_is_not_called_waiting_for_data() -> None:
    probably = Verdict("model", "Probably model-bound", 0.8, grade="probable")
    found = named(probably, 0.1, 0.08, 0.03)
    assert "waiting for data" not in found
    assert found["not explained"] == pytest.approx(0.02)
    blamed = named(replace(probably, bottleneck="input"), 0.1, 0.08, 0.03)
    assert blamed["waiting for data"] == pytest.approx(0.02)
    quick = named(Verdict("host", "Host-bound", 0.88), 0.0156, 0.0138, 0.000136)
    assert quick["waiting for data"] == pytest.approx(0.000136)


def test_the_users_own_function_is_a_part_of_its_own() -> None:
    diagnosis = first("torch_step_logging")
    own = finding(first("loop_python_metric"), "own_function")
    code = OwnCode("`Adam.step`", "call", "", 0.5)
    found = shares(replace(diagnosis, findings=(replace(own, own=code),)))
    real = diagnosis.step_s
    assert real is not None
    seconds = next(part[1] for part in found if part[0] == "your own `Adam.step`")
    assert seconds == pytest.approx(real / 2, rel=0.05)
    of_the_model = replace(own, own=replace(code, kind="weights"))
    names = {part[0] for part in shares(replace(diagnosis, findings=(of_the_model,)))}
    assert not any("Adam" in name for name in names)


# -------------------------------------------------------------------- the step of PyTorch


def test_parts_that_took_nothing_are_left_out_and_bars_where_it_is_narrow() -> None:
    assert PARTS not in text(INPUT_BOUND)
    split = (StepPart("transfer", 0.0), StepPart("forward", 0.01))
    none = of(on_torch(TORCH, split_=split), PARTS)
    assert "copies" not in none
    assert "forward 10.0 ms 100 % █" in none
    reads = (StepPart("sync", 0.01),)
    assert "reading numbers (`.item()`) 10.0 ms" in of(on_torch(TORCH, split_=reads), PARTS)
    assert "waiting for the GPU 10.0 ms" in of(on_torch(ON_A_GPU, split_=reads), PARTS)
    narrow = text(TORCH, 40).split(PARTS)[1].split(MACHINE)[0]
    assert "█" not in narrow
    assert re.search(r"backward.*\x1b\[32m█", coloured(TORCH, 100))


def test_of_many_calls_that_wait_the_dearest_are_told() -> None:
    assert "`.item()`" not in text(TORCH)  # nothing waits on a CPU
    (wait,) = TORCH.evidence.torch.syncs
    many = tuple(replace(wait, where=replace(wait.where, line=line)) for line in range(1, 9))
    told = of(on_torch(ON_A_GPU, syncs=many), WAITS)
    assert told.count(".item()") == 5
    nasty = SyncPoint("`[red]\x1b[31m\n.item()`", wait.where, 1.0, 0.1)
    assert "`[red] .item()`" in text(on_torch(ON_A_GPU, syncs=(nasty,)))


def test_the_framework_and_the_loop_have_their_own_names() -> None:
    assert "a loop that makes its own batches" in text(PARTIAL, 120)
    both = over(TORCH, framework=Framework("torch", "2.13.0", keras="3.15.1"))
    assert "Framework       Keras 3.15.1 on PyTorch 2.13.0\n" in text(both)
    cloud = over(
        TORCH, machine=replace(TORCH.evidence.machine, instance=Instance("ec2", "g5.xlarge"))
    )
    assert "Instance        g5.xlarge\n" in text(cloud)
    untold = over(TORCH, device=Device("", "", 0))
    assert "Device          not known; the machine has: " in text(untold)


# ----------------------------------------------------------------------------- the machine


def test_how_busy_the_machine_was_is_told_of_what_the_training_uses() -> None:
    use = PhaseUse("real", 24, 1.1, read_bytes_s=735.0)
    told = section(machine.devices, over(INPUT_BOUND, use=(use,)))
    assert "1.1 of 2 cores busy" in told
    assert "reading" not in told  # a trickle
    busy = {"utilization_percent": 90.0, "memory_used_peak": 3 * GIB}
    both = PhaseUse("real", 24, gpu=({"index": 0, **busy}, {"index": 1, **busy}))
    one = (CudaDevice(0, "A", index=1), CudaDevice(1, "A", used=False, index=0))
    for seen, many in ((one, 1), ((), 2), ((CudaDevice(0, "A"),), 2)):
        device = Device("GPU", "NVIDIA A10G", 1, seen)
        told = section(machine.devices, over(TWO_GPUS, use=(both,), device=device))
        assert told.count("a kernel ran 90 %") == many
    short_of = on_torch(ON_A_GPU, memory={"retries": 3})
    assert "emptied its cache to find room 3 times" in of(short_of, MACHINE)


# --------------------------------------------------------------------------------- money


def cost(known: Cost | None) -> str:
    return section(training.cost, over(INPUT_BOUND, cost=known))


def test_a_price_is_told_with_its_source_and_what_it_buys() -> None:
    assert cost(None) == ""
    said = "Cost: $1.21 an hour (--price-per-hour)"
    assert cost(Cost(PRICE, 1)) == f"{said}."
    assert cost(Cost(PRICE, 1, 0.0491, 0.0214, 0.842, 0.367)) == (
        f"{said}: an epoch $0.84 → $0.37, a million samples $0.049 → $0.021."
    )
    assert cost(Cost(PRICE, 2, epoch_before=0.842)).endswith("hour): an epoch $0.84.")
    for value, text_ in ((0.0, "$0.00"), (1.5, "$1.50"), (1240.4, "$1,240"), (0.00846, "$0.0085")):
        assert training.dollars(value) == text_


# -------------------------------------------------- what passes beside the steps, and later


def test_most_of_what_is_repeated_beside_the_steps_is_told_in_every_report() -> None:
    diagnosis = SAMPLES["outside"]
    for full in (True, False):
        told = " ".join(text(diagnosis, 100, full=full).split())
        assert "One pass of the loop around `fit`" in told
        assert re.search(r"prediction predict predict_between_fits.py:\d+ [\d,]+ ", told)
        assert told.index(training.OUTSIDE) < told.index("One step ")
    found = diagnosis.evidence.outside
    for silent in (replace(found, training_s=0.98 * found.seconds), None):
        assert training.shown(over(diagnosis, outside_=silent or Missing(""))) is None
    assert training.shown(over(HEALTHY, outside_=replace(found, turn="epoch", spent=()))) is None


def test_a_job_that_ran_beside_its_own_diagnosis_has_a_section() -> None:
    job = RunningJob(
        pid=4711,
        started_by=4710,
        began="2026-11-23T14:02:11+00:00",
        ended=False,
        cores=1.62,
    )

    def beside(**fields: Any) -> str:
        return " ".join(text(replace(HEALTHY, running=replace(job, **fields)), 100).split())

    told = beside()
    assert "Process 4711, started by process 4710, runs since 2026-11-23 14:02:11 UTC" in told
    assert "it kept 1.6 cores busy. Times may be longer." in told
    assert "and ended while this diagnosis was made." in beside(ended=True)
    longer = replace(HEALTHY, running=job, trying=Trials("none", budget_needed_s=281.0))
    assert "trainperf diagnose --budget 5min --pid 4710" in text(longer, 100)
    assert sections_of(replace(HEALTHY, running=job), full=False)[1].name == "running"


# ------------------------------------------------------------------------ limits of memory


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"memory_peak": 4 * GIB, "memory_events": (("oom_kill", 0),)}, ""),
        ({"memory_peak": int(7.8 * GIB)}, "7.80 GiB of 8.00 GiB used at most"),
        ({"memory_events": (("oom_kill", 2),)}, "ended 2 processes"),
        ({"memory_pressure": 0.2}, "a task waited for memory in 20 % of the time"),
        ({"swapped_in": 3 * GIB}, "3.00 GiB read back from swap by the whole machine"),
    ],
)
def test_limits_of_memory_are_said_where_they_cost_something(
    fields: dict[str, Any], words: str
) -> None:
    use = ContainerUse(20.0, memory_limit=8 * GIB, **fields)
    told = section(machine.limits, over(INPUT_BOUND, container=use))
    assert words in told
    assert bool(told) is bool(words)


# ------------------------------------------------------------------ the speed, and a trace


@pytest.mark.parametrize(
    ("base_s", "healthy", "said"),
    [
        (2.0, True, "1.00 GFLOP/s in each step, 25 % of what one large float32 matrix product"),
        (0.8, False, "2.50 GFLOP/s in each step, 62 % of what one large float32 matrix product"),
        (0.8, True, "product reaches here: the device does what it can"),
    ],
)
def test_a_rate_stands_beside_that_of_a_large_product(
    base_s: float, healthy: bool, said: str
) -> None:
    detail = {"flops": 2e9, "product_flops": 1e9, "dtype": "float32", "of": "each step"}
    probe = Probe("matmul_rate", base_s, 0.25, 1.0, 1.0, 1.0, detail=detail)
    found = over(HEALTHY, probes={"matmul_rate": probe})
    found = replace(found, verdict=replace(found.verdict, healthy=healthy))
    told = section(step.step, found)
    assert said in told
    assert ("does what it can" in told) == ("does what" in said)


def test_where_the_trace_is_and_what_opens_it_or_why_there_is_none() -> None:
    def told(trace: TraceFile) -> str:
        return section(closing.traced, replace(INPUT_BOUND, trace=trace))

    why = told(TraceFile("t.json", reason="the script's own profiler is on"))
    assert why == "No step was traced: the script's own profiler is on."
    made = told(TraceFile("t.json.gz", steps=5, note="it was late"))
    assert "A trace of 5 steps is in t.json.gz: open it at ui.perfetto.dev" in made
    assert made.endswith("it was late")
