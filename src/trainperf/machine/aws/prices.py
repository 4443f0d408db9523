"""Prices of instances by the hour, as AWS's price list has them."""

from __future__ import annotations

import json
from typing import Any

from trainperf.model import Instance

REGION = "us-east-1"
"""Where the price list is served for all regions."""


def query(instance: Instance, name: str) -> dict[str, Any]:
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


def per_hour(products: list[Any]) -> float | str:
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
