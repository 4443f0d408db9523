"""Text on the page can be read, by day and by night."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

ENOUGH = 4.5
"""The contrast that WCAG 2.1 asks for text at level AA."""

CSS = (files("trainperf.reporters.html") / "templates/report.css").read_text("utf-8")

THEMES = [
    dict(re.findall(r"--([\w-]+):\s*(#[0-9a-f]{6})", block))
    for block in re.findall(r"\{([^{}]*--bg:[^{}]*)\}", CSS)
]

PAIRS = [
    *((text, ground) for text in ("ink", "soft") for ground in ("bg", "surface", "sunk")),
    *((text, "surface") for text in ("accent", "good", "warn", "bad")),
    *((text, ground) for text in ("ink",) for ground in ("sunk", "add", "del")),
    *(("on-dark", fill) for fill in ("model", "host", "exchange", "ranks", "bar")),
    *(("on-light", fill) for fill in ("data",)),
    ("on-rest", "rest"),
]


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        one / 12.92 if one <= 0.03928 else ((one + 0.055) / 1.055) ** 2.4 for one in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", THEMES, ids=["light", "dark"])
def test_every_text_stands_out_from_its_ground(theme: dict[str, str]) -> None:
    faint = {pair for pair in PAIRS if contrast(theme[pair[0]], theme[pair[1]]) < ENOUGH}
    assert faint == set()
