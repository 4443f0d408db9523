"""Which tests of the kit run here, one at a time, and the summary of their figures."""

from __future__ import annotations

import fcntl
import functools
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gpu_kit
import pytest
from gpu_kit import ROWS, TESTS, Place, copied

OUT = "GPU_KIT_OUT"
"""The variable that names the folder for the summary."""
ORDER = ("test_gpu_loops", "test_gpu_legs", "test_gpu_fixes", "test_gpu_graphs", "test_gpu_endings")
"""The most telling come first: the kit may be cut short."""
LOCK = Path("/tmp/trainperf-gpu-kit.lock")
OUTCOMES: list[dict[str, Any]] = []

CALIBRATE = """
import statistics, torch
found = []
for _ in range(12):
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    torch.cuda._sleep(100_000_000)
    end.record()
    end.synchronize()
    found.append(100_000_000 / (begin.elapsed_time(end) / 1000))
print(statistics.median(found[6:]))
"""


def _devices() -> int:
    try:
        import torch

        return int(torch.cuda.device_count()) if torch.cuda.is_available() else 0
    except ImportError:
        return 0


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Order the kit; skip what needs more GPUs, and all of it where it was not asked for."""
    items.sort(key=lambda item: ORDER.index(item.path.stem) if item.path.stem in ORDER else -1)
    wanted = [(item, item.get_closest_marker("gpu")) for item in items]
    kit = [(item, mark) for item, mark in wanted if mark is not None]
    if not kit:
        return
    config.stash[PLANNED] = sum(
        mark.kwargs["seconds"] for item, mark in kit if item.get_closest_marker("gpu2") is None
    )
    devices = _devices()
    asked = "gpu" in (config.option.markexpr or "").replace("not gpu", "")
    for item, mark in kit:
        item.user_properties.append(("planned_s", mark.kwargs["seconds"]))
        needs = 2 if item.get_closest_marker("gpu2") else 1
        if devices < needs:
            there = "no GPU that PyTorch can use" if not devices else "one GPU"
            item.add_marker(pytest.mark.skip(reason=f"needs {needs} of them: there is {there}"))
        elif not asked:
            item.add_marker(pytest.mark.skip(reason="takes minutes: pytest -m gpu tests/gpu"))


PLANNED = pytest.StashKey[float]()


@pytest.fixture(scope="session")
def per_second() -> float:
    """Cycles of `torch.cuda._sleep` in a second, by CUDA's own events."""
    told = subprocess.run(
        (sys.executable, "-c", CALIBRATE), capture_output=True, text=True, check=True, timeout=60
    )
    return float(told.stdout)


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path, nothing_left: str) -> Iterator[Place]:
    """A folder with the scripts, and the device that the test is for; one test at a time."""
    made = Place(request.param, request.node.name, copied(tmp_path))
    if made.emulated:
        pytest.importorskip("torch")
        made.environment["KIT_EMULATED"] = str(TESTS)
    else:
        made.environment["KIT_PER_SECOND"] = str(request.getfixturevalue("per_second"))
    with LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield made
    gpu_kit.drop_caches()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note what became of each test of the kit, at once: the kit may be cut short."""
    if "gpu" not in report.keywords or (report.when != "call" and report.outcome == "passed"):
        return
    said = str(report.longrepr)[-1500:] if report.outcome == "failed" else ""
    test = report.nodeid.rpartition("::")[2]
    took = round(report.duration, 1)
    planned = dict(report.user_properties).get("planned_s")
    outcome = {"test": test, "outcome": report.outcome, "seconds": took, "planned_s": planned}
    OUTCOMES.append({**outcome, "said": said})
    if os.environ.get(OUT) and report.outcome != "skipped":
        _write(Path(os.environ[OUT]))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print the figures, or what the kit is planned to take where it is only collected."""
    planned = config.stash.get(PLANNED, None)
    if planned is not None and config.option.collectonly:
        terminalreporter.write_line(f"planned for one GPU: {planned:.0f} s")
    if any(one["outcome"] != "skipped" for one in OUTCOMES):
        terminalreporter.write_line("\n".join(_lines()))


def _lines() -> list[str]:
    ran = []
    for one in OUTCOMES:
        planned = "" if one["planned_s"] is None else f" of {one['planned_s']} s planned"
        ran.append(f"{one['outcome']:8} {one['seconds']:6.1f} s{planned}  {one['test']}")
    return [*map(str, ROWS), "", *ran]


def _write(folder: Path) -> None:
    """Leave the figures and outcomes until now in a folder, as JSON and as text."""
    folder.mkdir(parents=True, exist_ok=True)
    machine = _machine()
    whole = {
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": machine,
        "figures": [row.values() for row in ROWS],
        "tests": OUTCOMES,
    }
    (folder / "kit.json").write_text(json.dumps(whole, indent=1) + "\n")
    head = [f"{name}: {value}" for name, value in machine.items()]
    failures = [f"{one['test']}\n{one['said']}\n" for one in OUTCOMES if one["said"]]
    text = "\n".join([*head, "", *_lines(), "", *failures]) + "\n"
    (folder / "kit.txt").write_text(text)


@functools.cache
def _machine() -> dict[str, Any]:
    import trainperf

    told: dict[str, Any] = {
        "trainperf": trainperf.__version__,
        "python": platform.python_version(),
        "cores": os.cpu_count(),
    }
    try:
        import torch

        told["torch"] = torch.__version__
        if torch.cuda.is_available():
            told["gpus"] = [
                torch.cuda.get_device_name(one) for one in range(torch.cuda.device_count())
            ]
            told["cuda"] = torch.version.cuda
    except ImportError:
        pass
    return told
