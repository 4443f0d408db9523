from __future__ import annotations

import io

import pytest
from rich.console import Console

from fixes.boxes import box
from trainperf.commands.doctor import render
from trainperf.machine.doctor.checks import Check, Checkup

CHECKS = (
    Check("GPU", "unknown", "No NVIDIA driver found: GPU checks were not made."),
    Check("TensorFlow", "ok", "2.21.0, built with CUDA 12.5.1, cuDNN 9, for sm_60, compute_90"),
    Check("CPU cores", "warning", "16 visible, 2 usable [quota]", "size thread pools for 2"),
    Check("TensorFlow and the GPU", "problem", "sees none of the 2 GPUs", "look again " * 12),
)


def shown(width: int) -> str:
    out = io.StringIO()
    render(Checkup(box(), CHECKS), Console(file=out, width=width))
    return out.getvalue()


@pytest.mark.parametrize("width", [40, 80, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    assert max(len(line) for line in shown(width).splitlines()) <= width


def test_brackets_in_a_text_are_no_markup() -> None:
    assert "[quota]" in shown(80)
