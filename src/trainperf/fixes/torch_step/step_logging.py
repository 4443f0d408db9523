"""Work in every step that only looks at the training: logs, prints, sums of losses."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

from trainperf.fixes import Fix
from trainperf.fixes.cause import Cause, Saving
from trainperf.fixes.common.step import bound_if_saved
from trainperf.fixes.common.trainers import setting_of
from trainperf.fixes.common.words import (
    Edit,
    at,
    make_those_that_can_be,
    ms,
    percent,
    refusal,
    worth_counted,
)
from trainperf.fixes.torch_step._changes import WRITERS, kept_on_device, log_seldom
from trainperf.fixes.torch_step._step import EACH_STEP, gap_seconds, part_seconds
from trainperf.model import Equivalence, Evidence, Finding, FunctionCost, LogCall, Site, is_taken
from trainperf.model.torch import Part
from trainperf.model.training import Outside
from trainperf.rewrite import Script

EVERY = 50
"""Steps between two that are still logged: PyTorch's tuning guide only says "not each"."""

HEAVY = 0.02
"""Share of a step below which one place is not named."""

MOST_NAMED = 3


class TorchStepLogging(Fix):
    """Log every 50 steps, not in each; keep sums of losses on the device.

    Why slow: Python formats and writes while the model waits. Each `.item()`, `.cpu()` or `print`
    of a tensor waits for the GPU, which then has nothing to do until Python starts the next
    kernels.
    Changes: The statement that logs stands under `if step % 50 == 0:`; training computes the same,
    the log has fewer lines. `total += loss.item()` becomes `total += loss.detach().float()`: the
    sum stays on the device and is read where it is used, with the rounding of float32. Counts of
    hits likewise.
    When not:
    - A log that steers the training (early stopping, schedules) or keeps averages: no edit is
      written for it.
    - Where every step must be on record.
    """

    category = "sync"
    usual = 1.2
    equivalence = Equivalence.SEMANTICS

    def look(self, evidence: Evidence) -> Cause | None:
        """Find what reads numbers or logs in each step, or a library's loop that does so."""
        found = sorted(lookers(evidence), key=lambda work: -work.seconds)
        saved = gaps = 0.0
        bound = 1.0
        if found:
            saved = own_seconds(evidence, found)
            gaps = gap_seconds(evidence) if any(work.reads >= EACH_STEP for work in found) else 0.0
            bound = max(_bound(evidence, saved), bound_if_saved(evidence, gaps))
        setting = setting_of(self.id, {}, evidence)
        trainer = evidence.torch.trainer
        if setting is not None and trainer is not None and not worth_counted(bound):
            now = trainer.settings[setting.name]
            return Cause(
                title="The loop of a library logs in every few steps",
                text=f"`{setting.name}` of its `{trainer.cls}` is "
                f"{'left to its default' if now is None else now}.",
                saves=Saving("what it takes was not timed", of="all"),
                rewritable=False,
            )
        if not found:
            return None
        least = HEAVY * evidence.times.real
        named = [work for work in found if work.seconds >= least or work.reads >= EACH_STEP]
        named = [work for work in named if gaps > 0 or work.seconds >= least] or found[:1]
        calls = evidence.torch.calls
        loop = evidence.loop.where
        if loop is None and calls is not None:
            loop = calls.step or calls.backward
        places = tuple(work.where for work in named) + ((loop,) if loop is not None else ())
        edits = [work.edit for work in named]
        return Cause(
            title=_title(evidence, named[0], gaps > saved),
            text=_text(evidence, named, gaps),
            saves=Saving(
                "no time left in which the GPU runs no kernel"
                if gaps > saved
                else "no time left for this in a step",
                ratio=bound,
            ),
            where=places,
            advice=_advice(named[0]),
            snippet=_snippet(named[0]),
            equivalence=Equivalence.NUMERICS if set(edits) == {DETACH} else None,
            rewritable=loop is not None and all(site.exact for site in places),
            data={"edits": edits, "loop": len(edits)},
        )

    def as_written(self, script: Script, finding: Finding) -> Finding:
        """Say so where what only looks on cannot be told from what the training needs."""
        edits = finding.data.get("edits", [])
        loop = finding.where[finding.data["loop"]] if edits else None
        for site, edit in zip(finding.where, edits, strict=False):
            if edit != SELDOM or loop is None:
                continue
            if refusal(script, partial(log_seldom, site=site, anchor=loop, every=EVERY)):
                advice = f"Where it only looks on, do it every {EVERY} steps; what it changes, the "
                return replace(
                    finding,
                    advice=f"{advice}training needs in each, without `.item()`.",
                    snippet="",
                )
        return finding

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Put what logs under an `if`, and leave sums of losses on the device.

        What can be edited is, unless nothing can.
        """
        places = list(finding.where)
        loop = places.pop(finding.data["loop"])
        edits = finding.data["edits"]
        every = EVERY if SELDOM in edits else None
        make: dict[str, Callable[[Site], Edit]] = {
            DETACH: lambda site: partial(kept_on_device, site=site, every=every),
            SELDOM: lambda site: partial(log_seldom, site=site, anchor=loop, every=EVERY),
        }
        make_those_that_can_be(
            script, (make[edit](site) for site, edit in zip(places, edits, strict=True))
        )


def _bound(evidence: Evidence, seconds: float) -> float:
    """Upper bound of the speed-up if the real step took `seconds` less, its input no less."""
    bound = evidence.bound_if_step_saves(seconds)
    if is_taken(evidence.times.input_):
        bound = min(bound, evidence.times.real / max(evidence.times.input, 1e-9))
    return max(1.0, bound)


def _title(evidence: Evidence, work: Work, waits: bool) -> str:
    if work.name and not waits:
        share = percent(min(1.0, work.seconds / evidence.times.real))
        return f"`{work.name}` ({at(work.where)}) takes {share} of every step"
    return f"Every step waits at {at(work.where)} to read a number"


def _text(evidence: Evidence, works: list[Work], gaps: float) -> str:
    named = []
    for work in works[:MOST_NAMED]:
        does = [f"takes {ms(work.seconds)}"] if work.seconds >= 1e-6 else []
        if work.reads >= EACH_STEP:
            does.append(f"reads {work.reads:,.0f} tensors" if work.reads >= 2 else "reads a number")
        place = f"`{work.name}` ({at(work.where)})" if work.name else at(work.where)
        named.append(f"{place} {' and '.join(does)}".rstrip())
    text = f"In each step of {ms(evidence.times.real)}, {', '.join(named)}."
    if evidence.device.kind == "GPU" and gaps > 0:
        text += f" The GPU runs nothing for {ms(gaps)} of a step: after each read it waits for "
        text += "Python to start the next kernel."
    elif evidence.device.kind == "GPU":
        text += " Some of that may be waiting for the GPU to end the step."
    least = HEAVY * evidence.times.real
    sending = unsent(log for log in called_logs(evidence) if log.seconds >= least)
    return f"{text} {sending}".rstrip()


def _advice(work: Work) -> str:
    if work.edit == DETACH:
        return "Add up `loss.detach()`, and call `.item()` once, after the loop."
    name = f"`{work.name}`" if work.name else "what shows the number"
    return f"Call {name} every {EVERY} steps."


def _snippet(work: Work) -> str:
    if work.edit == DETACH:
        return "total_loss += loss.detach()"
    name = work.name.rpartition(".")[2]
    called = f"{name}(...)" if name.isidentifier() else "print(loss.item())"
    return f"if step % {EVERY} == 0:\n    {called}"


# ---------------------------------------------------------------------- what only looks on

OUTSIDE: tuple[Part, ...] = ("rest", "sync", "log")
"""Parts of a step in which such work is done."""

STEERING = ("bool", "index", "int")
"""Reads of a number that a program decides by: no mere looking on."""

MAKES_BATCHES = re.compile(r"batch|sampl|load|data|collate|transform|augment", re.IGNORECASE)
"""Names of functions that read numbers to make the input of a step."""

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
    evaluates, saves = (
        {_key(place.file, place.function) for place in turn.on(kind)[1]}
        if isinstance(turn, Outside)
        else set()
        for kind in ("evaluation", "saving")
    )
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
    for key, cost in costs.items():
        if key in saves:  # told by `torch_save_beside`
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
        file, lines = log.where.file, range(log.where.line, log.where.end_line + 1)
        given = [sync for sync in syncs if sync.where.file == file and sync.where.line in lines]
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


def unsent(logs: Iterable[LogCall]) -> str:
    """Say that sending was not timed, as trackers are kept off the network; "" if none sends."""
    names = sorted({log.unsent for log in logs} - {""})
    were = "was" if len(names) == 1 else "were"
    offline = f"{' and '.join(names)} {were} kept offline: what sending takes was not measured."
    return offline if names else ""
