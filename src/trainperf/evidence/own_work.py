"""The user's own code in each step, by stack samples and its source text."""

from __future__ import annotations

import ast
import os
import textwrap
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from trainperf.evidence.events import Observed
from trainperf.evidence.work_kinds import evaluates, holds_the_step, statements
from trainperf.model import FunctionCost, OwnWork, Site, StackSamples
from trainperf.model.facts import WorkKind

LEAST_SHARE = 0.05
"""Share of the samples below which work is not worth a word."""

ALL = 0.95
"""A function that is on the stack in so many of the samples holds the step, whatever it calls."""

SAME = 0.8
"""A statement is told as the function that it calls, if so much of its time passes there."""

MODULE = "<module>"

CALLS_OF_MODELS = ("_wrapped_call_impl", "_call_impl")
"""Functions behind `torch.nn.Module.__call__`: their time is the model's, whoever calls it."""

_LEAST_SHARE = 0.02


@dataclass(frozen=True)
class _Function:
    """The samples of one function, and the tree of its source where that could be read."""

    file: str
    first: int
    name: str
    counts: tuple[dict[str, Any], ...]
    tree: ast.AST | None

    def share(self, total: int, first: int = 0, last: int = 1 << 30) -> float:
        """Share of the samples with this function on the stack, between two of its lines."""
        return self._of(total, lambda each: first <= each["line"] <= last)

    def own_share(self, total: int) -> float:
        """Share of the samples in which it was the user's innermost, and called no model."""
        return self._of(total, lambda each: each["leaf"] and each["into"] not in CALLS_OF_MODELS)

    def _of(self, total: int, counts: Callable[[dict[str, Any]], bool]) -> float:
        return min(1.0, sum(int(each["n"]) for each in self.counts if counts(each)) / total)

    @property
    def within(self) -> str:
        """The purpose for which the framework mostly ran it: "model", "input" or nothing."""
        seen: defaultdict[str, int] = defaultdict(int)
        for each in self.counts:
            seen[each["within"]] += each["n"]
        return max(seen, key=lambda name: seen[name], default="")


def seen(observed: Observed) -> StackSamples | None:
    """How many samples of the loop's thread there are, and how many waited for a batch."""
    total = fetching = 0
    for event in observed.of("stacks"):
        if "fetching" in event:
            total += int(event["steps"])
            fetching += int(event["fetching"])
    return StackSamples(total, min(1.0, fetching / total)) if total else None


def own_work(observed: Observed) -> tuple[OwnWork, ...]:
    """The pieces of the user's own code that a step passes in, the dearest first.

    A piece is a statement or a function whose source shows what kind of work it is, or a
    function whose own lines take the time. What runs inside another piece is not told again.
    """
    total = sum(int(event["steps"]) for event in observed.of("stacks") if "held" in event)
    if not total:
        return ()
    where = observed.facts.get("where") or observed.start.get("where") or {}
    loop = (os.path.basename(str(where.get("file", ""))), str(where.get("function") or MODULE))
    found: list[OwnWork] = []
    for function in _functions(observed):
        found += _pieces(function, total, loop)
    told = [one for one in found if one.share >= LEAST_SHARE and not _told_apart(one, found)]
    return tuple(sorted(told, key=lambda one: (-one.share, one.kind == "other")))


def _told_apart(one: OwnWork, others: list[OwnWork]) -> bool:
    """Whether a statement only calls a function that is told by itself."""
    return any(
        each.kind == one.kind and each.where != one.where and not each.statement
        for each in others
        if one.statement and each.share >= SAME * one.share
    )


def _functions(observed: Observed) -> Iterator[_Function]:
    groups: dict[tuple[str, int, str], list[dict[str, Any]]] = defaultdict(list)
    texts: dict[tuple[str, int, str], str] = {}
    for event in observed.of("stacks"):
        for count in _with_lines(event.get("held", ())):
            groups[count["file"], count["def"], count["function"]].append(count)
        for source in event.get("sources", ()):
            texts[source["file"], source["def"], source["function"]] = source["text"]
    for key, counts in groups.items():
        yield _Function(*key, tuple(counts), tree_of(texts.get(key, ""), key[1]))


def tree_of(text: str, first: int) -> ast.AST | None:
    """The tree of a function's source, with the lines that it has in its file."""
    try:
        tree = ast.parse(textwrap.dedent(text))
    except (SyntaxError, ValueError):
        return None
    return ast.increment_lineno(tree, first - 1) if tree.body else None


def _pieces(function: _Function, total: int, loop: tuple[str, str]) -> Iterator[OwnWork]:
    holds = function.name == MODULE or _is_loop(function, loop)
    holds = holds or (not function.within and function.share(total) >= ALL)
    if function.tree is not None:
        holds = holds or holds_the_step(function.tree)
        told = False
        for kind, node in statements(function.tree, holds):
            if kind == "recurrence" and function.within != "model":
                continue
            first, last = node.lineno, node.end_lineno or node.lineno
            share = function.share(total, first, last)
            if share >= ALL and not _is_loop(function, loop):
                continue  # the call of the loop stands in it
            told = True
            yield _work(function, kind, total, share, first)
        if told or holds:
            return
        if not function.within and evaluates(function.tree):
            yield _work(function, "evaluation", total, function.share(total))
            return
    if not holds and function.within != "model":
        share = function.own_share(total)
        yield _work(function, "sample" if function.within else "other", total, share)


def _work(
    function: _Function, kind: WorkKind, total: int, share: float, line: int | None = None
) -> OwnWork:
    hot = max(function.counts, key=lambda each: each["n"])
    name = "" if function.name == MODULE else function.name
    statement = line is not None
    where = Site(function.file, line or hot["line"], name)
    into = "" if statement else str(hot["into"])
    return OwnWork(kind, where, share, total, statement, into)


def _is_loop(function: _Function, loop: tuple[str, str]) -> bool:
    bare = function.name.rpartition(".")[2]
    return (os.path.basename(function.file), bare) == loop


def functions(observed: Observed) -> tuple[FunctionCost, ...]:
    """The functions found in at least 2 % of the samples, most frequent first.

    The call that holds the loop (`model.fit(…)`) is left out: all of the step is
    beneath it.
    """
    total = 0
    groups: dict[tuple[str, str, int, str], list[dict[str, Any]]] = defaultdict(list)
    for event in observed.of("stacks"):
        total += int(event["total"])
        for count in _with_lines(event["counts"]):
            key = (count["thread"], count["file"], count["def"], count["function"])
            groups[key].append(count)
    where = observed.facts.get("where") or observed.start.get("where") or {}
    found = [
        _cost(key, counts, total)
        for key, counts in groups.items()
        if total and not _runs_the_loop(key, counts, where)
    ]
    kept = [cost for cost in found if cost.share >= _LEAST_SHARE]
    return tuple(sorted(kept, key=lambda cost: -cost.share))


def _with_lines(counts: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The counts; one whose code object had no line is at its function's."""
    return ({**count, "line": count["line"] or count["def"]} for count in counts)


def _runs_the_loop(
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
