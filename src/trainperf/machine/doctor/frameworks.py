"""Which framework builds are installed beside trainperf, and what they can see.

A framework is never imported here: each one is asked in a short process of its own,
because importing it takes seconds, memory and, on a GPU, device memory.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import metadata, util
from typing import Any

TIMEOUT_S = 60.0
"""How long one framework may take to import: 2 to 20 s where its files are not cached yet."""

_MARK = "trainperf-build:"

_TENSORFLOW = """
import json
import tensorflow as tf
build = dict(tf.sysconfig.get_build_info())
gpus = tf.config.list_physical_devices("GPU")
details = [tf.config.experimental.get_device_details(gpu) for gpu in gpus]
print("trainperf-build:" + json.dumps({
    "version": tf.__version__,
    "built_with_gpu": bool(build.get("is_cuda_build") or build.get("is_rocm_build")),
    "cuda": build.get("cuda_version"),
    "cudnn": build.get("cudnn_version"),
    "capabilities": list(build.get("cuda_compute_capabilities") or ()),
    "gpus": [detail.get("device_name", "GPU") for detail in details],
}))
"""

_TORCH = """
import json
import torch
flags = torch._C._cuda_getArchFlags() if torch.version.cuda else None
number = torch.backends.cudnn.version() if torch.version.cuda else None
cudnn = number and f"{number // 10000}.{number // 100 % 100}.{number % 100}"  # 90800 is 9.8.0
count = torch.cuda.device_count() if torch.cuda.is_available() else 0
print("trainperf-build:" + json.dumps({
    "version": torch.__version__,
    "built_with_gpu": bool(torch.version.cuda or torch.version.hip),
    "cuda": torch.version.cuda,
    "cudnn": cudnn,
    "capabilities": (flags or "").split(),
    "gpus": [torch.cuda.get_device_name(i) for i in range(count)],
}))
"""


@dataclass(frozen=True)
class Build:
    """One framework as installed. With `failure`, it is there but could not be asked.

    `capabilities` are the GPU generations it holds code for, as the compiler names
    them: "sm_80" is machine code for 8.0, "compute_90" code that the driver can still
    compile for 9.0 and later. `gpus` are those it sees. `packages` are the installed
    distributions that contain it. `messages` is the end of what it wrote to stderr.
    """

    name: str
    version: str = ""
    built_with_gpu: bool = False
    cuda: str | None = None
    cudnn: str | None = None
    capabilities: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    messages: str = ""
    failure: str = ""


@dataclass(frozen=True)
class _Framework:
    name: str
    module: str
    code: str
    packages: tuple[str, ...]


_FRAMEWORKS = (
    _Framework(
        "TensorFlow",
        "tensorflow",
        _TENSORFLOW,
        ("tensorflow", "tensorflow-cpu", "tensorflow-gpu", "tf-nightly", "tensorflow-aarch64"),
    ),
    _Framework("PyTorch", "torch", _TORCH, ("torch",)),
)


def installed_builds(timeout: float = TIMEOUT_S) -> tuple[Build, ...]:
    """Return the frameworks installed in this environment, asked side by side."""
    present = [framework for framework in _FRAMEWORKS if _present(framework.module)]
    if not present:
        return ()
    with ThreadPoolExecutor(len(present)) as pool:
        return tuple(pool.map(lambda framework: _ask(framework, timeout), present))


def _present(module: str) -> bool:
    try:
        spec = util.find_spec(module)
    except (ImportError, ValueError):
        return False
    return spec is not None and spec.origin is not None  # a bare folder has no origin


def _ask(framework: _Framework, timeout: float) -> Build:
    versions = {}
    for name in framework.packages:
        with suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    version = next(iter(versions.values()), "")
    unasked = Build(framework.name, version=version, packages=tuple(versions))
    # -P: a torch.py in the current directory is the user's, not the framework.
    command = (sys.executable, "-P", "-c", framework.code)
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            # What TensorFlow says about a GPU it cannot use is wanted, whatever the user's level.
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "0"},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return replace(unasked, failure=f"importing it took longer than {timeout:g} s")
    except OSError as error:
        return replace(unasked, failure=str(error))
    for line in done.stdout.splitlines():
        if line.startswith(_MARK):
            told: dict[str, Any] = json.loads(line.removeprefix(_MARK))
            for name in ("capabilities", "gpus"):
                told[name] = tuple(told[name])
            return replace(unasked, messages=done.stderr[-4000:], **told)
    said = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
    return replace(unasked, failure=said[-1].strip())
