"""The examination behind `trainperf doctor`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from trainperf.machine import ROOT, host, inspect_machine
from trainperf.machine.doctor import checks
from trainperf.machine.doctor.checkup import Check, Checkup
from trainperf.machine.doctor.compatibility import check_fit
from trainperf.machine.doctor.frameworks import (
    TIMEOUT_S,
    Build,
    installed_builds,
    installed_version,
)
from trainperf.machine.doctor.gpu_checks import check_gpu_health
from trainperf.machine.doctor.instance_checks import check_container, check_instance
from trainperf.model import Machine
from trainperf.run import groups


def examine(
    root: Path = ROOT,
    environment: Mapping[str, str] | None = None,
    timeout: float = TIMEOUT_S,
) -> Checkup:
    """Look at this machine and at the frameworks installed beside trainperf.

    Each framework is imported in a process of its own, which may take `timeout`
    seconds. Works without a GPU, and says so.
    """
    machine = inspect_machine(root)
    return conclude(
        machine,
        builds=installed_builds(timeout),
        memory=host.memory(root),
        on_the_bus=host.nvidia_on_the_bus(root),
        environment=os.environ if environment is None else environment,
        versions={name: installed_version(name) for name in ("keras", "tf_keras")},
        grouped=groups.may_be_made(),
    )


def conclude(
    machine: Machine,
    builds: tuple[Build, ...],
    memory: host.Memory,
    on_the_bus: int,
    environment: Mapping[str, str],
    versions: Mapping[str, str | None],
    grouped: bool,
) -> Checkup:
    """Return the checks that follow from what was found; pure."""
    found: list[Check] = [
        *checks.check_gpus(machine, on_the_bus),
        *check_gpu_health(machine),
        *checks.check_visible_devices(environment),
        *check_instance(machine),
        *check_container(machine),
    ]
    for build in builds:
        found.extend((_installed(build), *_twice(build), *check_fit(build, machine)))
    if not builds:
        found.append(
            Check(
                "Frameworks",
                "warning",
                "neither TensorFlow nor PyTorch is installed beside trainperf",
                "install trainperf into the environment that your training script runs in",
            )
        )
    found.extend(_keras(versions, environment, builds))
    found.extend(
        (
            checks.check_cores(machine),
            checks.check_omp(machine, environment),
            checks.check_memory(machine),
            checks.check_shm(machine, torch=any(build.name == "PyTorch" for build in builds)),
            checks.check_swap(memory),
            checks.check_disk(machine),
            checks.check_group(grouped),
        )
    )
    return Checkup(machine, tuple(found))


def _installed(build: Build) -> Check:
    if build.failure:
        return Check(
            build.name,
            "problem",
            f"{build.version} is installed, but it cannot be imported: {build.failure}".strip(),
            f"try: python -c 'import {'torch' if build.name == 'PyTorch' else 'tensorflow'}'",
        )
    if not build.built_with_gpu:
        return Check(build.name, "ok", f"{build.version}, built for the CPU only")
    facts = [build.version]
    facts.append(f"built with CUDA {build.cuda}" if build.cuda else "built for GPUs")
    if build.cudnn:
        facts.append(f"cuDNN {build.cudnn}")
    if build.capabilities:
        facts.append(f"for {', '.join(build.capabilities)}")
    return Check(build.name, "ok", ", ".join(facts))


def _twice(build: Build) -> tuple[Check, ...]:
    if len(build.packages) < 2:
        return ()
    names = " and ".join(build.packages)
    return (
        Check(
            build.name,
            "warning",
            f"{names} are both installed: they share one folder, and the last one installed won",
            f"uninstall both, then install the one that is wanted ({build.packages[0]})",
        ),
    )


def _keras(
    versions: Mapping[str, str | None],
    environment: Mapping[str, str],
    builds: tuple[Build, ...],
) -> tuple[Check, ...]:
    keras, legacy = versions.get("keras"), versions.get("tf_keras")
    wants_legacy = environment.get("TF_USE_LEGACY_KERAS", "").lower() in ("1", "true")
    if wants_legacy and legacy is None:
        return (
            Check(
                "Keras",
                "problem",
                "TF_USE_LEGACY_KERAS is set, but tf_keras is not installed",
                "pip install tf_keras, or unset TF_USE_LEGACY_KERAS",
            ),
        )
    backend = environment.get("KERAS_BACKEND", "")
    needed = _BACKENDS.get(backend)
    if keras and needed and needed not in {build.name for build in builds}:
        return (
            Check(
                "Keras",
                "problem",
                f"KERAS_BACKEND is {backend!r}, but {needed} is not installed",
                f"install {needed}, or set KERAS_BACKEND to a framework that is installed",
            ),
        )
    facts = [f"{keras}, on {needed} by KERAS_BACKEND" if keras and needed else keras or ""]
    if legacy:
        used = ", used because TF_USE_LEGACY_KERAS is set" if wants_legacy else ""
        facts.append(f"tf_keras (Keras 2) {legacy}{used}")
    facts = [fact for fact in facts if fact]
    return (Check("Keras", "ok", "; ".join(facts)),) if facts else ()


_BACKENDS = {"tensorflow": "TensorFlow", "torch": "PyTorch"}
