"""The formats that `trainperf lint` prints."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import trainperf
from trainperf.lint.check import Lint, PlacedRemark, Unread, all_rules, shown_path


def text(lint: Lint) -> str:
    """Return one line per place, `path:line:column: ID text`, those not read, and a count."""
    lines = [f"{_place(each)}: {each.remark.id} {each.remark.text}" for each in lint.seen]
    lines += [f"{_unread_place(each)}: not read: {each.reason}" for each in lint.unread]
    lines += [f"{_unread_place(each)}: {each.reason}" for each in lint.comments]
    return "\n".join([_escaped(each) for each in lines] + [count(lint)])


def count(lint: Lint) -> str:
    """Return how many places were found and files read, in a sentence."""
    if not lint.files:
        return "No Python file and no notebook is there: nothing was read."
    files = "1 file" if lint.files == 1 else f"{lint.files} files"
    unread = _count_unread(lint)
    if not lint.seen:
        return f"Nothing found in {files}{unread}."
    places = "1 place that" if len(lint.seen) == 1 else f"{len(lint.seen)} places that"
    held = len({each.path for each in lint.seen})
    return f"{places} may be slow, in {held} of {files}{unread}."


def _count_unread(lint: Lint) -> str:
    """Whole files first, then cells of notebooks whose other cells were read."""
    files = len({each.path for each in lint.unread if not each.cell})
    cells = sum(bool(each.cell) for each in lint.unread)
    plain = "" if not cells else " file" if files == 1 else " files"
    told = [f"{files}{plain}"] if files else []
    told += ["1 cell" if cells == 1 else f"{cells} cells"] if cells else []
    return f"; {' and '.join(told)} not read" if told else ""


def as_json(lint: Lint) -> str:
    """Return what `text` says as one JSON object."""
    found = [
        {
            "id": each.remark.id,
            "path": shown_path(each.path),
            "cell": each.cell or None,
            "line": each.remark.line,
            "column": each.remark.column,
            "text": each.remark.text,
        }
        for each in lint.seen
    ]
    unread = [
        {
            "path": shown_path(each.path),
            "cell": each.cell or None,
            "line": each.line or None,
            "reason": each.reason,
        }
        for each in lint.unread
    ]
    comments = [
        {"path": shown_path(each.path), "line": each.line, "reason": each.reason}
        for each in lint.comments
    ]
    whole = {"found": found, "unread": unread, "comments": comments, "files": lint.files}
    return json.dumps(whole, indent=2)


def github(lint: Lint) -> str:
    """Return workflow commands: a warning per place, an error per file that was not read.

    GitHub shows ten of each kind for a step.
    """
    from trainperf.reporters.github.commands import command

    lines = []
    for each in lint.seen:
        remark = each.remark
        place = {} if each.cell else {"line": remark.line, "col": remark.column}
        title = f"trainperf: {remark.id}"
        file = _in_repository(each.path)
        lines.append(command("warning", remark.text, file=file, **place, title=title))
    for unread in lint.unread:
        line = 0 if unread.cell else unread.line
        file, said = _in_repository(unread.path), _not_read(unread)
        lines.append(command("error", said, file=file, line=line, title="trainperf"))
    for comment in lint.comments:
        file = _in_repository(comment.path)
        lines.append(
            command("notice", comment.reason, file=file, line=comment.line, title="trainperf")
        )
    return "\n".join([*lines, count(lint)])


def sarif(lint: Lint) -> str:
    """Return a SARIF 2.1.0 log whose rules carry the text of their fixes."""
    from trainperf.fixes import by_id
    from trainperf.reporters.sarif.log import log, rule

    counted = Counter(each.remark.id for each in lint.seen)
    rules = [one for one in all_rules() if one.id in counted]
    order = {one.id: number for number, one in enumerate(rules)}
    driver = {
        "name": "trainperf lint",
        "version": trainperf.__version__,
        "rules": [rule(by_id()[one.id], one.summary, "warning") for one in rules],
    }
    told = [("error", each.path, _not_read(each)) for each in lint.unread]
    told += [("note", each.path, f"line {each.line}: {each.reason}") for each in lint.comments]
    invocation = {
        "executionSuccessful": not lint.unread,
        "toolExecutionNotifications": [
            {
                "level": level,
                "message": {"text": text},
                "locations": [{"physicalLocation": {"artifactLocation": _artifact(path)}}],
            }
            for level, path, text in told
        ],
    }
    results = [_sarif_result(each, order[each.remark.id]) for each in lint.seen]
    return log(driver, invocation, results)


FORMATS: dict[str, Callable[[Lint], str]] = {
    "text": text,
    "json": as_json,
    "github": github,
    "sarif": sarif,
}


def _sarif_result(each: PlacedRemark, rule: int) -> dict[str, Any]:
    from trainperf.reporters.sarif.log import message

    region = {"startLine": each.remark.line, "startColumn": each.remark.column}
    place: dict[str, Any] = {"artifactLocation": _artifact(each.path)}
    if not each.cell:  # lines of a notebook's cell are no lines of its file
        place["region"] = region
    fixes = _sarif_fixes(each)
    said = each.remark.text if not each.cell else f"cell {each.cell}: {each.remark.text}"
    return {
        "ruleId": each.remark.id,
        "ruleIndex": rule,
        "level": "warning",
        "message": message(said),
        "locations": [{"physicalLocation": place}],
        **({"fixes": fixes} if fixes else {}),
    }


def _sarif_fixes(each: PlacedRemark) -> list[dict[str, Any]]:
    """The repair that a rule can write by itself; none in a notebook, whose lines are no lines."""
    from trainperf.fixes import by_id

    repair = each.remark.repair
    if repair is None or each.cell:
        return []
    region = {
        "startLine": repair.line,
        "startColumn": repair.column,
        "endLine": repair.line,
        "endColumn": repair.end_column,
    }
    replacement = {"deletedRegion": region, "insertedContent": {"text": repair.text}}
    change = {"artifactLocation": _artifact(each.path), "replacements": [replacement]}
    return [
        {
            "description": {"text": by_id()[each.remark.id].summary},
            "artifactChanges": [change],
        }
    ]


def _artifact(path: Path) -> dict[str, Any]:
    from trainperf.reporters.sarif.log import artifact

    absolute = os.path.abspath(path)
    return artifact(absolute, _repository(absolute) or os.getcwd())


def _in_repository(path: Path) -> str:
    """Return a path as GitHub knows it: relative to the root of the repository it lies in."""
    from trainperf.report.plain import inside

    absolute = os.path.abspath(path)
    return inside(absolute, _repository(absolute)) or shown_path(path)


def _repository(path: str) -> str:
    from trainperf.report.plain import inside

    folders = Path(path).parents
    git = (str(one) for one in folders if (one / ".git").exists())
    for root in (os.environ.get("GITHUB_WORKSPACE", ""), next(git, "")):
        if os.path.isabs(root) and inside(path, root):
            return root
    return ""


def _place(each: PlacedRemark) -> str:
    cell = f":cell {each.cell}" if each.cell else ""
    return f"{shown_path(each.path)}{cell}:{each.remark.line}:{each.remark.column}"


def _not_read(each: Unread) -> str:
    """Say that a file or cell was not read, where its place is not said beside it."""
    cell = f"cell {each.cell}, line {each.line}: " if each.cell else ""
    return f"{cell}not read: {each.reason}"


def _unread_place(each: Unread) -> str:
    if each.cell:
        return f"{shown_path(each.path)}:cell {each.cell}:{each.line}"
    return f"{shown_path(each.path)}:{each.line}" if each.line else shown_path(each.path)


def _escaped(line: str) -> str:
    """Return a line in which nothing of the script's can move a terminal's cursor."""
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in line
    )
