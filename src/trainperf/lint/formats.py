"""The formats that `trainperf lint` prints; `root` is the repository's, for those that name it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import trainperf
from trainperf.lint.check import Lint, Unread
from trainperf.lint.rule import Remark
from trainperf.model.words import count


def text(lint: Lint, root: str = "") -> str:
    """Return one line per place, `path:line:column: ID text`, those not read, and a count."""
    from trainperf.report.plain import one_line

    lines = [f"{_place(one)}:{one.column}: {one.id} {one.text}" for one in lint.seen]
    lines += [f"{_place(one)}: not read: {one.reason}" for one in lint.unread]
    lines += [f"{_place(one)}: {one.reason}" for one in lint.comments]
    return "\n".join([*map(one_line, lines), _count(lint)])


def _count(lint: Lint) -> str:
    """Return how many places were found and files read, in a sentence."""
    if not lint.files:
        return "No Python file and no notebook is there: nothing was read."
    whole = len({one.path for one in lint.unread if not one.cell})
    cells = sum(bool(one.cell) for one in lint.unread)
    parts = [count(number, what) for number, what in ((whole, "file"), (cells, "cell")) if number]
    read = count(lint.files, "file") + (f"; {' and '.join(parts)} not read" if parts else "")
    if not lint.seen:
        return f"Nothing found in {read}."
    holding = len({one.path for one in lint.seen})
    return f"{count(len(lint.seen), 'place')} that may be slow, in {holding} of {read}."


def as_json(lint: Lint, root: str = "") -> str:
    """Return what `text` says as one JSON object."""

    def place(one: Remark | Unread) -> dict[str, object]:
        return {"path": _shown(one.path), "cell": one.cell or None, "line": one.line or None}

    whole = {
        "found": [
            {"id": one.id, **place(one), "column": one.column, "text": one.text}
            for one in lint.seen
        ],
        "unread": [{**place(one), "reason": one.reason} for one in lint.unread],
        "comments": [{**place(one), "reason": one.reason} for one in lint.comments],
        "files": lint.files,
    }
    return json.dumps(whole, indent=2)


def github(lint: Lint, root: str) -> str:
    """Return workflow commands: a warning per place, an error per file that was not read.

    GitHub shows ten of each kind for a step.
    """
    from trainperf.report.plain import inside
    from trainperf.reporters.github.commands import command

    def told(kind: str, one: Remark | Unread, text: str, title: str = "", column: int = 0) -> str:
        file = inside(os.path.abspath(one.path), root) or _shown(one.path)
        place = {} if one.cell else {"line": one.line, "col": column}
        return command(kind, text, file=file, **place, title=f"trainperf{title}")

    lines = [told("warning", one, one.text, f": {one.id}", one.column) for one in lint.seen]
    lines += [told("error", one, _not_read(one)) for one in lint.unread]
    lines += [told("notice", one, one.reason) for one in lint.comments]
    return "\n".join([*lines, _count(lint)])


def sarif(lint: Lint, root: str) -> str:
    """Return a SARIF 2.1.0 log whose rules carry the text of their fixes."""
    from trainperf.fixes import by_id
    from trainperf.reporters.sarif.log import artifact, log, message, rule

    def place(path: Path) -> dict[str, Any]:
        return {"artifactLocation": artifact(os.path.abspath(path), root)}

    def result(one: Remark) -> dict[str, Any]:
        region = {"startLine": one.line, "startColumn": one.column}
        where = place(one.path) | ({} if one.cell else {"region": region})  # a cell has its own
        found = {
            "ruleId": one.id,
            "ruleIndex": ids.index(one.id),
            "level": "warning",
            "message": message(f"cell {one.cell}: {one.text}" if one.cell else one.text),
            "locations": [{"physicalLocation": where}],
        }
        return found if one.repair is None or one.cell else {**found, "fixes": [fix(one)]}

    def fix(one: Remark) -> dict[str, Any]:
        assert one.repair is not None
        ends = {"endLine": one.repair.line, "endColumn": one.repair.end_column}
        region = {"startLine": one.repair.line, "startColumn": one.repair.column, **ends}
        change = {"deletedRegion": region, "insertedContent": {"text": one.repair.text}}
        changes = [{**place(one.path), "replacements": [change]}]
        return {"description": {"text": by_id()[one.id].summary}, "artifactChanges": changes}

    def note(level: str, one: Unread, text: str) -> dict[str, Any]:
        where = [{"physicalLocation": place(one.path)}]
        return {"level": level, "message": {"text": text}, "locations": where}

    ids = sorted({one.id for one in lint.seen})
    rules = [rule(by_id()[id_], "warning") for id_ in ids]
    notes = [note("error", one, _not_read(one)) for one in lint.unread]
    notes += [note("note", one, f"line {one.line}: {one.reason}") for one in lint.comments]
    driver = {"name": "trainperf lint", "version": trainperf.__version__, "rules": rules}
    done = {"executionSuccessful": not lint.unread, "toolExecutionNotifications": notes}
    return log(driver, done, [result(one) for one in lint.seen])


FORMATS: dict[str, Callable[[Lint, str], str]] = {
    "text": text,
    "json": as_json,
    "github": github,
    "sarif": sarif,
}


def _place(one: Remark | Unread) -> str:
    cell, line = f":cell {one.cell}" if one.cell else "", f":{one.line}" if one.line else ""
    return f"{_shown(one.path)}{cell}{line}"


def _not_read(one: Unread) -> str:
    """Say that a file or cell was not read, where its place is not said beside it."""
    cell = f"cell {one.cell}, line {one.line}: " if one.cell else ""
    return f"{cell}not read: {one.reason}"


def _shown(path: Path) -> str:
    """Return a path relative to the current folder where it lies in it."""
    absolute, here = os.path.abspath(path), os.getcwd()
    inside = os.path.commonpath([absolute, here]) == here
    shown = os.path.relpath(absolute, here) if inside else absolute
    return shown.encode("utf-8", "replace").decode()
