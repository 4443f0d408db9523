"""The instance metadata service of EC2, asked for type and place and nothing else."""

from __future__ import annotations

import http.client
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from trainperf.machine.aws.dmi import INSTANCE_TYPE

ENDPOINT = "AWS_EC2_METADATA_SERVICE_ENDPOINT"
MODE = "AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE"
DISABLED = "AWS_EC2_METADATA_DISABLED"

_IPV4, _IPV6 = "http://169.254.169.254", "http://[fd00:ec2::254]"

_MOST = 4096
"""Bytes of an answer that are read: a type has a dozen."""

_WITHOUT_TOKEN = (403, 404, 405)
"""Answers to the request for a token after which AWS's own clients ask without one."""

_ZONE = re.compile(r"[a-z]{2}(-[a-z]+)+-\d[a-z](-[a-z0-9-]+)?|[a-z]{2}(-[a-z]+)+-\d-[a-z0-9-]+")
_REGION = re.compile(r"[a-z]{2}(-[a-z]+)+-\d")


@dataclass(frozen=True)
class Metadata:
    """The answer of the service; `reason` is why there is no type, "" if there is one."""

    type: str = ""
    region: str | None = None
    zone: str | None = None
    reason: str = ""


def ask(environment: Mapping[str, str], timeout: float) -> Metadata:
    """Ask the service; `timeout` is seconds for each wait, of which there are a few.

    By IMDSv2 (a token first), by IMDSv1 where there is no token to be had. Goes past
    proxies and follows no redirects. Raises nothing.
    """
    if switched_off(environment):
        return Metadata(reason=f"asking the instance metadata service is off ({DISABLED})")
    try:
        return _Asking(_place(endpoint(environment)), timeout).metadata()
    except TimeoutError:
        return Metadata(reason=f"the instance metadata service did not answer within {timeout:g} s")
    except (OSError, http.client.HTTPException, ValueError) as error:
        return Metadata(reason=f"no instance metadata service can be reached ({_named(error)})")


def switched_off(environment: Mapping[str, str]) -> bool:
    """Whether the user forbids asking the service."""
    return environment.get(DISABLED, "").lower() == "true"


def endpoint(environment: Mapping[str, str]) -> str:
    """Return where the service is, as AWS's own clients find it."""
    given = environment.get(ENDPOINT, "")
    if given:
        return given if "//" in given else f"http://{given}"
    return _IPV6 if environment.get(MODE, "").lower() == "ipv6" else _IPV4


def _place(url: str) -> SplitResult:
    place = urlsplit(url)
    if place.scheme not in ("http", "https") or not place.hostname:
        raise ValueError(url)
    return place


class _Asking:
    """A few requests to one endpoint."""

    def __init__(self, place: SplitResult, timeout: float) -> None:
        self.place = place
        self.timeout = timeout
        self.headers: dict[str, str] = {}

    def metadata(self) -> Metadata:
        ttl = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
        status, token = self._ask("PUT", "/latest/api/token", ttl)
        if status == 200 and token.isascii() and token.isprintable():
            self.headers = {"X-aws-ec2-metadata-token": token}
        elif status not in _WITHOUT_TOKEN:
            return Metadata(reason=_refused(status))
        status, name = self._get("instance-type")
        if status != 200:
            return Metadata(reason=_refused(status))
        if not INSTANCE_TYPE.fullmatch(name):
            said = "".join(sign if sign.isprintable() else " " for sign in name[:30])
            return Metadata(reason=f"what answers for the metadata service gave {said!r} as type")
        zone = self._if_like(_ZONE, "placement/availability-zone")
        region = self._if_like(_REGION, "placement/region")
        if region is None and zone is not None and (found := _REGION.match(zone)):
            region = found.group()
        return Metadata(name, region, zone)

    def _if_like(self, pattern: re.Pattern[str], name: str) -> str | None:
        status, text = self._get(name)
        return text if status == 200 and pattern.fullmatch(text) else None

    def _get(self, name: str) -> tuple[int, str]:
        return self._ask("GET", f"/latest/meta-data/{name}", self.headers)

    def _ask(self, method: str, path: str, headers: dict[str, str]) -> tuple[int, str]:
        secure = self.place.scheme == "https"
        kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        connection = kind(self.place.hostname or "", self.place.port, timeout=self.timeout)
        try:
            connection.request(method, self.place.path.rstrip("/") + path, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read(_MOST).decode("utf-8", "replace").strip()
        finally:
            connection.close()


def _refused(status: int) -> str:
    if 300 <= status < 400:
        return f"what answers for the instance metadata service redirects (HTTP {status})"
    return f"the instance metadata service refused to tell (HTTP {status})"


def _named(error: Exception) -> str:
    if isinstance(error, ValueError):
        return f"its endpoint, {ENDPOINT}, is no URL"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return type(error).__name__
