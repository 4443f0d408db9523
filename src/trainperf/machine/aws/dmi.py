"""The firmware's word on the machine: on AWS, often the instance type itself."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

INSTANCE_TYPE = re.compile(r"[a-z][a-z0-9-]*\.[a-z0-9-]{2,20}")
"""How EC2 names its types: "g5.xlarge", "p6-b200.48xlarge", "g4dn.metal"."""

_FIELDS = ("sys_vendor", "board_vendor", "bios_vendor", "bios_version", "product_name")


@dataclass(frozen=True)
class Firmware:
    """Whether this is a machine of EC2's (None: it does not say), and its type, if told."""

    amazon: bool | None
    type: str = ""


def firmware(root: Path = Path("/")) -> Firmware:
    """Read what the firmware says, below `root`.

    On Nitro the vendor is "Amazon EC2" and the product name the instance type; on Xen
    the version of the BIOS ends in "amazon", or the hypervisor's UUID begins with "ec2"
    (AWS, "Identify EC2 instances").
    """
    folder = root / "sys/devices/virtual/dmi/id"
    told = {name: _text(folder / name) for name in _FIELDS}
    identifiers = [_text(root / "sys/hypervisor/uuid"), _text(folder / "product_uuid")]
    if any(one.lower().startswith("ec2") for one in identifiers):
        return Firmware(True, _type(told["product_name"]))
    if any("amazon" in text.lower() for text in told.values()):
        return Firmware(True, _type(told["product_name"]))
    return Firmware(False if any(told.values()) else None)


def _type(text: str) -> str:
    return text if INSTANCE_TYPE.fullmatch(text) else ""


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:  # product_uuid is root's alone
        return ""
