"""Which AWS instance this is, and what it costs, without making anybody wait for it."""

from __future__ import annotations

import http.client
import json
import os
import re
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

from trainperf.fixes.host.instances import instance_type
from trainperf.machine.host import SAGEMAKER_CONFIG
from trainperf.model import Instance, Machine, Price
from trainperf.samplers.levels import text as text_of

DEADLINE_S = 1.0
"""Seconds after which what is not known by then is not waited for."""

SURE_S, UNSURE_S = 0.8, 0.3
"""Seconds for the metadata service where the firmware names EC2, and where it says nothing."""

NOT_AWS = "not an AWS instance"
OPTION = "--price-per-hour"
NO_PRICE = "AWS's price list did not answer in time"

ENDPOINT = "AWS_EC2_METADATA_SERVICE_ENDPOINT"
_DISABLED = "AWS_EC2_METADATA_DISABLED"

_MOST = 4096
"""Bytes of an answer that are read: a type has a dozen."""

_REGION = re.compile(r"[a-z]{2}(-[a-z]+)+-\d")

_INSTANCE_TYPE = re.compile(r"[a-z][a-z0-9-]*\.[a-z0-9-]{2,20}")
"""How EC2 names its types: "g5.xlarge", "p6-b200.48xlarge", "g4dn.metal"."""

CONNECT_S, READ_S = 0.5, 0.9
"""Seconds that a connection and an answer may take; the thread is given up soon after."""

NO_CREDENTIALS = "no AWS credentials to ask the price list with"
NO_REGION = "the region is not known"

Tell = Callable[[Instance, Price | None, str], None]
"""Takes the instance, its price, and why there is none."""

_PRICES_REGION = "us-east-1"
"""Where the price list is served for all regions."""

_FIELDS = ("sys_vendor", "bios_version", "product_name")


@dataclass(frozen=True)
class Firmware:
    """Whether this is a machine of EC2's (None: it does not say), and its type, if told."""

    amazon: bool | None
    type: str = ""


@dataclass(frozen=True)
class Metadata:
    """The answer of the service; `reason` is why there is no type, "" if there is one."""

    type: str = ""
    region: str | None = None
    zone: str | None = None
    reason: str = ""


@dataclass(frozen=True)
class Answer:
    """The instance and its price; the reasons say why either is None."""

    instance: Instance | None = None
    instance_reason: str = ""
    price: Price | None = None
    price_reason: str = ""


class Inquiry:
    """Asks in a thread of its own from the moment it is made."""

    def __init__(self, root: Path, environment: Mapping[str, str]) -> None:
        self._known = Answer(instance_reason=f"not known within {DEADLINE_S:g} s")
        self._until = time.monotonic() + DEADLINE_S
        self._arguments = (root, dict(environment))
        self._thread = threading.Thread(target=self._ask, name="trainperf-instance", daemon=True)
        self._thread.start()

    def answer(self) -> Answer:
        """Return what is known; waits until the deadline at most, once."""
        self._thread.join(max(0.0, self._until - time.monotonic()))
        return self._known

    def _ask(self) -> None:
        try:
            instance, reason = identify(*self._arguments)
        except Exception as error:
            self._known = Answer(instance_reason=f"it could not be told: {type(error).__name__}")
            return
        if instance is None:
            self._known = Answer(None, reason, None, reason)
        else:
            self._known = Answer(instance, "", None, NO_PRICE)
            ask_price_list(instance, self._tell)

    def _tell(self, instance: Instance, price: Price | None, reason: str) -> None:
        self._known = Answer(instance, "", price, reason)


def identify(root: Path, environment: Mapping[str, str]) -> tuple[Instance | None, str]:
    """Return the instance, or None and why: SageMaker's files, metadata service, firmware.

    The firmware decides whether the metadata service is asked at all: elsewhere nothing
    may answer at its address.
    """
    if (job := _training_instance(root, environment)) is not None:
        return replace(job, type=instance_type(job.name)), ""
    box, given = firmware(root), ENDPOINT in environment
    if box.amazon is False and not given:
        return None, NOT_AWS
    said = ask_metadata_service(environment, SURE_S if box.amazon or given else UNSURE_S)
    if name := said.type or box.type:
        return (
            Instance(
                "ec2",
                name,
                instance_type(name),
                said.region or _region(environment),
                said.zone,
                source="instance metadata" if said.type else f"firmware; {said.reason}",
            ),
            "",
        )
    if box.amazon:
        return None, f"an EC2 instance of unknown type: {said.reason}"
    return None, f"{NOT_AWS}, as far as can be told: {said.reason}"


def inquiry(root: Path) -> Inquiry:
    """Return the inquiry of this process about the machine below `root`; it asks but once."""
    names = [name for name in os.environ if name.startswith("AWS_")]
    return _once(root, tuple(sorted((name, os.environ[name]) for name in names)))


@cache
def _once(root: Path, environment: tuple[tuple[str, str], ...]) -> Inquiry:
    return Inquiry(root, dict(environment))


def with_price(known: Answer, price_per_hour: float | None) -> Answer:
    """Return `known` with the price that was given, if one was."""
    if price_per_hour is None:
        return known
    return replace(known, price=Price(price_per_hour, OPTION), price_reason="")


def with_late_answers(machine: Machine, root: Path = Path("/")) -> Machine:
    """Return `machine` with what AWS answered since it was inspected; waits for nothing.

    The price list is served from one region: from others it may take longer than the
    inspection waits, and is there when the script has run.
    """
    known = inquiry(root).answer()
    given = machine.price if machine.price is not None and machine.price.source == OPTION else None
    return replace(
        machine,
        instance=known.instance,
        instance_reason=known.instance_reason,
        price=given or known.price,
        price_reason="" if given else known.price_reason,
    )


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


def ask_metadata_service(environment: Mapping[str, str], timeout: float) -> Metadata:
    """Ask the service; `timeout` is seconds for each wait, of which there are a few.

    By IMDSv2: a token first. Goes past proxies and follows no redirects. Raises nothing.
    """
    if environment.get(_DISABLED, "").lower() == "true":
        return Metadata(reason=f"asking the instance metadata service is off ({_DISABLED})")
    url = environment.get(ENDPOINT) or "http://169.254.169.254"
    try:
        return _metadata(urlsplit(url if "//" in url else f"http://{url}"), timeout)
    except TimeoutError:
        return Metadata(reason=f"the instance metadata service did not answer within {timeout:g} s")
    except ValueError:
        return Metadata(reason=f"the metadata service's address, {ENDPOINT}, is no URL of http")
    except (OSError, http.client.HTTPException) as error:
        why = str(getattr(error, "strerror", "") or type(error).__name__).lower()
        return Metadata(reason=f"no instance metadata service can be reached ({why})")


def _metadata(place: SplitResult, timeout: float) -> Metadata:
    if place.scheme != "http" or not place.hostname:
        raise ValueError(place)

    def ask(method: str, path: str, headers: dict[str, str]) -> tuple[int, str]:
        connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=timeout)
        with closing(connection):
            connection.request(method, f"{place.path.rstrip('/')}/latest/{path}", headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read(_MOST).decode("utf-8", "replace").strip()

    status, token = ask("PUT", "api/token", {"X-aws-ec2-metadata-token-ttl-seconds": "60"})
    headers = {"X-aws-ec2-metadata-token": token}
    if status == 200 and token.isascii() and token.isprintable():
        status, name = ask("GET", "meta-data/instance-type", headers)
    else:
        name = ""
    if status != 200:
        return Metadata(reason=f"the instance metadata service refused to tell (HTTP {status})")
    if not _INSTANCE_TYPE.fullmatch(name):
        return Metadata(reason="what answers for the metadata service gave no instance type")
    zone = ask("GET", "meta-data/placement/availability-zone", headers)[1]
    region = _REGION.match(zone)  # of a zone, local ones included: us-west-2-lax-1a
    return Metadata(name, region.group() if region else None, zone if region else None)


def firmware(root: Path = Path("/")) -> Firmware:
    """Read what the firmware says, below `root`.

    On Nitro the vendor is "Amazon EC2" and the product name the instance type; on Xen
    the version of the BIOS ends in "amazon" (AWS, "Identify EC2 instances").
    """
    folder = root / "sys/devices/virtual/dmi/id"
    told = {name: text_of(folder / name) or "" for name in _FIELDS}
    if any("amazon" in text.lower() for text in told.values()):
        name = told["product_name"]
        return Firmware(True, name if _INSTANCE_TYPE.fullmatch(name) else "")
    return Firmware(False if any(told.values()) else None)


# Prices of AWS's own list, asked through boto3 where credentials allow it, in that thread.


def ask_price_list(instance: Instance, tell: Tell) -> None:
    """Ask the price list for the price of an instance.

    Raises nothing, and tells no more of an error than its name.
    """
    try:
        _ask_prices(instance, tell)
    except Exception as error:
        tell(instance, None, f"AWS could not be asked: {_named(error)}")


def _ask_prices(instance: Instance, tell: Tell) -> None:
    if instance.region is None:
        tell(instance, None, NO_REGION)
        return
    from botocore.config import Config

    from trainperf.machine.aws import session as aws_session

    session = aws_session.session(region_name=instance.region)
    if session.get_credentials() is None:
        tell(instance, None, NO_CREDENTIALS)
        return
    config = Config(
        connect_timeout=CONNECT_S, read_timeout=READ_S, retries={"total_max_attempts": 1}
    )
    client = session.client("pricing", region_name=_PRICES_REGION, config=config)

    try:
        answer = client.get_products(**_price_query(instance))
    except Exception as error:
        tell(instance, None, f"AWS's price list was asked in vain: {_named(error)}")
        return
    own = _price_per_hour(answer.get("PriceList") or [])
    if isinstance(own, str):
        tell(instance, None, own)
        return
    tell(instance, Price(own, f"AWS price list, on demand, {instance.region}"), "")


def _named(error: Exception) -> str:
    """The name of an error, without what it says: that may hold names of roles and keys."""
    response = getattr(error, "response", None)
    code = response.get("Error", {}).get("Code") if isinstance(response, dict) else None
    return str(code or type(error).__name__)


def _price_query(instance: Instance) -> dict[str, Any]:
    """Return the request for the type of `instance` where it runs: on demand, Linux, shared.

    The arguments of `get_products`; a training job's price is that of SageMaker.
    """
    wanted = {"regionCode": instance.region or ""}
    if instance.service == "sagemaker":
        wanted |= {"instanceName": instance.name, "component": "Training"}
    else:
        wanted |= {
            "instanceType": instance.name,
            "operatingSystem": "Linux",
            "tenancy": "Shared",
            "preInstalledSw": "NA",
            "capacitystatus": "Used",
            "marketoption": "OnDemand",
        }
    return {
        "ServiceCode": "AmazonSageMaker" if instance.service == "sagemaker" else "AmazonEC2",
        "FormatVersion": "aws_v1",
        "MaxResults": 20,
        "Filters": [
            {"Type": "TERM_MATCH", "Field": field, "Value": value}
            for field, value in wanted.items()
        ],
    }


def _price_per_hour(products: list[Any]) -> float | str:
    """Return US dollars an hour from a `PriceList`, or why there is no one price in it."""
    found = {price for product in products for price in _on_demand(product)}
    if not found:
        return "AWS's price list has no price for it"
    if len(found) > 1:
        return f"AWS's price list has {len(found)} prices for it"
    return found.pop()


def _on_demand(product: Any) -> list[float]:
    """The hourly prices of one product; what has another shape has none."""
    try:
        terms = json.loads(product) if isinstance(product, str) else product
        offers = terms["terms"]["OnDemand"].values()
        dimensions = [one for offer in offers for one in offer["priceDimensions"].values()]
        hourly = [one for one in dimensions if str(one["unit"]).lower() in ("hrs", "hours", "hour")]
        prices = [float(one["pricePerUnit"]["USD"]) for one in hourly]
    except (ValueError, KeyError, TypeError, AttributeError):
        return []
    return [price for price in prices if price > 0]
