"""The report of S3."""

from __future__ import annotations

from dataclasses import replace

from rich.console import Console

from fixes.cases.storage._s3_cases import READ
from reporters.samples_observed import INPUT_BOUND
from trainperf.model import Objects
from trainperf.report.document import Page, Section
from trainperf.report.sections.storage import objects
from trainperf.reporters.terminal.blocks import write
from trainperf.reporters.terminal.paper import Paper

PROBED = replace(READ, probed_requests=29, probed_bytes=5_000_000, probed_usd=0.000012)


def said(*several: Objects) -> str:
    paper = Paper(Console(width=100, color_system=None))
    page = Page()
    objects(replace(INPUT_BOUND, objects=several), page)
    write(Section("", tuple(page.blocks)), paper)
    return " ".join(line.plain.strip() for line in paper.lines)


def test_a_script_that_has_nothing_to_do_with_s3_has_no_section():
    assert said() == ""


def test_requests_times_and_the_probe_are_said_with_units_and_cost():
    text = said(PROBED)
    assert "s3://data/train/, eu-west-1" in text
    assert "3,200 requests, 160 requests/s, 32.0 for each batch; 30.0 ms until the" in text
    assert "1.0 at once; objects of 120 kB on average." in text
    assert "first byte after 28.0 ms (median)" in text
    assert "55.0 MB/s with 16 at once" in text
    assert "29 requests and 5.00 MB; at most $0.000012 by AWS's list prices." in text


def test_what_was_not_measured_is_not_said_as_zero():
    text = said(Objects("data", reason="no AWS credentials were found"))
    assert "no request by boto3 or s3fs was seen" in text
    assert "Not probed: no AWS credentials were found." in text
    assert "0 " not in text
    assert "None" not in text


def test_errors_are_told_apart_by_who_met_them():
    text = said(replace(PROBED, errors=(("SlowDown", 40),), probe_errors=(("Timeout", 1),)))
    before, after = text.split("Probe:")
    assert "Answered with SlowDown 40 times." in before
    assert "Answered with Timeout 1 time." in after


def test_a_store_of_ones_own_has_no_price():
    assert "$" not in said(replace(PROBED, probed_usd=0.0))
