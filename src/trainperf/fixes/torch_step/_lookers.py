"""Calls of a PyTorch loop that only look on in each step, and their cost."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from trainperf.fixes.common.step import sms_active, step_seconds, traced_kernels
from trainperf.fixes.torch_step._step import part_seconds
from trainperf.model import Evidence, FunctionCost, LogCall, Site, is_taken
from trainperf.model.outside import Outside
from trainperf.model.torch.step import Part

EACH_STEP = 0.5
"""Calls per step from which the work is one of every step."""

OUTSIDE: tuple[Part, ...] = ("rest", "sync", "log")
"""Parts of a step in which such work is done."""

STEERING = ("bool", "index", "int")
"""Reads of a number that a program decides by: no mere looking on."""

MAKES_BATCHES = re.compile(r"batch|sampl|load|data|collate|transform|augment", re.IGNORECASE)
"""Names of functions that read numbers to make the input of a step."""

WRITERS = frozenset({
    "add_histogram", "add_image", "add_images", "add_scalar", "add_scalars", "debug", "dump",
    "dumps", "flush", "info", "log", "print", "save", "savefig", "set_description", "set_postfix",
    "warning", "write", "writerow",
})  # fmt: skip
"""Functions of libraries that put something on record."""

COUNTS = ("tqdm.update",)
"""Calls that count the steps of a bar: fewer of them would show a wrong count."""

SELDOM, DETACH = "seldom", "detach"


@dataclass(frozen=True)
class Work:
    """The work that one function, or one place of the loop itself, does only to look on.

    `name` is the function that does it; in the loop itself that of the library's which is called
    there, "" for none.
    """

    name: str
    where: Site
    seconds: float
    reads: float
    edit: str


def lookers(evidence: Evidence) -> list[Work]:
    """Return the work that only looks on, by function; the loop's own function by place."""
    loop = _loop_functions(evidence)
    turn = evidence.outside_
    spent = turn.spent if isinstance(turn, Outside) else ()
    evaluates = {
        _key(part.where.file, part.where.function)
        for part in spent
        if part.what == "evaluation" and part.where
    }
    on_main = (cost for cost in evidence.functions if cost.thread == "main")
    costs = {_key(cost.file, cost.name): cost for cost in on_main}
    found: list[Work] = []
    groups: dict[tuple[str, str], list[Work]] = {}
    for work, calls in _places(evidence):
        key = _key(work.where.file, work.where.function)
        if key in loop:
            if calls >= EACH_STEP:
                found.append(work)
        elif not _makes(key, costs) and key not in evaluates:
            groups.setdefault(key, []).append(work)
    for key, several in groups.items():
        cost = costs.pop(key, None)
        seconds = sum(work.seconds for work in several)
        if cost is not None:
            seconds = max(seconds, cost.share * evidence.times.real)
        reads = sum(work.reads for work in several)
        found.append(Work(key[1], several[0].where, seconds, reads, SELDOM))
    saves = [one.where for one in spent if one.what == "saving" and one.where is not None]
    told = {_key(where.file, where.function) for where in saves}  # by `torch_save_beside`
    for key, cost in costs.items():
        if key in told:
            continue
        if cost.calls_into in WRITERS and key not in loop and not _makes(key, {key: cost}):
            where = Site(cost.file, cost.line, key[1])
            seconds = cost.share * evidence.times.real
            found.append(Work(key[1], where, seconds, 0.0, SELDOM))
    return found


def _places(evidence: Evidence) -> Iterator[tuple[Work, float]]:
    """The places of the user's that read numbers or log, each with its calls per step.

    What is read for the arguments of a call that logs is its own: a tensor that is copied for it
    and that it then reads counts once.
    """
    syncs = [sync for sync in evidence.torch.syncs if sync.what not in STEERING]
    for log in called_logs(evidence):
        assert log.where is not None
        given = [sync for sync in syncs if _holds(log.where, sync.where)]
        syncs = [sync for sync in syncs if sync not in given]
        seconds = log.seconds + sum(sync.seconds for sync in given)
        reads = max(log.reads, sum(sync.calls for sync in given))
        yield Work(log.what, log.where, seconds, reads, SELDOM), log.calls
    for sync in syncs:
        edit = SELDOM if sync.printed or sync.what != "item" else DETACH
        yield Work("", sync.where, sync.seconds, sync.calls, edit), sync.calls


def called_logs(evidence: Evidence) -> list[LogCall]:
    """The calls by which the user's own source logs, shows or records; bars count on."""
    return [
        log
        for log in evidence.torch.logs
        if log.where is not None and log.where.exact and log.what not in COUNTS
    ]


def _holds(call: Site, site: Site) -> bool:
    return call.file == site.file and call.line <= site.line <= (call.end_line or call.line)


def _makes(key: tuple[str, str], costs: Mapping[tuple[str, str], FunctionCost]) -> bool:
    """Whether a function makes the input of a step, or part of it, by its name or its class's."""
    name = costs[key].name if key in costs else key[1]
    return bool(MAKES_BATCHES.search(name)) or key[1].startswith("__")


def _key(file: str, function: str) -> tuple[str, str]:
    """A function as sites and stack samples both name it: without its class."""
    return os.path.basename(file), function.rpartition(".")[2]


def _loop_functions(evidence: Evidence) -> set[tuple[str, str]]:
    """The functions that train: they hold the loop, a forward, a backward or an update."""
    calls = evidence.torch.calls
    sites = [evidence.loop.where]
    if calls is not None:
        sites += [calls.forward, calls.backward, calls.step, calls.zero_grad]
    return {_key(site.file, site.function) for site in sites if site is not None}


def own_seconds(evidence: Evidence, found: Iterable[Work]) -> float:
    """Seconds of a step that the works take: none of it is in the model's own parts."""
    seconds = sum(work.seconds for work in found)
    if not is_taken(evidence.torch.split_):
        return seconds
    outside = [part.name for part in evidence.torch.split if part.name in OUTSIDE]
    return min(seconds, part_seconds(evidence, *outside)) if outside else 0.0


def gap_seconds(evidence: Evidence) -> float:
    """Seconds of a step in which the GPU ran nothing, at most; 0 without a GPU, or if unknown.

    What a step takes beside the kernels of a trace, which has no optimizer's, and by GPM no
    more than that in which SMs had no work.
    """
    traced = traced_kernels(evidence)
    if evidence.device.kind != "GPU" or traced is None:
        return 0.0
    step = step_seconds(evidence)
    if is_taken(evidence.torch.split_):
        updates = [part.name for part in evidence.torch.split if part.name == "optimizer"]
        traced += part_seconds(evidence, *updates) if updates else 0.0
    return step - min(step, max(traced, step * (sms_active(evidence) or 0.0)))


METHODS = ("item", "tolist", "numpy", "cpu", "to", "cuda")
CONVERSIONS = ("bool", "float", "int")
OTHERS = {"index": "an index", "format": "format", "print": "print"}


def call(what: str) -> str:
    """Write a call that waits for the device as a reader knows it: ".item()", "float()"."""
    if what in METHODS:
        return f".{what}()"
    if what in CONVERSIONS:
        return f"{what}()"
    return OTHERS.get(what, what)


def unsent(logs: Iterable[LogCall]) -> str:
    """Say that sending was not timed, as trackers are kept off the network; "" if none sends."""
    names = sorted({log.unsent for log in logs} - {""})
    were = "was" if len(names) == 1 else "were"
    offline = f"{' and '.join(names)} {were} kept offline: what sending takes was not measured."
    return offline if names else ""
