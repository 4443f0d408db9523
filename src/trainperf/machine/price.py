"""What AWS's price list says an instance costs, where the role of the environment may ask it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from typing import Any

from trainperf.model import Machine, Price

PATIENCE_S = 6.0
"""Seconds after which the list is not waited for."""
CONNECT_S, READ_S = 2.0, 3.0
PRICES_REGION = "us-east-1"
"""One of the few regions in which the list itself is served, for all of them."""


def with_price(machine: Machine) -> Machine:
    """Return `machine` with what it costs on demand; as it is where that is known, or not told.

    Asked in a process of its own, which has no terminal: nobody is asked for the code of an MFA
    device, and a program for credentials that hangs is ended with it.
    """
    instance = machine.instance
    if machine.price is not None or instance is None or not instance.region:
        return machine
    # -P: a json.py in the current directory is the user's.
    module = (sys.executable, "-P", "-m", "trainperf.machine.price")
    asking = subprocess.Popen(
        (*module, instance.service, instance.name, instance.region),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        text=True,
    )
    try:
        told, _ = asking.communicate(timeout=PATIENCE_S)
        dollars = float(told)
    except (subprocess.TimeoutExpired, ValueError):
        return machine
    finally:
        with suppress(ProcessLookupError):
            os.killpg(asking.pid, signal.SIGKILL)
        asking.wait()
    return replace(machine, price=Price(dollars, f"AWS price list, on demand, {instance.region}"))


def listed(service: str, name: str, region: str) -> float | None:
    """Return US dollars an hour of an instance where it runs: on demand, Linux, shared.

    `service` is "ec2" or "sagemaker" (a training job). None where the list has no price for it, or
    several. Raises what boto3 does.
    """
    import boto3
    from botocore.config import Config

    wanted = {"regionCode": region, "instanceName": name, "component": "Training"}
    if service == "ec2":
        wanted = {
            "regionCode": region,
            "instanceType": name,
            "operatingSystem": "Linux",
            "tenancy": "Shared",
            "preInstalledSw": "NA",
            "capacitystatus": "Used",
            "marketoption": "OnDemand",
        }
    limits = Config(
        connect_timeout=CONNECT_S, read_timeout=READ_S, retries={"total_max_attempts": 1}
    )
    answer = boto3.client("pricing", region_name=PRICES_REGION, config=limits).get_products(
        ServiceCode="AmazonEC2" if service == "ec2" else "AmazonSageMaker",
        FormatVersion="aws_v1",
        Filters=[
            {"Type": "TERM_MATCH", "Field": field, "Value": value}
            for field, value in wanted.items()
        ],
    )
    prices = {price for product in answer["PriceList"] for price in _hourly(json.loads(product))}
    return prices.pop() if len(prices) == 1 else None


def _hourly(product: dict[str, Any]) -> list[float]:
    """The prices of an hour of one product, in US dollars; those that cost nothing are none."""
    offers = product["terms"]["OnDemand"].values()
    dimensions = [one for offer in offers for one in offer["priceDimensions"].values()]
    hourly = [one for one in dimensions if one["unit"].lower() in ("hrs", "hours", "hour")]
    return [price for one in hourly if (price := float(one["pricePerUnit"]["USD"])) > 0]


if __name__ == "__main__":
    print(listed(*sys.argv[1:]))
