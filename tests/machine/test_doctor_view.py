from __future__ import annotations

import io

import pytest
from rich.console import Console

from fixes.cases.common.cases import machine
from trainperf.machine.doctor.checks import Check, Checkup
from trainperf.machine.doctor.view import conclusion, render

CHECKS = (
    Check("GPU", "unknown", "No NVIDIA driver found: GPU checks were not made."),
    Check("TensorFlow", "ok", "2.21.0, built with CUDA 12.5.1, cuDNN 9, for sm_60, compute_90"),
    Check("CPU cores", "warning", "16 visible, 2 usable [quota]", "size thread pools for 2"),
    Check("TensorFlow and the GPU", "problem", "sees none of the 2 GPUs", "look again " * 12),
)


def shown(width: int, color: bool = False, checks: tuple[Check, ...] = CHECKS) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=color, no_color=not color)
    render(Checkup(machine(), checks), console)
    return out.getvalue()


@pytest.mark.parametrize("width", [40, 80, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    assert max(len(line) for line in shown(width).splitlines()) <= width


@pytest.mark.parametrize("width", [80, 200])
def test_every_status_stands_as_a_word_without_colour(width: int) -> None:
    text = shown(width)
    assert "\x1b" not in text
    for check in CHECKS:
        line = next(line for line in text.splitlines() if f"{check.name}  " in line)
        assert line.startswith(check.status)


def test_colour_is_used_on_a_terminal() -> None:
    assert "\x1b[" in shown(80, color=True)


def test_brackets_in_a_text_are_no_markup() -> None:
    assert "[quota]" in shown(80)


def test_advice_stands_below_what_was_found() -> None:
    lines = shown(80).splitlines()
    place = next(i for i, line in enumerate(lines) if "16 visible" in line)
    assert "→ size thread pools for 2" in lines[place + 1]


def test_the_conclusion_counts() -> None:
    everything = Checkup(machine(), CHECKS + CHECKS[2:3])
    assert conclusion(everything) == "Found 1 problem and 2 warnings; 1 could not be checked."
    assert conclusion(Checkup(machine(), CHECKS[1:2])) == "Nothing wrong found."
    assert conclusion(Checkup(machine(), CHECKS[:2])) == (
        "Nothing wrong found; 1 could not be checked."
    )
