"""Which kind of container this process runs in."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

SAGEMAKER_CONFIG = "opt/ml/input/config"
"""Where SageMaker puts the description of a training job, in its container."""

_IN_PATHS = (
    ("kubepods", "kubernetes"),
    ("/ecs/", "ecs"),
    ("libpod", "podman"),
    ("docker", "docker"),
    ("/lxc", "lxc"),
)
"""Parts of the paths of a container's control groups, and who starts such containers."""

_BY_NAME = {"podman": "podman", "docker": "docker", "lxc": "lxc", "lxc-libvirt": "lxc"}
"""Values of the variable `container` that are known (systemd's container interface)."""


def container_kind(root: Path, environment: Mapping[str, str]) -> str:
    """Return "sagemaker", "kubernetes", "ecs", "podman", "docker", "lxc", or "" outside one.

    The outermost that can be told: a SageMaker container is also one of Docker's.
    """
    if (root / SAGEMAKER_CONFIG).is_dir() or "SM_CURRENT_INSTANCE_TYPE" in environment:
        return "sagemaker"
    if "KUBERNETES_SERVICE_HOST" in environment:
        return "kubernetes"
    if any(name.startswith("ECS_CONTAINER_METADATA_URI") for name in environment):
        return "ecs"
    named = environment.get("container") or _text(root / "run/systemd/container").strip()
    if named in _BY_NAME:
        return _BY_NAME[named]
    groups = _text(root / "proc/self/cgroup")
    found = [kind for part, kind in _IN_PATHS if part in groups]
    if (root / "run/.containerenv").exists():
        found.append("podman")
    if (root / ".dockerenv").exists():
        found.append("docker")
    return found[0] if found else ""


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
