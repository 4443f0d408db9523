"""Evaluations and checkpoints for which the training stands still."""

from __future__ import annotations

import ast
import os
import re

from trainperf.errors import CannotRewrite
from trainperf.fixes import Fix
from trainperf.fixes.cause import Cause, Saving
from trainperf.fixes.common.keras_source import fit_call
from trainperf.fixes.common.trainers import KEY
from trainperf.fixes.common.words import at, ms, percent
from trainperf.model import BetweenEpochs, Epoch, Equivalence, Evidence, Finding, Site
from trainperf.model.training import TURNS
from trainperf.rewrite import Script
from trainperf.source.arguments import keyword
from trainperf.source.iterations import carried, of_own_loop, outside, read_outside, stored
from trainperf.source.scopes import LOOPS
from trainperf.source.statements import Function, last_name, walk

LEAST_SHARE = 1 / 3
"""Evaluation costs a forward where training costs three: a third of the time is as much data."""

VALIDATION_SHARE = 0.25
"""That of Keras's validation, which is compiled: a fifth of the data costs less."""

LEAST_SECONDS = 0.5
"""A shorter validation belongs to toy epochs ..."""

MOST_SHARE = 0.5
"""... unless it takes more than half of all time."""

WITHOUT = frozenset({"CSVLogger", "LearningRateScheduler", "TensorBoard", "TerminateOnNaN"})
"""Callbacks that do the same after an epoch without validation; others may go by it."""


SELDOM = 5
"""So many times less often an evaluation comes after the edit."""

WATCHERS = ("EarlyStopping", "ReduceLROnPlateau")
"""Parts of the names of what changes a training by the metrics of each evaluation."""

STEERS = re.compile(r"opt|sched|scaler|lr", re.IGNORECASE)
"""How objects are called whose `step` changes the training: that of an environment does not."""


class EvaluationBetween(Fix):
    """Evaluate less often, or on less data.

    Why slow: While a model is evaluated it does not train. An evaluation every few steps, or of as
    much data as was trained on since the last, takes as long as the training itself or longer.
    Changes: Every fifth evaluation is left, by a condition in the loop over epochs or a longer
    interval, in Keras `fit(..., validation_freq=5)`. Its curve has fewer points; the training
    stays as it is.
    When not: Early stopping, schedules and the choice of the best checkpoint need it often enough;
    so do short trial runs, whose purpose is the curve.
    """

    concerns = "outside"
    equivalence = Equivalence.SEMANTICS
    counted = True

    def look(self, evidence: Evidence) -> Cause | None:
        """Find evaluations that take more than a third of what the script repeats."""
        pause = evidence.between_epochs
        if evidence.loop.kind == "fit" and pause is not None and pause.validation_s is not None:
            return _validation(evidence, pause)
        turn = evidence.outside
        if turn.turn == "epoch" and evidence.framework.name == "tensorflow":
            return None
        seconds, where = turn.on("evaluation")
        if seconds < LEAST_SHARE * turn.seconds:
            return None
        return Cause(
            title=f"Evaluation takes {percent(seconds / turn.seconds)} of the time",
            text=f"{TURNS[turn.turn]} ({turn.steps} steps) it takes {ms(seconds)}"
            f"{f' ({at(where[0])})' if where else ''}, the training steps {ms(turn.training_s)}.",
            saves=Saving("all of the evaluation", ratio=turn.ratio_without(seconds), of="all"),
            where=where,
            advice="Evaluate less often, on fewer batches, or on larger ones: without gradients "
            "more of them fit into memory.",
            rewritable=None if turn.turn in ("epoch", "evaluation") else False,
            slices="steps" if turn.turn == "evaluation" else "none",
        )

    def write(self, script: Script, finding: Finding) -> None:
        """Make the repair, unless a library's loop goes by what each evaluation gives."""
        held = finding.data.get(KEY)
        if held is not None:
            files = (*(site.file for site in finding.where), *held["scripts"])
            for file in script.project(files).holding(*WATCHERS):
                raise CannotRewrite(f"{_name(file.path)} goes by what each evaluation gives")
        super().write(script, finding)

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Have `fit` validate, or what evaluates come, less often."""
        every = finding.data.get("validation_freq")
        if every:
            validate_seldom(script, finding.where[0], every)
            return
        for site in finding.where:
            evaluate_seldom(script, site)


def _validation(evidence: Evidence, pause: BetweenEpochs) -> Cause | None:
    """Find a validation of `fit` that takes a quarter of each epoch."""
    loop = evidence.loop
    steps = pause.epoch_steps or loop.epoch_steps
    if not pause.sure or loop.epochs == 1 or not steps:
        return None
    pause = pause.without_tracing(evidence.startup)
    taken = pause.validation_s or 0.0
    trained = steps * evidence.times.real
    epoch_s = trained + pause.seconds
    share = taken / epoch_s
    if share < VALIDATION_SHARE or (taken < LEAST_SECONDS and share < MOST_SHARE):
        return None
    others = sorted(set(loop.callbacks_given) - WITHOUT)
    # so that the last epoch is validated, if it can be
    fits = (every for every in range(SELDOM, 1, -1) if loop.epochs and loop.epochs % every == 0)
    every = next(fits, SELDOM)
    return Cause(
        title=f"Validation takes {percent(share)} of each epoch",
        text=f"After each epoch of {steps} steps ({ms(trained)}), `fit` validates for {ms(taken)}."
        f"{f' {others[0]} may go by it.' if others else ''}",
        saves=Saving("all of the validation", ratio=epoch_s / (epoch_s - taken), of="all"),
        where=(loop.where,) if loop.where is not None else (),
        advice="Validate every few epochs, or on fewer steps.",
        snippet=f"model.fit(..., validation_freq={every})",
        rewritable=False if others else None,
        data={"validation_freq": every},
        slices="none",
    )


LEAST_SAVING = 0.05
"""Share of the time that saving must take to be told of; our choice."""


class TorchSaveBeside(Fix):
    """Write checkpoints less often, or in a thread beside the training.

    Why slow: `torch.save`, or `torch.distributed.checkpoint.save`, packs and writes all weights
    and moments while the training waits.
    Changes: Every fifth checkpoint is written. By hand, a thread may write a copy of the state (of
    shards, `async_save`): a file is whole a moment later. The training is the same.
    When not:
    - A crash may lose more of it than now.
    - A copy of the state needs room in memory, and a file that is read right after must be whole.
    """

    equivalence = Equivalence.SEMANTICS
    framework = "torch"
    concerns = "outside"
    counted = True
    usual = 1.5

    def look(self, evidence: Evidence) -> Cause | None:
        """Find checkpoints that take a part of what the script repeats."""
        turn = evidence.outside
        seconds, where = turn.on("saving")
        if not seconds:
            return None
        place = f" ({at(where[0])})" if where else ""
        often = "step" if turn.steps == 1 else f"{turn.steps:,} steps"
        # nothing else stands in a pause: what comes with saving goes as well
        saved = turn.seconds - turn.training_s if turn.turn == "pause" else seconds
        return Cause(
            title=f"Saving takes {percent(seconds / turn.seconds)} of the time",
            text=f"Checkpoints{place} take {ms(seconds)} in every {often}, beside the "
            f"{ms(turn.training_s)} that the training takes meanwhile.",
            saves=Saving("all that comes with saving", ratio=turn.ratio_without(saved), of="all"),
            where=where,
            sure=seconds >= LEAST_SAVING * turn.seconds,
            snippet="""\
writer = concurrent.futures.ThreadPoolExecutor(1)  # once
written = writer.submit(torch.save, copy.deepcopy(state), path)  # written.result() before the next
""",
            # turns as written, so many that an edited one saves
            slices="none"
            if turn.turn == "epoch"
            else Epoch(SELDOM * turn.steps, SELDOM * turn.seconds, written=True),
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Save in every fifth turn that saved."""
        for site in finding.where:
            evaluate_seldom(script, site)


# -------------------------------------------------------------------------------- edits
# No trial runs evaluations as seldom as the edit has them: what goes by them is refused here.


def _name(path: str) -> str:
    return os.path.basename(path)


def validate_seldom(script: Script, site: Site, every: int) -> None:
    """Have the `fit` at `site` validate after every so many epochs.

    Raises `CannotRewrite` where the file, or one it imports, goes by the values of each epoch.
    """
    if keyword(fit_call(script, site), "validation_freq") is not None:
        raise CannotRewrite("`fit` is told how often it validates")
    for file in script.project((site.file,)).holding('"val_', "'val_"):
        raise CannotRewrite(f"{_name(file.path)} goes by the validation of each epoch")
    script.set_keyword(site, "validation_freq", str(every))


def evaluate_seldom(script: Script, site: Site) -> None:
    """Have the evaluation that begins at `site` come in every fifth turn of what asks for it.

    That is an `if step % N == 0` around it, or around the call of the function it stands in;
    else a statement of its own in a loop over a range.
    """
    place = site
    number = _interval(script, site)
    within = [node for node in script.around(site) if isinstance(node, Function)]
    if within:
        name, own = within[-1].name, set(ast.walk(within[-1]))
        nodes = (node for node in ast.walk(script.module(site.file)) if node not in own)
        calls = [n for n in nodes if isinstance(n, ast.Call) and last_name(n.func) == name]
        if len(calls) > 1:  # one at the end of the training has no interval
            calls = [call for call in calls if _interval(script, script.site_of(site, call))]
        if len(calls) != 1:
            raise CannotRewrite(f"{name}() is called at {len(calls)} places of the file")
        _check_looks_only(within[-1].body)
        place = script.site_of(site, calls[0])
        number = number or _interval(script, place)
    if number is not None:
        text = script.expression(script.site_of(site, number))
        longer = str(SELDOM * int(text)) if text.isdigit() else f"({SELDOM} * {text})"
        script.replace_call(script.site_of(site, number), longer)
        return
    around = script.around(place)
    if not within or len(around) < 2 or not isinstance(around[-1], ast.Expr):
        raise CannotRewrite("what asks for the evaluation is not to be seen, or its result is used")
    script.wrap_statements(place, place, f"if {_fifth_turn(around[-2], around[-1])}:")


def _interval(script: Script, place: Site) -> ast.expr | None:
    """The number N of the innermost `if … % N == 0` around a place, within its function."""
    for node in reversed(script.around(place)):
        if isinstance(node, Function | ast.ClassDef):
            return None
        if not isinstance(node, ast.If) or (node.orelse and place.line >= node.orelse[0].lineno):
            continue
        number = next(filter(None, map(_between, ast.walk(node.test))), None)
        if number is None:
            continue
        _check_bound(script, place, node)
        _check_looks_only(node.body)
        returns = any(isinstance(part, ast.Return) for part in walk(node.body))
        if returns or of_own_loop(node.body, ast.Break):
            raise CannotRewrite("the evaluation may end the training")
        return number
    return None


def _between(node: ast.AST) -> ast.expr | None:
    """The N of `turn % N == …` and of `not turn % N`; None for anything else."""
    match node:
        case ast.Compare(left=ast.BinOp(left=turn, op=ast.Mod(), right=number), ops=[ast.Eq()]):
            pass
        case ast.UnaryOp(op=ast.Not(), operand=ast.BinOp(left=turn, op=ast.Mod(), right=number)):
            pass
        case _:
            return None
    no_counts = (ast.Call, ast.Subscript, ast.JoinedStr)
    for part in ast.walk(turn):
        text = isinstance(part, ast.Constant) and isinstance(part.value, str)
        if text or isinstance(part, no_counts):
            return None
    return number


def _check_bound(script: Script, place: Site, node: ast.If) -> None:
    """Refuse where the first turns would read a name that only the evaluation binds."""
    around, inside = script.around(place), set(ast.walk(node))
    functions = [part for part in around if isinstance(part, Function)]
    scope = functions[-1] if functions else script.module(place.file)
    others = outside([scope], [node])
    late = (stored(node.body) & read_outside([scope], [node])) - stored(others)
    if late:
        raise CannotRewrite(f"{min(late)}, which the evaluation binds, is read elsewhere")
    for loop in [part for part in around if isinstance(part, LOOPS) and part not in inside][-1:]:
        given = stored([loop.target]) if isinstance(loop, ast.For) else ()
        steers = carried(loop.body, given, stored(node.body), without=node)
        if steers:
            raise CannotRewrite(f"{steers}, which is set with the evaluation, is read in each turn")


def _check_looks_only(body: list[ast.stmt]) -> None:
    """Refuse an evaluation that changes learning rates or weights as well."""
    for node in walk(body):
        if isinstance(node, ast.Attribute):
            steps = node.attr == "step" and STEERS.search(ast.unparse(node.value))
            if steps or node.attr in ("backward", "param_groups"):
                raise CannotRewrite(f"{ast.unparse(node)} comes with the evaluation")


def _fifth_turn(loop: ast.stmt, statement: ast.stmt) -> str:
    """The condition of every fifth turn, and the last, of a loop over a range."""
    if not isinstance(loop, ast.For) or statement not in loop.body:
        raise CannotRewrite("the evaluation does not stand in a loop over epochs")
    count, call = loop.target, loop.iter
    if not isinstance(call, ast.Call) or last_name(call.func) not in ("range", "trange"):
        raise CannotRewrite("the loop around the evaluation does not go over a range")
    if not isinstance(count, ast.Name) or not 1 <= len(call.args) <= 2:
        raise CannotRewrite("the loop around the evaluation does not count by one")
    turn, stop = count.id, call.args[-1]
    fifth = f"{turn} % {SELDOM} == 0" if len(call.args) > 1 else f"({turn} + 1) % {SELDOM} == 0"
    match stop:
        case ast.BinOp(left=last, op=ast.Add(), right=ast.Constant(value=1)):
            reached = turn
        case last:
            reached = f"{turn} + 1"
    # with brackets where they need be
    ends = ast.unparse(ast.Compare(ast.Name(reached, ast.Load()), [ast.Eq()], [last]))
    return f"{fifth} or {ends}"
