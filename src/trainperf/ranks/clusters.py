"""Jobs that list their hosts or workers, and say which of them this one is."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trainperf.errors import TrainperfError
from trainperf.ranks._values import Place

RESOURCES = "resourceconfig.json"
TF_CONFIG_HINT = (
    'it should be like {"cluster": {"worker": ["a:1", "b:1"]}, '
    '"task": {"type": "worker", "index": 0}}'
)


def tf_config(environ: Mapping[str, str]) -> Place | None:
    """A task of the cluster in `TF_CONFIG`."""
    text = environ.get("TF_CONFIG", "")
    if not text.strip():
        return None
    said = read_json(text, "TF_CONFIG")
    cluster, task = said.get("cluster"), said.get("task")
    if not cluster:
        return None
    if not isinstance(cluster, dict) or not isinstance(task, dict):
        raise TrainperfError("TF_CONFIG has no cluster with a task in it", TF_CONFIG_HINT)
    kind, index = str(task.get("type", "")), task.get("index")
    training = {name: _listed(cluster.get(name)) for name in ("chief", "master", "worker")}
    size = sum(map(len, training.values()))
    if kind not in training:
        raise TrainperfError(
            f"TF_CONFIG makes this {kind or 'no task'} of the cluster, which trains no model",
            "observe the workers; start this one without trainperf",
        )
    if not _whole(index) or not 0 <= int(str(index)) < len(training[kind]):
        raise TrainperfError(
            f"TF_CONFIG says {kind} {index!r}, but its cluster has {len(training[kind])} of them",
            TF_CONFIG_HINT,
        )
    before = 0 if kind != "worker" else size - len(training["worker"])
    return Place(before + int(str(index)), size, "TF_CONFIG", _digest(cluster))


def sagemaker(environ: Mapping[str, str], config: Path) -> Place | None:
    """One host of a SageMaker training job."""
    said = _resources(environ, config)
    if said is None:
        return None
    hosts, current, source = said
    if current not in hosts:
        raise TrainperfError(
            f"{source} does not list this host, {current!r}, among its hosts",
            f"its hosts are {', '.join(hosts) or 'none'}",
        )
    rank = sorted(hosts).index(current)
    job = environ.get("TRAINING_JOB_NAME") or _job_name(environ) or _digest(sorted(hosts))
    return Place(rank, len(hosts), "SageMaker", job, node=rank)


def _resources(environ: Mapping[str, str], config: Path) -> tuple[list[str], str, str] | None:
    """The hosts, the name of this one, and where that is said."""
    file = config / RESOURCES
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        text = ""
    if text:
        said = read_json(text, str(file))
        return _listed(said.get("hosts")), str(said.get("current_host", "")), str(file)
    if not environ.get("SM_HOSTS"):
        return None
    try:
        hosts = _listed(json.loads(environ["SM_HOSTS"]))
    except ValueError:
        raise TrainperfError(
            "SM_HOSTS is not JSON", 'it should be like ["algo-1","algo-2"]'
        ) from None
    return hosts, environ.get("SM_CURRENT_HOST", ""), "SM_HOSTS"


def _job_name(environ: Mapping[str, str]) -> str:
    try:
        return str(json.loads(environ["SM_TRAINING_ENV"])["job_name"])
    except (KeyError, ValueError, TypeError):
        return ""


def read_json(text: str, source: str) -> dict[str, Any]:
    try:
        said = json.loads(text)
    except ValueError as error:
        raise TrainperfError(f"{source} is not JSON: {error}", "correct it, or unset it") from None
    if not isinstance(said, dict):
        raise TrainperfError(f"{source} holds no object", "correct it, or unset it")
    return said


def _listed(value: object) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list) else []


def _whole(value: object) -> bool:
    return not isinstance(value, bool) and re.fullmatch(r"[0-9]+", str(value)) is not None


def _digest(value: object) -> str:
    """A name for a job that nobody named: the same wherever its hosts are the same."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]
