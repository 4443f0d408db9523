"""Whether a framework's build has code for a GPU, and a driver new enough for it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

Fit = Literal["native", "compiled on the spot", "none", "unknown"]


def fit(capabilities: Sequence[str], capability: str | None) -> Fit:
    """How a build's code runs on a GPU of this compute capability ("8.6").

    `capabilities` are as the compiler names them: "sm_80" is machine code for 8.0,
    "compute_90" code that the driver compiles for 9.0 and later. Machine code runs on
    the same major generation with the same or a higher minor number, intermediate code
    on everything newer ("CUDA C++ Programming Guide", application compatibility). A
    suffix (sm_90a) ties code to exactly that generation.
    """
    has = version(capability)
    if has is None or not capabilities:
        return "unknown"
    best: Fit = "none"
    for held in capabilities:
        parts = re.fullmatch(r"(sm|compute)_(\d+)(\d)([a-z]?)", held)
        if parts is None:
            continue
        kind, major, minor, suffix = parts[1], int(parts[2]), int(parts[3]), parts[4]
        if suffix and (major, minor) != has:
            continue
        if kind == "sm" and major == has[0] and minor <= has[1]:
            return "native"
        if kind == "compute" and (major, minor) <= has:
            best = "compiled on the spot"
    return best


def version(text: str | None) -> tuple[int, int] | None:
    """Return the first two numbers of a version ("12.4" → 12, 4), None without any."""
    numbers = re.findall(r"\d+", text or "")
    return (int(numbers[0]), int([*numbers, "0"][1])) if numbers else None
