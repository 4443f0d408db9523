from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from fixes.boxes import instance
from reporters.samples import NASTY
from reporters.samples_observed import INPUT_BOUND
from trainperf.model import Cost, Diagnosis, Instance, Price
from trainperf.report.document import Page, Section
from trainperf.report.sections import money as _money
from trainperf.reporters.terminal.blocks import write
from trainperf.reporters.terminal.paper import Paper

PRICE = Price(1.212, "AWS price list, on demand, eu-west-1")


def written(diagnosis: Diagnosis, width: int = 200, encoding: str = "utf-8") -> str:
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    paper = Paper(Console(file=file, width=width, color_system=None))
    page = Page()
    _money.cost(diagnosis, page)
    write(Section("", tuple(page.blocks)), paper)
    paper.print()
    file.seek(0)
    return file.read()


def diagnosis(known: Cost | None, **fields: Any) -> Diagnosis:
    return replace(INPUT_BOUND, cost=known, machine=replace(INPUT_BOUND.machine, **fields))


def said(known: Cost | None, **fields: Any) -> str:
    return " ".join(written(diagnosis(known, **fields)).split())


def test_off_aws_and_without_a_price_nothing_is_said() -> None:
    assert said(None) == ""
    assert said(None, instance_reason="not an AWS instance") == ""


def test_on_aws_without_a_price_it_says_how_to_give_one() -> None:
    instance = Instance("ec2", "g5.xlarge")
    assert said(None, instance=instance, price_reason="no AWS credentials") == (
        "Cost: not known (no AWS credentials); --price-per-hour gives it."
    )


def test_a_price_without_a_measured_step_is_no_missing_price() -> None:
    assert said(None, instance=Instance("ec2", "g5.xlarge"), price=PRICE) == ""


def test_a_price_is_told_with_its_source_and_what_it_buys() -> None:
    assert said(Cost(PRICE, 1, 0.0491, 0.0214, 0.842, 0.367)) == (
        "Cost: $1.21 an hour (AWS price list, on demand, eu-west-1): an epoch $0.84 → $0.37, "
        "a million samples $0.049 → $0.021."
    )


def test_before_any_trial_there_is_no_arrow() -> None:
    assert said(Cost(PRICE, 1, million_samples_before=0.0491)) == (
        "Cost: $1.21 an hour (AWS price list, on demand, eu-west-1): a million samples $0.049."
    )
    assert said(Cost(PRICE, 1)) == "Cost: $1.21 an hour (AWS price list, on demand, eu-west-1)."


def test_several_hosts_are_told() -> None:
    text = said(Cost(PRICE, 4, epoch_before=12.5))
    assert "$1.21 an hour for each of 4 hosts" in text
    assert "an epoch $12.50." in text


@pytest.mark.parametrize("width", [30, 60])
def test_it_is_no_wider_than_the_terminal(width: int) -> None:
    lines = written(diagnosis(Cost(PRICE, 1, 0.049, 0.021, 0.84, 0.37)), width).splitlines()
    assert max(len(line) for line in lines) <= width


def test_a_source_cannot_write_to_the_terminal() -> None:
    text = written(diagnosis(Cost(Price(1.0, NASTY), 1)))
    assert "\x1b" not in text
    instance = Instance("ec2", NASTY)
    assert "\x1b" not in written(diagnosis(None, instance=instance, price_reason=NASTY))


def test_a_terminal_of_ascii_gets_ascii() -> None:
    assert written(diagnosis(Cost(PRICE, 1, 1.0, 0.5)), encoding="ascii").isascii()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "$0.00"),
        (0.000123, "$0.00012"),
        (0.0491, "$0.049"),
        (0.842, "$0.84"),
        (0.997, "$1.00"),
        (1.0, "$1.00"),
        (98.324, "$98.32"),
        (1234.5, "$1,234"),
    ],
)
def test_dollars_have_two_digits_at_least(value: float, text: str) -> None:
    assert _money.dollars(value) == text


def test_an_instance_is_described_in_a_line() -> None:
    assert _money.instance(instance("g5.xlarge")) == (
        "g5.xlarge (AWS, eu-west-1): 4 vCPUs, 16.0 GiB, 1 × A10G, network 2.5 Gbit/s, EBS 87.5 MB/s"
    )
    assert _money.instance(instance("ml.p4d.24xlarge", hosts=2)).startswith(
        "2 × ml.p4d.24xlarge (SageMaker, eu-west-1): 96 vCPUs"
    )


def test_an_instance_of_unknown_type_or_none_at_all_is_described_honestly() -> None:
    assert _money.instance(instance("z9.large")) == ("z9.large (AWS, eu-west-1), of unknown size")
    assert _money.instance(INPUT_BOUND.machine) == ""
