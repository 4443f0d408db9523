"""Sentences of the terminal report as plain text, for the other formats."""

from __future__ import annotations

import textwrap

from trainperf.model import Diagnosis
from trainperf.report.plain import plain
from trainperf.report.sections import closing, step
from trainperf.report.sections.closing import command_line, exports
from trainperf.report.sections.step import ended_early

__all__ = [
    "answer",
    "command_line",
    "device",
    "ended_early",
    "exports",
    "framework",
    "last_output",
    "snippet",
]

LINES = 20
"""Lines of the script's last output, as on a terminal."""


def answer(diagnosis: Diagnosis) -> str:
    """Return what the reader gets by making the changes, or that there is nothing to make."""
    return closing.answer(diagnosis)[0]


def last_output(diagnosis: Diagnosis) -> str:
    """Return the last lines of a script that ended badly; nothing for another."""
    if diagnosis.ending not in step.WITH_OUTPUT or not diagnosis.output_tail.strip():
        return ""
    _, told = step.of_a_rank(diagnosis)
    return "\n".join(plain(told).strip("\n").split("\n")[-LINES:])


def device(diagnosis: Diagnosis) -> str:
    """Return what the script ran on, and with how many cores."""
    return step.device_line(diagnosis.device, diagnosis.machine)


def framework(diagnosis: Diagnosis) -> str:
    """Return the framework with its version; nothing if none was seen."""
    return step.framework_line(diagnosis.framework) if diagnosis.framework.name else ""


def snippet(source: str) -> str:
    """Return code to paste, without what it is indented by."""
    return textwrap.dedent(plain(source).expandtabs(4)).strip("\n")
