"""Builds the stand-in for NVIDIA's management library and runs code against it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

SOURCE = Path(__file__).parent / "samplers" / "nvml_stub.c"


def build_nvml_stub(folder: Path, *defines: str) -> Path:
    """Compile the stub into `folder/libnvidia-ml.so.1` and return the folder.

    `defines` are macros, such as "NO_nvmlDeviceGetPowerUsage". Put the folder into
    LD_LIBRARY_PATH of a new process. Skips the test where there is no gcc.
    """
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("no gcc to compile the NVML stub with")
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / "libnvidia-ml.so.1"
    flags = ["-shared", "-fPIC", "-O1", "-Wall", "-Werror", *(f"-D{name}" for name in defines)]
    subprocess.run([compiler, *flags, "-o", str(target), str(SOURCE), "-lm"], check=True)
    return folder


def stub_environment(folder: Path, **settings: object) -> dict[str, str]:
    """Return the environment in which a new process finds the stub, with `STUB_*` set."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("STUB_")}
    environment["LD_LIBRARY_PATH"] = str(folder)
    environment.update({f"STUB_{key}": str(value) for key, value in settings.items()})
    return environment


def run_against_stub(folder: Path, code: str, **settings: object) -> Any:
    """Run `code` in a new process that finds the stub; return the JSON that it prints."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env=stub_environment(folder, **settings),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
