"""Prices of AWS's own list, asked through boto3 where credentials allow it.

Runs in a thread that nobody has to wait for: `tell` is called with what is known so far.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from trainperf.fixes.host._instance_types import same_gpus
from trainperf.model import Instance, Price

CONNECT_S, READ_S = 0.5, 0.9
"""Seconds that a connection and an answer may take; the thread is given up soon after."""

NO_CREDENTIALS = "no AWS credentials to ask the price list with"
NO_REGION = "the region is not known"

Tell = Callable[[Instance, Price | None, str], None]
"""Takes the instance, its price, and why there is none."""

_PRICES_REGION = "us-east-1"
"""Where the price list is served for all regions."""


def ask(instance: Instance, tell: Tell) -> None:
    """Ask the price list for the prices of an instance, and of others with the same GPUs.

    Raises nothing, and tells no more of an error than its name.
    """
    try:
        _ask(instance, tell)
    except Exception as error:
        tell(instance, None, f"AWS could not be asked: {_named(error)}")


def _ask(instance: Instance, tell: Tell) -> None:
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

    def asked(name: str) -> float | str:
        try:
            answer = client.get_products(**_price_query(instance, name))
            return _price_per_hour(answer.get("PriceList") or [])
        except Exception as error:
            return f"AWS's price list was asked in vain: {_named(error)}"

    own = asked(instance.name)
    if isinstance(own, str):
        tell(instance, None, own)
        return
    price = Price(own, f"AWS price list, on demand, {instance.region}")
    instance = replace(instance, prices=((instance.name, own),))
    tell(instance, price, "")
    for kind in same_gpus(instance):
        found = asked(kind.name)
        if isinstance(found, float):
            prices = sorted((*instance.prices, (kind.name, found)))
            instance = replace(instance, prices=tuple(prices))
            tell(instance, price, "")


def _named(error: Exception) -> str:
    """The name of an error, without what it says: that may hold names of roles and keys."""
    response = getattr(error, "response", None)
    code = response.get("Error", {}).get("Code") if isinstance(response, dict) else None
    return str(code or type(error).__name__)


def _price_query(instance: Instance, name: str) -> dict[str, Any]:
    """Return the request for type `name` where `instance` runs: on demand, Linux, shared.

    The arguments of `get_products`; a training job's price is that of SageMaker.
    """
    wanted = {"regionCode": instance.region or ""}
    if instance.service == "sagemaker":
        wanted |= {"instanceName": name, "component": "Training"}
    else:
        wanted |= {
            "instanceType": name,
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
