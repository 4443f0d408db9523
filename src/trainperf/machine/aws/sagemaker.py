"""SageMaker's word to its training containers about the job."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trainperf.machine.container_kind import SAGEMAKER_CONFIG
from trainperf.model import Instance


def training_instance(root: Path, environment: Mapping[str, str]) -> Instance | None:
    """Return the instance of the training job, None outside of one.

    From `resourceconfig.json`, else from the variables of SageMaker's training toolkit.
    None in its local mode, where the type is "local" or "local_gpu".
    """
    told = _resources(root)
    name, hosts = told.get("current_instance_type"), told.get("hosts")
    source = "SageMaker's resourceconfig.json"
    if not isinstance(name, str):
        name, source = environment.get("SM_CURRENT_INSTANCE_TYPE"), "SM_CURRENT_INSTANCE_TYPE"
    if not isinstance(hosts, list):
        hosts = _list(environment.get("SM_HOSTS", ""))
    if not name or not name.startswith("ml."):
        return None
    return Instance(
        "sagemaker", name, region=region(environment), hosts=max(1, len(hosts)), source=source
    )


def region(environment: Mapping[str, str]) -> str | None:
    """Return the region that the environment names, None if none."""
    return environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or None


def _resources(root: Path) -> dict[str, Any]:
    try:
        told = json.loads((root / SAGEMAKER_CONFIG / "resourceconfig.json").read_text())
    except (OSError, ValueError):
        return {}
    return told if isinstance(told, dict) else {}


def _list(text: str) -> list[Any]:
    try:
        told = json.loads(text)
    except ValueError:
        return []
    return told if isinstance(told, list) else []
