"""Which AWS instance this is, without making anybody wait for it."""

from __future__ import annotations

import http.client
import json
import os
import re
import threading
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from functools import cache
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from trainperf.fixes.host.instances import instance_type
from trainperf.model import Instance
from trainperf.samplers.levels import text as text_of

DEADLINE_S = 1.0
"""Seconds after which what is not known by then is not waited for."""

SURE_S, UNSURE_S = 0.8, 0.3
"""Seconds for the metadata service where the firmware names EC2, and where it says nothing."""

NOT_AWS = "not an AWS instance"

SAGEMAKER_CONFIG = "opt/ml/input/config"
"""Where SageMaker puts the description of a training job, in its container."""

ENDPOINT = "AWS_EC2_METADATA_SERVICE_ENDPOINT"
_DISABLED = "AWS_EC2_METADATA_DISABLED"

_MOST = 4096
"""Bytes of an answer that are read: a type has a dozen."""

_REGION = re.compile(r"[a-z]{2}(-[a-z]+)+-\d")

_INSTANCE_TYPE = re.compile(r"[a-z][a-z0-9-]*\.[a-z0-9-]{2,20}")
"""How EC2 names its types: "g5.xlarge", "p6-b200.48xlarge", "g4dn.metal"."""

_FIELDS = ("sys_vendor", "bios_version", "product_name")


class Inquiry(threading.Thread):
    """Asks from the moment it is made: for the instance, or why it is none."""

    def __init__(self, root: Path, environment: Mapping[str, str]) -> None:
        super().__init__(name="trainperf-instance", daemon=True)
        self._known: tuple[Instance | None, str] = (None, f"not known within {DEADLINE_S:g} s")
        self._until = time.monotonic() + DEADLINE_S
        self._arguments = root, environment
        self.start()

    def run(self) -> None:
        try:
            self._known = identify(*self._arguments)
        except Exception as error:
            self._known = None, f"it could not be told: {type(error).__name__}"

    def answer(self) -> tuple[Instance | None, str]:
        """Return what is known; waits until the deadline at most, once."""
        self.join(max(0.0, self._until - time.monotonic()))
        return self._known


def inquiry(root: Path) -> Inquiry:
    """Return the inquiry of this process about the machine below `root`; it asks but once."""
    names = sorted(name for name in os.environ if name.startswith("AWS_"))
    return _once(root, tuple((name, os.environ[name]) for name in names))


@cache
def _once(root: Path, environment: tuple[tuple[str, str], ...]) -> Inquiry:
    return Inquiry(root, dict(environment))


def identify(root: Path, environment: Mapping[str, str]) -> tuple[Instance | None, str]:
    """Return the instance, or None and why: SageMaker's files, metadata service, firmware.

    The firmware decides whether the metadata service is asked at all: elsewhere nothing
    may answer at its address.
    """
    if (job := _training_instance(root, environment)) is not None:
        return replace(job, type=instance_type(job.name)), ""
    (amazon, name), given = firmware(root), ENDPOINT in environment
    if amazon is False and not given:
        return None, NOT_AWS
    told, zone = ask_metadata_service(environment, SURE_S if amazon or given else UNSURE_S)
    if name := told or name:
        region = _REGION.match(zone)  # of a zone, local ones included: us-west-2-lax-1a
        return (
            Instance(
                "ec2",
                name,
                instance_type(name),
                region.group() if region else _region(environment),
                zone if region else None,
                source="instance metadata" if told else "firmware",
            ),
            "",
        )
    unknown = "an EC2 instance of unknown type"
    return None, unknown if amazon else f"{NOT_AWS}, as far as can be told"


def _training_instance(root: Path, environment: Mapping[str, str]) -> Instance | None:
    """Return the instance of the training job, None outside of one.

    None in SageMaker's local mode, where the type is "local" or "local_gpu".
    """
    try:
        told = json.loads(text_of(root / SAGEMAKER_CONFIG / "resourceconfig.json") or "{}")
        name, hosts = str(told["current_instance_type"]), len(told["hosts"])
    except (ValueError, LookupError, TypeError):
        return None
    if not name.startswith("ml."):
        return None
    source = "SageMaker's resourceconfig.json"
    return Instance("sagemaker", name, region=_region(environment), hosts=hosts, source=source)


def _region(environment: Mapping[str, str]) -> str | None:
    return environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or None


def ask_metadata_service(environment: Mapping[str, str], timeout: float) -> tuple[str, str]:
    """Ask the service for type and zone, both "" where nothing tells, or asking is off.

    By IMDSv2: a token first. `timeout` is seconds for each wait, of which there are a few. Goes
    past proxies and follows no redirects. Raises nothing.
    """
    if environment.get(_DISABLED, "").lower() == "true":
        return "", ""
    url = environment.get(ENDPOINT) or "http://169.254.169.254"
    try:
        return _metadata(urlsplit(url if "//" in url else f"http://{url}"), timeout)
    except (OSError, ValueError, http.client.HTTPException):
        return "", ""


def _metadata(place: SplitResult, timeout: float) -> tuple[str, str]:
    if place.scheme != "http" or not place.hostname:
        raise ValueError(place)

    def ask(method: str, path: str, headers: dict[str, str]) -> str:
        connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=timeout)
        with closing(connection):
            connection.request(method, f"{place.path.rstrip('/')}/latest/{path}", headers=headers)
            answer = connection.getresponse()
            text = answer.read(_MOST).decode("utf-8", "replace").strip()
            return text if answer.status == 200 else ""

    token = ask("PUT", "api/token", {"X-aws-ec2-metadata-token-ttl-seconds": "60"})
    if not token.isascii() or not token.isprintable():
        return "", ""
    headers = {"X-aws-ec2-metadata-token": token}
    name = ask("GET", "meta-data/instance-type", headers) if token else ""
    if not _INSTANCE_TYPE.fullmatch(name):
        return "", ""
    return name, ask("GET", "meta-data/placement/availability-zone", headers)


def firmware(root: Path = Path("/")) -> tuple[bool | None, str]:
    """Whether the firmware below `root` is of a machine of EC2's (None: it does not say), its type.

    On Nitro the vendor is "Amazon EC2" and the product name the instance type; on Xen
    the version of the BIOS ends in "amazon" (AWS, "Identify EC2 instances").
    """
    folder = root / "sys/devices/virtual/dmi/id"
    told = {name: text_of(folder / name) or "" for name in _FIELDS}
    if any("amazon" in text.lower() for text in told.values()):
        name = told["product_name"]
        return True, name if _INSTANCE_TYPE.fullmatch(name) else ""
    return (False if any(told.values()) else None), ""
