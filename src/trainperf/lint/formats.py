"""The formats that `trainperf lint` prints; `root` is the repository's, for those that name it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

from trainperf.lint.check import Lint, Unread
from trainperf.lint.rules import Remark
from trainperf.model.words import count
from trainperf.report.plain import inside, one_line
from trainperf.reporters.github.commands import command


def text(lint: Lint, root: str = "") -> str:
    """Return one line per place, `path:line:column: ID text`, those not read, and a count."""

    def at(of: Remark | Unread) -> str:
        cell, line = f":cell {of.cell}" if of.cell else "", f":{of.line}" if of.line else ""
        return f"{_shown(of.path)}{cell}{line}"

    lines = [f"{at(remark)}:{remark.column}: {remark.id} {remark.text}" for remark in lint.seen]
    lines += [f"{at(unread)}: not read: {unread.reason}" for unread in lint.unread]
    return "\n".join([*map(one_line, lines), _count(lint)])


def _count(lint: Lint) -> str:
    if not lint.files:
        return "No Python file and no notebook is there: nothing was read."
    read = count(lint.files, "file")
    if lint.unread:
        read += f"; {count(len(lint.unread), 'file')} not read"
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
        "files": lint.files,
    }
    return json.dumps(whole, indent=2)


def github(lint: Lint, root: str) -> str:
    """Return workflow commands: a warning per place, an error per file that was not read."""

    def written(kind: str, of: Remark | Unread, text: str, title: str = "", column: int = 0) -> str:
        file = inside(os.path.abspath(of.path), root) or _shown(of.path)
        place = {} if of.cell else {"line": of.line, "col": column}
        return command(kind, text, file=file, **place, title=f"trainperf{title}")

    lines = [
        written("warning", remark, remark.text, f": {remark.id}", remark.column)
        for remark in lint.seen
    ]
    lines += [written("error", unread, f"not read: {unread.reason}") for unread in lint.unread]
    return "\n".join([*lines, _count(lint)])


FORMATS: dict[str, Callable[[Lint, str], str]] = {"text": text, "json": as_json, "github": github}


def _shown(path: Path) -> str:
    """Return a path relative to the current folder where it lies in it."""
    absolute, here = os.path.abspath(path), os.getcwd()
    if os.path.commonpath([absolute, here]) == here:
        absolute = os.path.relpath(absolute, here)
    return absolute.encode("utf-8", "replace").decode()
