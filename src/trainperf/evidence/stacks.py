"""The user's own functions, by how often they were found on a stack."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from trainperf.evidence.events import Observed
from trainperf.model import FunctionCost

LEAST_SHARE = 0.02


def functions(observed: Observed) -> tuple[FunctionCost, ...]:
    """The functions found in at least 2 % of the samples, most frequent first.

    The call that holds the loop (`model.fit(…)`) is left out: all of the step is
    beneath it.
    """
    total = 0
    groups: dict[tuple[str, str, int, str], list[dict[str, Any]]] = defaultdict(list)
    for event in observed.of("stacks"):
        total += int(event["total"])
        for count in with_lines(event["counts"]):
            key = (count["thread"], count["file"], count["def"], count["function"])
            groups[key].append(count)
    where = observed.facts.get("where") or observed.start.get("where") or {}
    found = [
        _cost(key, counts, total)
        for key, counts in groups.items()
        if total and not _is_loop(key, counts, where)
    ]
    kept = [cost for cost in found if cost.share >= LEAST_SHARE]
    return tuple(sorted(kept, key=lambda cost: -cost.share))


def with_lines(counts: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The counts; one whose code object had no line is at its function's."""
    return ({**count, "line": count["line"] or count["def"]} for count in counts)


def _is_loop(
    key: tuple[str, str, int, str], counts: list[dict[str, Any]], where: dict[str, Any]
) -> bool:
    thread, file, _, name = key
    bare = name.rpartition(".")[2]  # samples name a method with its class, places do not
    if thread != "main" or file != where.get("file") or bare != where.get("function"):
        return False
    first, last = where["line"], max(where["line"], where.get("end_line") or 0)
    beneath = sum(count["n"] for count in counts if first <= count["line"] <= last)
    return bool(beneath >= 0.5 * sum(count["n"] for count in counts))


def _cost(key: tuple[str, str, int, str], counts: list[dict[str, Any]], total: int) -> FunctionCost:
    thread, file, _, name = key
    lines: Counter[int] = Counter()
    into: Counter[str] = Counter()
    for count in counts:
        lines[count["line"]] += count["n"]
        into[count["into"]] += count["n"]
    samples = sum(lines.values())
    return FunctionCost(
        name=name,
        file=file,
        line=lines.most_common(1)[0][0],
        share=min(1.0, samples / total),
        thread="main" if thread == "main" else "worker",
        samples=samples,
        calls_into=into.most_common(1)[0][0],
    )
