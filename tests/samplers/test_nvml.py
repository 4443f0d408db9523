from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kit.stubs import build_nvml_stub, run_against_stub
from trainperf.fixes.host.cards import LEAST_SHARES
from trainperf.samplers.nvml import NO_DRIVER, throttle_words

PROBE = """
    import dataclasses, json
    from trainperf.samplers.nvml import NvmlSampler

    with NvmlSampler() as sampler:
        samples = [sampler.sample() for _ in range({samples})]
    after = sampler.sample()
    print(json.dumps({{
        "gpus": [dataclasses.asdict(gpu) for gpu in sampler.gpus],
        "samples": [[dataclasses.asdict(gpu) for gpu in sample] for sample in samples],
        "after": len(after), "reason": sampler.reason, "driver": sampler.driver,
        "cuda": sampler.driver_cuda, "lost": sampler.lost,
    }}))
"""


def watch(stub: Path, samples: int = 1, **settings: object) -> dict[str, Any]:
    return run_against_stub(stub, PROBE.format(samples=samples), **settings)


def calls(path: Path) -> list[str]:
    return path.read_text().splitlines()


def test_a_gpu_is_described_and_sampled(nvml_stub: Path) -> None:
    seen = watch(nvml_stub, THROTTLE="0x45")
    assert seen["gpus"] == [
        {
            "index": 0,
            "name": "NVIDIA Stub",
            "memory_total": 24 << 30,
            "compute_capability": "8.6",
            "power_limit_w": 300.0,
            "max_sm_clock_mhz": 1710,
            "ecc_errors": None,
            "mig": None,
            "other_processes": 2,
            "busy_before": 0.1,
            "application_clock_mhz": None,
            "uuid": "GPU-00000000-0000-0000-0000-000000000000",
            "compute_mode": "shared",
            "memory_before": 1 << 30,
        }
    ]
    assert seen["samples"] == [
        [
            {
                "index": 0,
                "utilization_percent": 20.0,
                "memory_used": 1 << 30,
                "power_w": 150.5,
                "sm_clock_mhz": 1410,
                "throttle": ["power cap", "hardware thermal slowdown"],
                "sm_active": None,
                "tensor_active": None,
                "dram_active": None,
            }
        ]
    ]
    assert (seen["driver"], seen["cuda"], seen["reason"]) == ("550.54.14", "12.4", "")
    assert seen["lost"] == {}


def test_modes_and_errors_are_told_where_the_driver_knows_them(nvml_stub: Path) -> None:
    (gpu,) = watch(nvml_stub, ECC=3, MIG=0, APPLICATION_CLOCK=1095)["gpus"]
    assert (gpu["ecc_errors"], gpu["mig"], gpu["application_clock_mhz"]) == (3, False, 1095)


def test_hopper_counters_are_read_as_shares_and_the_failed_ones_are_absent(
    nvml_stub: Path, tmp_path: Path
) -> None:
    seen = watch(nvml_stub, samples=2, GPM=1, GPUS=2, CALLS=tmp_path / "calls")
    for sample in seen["samples"]:
        for gpu in sample:
            assert (gpu["sm_active"], gpu["tensor_active"]) == (0.8, 0.25)
            assert gpu["dram_active"] is None  # the stub says "not supported"
    assert calls(tmp_path / "calls")[-1] == "clean"


def test_an_old_driver_without_some_functions_gives_the_others(tmp_path: Path) -> None:
    stub = build_nvml_stub(
        tmp_path,
        "NO_nvmlDeviceGetPowerUsage",
        "NO_nvmlDeviceGetCurrentClocksEventReasons",
        "NO_nvmlDeviceGetComputeRunningProcesses_v3",
        "NO_nvmlDeviceGetEnforcedPowerLimit",
        "NO_GPM",
    )
    seen = watch(stub, samples=2, GPM=1, THROTTLE="0x8")
    assert seen["gpus"][0]["power_limit_w"] is None
    assert seen["cuda"] == "12.4"
    for sample in seen["samples"]:
        assert sample[0]["power_w"] is None
        assert sample[0]["throttle"] == ["hardware slowdown"]
        assert sample[0]["sm_clock_mhz"] == 1410


@pytest.mark.parametrize("code", [3, 4], ids=["not supported", "no permission"])
def test_what_a_gpu_refuses_is_absent_and_not_asked_again(
    nvml_stub: Path, tmp_path: Path, code: int
) -> None:
    errors = f"nvmlDeviceGetPowerUsage={code},nvmlDeviceGetUtilizationRates={code}"
    seen = watch(nvml_stub, samples=4, ERRORS=errors, CALLS=tmp_path / "calls")
    for sample in seen["samples"]:
        assert sample[0]["power_w"] is None
        assert sample[0]["utilization_percent"] is None
        assert sample[0]["memory_used"] == 1 << 30
    assert calls(tmp_path / "calls").count("nvmlDeviceGetPowerUsage") == 1


@pytest.mark.parametrize("gpm", [0, 1])
def test_a_gpu_lost_midway_stops_and_the_others_go_on(
    nvml_stub: Path, tmp_path: Path, gpm: int
) -> None:
    seen = watch(
        nvml_stub, samples=5, GPUS=3, PROCESSES=0, LOST="1:2", GPM=gpm, CALLS=tmp_path / "calls"
    )
    assert [[gpu["index"] for gpu in sample] for sample in seen["samples"]] == [
        [0, 1, 2],
        [0, 1, 2],
        [0, 2],
        [0, 2],
        [0, 2],
    ]
    assert list(seen["lost"]) == ["1"]
    assert "after 2" in seen["lost"]["1"]
    assert "GPU is lost" in seen["lost"]["1"]
    assert len(seen["gpus"]) == 3
    assert calls(tmp_path / "calls")[-1] == "clean"


def test_a_gpu_that_cannot_be_opened_is_named_and_the_others_are_there(nvml_stub: Path) -> None:
    seen = watch(nvml_stub, GPUS=2, ERRORS="nvmlDeviceGetHandleByIndex_v2=4@0")
    assert [gpu["index"] for gpu in seen["gpus"]] == [1]
    assert "cannot be opened" in seen["lost"]["0"]


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (9, "not loaded"),
        (18, "reboot"),
        (4, "may not ask the NVIDIA driver"),
        (28, "sees no GPU"),
        (999, "Unknown Error"),
        (77, "an error of the stub"),
    ],
)
def test_a_driver_that_does_not_start_gives_the_reason(
    nvml_stub: Path, code: int, words: str
) -> None:
    seen = watch(nvml_stub, ERRORS=f"nvmlInitWithFlags={code}")
    assert words in seen["reason"]
    assert (seen["gpus"], seen["samples"], seen["driver"]) == ([], [[]], None)


def test_no_driver_library_gives_the_reason(tmp_path: Path) -> None:
    (tmp_path / "libnvidia-ml.so.1").write_text("not a library")
    assert watch(tmp_path)["reason"] == NO_DRIVER


def test_each_gpu_has_its_uuid_and_its_own_name_whatever_the_order(nvml_stub: Path) -> None:
    seen = watch(nvml_stub, GPUS=3, ORDER="2,0,1", NAME="NVIDIA A10G;Tesla T4")
    assert [gpu["uuid"][:12] for gpu in seen["gpus"]] == [
        "GPU-00000002",
        "GPU-00000000",
        "GPU-00000001",
    ]
    assert [gpu["name"] for gpu in seen["gpus"]] == ["NVIDIA A10G", "Tesla T4", "Tesla T4"]


def test_a_card_in_mig_mode_tells_of_no_utilisation(nvml_stub: Path) -> None:
    seen = watch(nvml_stub, GPUS=2, MIG=1)
    assert seen["gpus"][1]["mig"] is True
    assert seen["samples"][0][1]["utilization_percent"] is None


def test_a_bit_without_a_name_is_not_lost() -> None:
    assert throttle_words(0x4 | 0x800) == ("power cap", "reason 0x800")


def test_every_harmful_word_is_one_that_a_gpu_can_say() -> None:
    assert LEAST_SHARES.keys() <= set(throttle_words(0x1FF))
