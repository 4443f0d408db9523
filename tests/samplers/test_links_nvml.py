"""Links between GPUs, as NVML describes them: NVLink, else PCIe."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kit.stubs import run_against_stub
from trainperf.model import Link
from trainperf.samplers import links

PROBE = """
    import dataclasses, json
    from trainperf.samplers import links
    from trainperf.samplers.nvml import NvmlSampler

    with NvmlSampler() as sampler:
        found = links.between([gpu.index for gpu in sampler.gpus])
    print(json.dumps(found and dataclasses.asdict(found)))
"""
SWITCH = "0-Sx18,1-Sx18"


def between(stub: Path, **settings: Any) -> Link | None:
    found = run_against_stub(stub, PROBE, **{"GPUS": 2, **settings})
    return None if found is None else Link(**found)


# ------------------------------------------------------------------------- not known


def test_without_a_driver_nothing_is_known() -> None:
    assert links.between([0, 1]) is None


@pytest.mark.parametrize(
    "function",
    ["nvmlDeviceGetNvLinkState", "nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetNvLinkRemoteDeviceType"],
)
@pytest.mark.parametrize("code", [4, 15, 999], ids=["no permission", "lost", "unknown error"])
def test_a_gpu_that_does_not_answer_is_not_taken_for_one_without_nvlink(
    nvml_stub: Path, function: str, code: int
) -> None:
    assert between(nvml_stub, NVLINK=SWITCH, ERRORS=f"{function}={code}@1") is None


def test_pcie_that_is_not_told_is_not_known(nvml_stub: Path) -> None:
    assert between(nvml_stub, ERRORS="nvmlDeviceGetCurrPcieLinkWidth=3@0") is None


# ----------------------------------------------------------------------------- NVLink


def test_all_links_to_a_switch_count(nvml_stub: Path) -> None:
    assert between(nvml_stub, NVLINK=SWITCH) == Link("NVLink", 450e9, "NVML: 18 NVLink 4 links")


@pytest.mark.parametrize(
    ("said", "capability", "name", "speed"),
    [
        (1, "6.0", "NVLink 1", 40e9),
        (2, "7.0", "NVLink 2", 50e9),
        (3, "7.5", "NVLink 2.2", 50e9),
        (5, "8.6", "NVLink 3.1", 50e9),
        (7, "10.0", "NVLink 5", 100e9),
        (7, "9.0", "NVLink 4", 50e9),  # some drivers say so of Hopper
        (99, "12.0", "NVLink", None),
    ],
)
def test_what_a_link_gives_is_told_by_its_version(
    nvml_stub: Path, said: int, capability: str, name: str, speed: float | None
) -> None:
    found = between(nvml_stub, NVLINK="0-1x2", NVLINK_VERSION=said, CC=capability)
    assert found == Link("NVLink", speed, f"NVML: 2 {name} links")


# ------------------------------------------------------------------------------- PCIe


def test_gpus_without_nvlink_have_pcie_at_its_best_generation(nvml_stub: Path) -> None:
    assert between(nvml_stub) == Link("PCIe", 16 * 1.969e9, "NVML: PCIe 4 x16")


def test_nvlink_that_joins_only_some_gpus_is_not_what_all_exchange_over(nvml_stub: Path) -> None:
    found = between(nvml_stub, GPUS=4, NVLINK="0-1x4,2-3x4")
    assert found is not None
    assert found.kind == "PCIe"
    assert found.source == "NVML: PCIe 4 x16; NVLink joins only some of the 4 GPUs"


def test_links_to_a_processor_or_to_gpus_that_are_not_seen_do_not_count(nvml_stub: Path) -> None:
    for elsewhere in ("0-Nx3,1-Nx3", "0-Gx6,1-Gx6"):
        found = between(nvml_stub, NVLINK=elsewhere)
        assert found is not None
        assert (found.kind, found.source) == ("PCIe", "NVML: PCIe 4 x16")


# --------------------------------------------------------------------------- sampling


def test_a_run_records_the_link(nvml_stub: Path, tmp_path: Path) -> None:
    code = f"""
        import dataclasses, json, pathlib, sys
        from trainperf import store
        from trainperf.run.launch import launch
        from trainperf.model import Run

        folder = pathlib.Path({str(tmp_path)!r})
        command = (sys.executable, "-c", "import time; time.sleep(1)")
        recording = launch(Run(command, str(folder), "train.py"), folder)
        file = folder / store.RECORDING_FILE
        store.save_recording(recording, file)
        print(json.dumps(dataclasses.asdict(store.load_recording(file).gpu_link)))
    """
    seen = run_against_stub(nvml_stub, code, GPUS=2, NVLINK=SWITCH)
    assert Link(**seen) == Link("NVLink", 450e9, "NVML: 18 NVLink 4 links")
