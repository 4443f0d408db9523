from __future__ import annotations

from pathlib import Path

import pytest
from aws_fakes import DMI, LAPTOP, NITRO, XEN

from kit.stubs import write
from trainperf.machine.aws.instance import Firmware, firmware


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({}, Firmware(None)),
        ({f"{DMI}/sys_vendor": "\n"}, Firmware(None)),
        (LAPTOP, Firmware(False)),
        ({f"{DMI}/sys_vendor": "Google\n"}, Firmware(False)),
        ({"sys/hypervisor/uuid": "0ec2b2a1-0000\n"}, Firmware(None)),
        (NITRO, Firmware(True, "g4dn.xlarge")),
        (XEN, Firmware(True)),
        ({"sys/hypervisor/uuid": "ec2e1916-9099\n"}, Firmware(True)),
        ({f"{DMI}/product_uuid": "EC2E1916-9099\n"}, Firmware(True)),
        ({f"{DMI}/board_vendor": "Amazon EC2\n"}, Firmware(True)),
        (NITRO | {f"{DMI}/product_name": "HVM domU\n"}, Firmware(True)),
        (NITRO | {f"{DMI}/product_name": "p6-b200.48xlarge\n"}, Firmware(True, "p6-b200.48xlarge")),
    ],
)
def test_the_firmware_says_whose_machine_it_is(
    tmp_path: Path, files: dict[str, str], found: Firmware
) -> None:
    assert firmware(write(tmp_path, files)) == found
