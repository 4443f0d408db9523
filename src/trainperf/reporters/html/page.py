"""The page: the sections of the report in its parts, the patch, and what a check says."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup, escape

from trainperf.model import Diagnosis
from trainperf.report.document import Page
from trainperf.report.plain import one_line, plain
from trainperf.report.sections import findings, trials
from trainperf.report.whole import report, sections
from trainperf.reporters.html.drawing import drawing
from trainperf.reporters.html.markup import clipped, prose
from trainperf.reporters.html.sheet import View, view

PARTS = {
    "step": "A step",
    "changes": "What to change",
    "trials": trials.HEADING,
    "training": "The whole training",
    "patch": "The patch",
    "next": "Next",
    "experiment": findings.EXPERIMENT,
    "input": "Input pipeline",
    "job": "The job and its ranks",
    "costs": "Where else the time goes",
    "machine": "The machine",
    "ignored": "Left out, as a comment says",
    "not-measured": "Not measured",
    "notes": "Notes",
}
"""The parts of the page, by id: their headings. A section of the report names the one it is in."""


@dataclass(frozen=True)
class Line:
    """A line of a patch: "file", "hunk", "add", "del" or "" for one that stays."""

    kind: str
    text: Markup


@dataclass(frozen=True)
class Part:
    """A part of the page, with the sections of the report that it holds."""

    id: str
    title: str
    views: list[View]


def context(diagnosis: Diagnosis, saved: str = "", patch_file: str = "") -> dict[str, Any]:
    """Everything that the template places; a section without content is None or empty."""
    whole = report(diagnosis, full=True, saved=saved, patch_file=patch_file)
    patch = _patch(diagnosis)
    return {
        "title": _title(diagnosis),
        "command": clipped(one_line(" ".join(diagnosis.command)), 300),
        "created": diagnosis.created,
        "version": diagnosis.trainperf_version,
        "format_version": diagnosis.format_version,
        "verdict": prose(diagnosis.verdict.text),
        "state": _state(diagnosis),
        "partial": view(whole, "partial", "absent"),
        "answer": view(whole, "proofs") or view(whole, "answer"),
        "output": view(whole, "output"),
        "parts": [one for one in _parts(whole) if one.views or (patch and one.id == "patch")],
        "patch": patch,
        "drawing": drawing(diagnosis),
    }


def _parts(whole: Sequence[Page]) -> Iterator[Part]:
    for id_, title in PARTS.items():
        views = [view(whole, section.name) for section in sections() if section.side == id_]
        yield Part(id_, title, [one for one in views if one is not None])


def _state(diagnosis: Diagnosis) -> str:
    if diagnosis.verdict.healthy:
        return "healthy"
    seen = diagnosis.step_s is not None and diagnosis.verdict.grade != "not examined"
    return "slow" if seen else "unknown"


def _title(diagnosis: Diagnosis) -> str:
    """The script; of a job, what its launcher starts, as its command stands below."""
    script = one_line(diagnosis.script)
    command = [one_line(word) for word in diagnosis.command]
    if script and script in (shlex.join(diagnosis.command), " ".join(command)):
        started = next((word for word in command if word.endswith(".py")), "")
        script = started or script
    return clipped(script, 80) or "a training script"


def _patch(diagnosis: Diagnosis) -> list[Line]:
    """The lines of the patch, made safe; those of a notebook by its cells."""
    patch = diagnosis.patch
    lines = patch.shown.removesuffix("\n").split("\n") if patch is not None and patch.diff else []
    return [Line(_kind(line), escape(plain(line))) for line in lines]


def _kind(line: str) -> str:
    if line.startswith(("--- ", "+++ ")):
        return "file"
    if line.startswith("@@"):
        return "hunk"
    return {"+": "add", "-": "del"}.get(line[:1], "")
