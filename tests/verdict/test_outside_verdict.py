"""Verdicts on storage, CPU quotas and machines that hold a step back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fixes.case_text import evidence_of
from kit.evidence import SITE, evidence, machine, measure
from kit.torch_evidence import torch_evidence
from trainperf.fixes import by_id, detect_all
from trainperf.model import (
    Channel,
    ContainerUse,
    Equivalence,
    Evidence,
    Finding,
    Loop,
    PhaseUse,
    Times,
    Volume,
)
from trainperf.verdict import ranked, verdict
from verdict.storing import EBS_VOLUME, EFS_VOLUME, reads, small, storing


def finding(id: str, bound: float | None, category: Any, **data: Any) -> Finding:
    return Finding(
        id, category, f"Title of {id}", "text", bound, "basis", Equivalence.ENVIRONMENT, data=data
    )


def answered(case: Evidence) -> tuple[str, str]:
    said = verdict(case, ranked(detect_all(case), case))
    return said.bottleneck, said.text


def stopped(share: float = 0.95, **fields: Any) -> Evidence:
    box = replace(machine(cores=8), quota_cores=2.0, cores=2.0)
    use = ContainerUse(20.0, quota_cores=2.0, throttled_share=share, throttled_s=9.0)
    return evidence(machine=box, container=use, **fields)


# ----------------------------------------------------------------------------- storage


def test_small_files_that_a_step_waits_for_are_the_verdict():
    # 32 files of 4 ms: 128 of the 150 ms that a step of 200 ms waits
    bottleneck, text = answered(storing(small()))
    assert bottleneck == "storage"
    assert "could run 4.0× as fast if data were free; 75 % of each step waits for data" in text
    assert "128 ms of its 200 ms for 32 small files to be opened and read on /mnt/efs" in text


def test_a_volume_that_gives_too_little_is_the_verdict():
    bottleneck, text = answered(storing())
    assert bottleneck == "storage"
    assert "150 ms of its 200 ms for 18.0 MiB to be read from /data (EBS, nvme1n1)" in text


ASKING = "seed_torch_waiting_items | objects = OBJECTS"


def test_requests_to_s3_are_the_verdict():
    bottleneck, text = answered(evidence_of(ASKING))
    assert bottleneck == "storage"
    assert "for 2.0 requests to s3://data/train/" in text


def test_requests_ahead_of_the_loop_take_no_more_than_a_step():
    asking = evidence_of(f"{ASKING}; objects[0].requests_per_step = 40.0")
    found = by_id()["s3_request_latency"].detect(asking)
    assert found is not None
    assert "57.9 ms of a step of 57.9 ms" in found.text


def test_small_files_of_a_channel_are_said_once_and_are_the_verdict():
    one = small(Volume("/in/train", "s3 mount", "fuse"), examples=("/in/train/1.jpg",))
    case = storing(one, channels=(Channel("train", "FastFile", "/in/train", "S3"),))
    told = [one.id for one in detect_all(case) if one.category == "storage"]
    assert told == ["sagemaker_input_mode"]
    assert "for 32 small files of channel train from S3" in answered(case)[1]


def test_files_read_several_at_once_are_not_a_part_of_the_step():
    case = storing(small(opens_per_step=100.0))
    found = by_id()["storage_small_files"].detect(case)
    assert found is not None
    assert "one after the other they would take 400 ms, and a step takes 200 ms" in found.text
    assert "up to 150 ms of its 200 ms" in answered(case)[1]


def test_storage_that_takes_little_of_the_waiting_is_not():
    quick = small(cold_file_s=0.001, warm_file_s=0.001)  # 32 ms of 150
    case = storing(quick)
    assert any(one.id == "storage_small_files" for one in detect_all(case))
    assert answered(case)[0] == "input"


def test_a_loop_that_reads_its_own_batches_spends_rather_than_waits():
    case = storing(small(), loop=Loop("call", where=SITE, batch_size=32))
    assert "75 % of each step goes into data" in answered(case)[1]


def test_one_finding_speaks_of_small_files_on_a_disk():
    case = storing(small(EBS_VOLUME))
    told = {one.id for one in detect_all(case) if one.category == "storage"}
    assert told == {"storage_small_files"}


def test_a_cold_read_may_take_longer_in_the_run_than_in_the_probe():
    # a limit of requests a second was seen to cost 1.15 times what the probe found
    found = by_id()["storage_small_files"].detect(storing(small()))
    assert found is not None
    assert found.bound == pytest.approx(4.0)  # 1.25 times 128 ms: all of the waiting
    assert found.data["waits_s"] == pytest.approx(0.128)


def test_a_run_that_used_up_a_burst_waits_longer_than_the_probe_says():
    """Measured: 16 times, where a probe after a pause said 1.48."""
    one = small(EBS_VOLUME, cold_file_s=0.0006)
    idle = (PhaseUse("real", 20, cpu_cores=0.05),)
    case = storing(one, use=idle, real=0.077, resident=0.001, input=0.080)
    found = by_id()["storage_small_files"].detect(case)
    assert found is not None
    assert found.bound is not None
    assert found.bound > 10
    assert "73.1 ms of a step passed without computing" in found.text
    assert "up to 73.1 ms of its 77.0 ms for 32 small files" in answered(case)[1]
    busy = replace(case, use=(PhaseUse("real", 20, cpu_cores=0.9),))
    found = by_id()["storage_small_files"].detect(busy)
    assert found is not None
    assert found.bound is not None
    assert found.bound < 2
    assert "without computing" not in found.text


def test_workers_that_get_no_more_together_do_not_divide_the_time():
    waits = "times.real = 0.2; times.resident = 0.05; times.input = 0.2"
    one = small(EBS_VOLUME, cold_parallel_bytes_s=2 * 32 * 102_400 / 0.128)  # 2 ms a file
    case = replace(evidence_of(f"seed_torch_waiting_items | {waits}"), reads=(one,))
    found = by_id()["storage_small_files"].detect(case)
    assert found is not None
    assert found.data["waits_s"] == pytest.approx(0.064)
    alone = replace(one, cold_parallel_bytes_s=32 * 102_400 / 0.128)  # no more than one reader
    found = by_id()["storage_small_files"].detect(replace(case, reads=(alone,)))
    assert found is not None
    assert found.data["waits_s"] == pytest.approx(0.128)


def test_an_input_that_waits_for_something_else_is_not_storages_doing():
    one = small(EBS_VOLUME, cold_file_s=0.0003)  # 10 of 73 ms
    idle = (PhaseUse("real", 20, cpu_cores=0.05),)
    case = storing(one, use=idle, real=0.077, resident=0.001, input=0.080)
    found = by_id()["storage_small_files"].detect(case)
    assert found is not None
    assert found.bound is not None
    assert found.bound < 1.3


def test_what_the_first_epoch_gains_counts_for_all_epochs():
    found = {
        epochs: by_id()["storage_cold_cache"].detect(
            storing(
                reads(total_bytes=20 * 1024**3),
                loop=Loop("fit", epochs=epochs, epoch_steps=480, batch_size=32),
            )
        )
        for epochs in (1, 10, None)
    }
    one, ten, unknown = found[1], found[10], found[None]
    assert one is not None
    assert one.bound == pytest.approx(0.200 / (0.200 - 18 / 125 * 0.150 / 0.200 * 0 - 0.144))
    assert ten is not None
    assert ten.bound == pytest.approx((one.bound + 9) / 10)
    assert unknown is not None
    assert unknown.bound is None


# ------------------------------------------------------------------------- environment


def test_a_quota_that_is_used_up_is_the_verdict_where_it_costs_most():
    bottleneck, text = answered(stopped())
    assert bottleneck == "environment"
    assert text == (
        "The container's CPU quota of 2 cores stops the script: each step takes 100 ms, and "
        "could run up to 3.5× as fast. The CPU quota of 2 cores was used up in 95 % of its periods."
    )


def test_the_quota_is_named_before_the_threads_that_it_makes_too_many():
    box = replace(machine(cores=2), quota_cores=0.5, cores=0.5)
    use = ContainerUse(20.0, quota_cores=0.5, throttled_share=1.0)
    case = torch_evidence(machine=box, flags={"threads": 2}, container=use, input=0.001)
    found = ranked(detect_all(case), case)
    assert found[0].id == "omp_threads"  # it can be tried
    said = verdict(case, found)
    assert said.text.startswith("The container's CPU quota of 0.5 cores stops the script")


def test_a_quota_is_said_beside_another_verdict():
    case = stopped(real=0.2, resident=0.05, input=0.2)
    bottleneck, text = answered(case)
    assert bottleneck == "input"
    assert text.endswith(" The CPU quota of 2 cores was used up in 95 % of its periods.")
    assert "quota" not in answered(stopped(0.2, real=0.2, resident=0.05, input=0.2))[1]


def test_stops_of_a_quota_are_not_hidden_by_the_noise_that_they_make():
    loud = replace(measure(0.1), low=0.01, high=0.4)
    case = replace(stopped(), times=Times(loud, loud, measure(0.01), 0.001))
    assert answered(case)[0] == "environment"
    assert [one.id for one in ranked([finding("a", 2.0, "model")], case)] == []


def test_a_quota_is_the_verdict_where_the_times_settle_nothing():
    loud = {"low": 0.01, "high": 0.4}
    real = replace(measure(0.1), **loud)
    resident = replace(measure(0.06), **loud)
    case = replace(stopped(), times=Times(real, resident, measure(0.001), 0.001))
    assert answered(case)[0] == "environment"
    quiet = replace(case, container=None)
    assert answered(quiet)[1].startswith("Not examined")


def test_threads_are_no_matter_under_a_quota_that_is_never_used_up():
    box = replace(machine(cores=2), quota_cores=0.5, cores=0.5)
    never = ContainerUse(20.0, quota_cores=0.5, throttled_share=0.0)
    flags = {"threads": 2}
    fix = by_id()["omp_threads"]
    assert fix.detect(torch_evidence(machine=box, flags=flags, container=never)) is None
    often = replace(never, throttled_share=0.5)
    found = fix.detect(torch_evidence(machine=box, flags=flags, container=often, input=0.001))
    assert found is not None
    assert found.bound == pytest.approx(1 / (1 - 0.75 * 0.5))


def test_a_resident_step_that_a_quota_slowed_does_not_lower_the_bound():
    """Measured: 1.78 times, where the shrunken bound said 1.52."""
    box = replace(machine(cores=2), quota_cores=0.5, cores=0.5)
    use = ContainerUse(20.0, quota_cores=0.5, throttled_share=1.0)
    case = torch_evidence(
        machine=box, flags={"threads": 2}, container=use, real=0.065, resident=0.142, input=0.001
    )
    found = by_id()["omp_threads"].detect(case)
    assert found is not None
    assert found.bound == pytest.approx(4.0)


def test_a_gpu_that_is_held_back_is_the_verdict_of_a_step_that_waits_for_nothing():
    said = verdict(evidence(), (finding("gpu_throttled", 1.8, "environment"),))
    assert said.bottleneck == "environment"
    assert said.text == (
        "Title of gpu_throttled: each step takes 100 ms, and could run up to 1.80× as fast."
    )
    behind = (finding("a", 2.0, "model"), finding("gpu_throttled", 1.8, "environment"))
    assert verdict(evidence(), behind).bottleneck == "model"


# ------------------------------------------------------------------------------- order


def order(*findings: Finding) -> list[str]:
    return [one.id for one in ranked(findings, evidence())]


def test_storage_that_costs_no_step_anything_comes_last():
    far = finding("s3_other_region", None, "storage")
    assert order(far, finding("a", 1.2, "input")) == ["a", "s3_other_region"]


def test_storage_stands_before_the_making_of_samples_that_it_explains():
    item = finding("torch_item_work", 9.0, "input")
    assert order(item, finding("storage_small_files", 6.0, "storage")) == [
        "storage_small_files",
        "torch_item_work",
    ]
    assert order(item, finding("storage_small_files", 1.2, "storage"))[0] == "torch_item_work"


# ------------------------------------------------------------------------- healthy ones


@pytest.mark.parametrize(
    "case",
    [
        # a container whose quota is never used up
        stopped(0.0),
        # hardly ever
        stopped(0.03),
        # only while the script started
        stopped(0.9, use=(PhaseUse("real", 20, throttled_share=0.0),)),
        # swap that was used long ago, and read back
        evidence(container=ContainerUse(20.0, swapped_in=2 * 10**9, swapped_out=0)),
        # files in memory: only the first epoch was slow
        evidence(reads=(reads(stored_per_step=0.0),)),
        evidence(reads=(small(EFS_VOLUME, stored_per_step=0.0),)),
    ],
)
def test_a_healthy_script_stays_healthy(case: Evidence):
    assert verdict(case, ranked(detect_all(case), case)).healthy
