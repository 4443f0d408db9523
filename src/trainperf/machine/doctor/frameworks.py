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
from dataclasses import dataclass, replace
from typing import Any

TIMEOUT_S = 60.0
"""How long one framework may take to import: 2 to 20 s where its files are not cached yet."""

_MARK = "trainperf-build:"

_THERE = """
import json, sys
from importlib import metadata, util
try:
    spec = util.find_spec({0!r})
except (ImportError, ValueError):
    spec = None
if spec is None or spec.origin is None:  # a bare folder has no origin
    sys.exit()
version = ""
for name in {1!r}:
    try:
        version = version or metadata.version(name)
    except metadata.PackageNotFoundError:
        pass
print("trainperf-build:" + json.dumps({{"version": version}}), flush=True)
"""

_TENSORFLOW = """
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
    compile for 9.0 and later. `gpus` are those it sees. `messages` is the end of what it wrote
    to stderr.
    """

    name: str
    version: str = ""
    built_with_gpu: bool = False
    cuda: str | None = None
    cudnn: str | None = None
    capabilities: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()
    messages: str = ""
    failure: str = ""


_OF_TENSORFLOW = ("tensorflow", "tensorflow-cpu", "tf-nightly", "tensorflow-aarch64")
_FRAMEWORKS = {
    "TensorFlow": _THERE.format("tensorflow", _OF_TENSORFLOW) + _TENSORFLOW,
    "PyTorch": _THERE.format("torch", ("torch",)) + _TORCH,
}
"""The programs that ask them, by name."""


def installed_builds(timeout: float = TIMEOUT_S, python: str = sys.executable) -> tuple[Build, ...]:
    """Return the frameworks in the environment of a `python`, asked side by side."""
    with ThreadPoolExecutor(len(_FRAMEWORKS)) as pool:
        asked = pool.map(lambda name: _ask(Build(name), timeout, python), _FRAMEWORKS)
        return tuple(build for build in asked if build is not None)


def _ask(build: Build, timeout: float, python: str) -> Build | None:
    """Ask for one framework; None where it is not there."""
    # -P: a torch.py in the current directory is the user's, not the framework.
    command = (python, "-P", "-c", _FRAMEWORKS[build.name])
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
        said, errors, status = done.stdout, done.stderr, done.returncode
    except subprocess.TimeoutExpired as late:
        said = (late.stdout or b"").decode(errors="replace")
        errors, status = f"importing it took longer than {timeout:g} s", 1
    except OSError as error:
        return replace(build, failure=str(error))
    answers = [line.removeprefix(_MARK) for line in said.splitlines() if line.startswith(_MARK)]
    told: list[dict[str, Any]] = [json.loads(answer) for answer in answers]
    if not told and not status:
        return None
    for facts in told:
        lists = {name: tuple(value) for name, value in facts.items() if isinstance(value, list)}
        build = replace(build, **(facts | lists))
    if len(told) > 1:
        return replace(build, messages=errors[-4000:])
    last = errors.strip().splitlines() or [f"exit status {status}"]
    return replace(build, failure=last[-1].strip())
