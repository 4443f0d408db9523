"""Which framework builds are installed beside trainperf, and what they can see.

A framework is never imported here: each one is asked in a short process of its own,
because importing it takes seconds, memory and, on a GPU, device memory.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import metadata, util

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
try:
    flags = torch._C._cuda_getArchFlags() if torch.version.cuda else None
except Exception:
    flags = None
try:
    number = torch.backends.cudnn.version() if torch.version.cuda else None
except Exception:
    number = None
if number is None:
    cudnn = None
elif number >= 90000:  # 90800 is 9.8.0; before cuDNN 9, 8902 was 8.9.2
    cudnn = f"{number // 10000}.{number // 100 % 100}.{number % 100}"
else:
    cudnn = f"{number // 1000}.{number // 100 % 10}.{number % 100}"
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


def installed_version(package: str) -> str | None:
    """Return the version of an installed distribution, without importing it."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _present(module: str) -> bool:
    try:
        spec = util.find_spec(module)
    except (ImportError, ValueError):
        return False
    return spec is not None and spec.origin is not None  # a bare folder has no origin


def _ask(framework: _Framework, timeout: float) -> Build:
    packages = tuple(name for name in framework.packages if installed_version(name) is not None)
    version = next((installed_version(name) or "" for name in packages), "")
    unasked = Build(framework.name, version=version, packages=packages)
    # -P: a torch.py in the current directory is the user's, not the framework.
    command: Sequence[str] = (sys.executable, "-P", "-c", framework.code)
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
        return _failed(unasked, f"importing it took longer than {timeout:g} s")
    except OSError as error:
        return _failed(unasked, str(error))
    for line in done.stdout.splitlines():
        if line.startswith(_MARK):
            return _build(unasked, line.removeprefix(_MARK), done.stderr)
    return _failed(unasked, _last_line(done.stderr) or f"exit status {done.returncode}")


def _build(unasked: Build, answer: str, stderr: str) -> Build:
    said = json.loads(answer)
    return Build(
        name=unasked.name,
        version=said["version"],
        built_with_gpu=said["built_with_gpu"],
        cuda=said["cuda"],
        cudnn=said["cudnn"],
        capabilities=tuple(said["capabilities"]),
        gpus=tuple(said["gpus"]),
        packages=unasked.packages,
        messages=stderr[-4000:],
    )


def _failed(unasked: Build, why: str) -> Build:
    return Build(unasked.name, version=unasked.version, packages=unasked.packages, failure=why)


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""
