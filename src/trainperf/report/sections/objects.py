"""Reads from S3, and how fast S3 answered."""

from __future__ import annotations

from trainperf.model import Diagnosis, Objects
from trainperf.model import words as units
from trainperf.report.document import Page


def objects(diagnosis: Diagnosis, page: Page) -> None:
    """Print each bucket: what was asked while the script ran, and what a probe found."""
    if not diagnosis.objects:
        return
    page.heading("S3")
    for one in diagnosis.objects:
        region = f", {one.region}" if one.region else ""
        page.prose(f"s3://{one.bucket}/{one.prefix}{region}", indent=2)
        for sentence in (_seen(one), _probed(one), _cost(one)):
            if sentence:
                page.prose(sentence, indent=4)


def _seen(one: Objects) -> str:
    """The script's own requests."""
    if not one.requests:
        return "Named in the script; no request by boto3 or s3fs was seen."
    text = units.count(one.requests, "request")
    if one.requests_s is not None:
        text += f", {units.rate(one.requests_s, 'requests')}"
    if one.requests_per_step is not None:
        text += f", {units.number(one.requests_per_step)} for each batch"
    if one.request_s is not None:
        text += f"; {units.seconds(one.request_s)} until the response"
    if one.body_s is not None:
        text += f", {units.seconds(one.body_s)} to read it"
    if one.concurrency is not None:
        text += f"; {units.number(one.concurrency, 2)} at once"
    if one.mean_object_bytes is not None:
        text += f"; objects of {units.decimal_size(one.mean_object_bytes)} on average"
    return f"{text}.{_errors(one.errors, ' Answered with ')}"


def _probed(one: Objects) -> str:
    """The findings of the probe, or why there was none."""
    if one.latency_s is None:
        return f"Not probed: {one.reason}." if one.reason else ""
    text = f"Probe: first byte after {units.seconds(one.latency_s)} (median)"
    if one.throughput:
        rates = (
            f"{units.decimal_size(rate)}/s with {many} at once" for many, rate in one.throughput
        )
        text += f"; {', '.join(rates)}"
    return f"{text}.{_errors(one.probe_errors, ' Answered with ')}"


def _cost(one: Objects) -> str:
    if not one.probed_requests:
        return ""
    asked = units.count(one.probed_requests, "request")
    cost = ""
    if one.probed_usd:
        amount = max(one.probed_usd, 1e-6)
        digits = 6 if amount < 0.0001 else 4
        cost = f"; at most ${amount:.{digits}f} by AWS's list prices"
    return f"The probe took {asked} and {units.decimal_size(one.probed_bytes)}{cost}."


def _errors(errors: tuple[tuple[str, int], ...], before: str) -> str:
    told = [f"{name} {units.count(many, 'time')}" for name, many in errors]
    return f"{before}{', '.join(told)}." if told else ""
