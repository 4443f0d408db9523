"""Sections of the report: what each says of what was measured, silent of what was not."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from reporters.rendering import coloured, of, section, text
from reporters.samples import (
    BUCKET,
    GIB,
    HEALTHY,
    INPUT_BOUND,
    NASTY,
    ON_A_GPU,
    PARTIAL,
    PRICE,
    SAMPLES,
    SYNC,
    TORCH,
    TRACE,
    TWO_GPUS,
    finding,
    first,
    on_torch,
    over,
    timed,
)
from trainperf.model import (
    BetweenEpochs,
    ContainerUse,
    Cost,
    CudaDevice,
    Device,
    Framework,
    Instance,
    LogCall,
    Missing,
    Objects,
    OverTime,
    OwnCode,
    PhaseUse,
    Price,
    Reads,
    StartUp,
    SyncPoint,
    Trials,
    Verdict,
    Volume,
)
from trainperf.model.running import RunningJob
from trainperf.model.torch.step import Operator, StepPart
from trainperf.recording.machine.instance import InstanceType
from trainperf.report.sections import costs, devices, money, storage, training
from trainperf.report.sections._shares import shares
from trainperf.report.sections.parts import OPERATORS_HEADING as OPERATORS
from trainperf.reporters import html, markdown

MIB = 1024**2
PARTS, WAITS = "The step, part by part", "Calls that wait for the GPU"
MACHINE = "Machine while training"


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


def parts_of(*parts: StepPart) -> str:
    return of(on_torch(TORCH, split_=parts), PARTS)


@pytest.mark.parametrize("name", ["torch", "on_a_gpu"])
def test_nothing_of_another_framework_is_said(name: str) -> None:
    for width in (80, 200):
        report = text(SAMPLES[name], width)
        assert not re.search(r"Keras|TensorFlow|tf\.data|tf\.function|[Cc]allback|`fit`", report)


def test_every_part_has_its_time_its_share_and_its_calls() -> None:
    told = of(TORCH, PARTS)
    assert "getting the next batch 20.7 ms 72 % 1" in told
    assert "forward 3.17 ms 11 % 2" in told
    assert "they add up to 28.7 ms, where a step takes 27.8 ms." in told
    assert PARTS not in text(INPUT_BOUND)
    none = parts_of(StepPart("transfer", 0.0), StepPart("forward", 0.01))
    assert "copying" not in none
    assert "forward 10.0 ms 100 % █" in none
    slow = parts_of(StepPart("forward", 0.0556, 1.0))
    assert "These steps were slow" in slow
    narrow = text(TORCH, 40).split(PARTS)[1].split("From a few")[0]
    assert "█" not in narrow
    assert re.search(r"backward.*\x1b\[32m█", coloured(TORCH, 100))


def test_calls_that_wait_have_their_lines_and_of_many_the_dearest() -> None:
    assert "`.item()` torch_slow_transform.py:75 11.9 µs <0.1 % 1" in of(ON_A_GPU, WAITS)
    assert "`.item()`" in of(TORCH, "Calls that would wait for a GPU")
    (wait,) = TORCH.evidence.torch.syncs
    many = tuple(replace(wait, where=replace(wait.where, line=line)) for line in range(1, 9))
    told = of(on_torch(ON_A_GPU, syncs=many), WAITS)
    assert told.count(".item()") == 5
    assert told.endswith("and 3 others")
    nasty = SyncPoint("`[red]\x1b[31m\n.item()`", wait.where, 1.0, 0.1)
    assert "`[red] .item()`" in text(on_torch(TORCH, syncs=(nasty,)))


def test_what_logs_is_told_only_where_it_takes_a_part_of_the_step() -> None:
    heading = "Logging, progress bars and callbacks"
    log = LogCall("wandb.Run.log", TORCH.evidence.torch.syncs[0].where, 1.0, 0.0124, 20)
    quick = replace(log, what="tqdm.set_postfix", seconds=0.00001)
    told = of(on_torch(TORCH, logs=(log, quick)), heading)
    assert "`wandb.Run.log` torch_slow_transform.py:75 12.4 ms" in told
    assert "set_postfix" not in told
    assert heading not in text(on_torch(TORCH, logs=(quick,)))


def test_the_memory_of_the_gpu_is_told_with_what_went_wrong() -> None:
    held = "tensors held 4.00 GiB at most; PyTorch reserved 5.00 GiB of 24.0 GiB (21 %)"
    assert held in of(ON_A_GPU, MACHINE)
    assert of(over(ON_A_GPU, use=()), MACHINE).startswith("Memory tensors held")
    short_of = on_torch(ON_A_GPU, memory={"retries": 3, "ooms": 1})
    told = of(short_of, MACHINE)
    assert "emptied its cache to find room 3 times; ran out of it 1 time" in told


def test_the_framework_and_the_loop_have_their_own_names() -> None:
    report = text(TORCH, 120)
    assert "Framework       PyTorch 2.13.0+cpu\n" in report
    assert "a loop over a `DataLoader` at torch_slow_transform.py:70, batch of 32" in report
    assert "a loop that makes its own batches" in text(PARTIAL, 120)
    both = over(TORCH, framework=Framework("torch", "2.13.0", keras="3.15.1"))
    assert "Framework       Keras 3.15.1 on PyTorch 2.13.0\n" in text(both)
    assert "set-up and first step 1.22 s" in report
    known = over(TORCH, startup=StartUp(7.9, 2.4, 4.5, first_step_s=1.0))
    assert "set-up 4.50 s, first step 1.00 s" in " ".join(text(known).split())


def test_operators_have_their_calls_their_time_and_their_share() -> None:
    told = of(TORCH, OPERATORS)
    assert told.startswith(
        "operator calls per pass share aten::convolution_backward 3 2.09 ms 53 %"
    )
    assert "kernel" not in told
    assert len(re.findall(r" \d+ [\d.]+ [mµ]s", told)) <= 8
    assert OPERATORS not in text(INPUT_BOUND)
    seldom = Operator("[red]\x1b[31m\n" + "aten::sort<4, " * 40, 0.33, 0.01)
    traced = replace(TRACE, operators=(seldom,), others_s=0.0)
    told = of(on_torch(TORCH, trace=traced), OPERATORS)
    assert "<1 10.0 ms 100 %" in told
    assert told.count("aten::sort<4") < 5


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "702 kernels a pass; none runs for 5.00 ms of it (9.1 %), traced: in 80 % of that"),
        ({"unqueued_s": None}, "none runs for 5.00 ms of it (9.1 %), traced; tensor cores"),
        ({"device_s": (0.040, 0.035), "together_s": 0.030}, "5.00 ms of it (10 %), traced"),
        ({}, "40 % of their time is that of kernels which compiling can put together"),
        ({"tensor_core_s": 0.0}, "none is named as one that uses tensor cores"),
        ({"gap_s": None, "tensor_core_s": None, "fusable_s": None}, "702 kernels a pass."),
    ],
)
def test_of_kernels_what_is_known_is_said(fields: dict[str, Any], words: str) -> None:
    trace = ON_A_GPU.evidence.torch.trace
    assert trace is not None
    assert words in of(on_torch(ON_A_GPU, trace=replace(trace, **fields)), OPERATORS)


# ----------------------------------------------------------------------------- the machine


@pytest.mark.parametrize(("rate", "said"), [(None, ""), (735.0, ""), (2.0 * MIB, "2.00 MiB/s")])
def test_a_trickle_from_the_disk_is_not_spoken_of(rate: float | None, said: str) -> None:
    use = PhaseUse("real", 24, 1.1, read_bytes_s=rate)
    told = section(devices.devices, over(INPUT_BOUND, use=(use,)))
    assert "busy" in told
    assert ("reading" in told) is bool(said)
    assert said in told


def on_gpus(*gpus: CudaDevice, **fields: Any) -> str:
    """Two GPUs, of which NVML sampled both; CUDA shows the given ones."""
    busy = {"utilization_percent": 90.0, "memory_used_peak": 3 * GIB}
    use = PhaseUse("real", 24, gpu=({"index": 0, **busy}, {"index": 1, **busy}))
    device = Device("GPU", "NVIDIA A10G", 1, gpus)
    return section(devices.devices, over(TWO_GPUS, use=(use,), device=device, **fields))


def test_a_gpu_that_the_training_does_not_use_is_told_as_that() -> None:
    one_of_two = (CudaDevice(0, "A", index=1), CudaDevice(1, "A", used=False, index=0))
    told = on_gpus(*one_of_two)
    assert "GPU 0 not used by this training" in told
    assert "GPU 1 a kernel ran 90 %" in told
    for unknown in ((), (CudaDevice(0, "A"),)):
        assert on_gpus(*unknown).count("a kernel ran 90 %") == 2
    assert on_gpus(*one_of_two, parallel_=SYNC.evidence.parallel_).count("a kernel ran 90 %") == 2
    cut = CudaDevice(0, "A MIG 1g.6gb", index=1, memory_total=6 * GIB, mig=True)
    assert "memory 3.00 GiB (50 %)" in on_gpus(cut)
    assert "memory 3.00 GiB (12 %)" in told


def used(**fields: Any) -> ContainerUse:
    return ContainerUse(20.0, quota_cores=2.0, memory_limit=8 * GIB, **fields)


@pytest.mark.parametrize(
    "use",
    [
        None,
        ContainerUse(20.0),
        used(throttled_share=0.001, throttled_s=0.01),
        used(memory_peak=4 * GIB, memory_pressure=0.01),
        used(memory_events=(("max", 50), ("oom_kill", 0))),
        used(swapped_in=0, swapped_out=GIB),
        used(cpu_pressure=0.9, io_pressure=0.9),
    ],
)
def test_limits_that_cost_nothing_are_not_spoken_of(use: ContainerUse | None) -> None:
    assert section(devices.limits, over(INPUT_BOUND, container=use)) == ""


@pytest.mark.parametrize(
    ("use", "words"),
    [
        (used(throttled_share=0.71, throttled_s=12.3), "2 cores: used up in 71 % of its periods"),
        (used(memory_peak=int(7.8 * GIB)), "7.80 GiB of 8.00 GiB used at most"),
        (used(memory_events=(("oom_kill", 2),)), "ended 2 processes"),
        (used(memory_pressure=0.2, pressure_of="machine"), "a task of the machine waited"),
        (ContainerUse(20.0, swapped_in=3 * GIB), "Swap: 3.00 GiB read back by the whole machine"),
    ],
)
def test_limits_that_cost_something_are_said(use: ContainerUse, words: str) -> None:
    assert words in section(devices.limits, over(INPUT_BOUND, container=use))


# ------------------------------------------------------------------------------- storage

(FILES,) = INPUT_BOUND.evidence.reads
PROBED = replace(
    FILES,
    cold_bytes_s=125.0 * MIB,
    cold_parallel_bytes_s=250.0 * MIB,
    cold_file_s=120e-6,
    warm_file_s=7e-6,
    probed_bytes=2 * MIB,
)


def files(*reads: Reads, **fields: Any) -> str:
    return section(storage.storage, over(INPUT_BOUND, reads=reads, **fields))


def test_place_files_step_and_rates_are_told() -> None:
    assert files() == ""
    told = files(PROBED)
    for words in (
        "/: disk, ext4, vda",
        "640 files, 32.0 MiB; the middle one has 49.7 KiB",
        "opens 32 files; reads 1.60 MiB",
        "125 MiB/s by one reader, 250 MiB/s by four (2.00 MiB were read)",
    ):
        assert words in told
    assert "Cold not measured: the files were removed" in files(FILES)
    assert "more than 640 files" in files(replace(FILES, at_least=True))
    assert "and from 2 more volumes" in files(*[FILES] * 6)
    ebs = Volume("/data", "ebs", "ext4", "nvme1n1", "Amazon EBS", 437.5e6, "EBS base")
    assert "EBS, ext4, nvme1n1; at most 417 MiB/s (EBS base)" in files(replace(FILES, volume=ebs))


@pytest.mark.parametrize(("stored", "much"), [(512.0 * 1024, "512 KiB"), (0.0, "nothing")])
def test_of_mapped_files_it_says_what_came_from_storage(stored: float, much: str) -> None:
    mapped = replace(FILES, opens_per_step=None, bytes_per_step=None, needed_bytes_s=None)
    told = files(replace(mapped, stored_per_step=stored))
    assert f"Each step takes {much} from storage; what it takes from memory cannot" in told
    assert "Each step" not in files(replace(mapped, stored_per_step=None))


def bucket(*several: Objects) -> str:
    return section(storage.objects, over(INPUT_BOUND, objects=several))


def test_requests_to_s3_are_told_with_units() -> None:
    assert bucket() == ""
    told = bucket(BUCKET)
    assert "s3://data/train/, eu-west-1" in told
    assert "3,200 requests, 160 requests/s, 32.0 for each batch; 30.0 ms until the" in told
    assert "Answered with SlowDown 40 times." in told
    assert "no request by boto3 or s3fs was seen" in bucket(Objects("data"))


# --------------------------------------------------------------------------------- money


def cost(known: Cost | None, **fields: Any) -> str:
    box = replace(INPUT_BOUND.evidence.machine, instance_reason="", **fields)
    return section(money.cost, over(INPUT_BOUND, cost=known, machine=box))


def test_a_price_is_told_with_its_source_and_what_it_buys() -> None:
    assert cost(None) == ""
    assert cost(None, instance=Instance("ec2", "g5.xlarge"), price=PRICE) == ""
    said = "Cost: $1.21 an hour (AWS price list, on demand, eu-west-1)"
    assert cost(Cost(PRICE, 1)) == f"{said}."
    assert cost(Cost(PRICE, 1, 0.0491, 0.0214, 0.842, 0.367)) == (
        f"{said}: an epoch $0.84 → $0.37, a million samples $0.049 → $0.021."
    )
    assert "an hour for each of 4 hosts" in cost(Cost(PRICE, 4, epoch_before=12.5))
    unknown = cost(None, instance=Instance("ec2", "g5.xlarge"), price_reason="no credentials")
    assert unknown == "Cost: not known (no credentials); --price-per-hour gives it."
    assert "\x1b" not in cost(Cost(Price(1.0, NASTY), 1))


@pytest.mark.parametrize(
    ("value", "told"),
    [(0.0, "$0.00"), (0.000123, "$0.00012"), (0.997, "$1.00"), (1234.5, "$1,234")],
)
def test_dollars_have_two_digits_at_least(value: float, told: str) -> None:
    assert money.dollars(value) == told


def test_an_instance_is_described_in_a_line() -> None:
    def said(*args: Any, **fields: Any) -> str:
        return money.instance(
            replace(INPUT_BOUND.evidence.machine, instance=Instance(*args, **fields))
        )

    g5 = InstanceType(
        "g5.xlarge", vcpus=4, memory=16 * GIB, gpus=1, gpu="A10G", network_bytes_s=0.3125e9
    )
    assert said("ec2", "g5.xlarge", g5, "eu-west-1") == (
        "g5.xlarge (AWS, eu-west-1): 4 vCPUs, 16.0 GiB, 1 × A10G, network 2.5 Gbit/s"
    )
    assert said("sagemaker", "ml.g5", g5, "eu", hosts=2).startswith("2 × ml.g5 (SageMaker, eu)")
    assert said("ec2", "z9.large", None, "eu") == "z9.large (AWS, eu), of unknown size"
    assert money.instance(INPUT_BOUND.evidence.machine) == ""


# -------------------------------------------------- what passes beside the steps, and later

SLOWER = OverTime(60.0, 600, 0.1, 0.15, 1.5, 1.47, 1.53)


def over_time(seen: OverTime | None) -> str:
    return section(costs.over_time, over(INPUT_BOUND, over_time=seen))


def test_a_run_that_becomes_slower_says_by_how_much() -> None:
    assert over_time(None) == ""
    assert "late 150 ms, early 100 ms: 1.50× (1.47 to 1.53) as long" in over_time(SLOWER)


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"validation_s": 0.9, "restart_s": 0.05}, "validation 900 ms, restarting the input 50.0"),
        ({}, "of the time; seen 2 times"),
        ({"validation_s": 0.4}, "callbacks and Keras's own work 600 ms; seen"),
        (
            {"validation_s": 0.4, "callbacks_s": 0.1},
            "callbacks 100 ms, Keras's own work 500 ms; seen",
        ),
    ],
)
def test_what_passes_between_epochs_is_told_for_whose_work_it_is(
    parts: dict[str, float], words: str
) -> None:
    between = BetweenEpochs(1.0, 2, 100, **parts)  # type: ignore[arg-type]
    told = section(costs.between_epochs, over(INPUT_BOUND, between_epochs=between))
    assert words in told
    if parts:
        own = section(costs.between_epochs, over(TORCH, between_epochs=between))
        assert "what the script does there besides" in own or "900 ms" in own


def test_most_of_a_turn_beside_the_steps_is_told_in_every_report() -> None:
    diagnosis = SAMPLES["outside"]
    told = " ".join(text(diagnosis, 100).split())
    assert "One turn of the loop around `fit`" in told
    assert re.search(r"prediction predict predict_between_fits.py:\d+ [\d,]+ ", told)
    assert told.index(training._TURN_HEADING) < told.index("One step ")
    assert f"### {training._TURN_HEADING}" in markdown.render(diagnosis)
    assert training._TURN_HEADING.replace("'", "&#39;") in html.render(diagnosis)
    turn = diagnosis.evidence.outside
    cut = over(diagnosis, outside_=replace(turn, whole=False))
    assert "it was not over when the run was stopped" in " ".join(text(cut).split())
    for silent in (replace(turn, training_s=0.98 * turn.seconds), None):
        assert training.shown(over(diagnosis, outside_=silent or Missing(""))) is None
    assert training.shown(over(HEALTHY, outside_=replace(turn, turn="epoch", spent=()))) is None


JOB = RunningJob(
    pid=4711,
    started_by=4710,
    began="2026-11-23T14:02:11+00:00",
    ended=False,
    cores=1.62,
    gpu_memory=3 * GIB,
)


def beside(**fields: Any) -> str:
    return " ".join(text(replace(HEALTHY, running=replace(JOB, **fields)), 100).split())


def test_a_job_that_ran_beside_its_own_diagnosis_has_a_section() -> None:
    told = beside()
    for words in (
        "Process 4711, started by process 4710, has run since 2026-11-23 14:02:11 UTC.",
        "busy and held 3.00 GiB of GPU memory. Times may be longer",
    ):
        assert words in told
    assert "The running job" not in text(HEALTHY, 100)
    bare = beside(cores=None, gpu_memory=None)
    assert "shared the machine with it. Times may be longer" in bare
    ended = beside(ended=True, changed=(f"{HEALTHY.cwd}/healthy.py",))
    assert "UTC on, and ended while this diagnosis was made." in ended
    assert "Changed since it was started: healthy.py." in ended
    longer = replace(HEALTHY, running=JOB, trying=Trials("none", budget_needed_s=281.0))
    assert "trainperf diagnose --budget 5min --pid 4710" in text(longer, 100)
