"""A self-test as JSON, for a bug report: no path, no name of a host or a user."""

from __future__ import annotations

import datetime
import json
import platform
from dataclasses import asdict
from typing import Any

import msgspec

import trainperf
from trainperf.model import Diagnosis
from trainperf.self_test.judging import SelfTest

KEPT = (
    "ending", "device", "verdict", "times", "startup", "utilization", "trials", "trying", "stack",
    "control", "overhead", "not_measured", "notes", "seconds", "device_memory",
)  # fmt: skip
"""The parts of a diagnosis that say how it was measured."""


def kept_of(diagnosis: Diagnosis) -> dict[str, Any]:
    """The parts of a diagnosis that belong into a bug report, as plain values."""
    parts = {name: getattr(diagnosis, name) for name in KEPT}
    machine = diagnosis.machine
    parts["machine"] = {
        "cpu": machine.cpu_model,
        "cores": machine.cores,
        "visible_cores": machine.visible_cores,
        "memory": machine.memory_limit,
        "gpus": machine.gpus,
        "gpu_reason": machine.gpu_reason,
        "driver": machine.driver,
        "driver_cuda": machine.driver_cuda,
        "container": machine.container,
    }
    parts["findings"] = [one.id for one in diagnosis.findings]
    found: dict[str, Any] = msgspec.to_builtins(parts)
    return found


def as_json(test: SelfTest) -> str:
    """All of a self-test; keys are added, not renamed."""
    whole = {
        "format": 1,
        "trainperf": trainperf.__version__,
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "os": platform.platform(),
        "framework": test.framework,
        "framework_version": test.version,
        "device": test.device,
        "holds": test.holds,
        "seconds": round(test.seconds, 1),
        "lines": [asdict(one) for one in test.lines],
        "figures": [
            {**asdict(one), "off": one.off, "band": one.band, "status": one.status}
            for one in test.figures
        ],
        "diagnoses": test.diagnoses,
    }
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"
