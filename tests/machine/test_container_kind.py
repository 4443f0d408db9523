from __future__ import annotations

from pathlib import Path

import pytest

from kit.stubs import write
from trainperf.machine.host import container_kind

INSIDE: list[tuple[str, dict[str, str], dict[str, str]]] = [
    ("docker", {".dockerenv": ""}, {}),
    ("docker", {"proc/self/cgroup": "4:memory:/docker/0123abc\n"}, {}),
    ("docker", {"proc/self/cgroup": "0::/system.slice/docker-0123abc.scope\n"}, {}),
    ("podman", {"run/.containerenv": ""}, {}),
    ("podman", {}, {"container": "podman"}),
    ("podman", {"proc/self/cgroup": "0::/machine.slice/libpod-0123abc.scope\n"}, {}),
    ("kubernetes", {".dockerenv": ""}, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}),
    ("kubernetes", {"proc/self/cgroup": "0::/kubepods.slice/kubepods-pod1.slice/cri-2\n"}, {}),
    ("ecs", {".dockerenv": ""}, {"ECS_CONTAINER_METADATA_URI_V4": "http://169.254.170.2/v4/1"}),
    ("lxc", {"run/systemd/container": "lxc\n"}, {}),
    ("lxc", {"proc/self/cgroup": "0::/lxc/web/init.scope\n"}, {}),
    ("sagemaker", {"opt/ml/input/config/resourceconfig.json": "{}", ".dockerenv": ""}, {}),
    ("sagemaker", {".dockerenv": ""}, {"SM_CURRENT_INSTANCE_TYPE": "ml.g5.xlarge"}),
]


@pytest.mark.parametrize(("kind", "files", "environment"), INSIDE)
def test_a_container_is_known_by_what_it_leaves(
    tmp_path: Path, kind: str, files: dict[str, str], environment: dict[str, str]
) -> None:
    assert container_kind(write(tmp_path, files), environment) == kind
