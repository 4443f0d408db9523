"""Work in every step that only looks at the training: logs, prints, sums of losses."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from trainperf.errors import CannotRewrite
from trainperf.fixes import Fix
from trainperf.fixes.common import trainers
from trainperf.fixes.common.repeating import RANDOM
from trainperf.fixes.common.step import bound_if_saved
from trainperf.fixes.common.words import (
    Edit,
    at,
    make_those_that_can_be,
    ms,
    percent,
    refusal,
    worth,
)
from trainperf.fixes.torch_step import _changes as changes
from trainperf.fixes.torch_step import _source as source
from trainperf.fixes.torch_step._changes import log_seldom
from trainperf.fixes.torch_step._lookers import (
    DETACH,
    EACH_STEP,
    SELDOM,
    SINK,
    Work,
    called_logs,
    gap_seconds,
    lookers,
    own_seconds,
    places_of,
    step_site,
    unsent,
)
from trainperf.fixes.torch_step._sums import kept_on_device
from trainperf.model import Equivalence, Evidence, Finding, Site, is_taken
from trainperf.rewrite import Script
from trainperf.source.statements import Function, assigned, called, last_name, names_in, walk
from trainperf.source.text import Source

EVERY = 50
"""Steps between two that are still logged: PyTorch's tuning guide only says "not each"."""

HEAVY = 0.02
"""Share of a step below which one place is not named."""


class SeldomLogging(Fix):
    """Log every 50 steps, not in each; keep sums of losses on the device.

    ## Why it is slow
    Python formats and writes while the model waits. Each `.item()`, `.cpu()` or
    `print` of a tensor waits until the GPU has computed it; the GPU then has nothing
    to do until Python has started the next kernels.

    ## What changes
    The statement that logs stands under `if step % 50 == 0:`; training computes the
    same, the log has fewer lines. `total += loss.item()` becomes
    `total += loss.detach().float()`: the sum stays on the device and is read where it
    is used, with the rounding of float32. Counts of hits, and lists of losses, likewise.
    What is computed in each step and looked at under an `if` goes there: the log stays as it is.

    ## When not to
    - A log that steers the training (early stopping, schedules) or keeps averages: no
      edit is written for it.
    - Where every step must be on record.
    """

    category = "sync"
    usual = 1.2
    equivalence = Equivalence.SEMANTICS
    framework = "torch"

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find what reads numbers or logs in each step, and what of the step it takes."""
        found = sorted(lookers(evidence), key=lambda work: -work.seconds)
        if not found:
            return None
        saved = own_seconds(evidence, found)
        gaps = gap_seconds(evidence) if any(work.reads >= EACH_STEP for work in found) else 0.0
        bound = max(_bound(evidence, saved), bound_if_saved(evidence, gaps))
        if not worth(evidence, bound):
            return None
        least = HEAVY * evidence.times.real
        named = [work for work in found if work.seconds >= least or work.reads >= EACH_STEP]
        named = [work for work in named if gaps > 0 or work.seconds >= least] or found[:1]
        loop = evidence.loop.where or step_site(evidence)
        edits = [work.edit for work in named]
        exact = loop is not None and all(site.exact for site in (loop, *places_of(named)))
        waits = gaps > saved
        return self.finding(
            title=_title(evidence, named[0], waits),
            text=_text(evidence, named, gaps, saved),
            bound=bound,
            bound_basis="no time left in which the GPU runs no kernel"
            if waits
            else "no time left for this in a step",
            where=places_of(named) + ((loop,) if loop is not None else ()),
            advice=_advice(named[0]),
            snippet=_snippet(named[0]),
            equivalence=Equivalence.NUMERICS if set(edits) == {DETACH} else None,
            rewritable=exact,
            data={"edits": edits, "loop": len(edits)},
        )

    def possible(self, evidence: Evidence) -> Finding | None:
        """Try the setting by which a library's loop logs, whatever that takes."""
        found = super().possible(evidence)
        setting = trainers.setting_of(self.id, {}, evidence)
        if found is not None or setting is None:
            return found
        trainer = evidence.torch.trainer
        assert trainer is not None
        now = trainer.settings[setting.name]
        return self.finding(
            title="The loop of a library logs in every few steps",
            text=f"`{setting.name}` of its `{trainer.cls}` is "
            f"{'left to its default' if now is None else now}.",
            bound=None,
            bound_basis="what it takes was not timed",
            rewritable=False,
        )

    def as_written(self, script: Script, finding: Finding) -> Finding:
        """Move what only some steps look at to where it is looked at: training and log stay."""
        edits = finding.data.get("edits", [])
        loop = finding.where[finding.data["loop"]] if edits else None
        seen = [
            SINK if edit == SELDOM and loop is not None and _sinks(script, site, loop) else edit
            for site, edit in zip(finding.where, edits, strict=False)
        ]
        if SELDOM in seen or SINK not in seen:
            return finding
        return replace(
            finding,
            equivalence=Equivalence.NUMERICS if DETACH in seen else Equivalence.EXACT,
            advice="Compute it in the steps that look at it.",
            data={**finding.data, "edits": seen},
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Put what logs under an `if`, and leave sums of losses on the device.

        What can be edited is, unless nothing can.
        """
        places = list(finding.where)
        loop = places.pop(finding.data["loop"])
        edits = finding.data["edits"]
        every = EVERY if SELDOM in edits else None
        make: dict[str, Callable[[Site], Edit]] = {
            SINK: lambda site: partial(_sink, site=site, anchor=loop),
            DETACH: lambda site: partial(kept_on_device, site=site, every=every),
            SELDOM: lambda site: partial(log_seldom, site=site, anchor=loop, every=EVERY),
        }
        make_those_that_can_be(
            script, (make[edit](site) for site, edit in zip(places, edits, strict=True))
        )


def _sinks(script: Script, site: Site, loop: Site) -> bool:
    return refusal(script, partial(_sink, site=site, anchor=loop)) is None


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


def _text(evidence: Evidence, works: list[Work], gaps: float, saved: float) -> str:
    named = []
    least = HEAVY * evidence.times.real
    for work in works[:3]:
        name = f"`{work.name}` ({at(work.where)})" if work.name else at(work.where)
        took = f" takes {ms(work.seconds)}" if work.seconds >= 1e-6 else ""
        reads = f" reads {work.reads:,.0f} tensors" if work.reads >= 2 else ""
        if not reads and work.reads >= EACH_STEP:
            reads = " reads a number"
        named.append(f"{name}{took}{' and' if took and reads else ''}{reads}")
    text = f"In each step of {ms(evidence.times.real)}, {', '.join(named)}."
    if evidence.device.kind == "GPU" and gaps > 0:
        text += (
            f" The GPU runs nothing for {ms(gaps)} of a step: after each read it waits until "
            "Python has started the next kernel."
        )
    elif evidence.device.kind == "GPU":
        text += " Some of that may be waiting for the GPU to end the step."
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


def _sink(script: Script, site: Site, anchor: Site) -> None:
    """Move `x = observe(…)` of the loop at `anchor` into the `if` behind it that alone reads `x`.

    `observe` is the function that `site` stands in. Raises `CannotRewrite` where it does more than
    observe, or where more than that `if` needs its result as it was.
    """
    tree = script.module(site.file)
    function = source.function_around(script, site)
    if function is None:
        raise CannotRewrite("no function of its own does the work")
    if any(RANDOM.search(last_name(node)) for node in _named(function)):
        raise CannotRewrite(f"{function.name} may draw random numbers")
    more = changes.does_more(tree, function)
    if more:
        raise CannotRewrite(f"it does more than observe: {more}")
    loop = source.innermost_loop(script, anchor)
    around = source.owner(script, anchor, loop)
    found = [
        (block, index)
        for block in _blocks(loop.body)
        for index, each in enumerate(block)
        if _is_result_of(each, function.name)
    ]
    used = [node for node in walk(loop.body) if _calls_it(node, function.name)]
    if len(found) != 1 or len(used) != 1:
        raise CannotRewrite(f"no statement of the loop keeps what {function.name} gives")
    block, index = found[0]
    statement = block[index]
    assert isinstance(statement, ast.Assign)
    branch = _reader(tree, around, block, index)
    text = _with_comment(script.source(anchor.file), statement)
    first = branch.body[0]
    script.insert_before(script.site_of(anchor, source.first_expression(first)), text)
    script.remove_statement(script.site_of(anchor, statement.value))


def _with_comment(text: Source, statement: ast.stmt) -> str:
    """The text of a statement, with the comment that ends its line."""
    start, end = text.span(statement)
    comment = text.comment_after(end)
    return text.text[start : end if comment is None else comment[1]]


def _reader(
    tree: ast.Module, around: Sequence[ast.stmt], block: Sequence[ast.stmt], index: int
) -> ast.If:
    """The `if` of the same block whose body alone reads what the statement makes."""
    statement = block[index]
    [target] = assigned(statement)
    assert isinstance(target, ast.Name)
    reads = [node for node in walk(around) if isinstance(node, ast.Name) and node.id == target.id]
    for place, each in enumerate(block[index + 1 :], index + 1):
        if not isinstance(each, ast.If):
            continue
        inside = {id(node) for node in walk(each.body)}
        if all(node is target or id(node) in inside for node in reads):
            between = list(block[index + 1 : place])
            made = {
                name for node in walk(between) for one in assigned(node) for name in names_in(one)
            }
            if changes.changes(tree, between) or made & names_in(statement):
                break
            return each
    raise CannotRewrite("more than what is done in some of the steps reads it")


def _blocks(body: Sequence[ast.stmt]) -> Iterator[Sequence[ast.stmt]]:
    """The blocks whose statements every turn of the loop makes."""
    yield body
    for node in body:
        if isinstance(node, ast.With):
            yield from _blocks(node.body)


def _is_result_of(node: ast.stmt, name: str) -> bool:
    plain = isinstance(node, ast.Assign) and len(node.targets) == 1
    return plain and isinstance(node.targets[0], ast.Name) and _calls_it(node.value, name)  # type: ignore[attr-defined]


def _named(function: Function) -> Iterator[ast.expr]:
    return (node for node in walk(function.body) if isinstance(node, ast.Name | ast.Attribute))


def _calls_it(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Call) and called(node) == name
