"""What `trainperf lint` prints, in each of its formats."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import trainperf
from trainperf.lint.check import Lint, Seen, Unread, shown_path
from trainperf.lint.rules import all_rules
from trainperf.source.rule import Rule


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
    lines = []
    for each in lint.seen:
        place = f"file={_property(_in_repository(each.path))}"
        if not each.cell:
            place += f",line={each.remark.line},col={each.remark.column}"
        title = _property(f"trainperf: {each.remark.id}")
        lines.append(f"::warning {place},title={title}::{_data(each.remark.text)}")
    for unread in lint.unread:
        place = f"file={_property(_in_repository(unread.path))}"
        place += f",line={unread.line}" if unread.line and not unread.cell else ""
        lines.append(f"::error {place},title=trainperf::{_data(_not_read(unread))}")
    for comment in lint.comments:
        place = f"file={_property(_in_repository(comment.path))},line={comment.line}"
        lines.append(f"::notice {place},title=trainperf::{_data(comment.reason)}")
    return "\n".join([*lines, count(lint)])


def sarif(lint: Lint) -> str:
    """Return a SARIF 2.1.0 log whose rules carry the text of their fixes."""
    counted = Counter(each.remark.id for each in lint.seen)
    rules = [rule for rule in all_rules() if rule.id in counted]
    order = {rule.id: number for number, rule in enumerate(rules)}
    notifications = [
        {
            "level": "error",
            "message": {"text": _not_read(each)},
            "locations": [{"physicalLocation": {"artifactLocation": _artifact(each.path)}}],
        }
        for each in lint.unread
    ]
    notifications += [
        {
            "level": "note",
            "message": {"text": f"line {each.line}: {each.reason}"},
            "locations": [{"physicalLocation": {"artifactLocation": _artifact(each.path)}}],
        }
        for each in lint.comments
    ]
    run = {
        "tool": {
            "driver": {
                "name": "trainperf lint",
                "version": trainperf.__version__,
                "rules": [_sarif_rule(rule) for rule in rules],
            }
        },
        "invocations": [
            {
                "executionSuccessful": not lint.unread,
                "toolExecutionNotifications": notifications,
            }
        ],
        "originalUriBaseIds": {
            "%SRCROOT%": {"description": {"text": "the root of the repository"}}
        },
        "columnKind": "unicodeCodePoints",
        "results": [_sarif_result(each, order[each.remark.id]) for each in lint.seen],
    }
    schema = "https://json.schemastore.org/sarif-2.1.0.json"
    return json.dumps({"$schema": schema, "version": "2.1.0", "runs": [run]}, indent=2)


FORMATS: dict[str, Callable[[Lint], str]] = {
    "text": text,
    "json": as_json,
    "github": github,
    "sarif": sarif,
}


def _sarif_rule(rule: Rule) -> dict[str, Any]:
    from trainperf.fixes import by_id

    fix = by_id()[rule.id]
    return {
        "id": rule.id,
        "shortDescription": {"text": fix.summary},
        "fullDescription": {"text": rule.summary},
        "help": {"text": fix.documentation, "markdown": fix.documentation},
        "defaultConfiguration": {"level": "warning"},
        "properties": {"tags": ["performance", fix.category]},
    }


def _sarif_result(each: Seen, rule: int) -> dict[str, Any]:
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
        "message": {"text": said.replace("](", "] (")},
        "locations": [{"physicalLocation": place}],
        **({"fixes": fixes} if fixes else {}),
    }


def _sarif_fixes(each: Seen) -> list[dict[str, Any]]:
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


def _artifact(path: Path) -> dict[str, str]:
    from trainperf.report.uris import file_uri, relative_uri

    shown = _in_repository(path)
    if os.path.isabs(shown):
        return {"uri": file_uri(shown)}
    return {"uri": relative_uri(shown), "uriBaseId": "%SRCROOT%"}


def _in_repository(path: Path) -> str:
    """Return a path as GitHub knows it: relative to the root of the repository it lies in."""
    from trainperf.report.uris import inside

    absolute = os.path.abspath(path)
    folders = Path(absolute).parents
    git = (str(one) for one in folders if (one / ".git").exists())
    for root in (os.environ.get("GITHUB_WORKSPACE", ""), next(git, "")):
        found = inside(absolute, root) if os.path.isabs(root) else None
        if found:
            return found
    return shown_path(path)


def _place(each: Seen) -> str:
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
    return "".join(_visible(line))


def _visible(line: str) -> Iterator[str]:
    for each in line:
        yield each if each.isprintable() else each.encode("unicode_escape").decode()


def _data(value: str) -> str:
    return value.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(value: str) -> str:
    return _data(value.encode("utf-8", "replace").decode()).replace(":", "%3A").replace(",", "%2C")
