"""The report of a PyTorch script: its parts, its waits, its memory, and its own words."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from reporters.rendering import coloured, of, text
from reporters.samples_observed import INPUT_BOUND
from reporters.samples_torch import TORCH, TORCH_GPT, TORCH_OBSERVED, TORCH_TRIED
from trainperf.model import Framework, LogCall, Site, StartUp, SyncPoint
from trainperf.model.diagnosis import DeviceMemory, ReportedPart
from trainperf.report.sections.trials import BEATEN
from trainperf.reporters.json import render

PARTS, WAITS = "The step, part by part", "Calls that wait for the GPU"
LOGGING = "Logging, progress bars and callbacks"
MACHINE = "Machine while training"


def alone(*parts: ReportedPart) -> str:
    return of(replace(TORCH_OBSERVED, step_parts=parts), PARTS)


# What must not be said comes first.


def test_steps_that_were_slow_are_not_said_to_be_so_by_their_timing() -> None:
    real = TORCH_OBSERVED.times.real_s
    assert real is not None
    for times_slower, said in ((1.2, "which takes time itself"), (2.0, "These steps were slow")):
        report = alone(ReportedPart("forward", times_slower * real, 1.0, 1.0))
        assert said in report
        assert ("takes time itself" in report) == (times_slower < 1.5)


@pytest.mark.parametrize("name", TORCH)
def test_nothing_of_another_framework_is_said(name: str) -> None:
    for report in (text(TORCH[name]), text(TORCH[name], 200)):
        assert not re.search(r"Keras|TensorFlow|tf\.data|tf\.function|[Cc]allback|`fit`", report)


def test_a_step_that_was_not_taken_apart_has_no_table() -> None:
    report = text(INPUT_BOUND)
    assert PARTS not in report
    assert "that wait for" not in report
    assert "Memory" not in report


def test_a_part_that_took_no_time_has_no_row() -> None:
    told = alone(ReportedPart("transfer", 0.0, 0.0, 0.0), ReportedPart("forward", 0.0612, 1.0, 1.0))
    assert "copying" not in told
    assert "forward 61.2 ms 100 %" in told


def test_what_logs_is_told_only_where_it_takes_a_part_of_the_step() -> None:
    where = Site(f"{TORCH_OBSERVED.cwd}/train.py", 46, "main")
    log = LogCall("wandb.Run.log", where, 1.0, 0.0124, 20)
    short = replace(log, what="tqdm.set_postfix", seconds=0.0001)
    report = replace(TORCH_OBSERVED, log_calls=(log, short))
    assert "`wandb.Run.log` train.py:46 12.4 ms" in of(report, LOGGING)
    assert "set_postfix" not in of(report, LOGGING)
    assert LOGGING not in text(replace(TORCH_OBSERVED, log_calls=(short,)))


def test_a_step_without_a_host_time_is_not_split_by_one() -> None:
    assert "host work" not in text(TORCH_OBSERVED)


# What must be said.


def test_every_part_has_its_time_its_share_and_its_calls() -> None:
    told = of(TORCH_OBSERVED, PARTS)
    assert "getting the next batch 151 ms 70 % 1" in told
    assert "backward 33.3 ms 15 % 1" in told
    assert "the rest: the loop's own Python 2.10 ms 1.0 % 1" in told


def test_several_calls_of_a_step_are_counted() -> None:
    assert "forward 61.2 ms 100 % 4 █" in alone(ReportedPart("forward", 0.0612, 1.0, 4.0))
    assert "forward 61.2 ms 100 % █" in alone(ReportedPart("forward", 0.0612, 1.0, 0.0))


def test_what_the_parts_exceed_the_step_by_is_said_where_they_do() -> None:
    assert "they add up to 216 ms, where a step takes 213 ms." in of(TORCH_OBSERVED, PARTS)
    short = alone(ReportedPart("forward", 0.0612, 1.0, 1.0))
    assert short.endswith("From a few steps whose calls were timed one by one.")


def test_the_bars_go_where_there_is_no_room_for_them() -> None:
    narrow = text(TORCH_OBSERVED, 40).split(PARTS)[1].split("From a few")[0]
    assert "█" not in narrow
    assert "151 ms" in narrow


def test_the_calls_that_wait_have_their_lines() -> None:
    told = of(TORCH_OBSERVED, WAITS)
    assert "`.item()` train.py:45 300 µs 0.1 % 1 printed" in told
    assert "`.cpu()` train.py:47 4.00 µs <0.1 % 0.02" in told


def test_without_a_gpu_they_are_said_to_be_of_no_account_yet() -> None:
    on_a_cpu = replace(TORCH_GPT, sync_points=TORCH_OBSERVED.sync_points)
    assert "`.item()` train.py:45" in of(on_a_cpu, "Calls that would wait for a GPU")


def test_of_many_waits_the_dearest_are_named_and_the_others_counted() -> None:
    (wait, _) = TORCH_OBSERVED.sync_points
    many = tuple(replace(wait, where=replace(wait.where, line=line)) for line in range(1, 9))
    told = of(replace(TORCH_OBSERVED, sync_points=many), WAITS)
    assert told.count(".item()") == 5
    assert told.endswith("and 3 others")


def test_the_memory_of_the_gpu_is_told_with_what_went_wrong() -> None:
    assert "tensors held 4.10 GiB at most; PyTorch reserved 5.20 GiB of 22.5 GiB (23 %)" in of(
        TORCH_OBSERVED, MACHINE
    )
    short = DeviceMemory(retries=3, ooms=1)
    told = of(replace(TORCH_OBSERVED, device_memory=short), MACHINE)
    assert "Memory emptied its cache to find room 3 times; ran out of it 1 time" in told


def test_the_memory_is_told_where_no_sample_was_taken() -> None:
    assert of(replace(TORCH_OBSERVED, utilization=()), MACHINE).startswith("Memory tensors held")


def test_the_framework_and_the_loop_have_their_own_names() -> None:
    report = text(TORCH_OBSERVED, 120)
    assert "Framework       PyTorch 2.13.0+cu126\n" in report
    assert "a loop over a `DataLoader` at train.py:36, batch of 64, epochs of 57 steps\n" in report
    assert "a loop that makes its own batches at train.py:91, batch of 8" in text(TORCH_GPT, 120)


def test_keras_on_pytorch_is_both() -> None:
    both = replace(TORCH_GPT, framework=Framework("torch", "2.13.0", keras="3.15.1"))
    assert "Framework       Keras 3.15.1 on PyTorch 2.13.0\n" in text(both)


def test_set_up_and_first_step_are_one_where_they_cannot_be_told_apart() -> None:
    assert "imports 2.41 s, set-up and first step 5.50 s" in " ".join(text(TORCH_OBSERVED).split())
    known = replace(TORCH_OBSERVED, startup=StartUp(7.9, 2.4, 4.5, first_step_s=1.0))
    assert "set-up 4.50 s, first step 1.00 s" in " ".join(text(known).split())


def test_a_setting_that_was_beaten_by_another_is_not_called_redundant() -> None:
    report = text(TORCH_TRIED)
    after = report.split(f"  {BEATEN}\n")[1]
    assert after.startswith("  torch_workers (workers=2)")
    assert "adds nothing to the others" not in report
    assert "3.12× as fast with workers=4, measured (3.04 to 3.20)" in text(TORCH_TRIED, 100)


def test_a_beaten_setting_is_no_reason_to_reject_the_fix() -> None:
    report = text(TORCH_TRIED)
    assert "Make the batches in worker processes" in report.split("Tried, and not worth")[0]
    assert "explain torch_workers" in report


def test_colours_stand_for_whose_work_a_part_is() -> None:
    report = coloured(TORCH_OBSERVED, 100)
    assert re.search(r"backward.*\x1b\[32m█", report)
    assert re.search(r"getting the next batch.*\x1b\[33m█", report)


def test_json_has_the_parts_with_their_shares() -> None:
    report = json.loads(render(TORCH_OBSERVED))
    assert report["framework"]["name"] == "torch"
    assert report["step_parts"][0] == {
        "name": "input",
        "seconds_per_step": 0.1511,
        "share": pytest.approx(0.7009, abs=1e-3),
        "calls_per_step": 1.0,
    }
    assert sum(part["share"] for part in report["step_parts"]) == pytest.approx(1.0)
    assert report["sync_points"][0]["where"]["line"] == 45
    assert report["device_memory"]["retries"] == 0


def test_hostile_names_of_calls_stay_in_their_line() -> None:
    nasty = SyncPoint("`[red]\x1b[31m\n.item()`", TORCH_OBSERVED.sync_points[0].where, 1.0, 0.1)
    report = text(replace(TORCH_OBSERVED, sync_points=(nasty,)))
    assert "`[red] .item()`" in report
    assert "\x1b" not in report
