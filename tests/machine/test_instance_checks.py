from __future__ import annotations

import pytest

from fixes.boxes import instance as box
from trainperf.machine.doctor.checks import Check
from trainperf.machine.doctor.examine import check_container, check_instance
from trainperf.model import Gpu, Machine, Price


def by_name(checks: tuple[Check, ...]) -> dict[str, Check]:
    return {check.name: check for check in checks}


def test_a_machine_that_was_not_looked_at_is_not_spoken_of() -> None:
    assert check_instance(Machine(**{**vars(box()), "instance": None})) == ()


@pytest.mark.parametrize(
    ("reason", "status"),
    [
        ("not an AWS instance", "ok"),
        ("not an AWS instance, as far as can be told: nobody answered", "ok"),
        ("an EC2 instance of unknown type: it refused", "unknown"),
        ("not known within 1 s", "unknown"),
    ],
)
def test_off_aws_nothing_is_wrong_and_no_price_is_missed(reason: str, status: str) -> None:
    machine = Machine(**{**vars(box()), "instance": None, "instance_reason": reason})
    (check,) = check_instance(machine)
    assert check.status == status
    assert check.text[1:] == reason[1:]


def test_an_instance_is_told_with_what_it_offers() -> None:
    check = by_name(check_instance(box()))["AWS instance"]
    assert check.status == "ok"
    assert check.text == (
        "g5.xlarge, eu-west-1: 4 vCPUs, 16.0 GiB, 1 × A10G, network 2.5 Gbit/s (up to 10 for a "
        "while), EBS 87.5 MB/s (up to 437.5 for a while), 250 GB local NVMe"
    )


def test_an_instance_of_unknown_type_is_told_as_such() -> None:
    check = by_name(check_instance(box("z9.large")))["AWS instance"]
    assert check.status == "unknown"
    assert "z9.large" in check.text


def test_gpus_that_are_paid_for_and_not_seen_are_a_warning() -> None:
    machine = box("g5.12xlarge", gpus=(Gpu(0, "NVIDIA A10G"),))
    check = by_name(check_instance(machine))["AWS instance"]
    assert check.status == "warning"
    assert "1 of its 4 GPUs" in check.text


def test_a_driver_that_shows_none_is_the_business_of_the_gpu_checks() -> None:
    assert by_name(check_instance(box(gpus=())))["AWS instance"].status == "ok"


def test_a_price_is_told_with_its_source() -> None:
    check = by_name(check_instance(box(price=Price(1.006, "AWS price list"))))["Price"]
    assert (check.status, check.text) == ("ok", "$1.006 an hour (AWS price list)")


def test_a_price_that_is_not_known_can_be_given() -> None:
    check = by_name(check_instance(box(price_reason="no AWS credentials")))["Price"]
    assert (check.status, check.text) == ("unknown", "not known: no AWS credentials")
    assert "--price-per-hour" in check.advice


def test_a_container_is_named() -> None:
    assert check_container(box()) == ()
    assert [check.text for check in check_container(box(container="podman"))] == ["Podman"]
    assert [check.text for check in check_container(box(container="new kind"))] == ["new kind"]
