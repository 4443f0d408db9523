from __future__ import annotations

import pytest

from fixes.boxes import box, instance
from trainperf.machine.doctor.checks import Check
from trainperf.machine.doctor.examine import check_instance
from trainperf.model import Gpu, Price


def by_name(checks: tuple[Check, ...]) -> dict[str, Check]:
    return {check.name: check for check in checks}


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
    machine = box(instance_reason=reason)
    (check,) = check_instance(machine)
    assert check.status == status
    assert check.text[1:] == reason[1:]


def test_an_instance_of_unknown_type_is_told_as_such() -> None:
    check = by_name(check_instance(instance("z9.large")))["AWS instance"]
    assert check.status == "unknown"
    assert "z9.large" in check.text


def test_gpus_that_are_paid_for_and_not_seen_are_a_warning() -> None:
    machine = instance("g5.12xlarge", gpus=(Gpu(0, "NVIDIA A10G"),))
    check = by_name(check_instance(machine))["AWS instance"]
    assert check.status == "warning"
    assert "1 of its 4 GPUs" in check.text


def test_a_price_is_told_with_its_source() -> None:
    check = by_name(check_instance(instance(price=Price(1.006, "AWS price list"))))["Price"]
    assert (check.status, check.text) == ("ok", "$1.006 an hour (AWS price list)")
