"""`# trainperf: ignore[ID]` for remarks."""

from __future__ import annotations

from collections.abc import Iterable

from trainperf.source.rule import Remark


def wrong_comments(source: str) -> list[tuple[int, str]]:
    """Return the lines of comments that do not ignore what they seem to, and why."""
    if "trainperf:" not in source:
        return []
    from trainperf.report.ignored import comments

    found = comments(source.encode("utf-8", "replace"))
    return [(each.line, each.wrong) for each in found if each.wrong]


def without_ignored(remarks: Iterable[Remark], source: str) -> list[Remark]:
    """Return the remarks that no comment of `source` turns off.

    A comment counts on any line of the place, or on a line of its own right above it.
    """
    if "trainperf:" not in source:
        return list(remarks)
    from trainperf.report.ignored import comments  # it loads the catalogue

    found = comments(source.encode("utf-8", "replace"))
    lines = source.split("\n")

    def ignored(remark: Remark) -> bool:
        first = remark.line - 1
        while first > 0 and lines[first - 1].lstrip().startswith("#"):
            first -= 1
        return any(
            (each.ids is None or remark.id in each.ids)
            and (
                remark.line <= each.line <= remark.last_line
                or (each.alone and first < each.line < remark.line)
            )
            for each in found
        )

    return [remark for remark in remarks if not ignored(remark)]
