"""Ranks in words: which are missing, which differ from the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from trainperf.ranks.records import RankRecord

MOST_NAMED = 8
"""So many ranges of ranks are named; a list of a thousand helps nobody."""


def numbered(ranks: Iterable[int], kind: str = "rank") -> str:
    """Name ranks: "rank 3", "ranks 1, 4 to 6 and 9"."""
    ordered = sorted(set(ranks))
    ranges: list[list[int]] = []
    for rank in ordered:
        if ranges and rank == ranges[-1][-1] + 1:
            ranges[-1][1:] = [rank]
        else:
            ranges.append([rank])
    texts: list[str] = []
    for first, *more in ranges:
        if more and more[0] == first + 1:
            texts += [str(first), str(more[0])]
        else:
            texts.append(" to ".join(map(str, (first, *more))))
    if len(texts) > MOST_NAMED:
        return f"{kind}s {', '.join(texts[:MOST_NAMED])} and others, {len(ordered)} in all"
    if len(ordered) == 1:
        return f"{kind} {texts[0]}"
    return f"{kind}s {' and '.join(filter(None, (', '.join(texts[:-1]), texts[-1])))}"


def verb(ranks: Sequence[int], one: str, several: str) -> str:
    """The verb that goes with so many ranks."""
    return one if len(set(ranks)) == 1 else several


def differing(records: Sequence[RankRecord]) -> Iterator[str]:
    """Ranks that ran another script, with another framework or trainperf than the first."""
    for groups, text in (
        (_groups(records, _script), "ran another {what} than {first}: the figures are of both"),
        (_groups(records, _frameworks), "had {what}, {first} {other}"),
        (_groups(records, _trainperf), "ran under {what}, {first} under {other}"),
    ):
        (other, first), *rest = groups
        for what, ranks in rest:
            yield f"{numbered(ranks)} " + text.format(
                what=what.partition("\0")[0], other=other, first=f"{numbered(first[:1])}"
            )


def _groups(
    records: Sequence[RankRecord], value: Callable[[RankRecord], str]
) -> list[tuple[str, list[int]]]:
    """Ranks by value, the first record's first; those that have none are left out."""
    groups: dict[str, list[int]] = {}
    for record in records:
        found = value(record)
        if found:
            groups.setdefault(found, []).append(record.place.rank)
    return list(groups.items()) or [("", [])]


def _script(record: RankRecord) -> str:
    return f"{record.label}\0{record.script_sha256}" if record.script_sha256 else ""


def _frameworks(record: RankRecord) -> str:
    return ", ".join(f"{name} {version}" for name, version in sorted(record.frameworks.items()))


def _trainperf(record: RankRecord) -> str:
    return f"trainperf {record.trainperf_version}"
