"""The edits of a patch as `fixes` of SARIF results."""

from __future__ import annotations

import os.path
from collections.abc import Callable, Sequence
from typing import Any

from trainperf.model import Diagnosis, Finding, Patch
from trainperf.report.plain import plain
from trainperf.reporters.sarif.replacements import Replacement, replacements

Json = dict[str, Any]
Edit = tuple[str, Replacement]
"""A file by its absolute path, and what is replaced in it."""


def fixes(diagnosis: Diagnosis, artifact: Callable[[str], Json]) -> dict[str, Json]:
    """Return the fix of each finding whose edits are in the patch, by its id.

    An edit belongs to the findings at whose place it stands; one that stands at none, such
    as an import, to all with a place in its file. Findings that share an edit share a fix,
    which has the edits of all of them. `artifact` writes the location of a file.
    """
    patch = diagnosis.patch
    if patch is None or not patch.diff:
        return {}
    held = [one for one in diagnosis.findings if one.id in patch.findings]
    edits = _edits(patch)
    owners = [_owners(edit, held) for edit in edits]
    found: dict[str, Json] = {}
    for group in _groups([one.id for one in held], owners):
        its = [edit for edit, ids in zip(edits, owners, strict=True) if ids & group]
        if its:
            titles = [one.title for one in held if one.id in group]
            found |= dict.fromkeys(group, _fix(titles, its, artifact))
    return found


def _edits(patch: Patch) -> list[Edit]:
    return [
        (os.path.normpath(os.path.join(patch.root, path)), one)
        for path, those in replacements(patch.diff).items()
        for one in those
    ]


def _owners(edit: Edit, held: Sequence[Finding]) -> frozenset[str]:
    file, region = edit
    sites = [(one.id, site) for one in held for site in one.where if _same(site.file, file)]
    there = {
        id_
        for id_, site in sites
        if site.line <= _last_line(region) and region.line <= max(site.line, site.end_line)
    }
    return frozenset(there or {id_ for id_, _ in sites} or {one.id for one in held})


def _last_line(region: Replacement) -> int:
    ends_before = region.end_column == 1 and region.end_line > region.line
    return region.end_line - ends_before


def _same(file: str, other: str) -> bool:
    return os.path.normpath(file) == other


def _groups(ids: Sequence[str], owners: Sequence[frozenset[str]]) -> list[frozenset[str]]:
    """Put ids together that own an edit together."""
    groups = [frozenset({id_}) for id_ in dict.fromkeys(ids)]
    for those in owners:
        joined = frozenset().union(*(one for one in groups if one & those))
        groups = [*(one for one in groups if not one & those), joined]
    return [one for one in groups if one]


def _fix(titles: Sequence[str], edits: Sequence[Edit], artifact: Callable[[str], Json]) -> Json:
    what = plain("; ".join(titles))
    together = f"these {len(titles)} go together: {what}" if len(titles) > 1 else what
    files = dict.fromkeys(file for file, _ in edits)
    return {
        "description": {"text": together.replace("](", "] (")},
        "artifactChanges": [
            {
                "artifactLocation": artifact(file),
                "replacements": [replaced(one) for each, one in edits if each == file],
            }
            for file in files
        ],
    }


def replaced(one: Replacement) -> Json:
    """Write one replacement."""
    region = {"startLine": one.line, "startColumn": one.column}
    region |= {"endLine": one.end_line, "endColumn": one.end_column}
    made: Json = {"deletedRegion": region}
    return made | ({"insertedContent": {"text": one.text}} if one.text else {})
