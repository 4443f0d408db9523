"""Promises of the fixes of container limits and of GPU health, and their ground."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from fixes.cases.common.cases import GPU, evidence, machine
from fixes.cases.common.torch_cases import torch_evidence
from fixes.cases.gpu._cases import A10G, BUSY, on_gpu
from trainperf.errors import NotMeasured
from trainperf.fixes import by_id
from trainperf.fixes.gpu._build import fit, version
from trainperf.fixes.gpu._health import on_used, said, share_of_peak, used
from trainperf.model import ContainerUse, CudaDevice, Evidence, Finding, PhaseUse


def found(name: str, case: Evidence) -> Finding:
    finding = by_id()[name].detect(case)
    assert finding is not None
    return finding


def test_a_quota_promises_no_more_than_the_cores_that_can_be_seen() -> None:
    use = ContainerUse(20.0, quota_cores=2.0, throttled_share=1.0)
    finding = found("cpu_quota", evidence(machine=machine(cores=8), container=use))
    assert finding.bound == pytest.approx(4.0)


def test_a_quota_counts_while_it_trains_and_not_while_it_starts() -> None:
    use = ContainerUse(20.0, quota_cores=2.0, throttled_share=1.0)
    training = (PhaseUse("real", 20, throttled_share=0.5),)
    finding = found("cpu_quota", evidence(machine=machine(cores=8), container=use, use=training))
    assert finding.bound == pytest.approx(1 / (1 - 0.5 * 0.75))
    assert "50 % of the quota's periods" in finding.text


def test_the_threads_that_pytorch_takes_are_named() -> None:
    use = ContainerUse(20.0, quota_cores=2.0, throttled_share=1.0)
    finding = found("cpu_quota", torch_evidence(machine=machine(cores=8), container=use))
    assert "PyTorch computes with 8 threads" in finding.text


def test_waiting_for_memory_promises_its_share_of_the_step() -> None:
    use = ContainerUse(20.0, memory_pressure=0.2, pressure_of="machine")
    finding = found("memory_pressure", evidence(container=use))
    assert finding.bound == pytest.approx(1.25)
    assert "a task of the machine" in finding.text


def test_threads_are_set_to_the_quota() -> None:
    box = replace(machine(cores=2), visible_cores=16, affinity_cores=16, quota_cores=2.5, cores=2.5)
    case = torch_evidence(machine=box, flags={"threads": 16})
    finding = found("omp_threads", case)
    assert by_id()["omp_threads"].environment(finding) == {"OMP_NUM_THREADS": "2"}
    tensorflow = evidence(machine=box, facts={"intra_op_threads": None})
    finding = found("omp_threads", tensorflow)
    assert by_id()["omp_threads"].environment(finding) == {"TF_NUM_INTRAOP_THREADS": "2"}


def test_threads_above_a_quota_promise_what_they_take_from_each_other() -> None:
    box = replace(machine(cores=2), quota_cores=0.5, cores=0.5)
    finding = found("omp_threads", torch_evidence(machine=box, flags={"threads": 2}, input=0.001))
    assert finding.bound == pytest.approx(4.0)
    assert finding.title == "2 threads share 0.5 cores"
    assert by_id()["omp_threads"].environment(finding) == {"OMP_NUM_THREADS": "1"}


def test_one_thread_of_tensorflow_is_the_other_fixs_matter() -> None:
    case = evidence(facts={"intra_op_threads": "1"})
    assert by_id()["omp_threads"].detect(case) is None
    assert by_id()["tf_intra_op_threads"].detect(case) is not None


HOT = {"sm_clock_mhz": 855.0, "throttle_shares": {"hardware thermal slowdown": 0.9}}


def test_a_throttled_gpu_promises_its_clock_and_no_more_than_the_input_gives() -> None:
    assert found("gpu_throttled", on_gpu(HOT, input=0.001)).bound == pytest.approx(1 / 0.51)
    assert found("gpu_throttled", on_gpu(HOT, input=0.080)).bound == pytest.approx(1.25)


def test_the_reason_given_most_often_is_named() -> None:
    shares = {"power brake": 0.2, "hardware slowdown": 0.6, "power cap": 1.0}
    finding = found("gpu_throttled", on_gpu({**HOT, "throttle_shares": shares}))
    assert finding.title == "GPU 0 (NVIDIA A10G) slows itself down: hardware slowdown"
    assert "power cap" not in finding.text


def test_a_shared_gpu_promises_at_most_the_turns_of_the_others() -> None:
    half = on_gpu(gpu={"other_processes": 1, "busy_before": 1.0}, resident=0.1, input=0.001)
    assert found("gpu_shared", half).bound == pytest.approx(2.0)
    little = on_gpu(gpu={"other_processes": 3, "busy_before": 0.2}, resident=0.1, input=0.001)
    assert found("gpu_shared", little).bound == pytest.approx(1.25)


def test_a_narrow_link_promises_what_its_copies_take_longer() -> None:
    # 4 lanes of 1.969 GB/s, half of their time used, and 16 would do it in a quarter of it
    case = on_gpu({"pcie_width": 4, "pcie_rx_bytes_s": 2 * 1.969e9}, real=0.1)
    assert found("gpu_pcie", case).bound == pytest.approx(1 / (1 - 0.5 * 0.75))


def several(used: Sequence[int | None], *use: dict[str, Any]) -> Evidence:
    """Four GPUs, of which the training uses those; None for one of which nobody knows which."""
    gpus = tuple(replace(A10G, index=index) for index in range(4))
    shown = tuple(CudaDevice(place, A10G.name, index=one) for place, one in enumerate(used))
    seen = tuple({**BUSY, **one, "index": index} for index, one in enumerate(use))
    return on_gpu(
        machine=machine(gpus=gpus),
        device=replace(GPU, count=len(used), gpus=shown),
        use=(PhaseUse("resident", 20, gpu=seen),),
    )


def test_the_gpus_of_a_run_are_those_it_uses_however_busy_others_are() -> None:
    seen = several([2, 0], {}, {}, {})
    assert [gpu.index for gpu, _ in used(seen)] == [0, 2]
    assert [gpu.index for gpu in on_used(several([3], {}))] == [3]


def test_gpus_that_cannot_be_told_apart_are_not_judged() -> None:
    for unknown in (several([None], {}), several([0, None], {}, {}), several([3], {}), evidence()):
        with pytest.raises(NotMeasured):
            used(unknown)
    for unknown in (several([None], {}), evidence()):
        with pytest.raises(NotMeasured):
            on_used(unknown)


def test_another_jobs_hot_gpu_is_not_this_runs_matter() -> None:
    assert by_id()["gpu_throttled"].detect(several([1], HOT, {}, {}, {})) is None
    assert by_id()["gpu_throttled"].detect(several([0, 1], HOT, {}, {}, {})) is not None


def test_another_jobs_narrow_link_is_not_this_runs_matter() -> None:
    narrow = {"pcie_width": 4, "pcie_rx_bytes_s": 7e9}
    for index, told in ((1, False), (0, True)):
        seen = several([index], narrow, {})
        real = replace(seen, use=(replace(seen.use[0], phase="real"),))
        assert (by_id()["gpu_pcie"].detect(real) is not None) is told


def test_a_product_on_a_slice_is_not_set_against_the_peak_of_the_card() -> None:
    slow = {"dtype": "float16", "flops_s": 10e12, "seconds": 0.1, "size": 8192}
    assert share_of_peak(on_gpu(facts={"matmul": slow})) is not None
    assert share_of_peak(on_gpu(facts={"matmul": slow}, gpu={"mig": True})) is None


def test_a_product_is_set_against_the_peak_of_its_dtype() -> None:
    product = {"dtype": "float16", "flops_s": 35e12, "seconds": 0.1, "size": 8192}
    case = on_gpu(facts={"matmul": product})
    assert share_of_peak(case) == pytest.approx(0.5)
    assert "35.0 TFLOP/s, 50 % of the peak" in said(case)
    assert said(on_gpu(facts={"matmul": {**product, "flops_s": 60e12}})) == ""
    for unknown in ({}, {**product, "dtype": "float64"}, {**product, "flops_s": None}, None):
        assert share_of_peak(on_gpu(facts={"matmul": unknown})) is None
    assert share_of_peak(on_gpu(facts={"matmul": product}, gpu={"name": "NVIDIA X"})) is None
    assert share_of_peak(on_gpu()) is None


@pytest.mark.parametrize(
    ("held", "capability", "fits"),
    [
        (("sm_80",), "8.6", "native"),
        (("sm_86",), "8.0", "none"),
        (("sm_80", "compute_80"), "9.0", "compiled on the spot"),
        (("compute_90",), "8.6", "none"),
        (("sm_90a",), "9.0", "native"),
        (("sm_90a",), "9.2", "none"),
        (("sm_100",), "10.0", "native"),
        ((), "8.6", "unknown"),
        (("sm_80",), None, "unknown"),
        (("gfx90a",), "8.0", "none"),
    ],
)
def test_code_runs_on_its_generation_or_is_compiled(
    held: tuple[str, ...], capability: str | None, fits: str
) -> None:
    assert fit(held, capability) == fits


def test_a_version_is_its_first_two_numbers() -> None:
    assert version("12.4.1") == (12, 4)
    assert version("13") == (13, 0)
    assert version("") is version(None) is None
