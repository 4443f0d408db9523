"""The formats that `trainperf lint` prints; `root` is the repository's, for those that name it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import trainperf
from trainperf.fixes import by_id
from trainperf.lint.check import Lint, Unread
from trainperf.lint.rules import Remark
from trainperf.model.words import count
from trainperf.report.plain import inside, one_line
from trainperf.reporters.github.commands import command
from trainperf.reporters.sarif.log import artifact, log, message, rule


def text(lint: Lint, root: str = "") -> str:
    """Return one line per place, `path:line:column: ID text`, those not read, and a count."""
    lines = [f"{_at(remark)}:{remark.column}: {remark.id} {remark.text}" for remark in lint.seen]
    lines += [f"{_at(unread)}: not read: {unread.reason}" for unread in lint.unread]
    lines += [f"{_at(comment)}: {comment.reason}" for comment in lint.comments]
    return "\n".join([*map(one_line, lines), _count(lint)])


def _count(lint: Lint) -> str:
    """Return how many places were found and files read, in a sentence."""
    if not lint.files:
        return "No Python file and no notebook is there: nothing was read."
    whole = len({unread.path for unread in lint.unread if not unread.cell})
    cells = sum(bool(unread.cell) for unread in lint.unread)
    parts = [count(number, what) for number, what in ((whole, "file"), (cells, "cell")) if number]
    read = count(lint.files, "file") + (f"; {' and '.join(parts)} not read" if parts else "")
    if not lint.seen:
        return f"Nothing found in {read}."
    holding = len({remark.path for remark in lint.seen})
    return f"{count(len(lint.seen), 'place')} that may be slow, in {holding} of {read}."


def as_json(lint: Lint, root: str = "") -> str:
    """Return what `text` says as one JSON object."""

    def entry(of: Remark | Unread, **more: object) -> dict[str, object]:
        return {"path": _shown(of.path), "cell": of.cell or None, "line": of.line or None, **more}

    whole = {
        "found": [
            {"id": remark.id, **entry(remark, column=remark.column, text=remark.text)}
            for remark in lint.seen
        ],
        "unread": [entry(unread, reason=unread.reason) for unread in lint.unread],
        "comments": [entry(comment, reason=comment.reason) for comment in lint.comments],
        "files": lint.files,
    }
    return json.dumps(whole, indent=2)


def github(lint: Lint, root: str) -> str:
    """Return workflow commands: a warning per place, an error per file that was not read.

    GitHub shows ten of each kind for a step.
    """

    def written(kind: str, of: Remark | Unread, text: str, title: str = "", column: int = 0) -> str:
        file = inside(os.path.abspath(of.path), root) or _shown(of.path)
        place = {} if of.cell else {"line": of.line, "col": column}
        return command(kind, text, file=file, **place, title=f"trainperf{title}")

    lines = [
        written("warning", remark, remark.text, f": {remark.id}", remark.column)
        for remark in lint.seen
    ]
    lines += [written("error", unread, _not_read(unread)) for unread in lint.unread]
    lines += [written("notice", comment, comment.reason) for comment in lint.comments]
    return "\n".join([*lines, _count(lint)])


def sarif(lint: Lint, root: str) -> str:
    """Return a SARIF 2.1.0 log whose rules carry the text of their fixes."""

    def place(path: Path, **region: object) -> list[dict[str, Any]]:
        location = {"artifactLocation": artifact(os.path.abspath(path), root), **region}
        return [{"physicalLocation": location}]

    def result(remark: Remark) -> dict[str, Any]:
        region = {"startLine": remark.line, "startColumn": remark.column}
        where = {} if remark.cell else {"region": region}  # a cell has lines of its own
        shown = f"cell {remark.cell}: {remark.text}" if remark.cell else remark.text
        return {
            "ruleId": remark.id,
            "ruleIndex": ids.index(remark.id),
            "level": "warning",
            "message": message(shown),
            "locations": place(remark.path, **where),
        }

    def note(level: str, of: Unread, text: str) -> dict[str, Any]:
        return {"level": level, "message": {"text": text}, "locations": place(of.path)}

    ids = sorted({remark.id for remark in lint.seen})
    rules = [rule(by_id()[id_], "warning") for id_ in ids]
    notes = [note("error", unread, _not_read(unread)) for unread in lint.unread]
    notes += [note("note", one, f"line {one.line}: {one.reason}") for one in lint.comments]
    driver = {"name": "trainperf lint", "version": trainperf.__version__, "rules": rules}
    done = {"executionSuccessful": not lint.unread, "toolExecutionNotifications": notes}
    return log(driver, done, [result(remark) for remark in lint.seen])


FORMATS: dict[str, Callable[[Lint, str], str]] = {
    "text": text,
    "json": as_json,
    "github": github,
    "sarif": sarif,
}


def _at(of: Remark | Unread) -> str:
    cell, line = f":cell {of.cell}" if of.cell else "", f":{of.line}" if of.line else ""
    return f"{_shown(of.path)}{cell}{line}"


def _not_read(unread: Unread) -> str:
    """Say that a file or cell was not read, where its place is not said beside it."""
    cell = f"cell {unread.cell}, line {unread.line}: " if unread.cell else ""
    return f"{cell}not read: {unread.reason}"


def _shown(path: Path) -> str:
    """Return a path relative to the current folder where it lies in it."""
    absolute, here = os.path.abspath(path), os.getcwd()
    within = os.path.commonpath([absolute, here]) == here
    return (
        (os.path.relpath(absolute, here) if within else absolute)
        .encode("utf-8", "replace")
        .decode()
    )
