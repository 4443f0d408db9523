"""Evaluations that take a large part of the training."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Sequence

from trainperf.errors import CannotRewrite
from trainperf.fixes import Fix
from trainperf.fixes.common.keras_source import fit_call
from trainperf.fixes.common.trainers import KEY
from trainperf.fixes.common.words import at, ms, percent, worth
from trainperf.model import BetweenEpochs, Equivalence, Evidence, Finding, Site
from trainperf.rewrite import Script
from trainperf.source.arguments import keyword
from trainperf.source.iterations import carried, of_own_loop, stored
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


class EvaluationBetween(Fix):
    """Evaluate less often, or on less data.

    ## Why it is slow
    While a model is evaluated it does not train. An evaluation every few steps, or of as much
    data as was trained on since the last, takes as long as the training itself or longer.

    ## What changes
    Every fifth evaluation is left, by a condition in the loop over epochs or a longer interval.
    In Keras that is `fit(..., validation_freq=5)`. Its curve has fewer points; the training stays
    as it is.

    ## When not to
    - Early stopping, schedules and the choice of the best checkpoint need it often enough.
    - Short trial runs, whose purpose is the curve.
    """

    category = "host"
    concerns = "outside"
    equivalence = Equivalence.SEMANTICS
    framework = "any"
    counted = True

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find evaluations that take more than a third of what the script repeats."""
        pause = evidence.between_epochs
        if evidence.loop.kind == "fit" and pause is not None and pause.validation_s is not None:
            return self._validation(evidence, pause)
        turn = evidence.outside
        if turn.turn == "epoch" and evidence.framework.name == "tensorflow":
            return None
        found = [one for one in turn.spent if one.what == "evaluation"]
        seconds = sum(one.seconds for one in found)
        if not found or seconds < LEAST_SHARE * turn.seconds:
            return None
        where = tuple(one.where for one in found if one.where is not None)
        place = f" ({at(where[0])})" if where else ""
        after = {
            "fit": "after each `fit`",
            "epoch": f"after each epoch of {turn.steps} steps",
            "evaluation": f"every {turn.steps} steps",
            "step": "in each step",
        }[turn.turn]
        least = "" if turn.whole else "at least "
        return self.finding(
            title=f"Evaluation takes {percent(seconds / turn.seconds)} of the time",
            text=f"The model is evaluated {after}{place}: {least}{ms(seconds)}, beside the "
            f"{ms(turn.training_s)} that the training steps take meanwhile.",
            bound=turn.seconds / max(turn.seconds - seconds, 1e-9),
            bound_basis="all of the evaluation",
            where=where,
            advice="Evaluate less often, on fewer batches, or on larger ones: without gradients "
            "more of them fit into memory.",
            rewritable=None if turn.turn in ("epoch", "evaluation") else False,
            data={
                "seconds": seconds,
                "turn_s": turn.seconds,
                "outside": turn.turn != "evaluation",
            },
        )

    def _validation(self, evidence: Evidence, pause: BetweenEpochs) -> Finding | None:
        """Find a validation of `fit` that takes a quarter of each epoch."""
        loop = evidence.loop
        steps = pause.epoch_steps or loop.epoch_steps
        if not pause.sure or loop.epochs == 1 or not steps:
            return None
        pause = pause.without_tracing(evidence.startup)
        taken = pause.validation_s or 0.0
        epoch_s = steps * evidence.times.real + pause.seconds
        share = taken / epoch_s
        bound = epoch_s / (epoch_s - taken)
        short = taken < LEAST_SECONDS and share < MOST_SHARE
        if share < VALIDATION_SHARE or short or not worth(evidence, bound):
            return None
        others = sorted(set(loop.callbacks_given) - WITHOUT)
        used = f" {others[0]} may go by it." if others else ""
        every = _every(loop.epochs)
        return self.finding(
            title=f"Validation takes {percent(share)} of each epoch",
            text=f"After each epoch of {steps} steps ({ms(epoch_s - pause.seconds)}), `fit` "
            f"validates for {ms(taken)}.{used}",
            bound=bound,
            bound_basis="all of the validation",
            where=(loop.where,) if loop.where is not None else (),
            advice="Validate every few epochs, or on fewer steps.",
            snippet=f"model.fit(..., validation_freq={every})",
            rewritable=False if others else None,
            data={"validation_freq": every, "outside": True},
        )

    def write(self, script: Script, finding: Finding) -> None:
        """Make the repair, unless a library's loop goes by what each evaluation gives."""
        held = finding.data.get(KEY)
        if held is not None:
            check_unwatched(script, (*(site.file for site in finding.where), *held["scripts"]))
        super().write(script, finding)

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Have `fit` validate, or what evaluates come, less often."""
        every = finding.data.get("validation_freq")
        if every:
            validate_seldom(script, finding.where[0], every)
            return
        for site in finding.where:
            evaluate_seldom(script, site)


def _every(epochs: int | None) -> int:
    """Epochs from one validation to the next, so that the last epoch is validated, if it can."""
    fits = (every for every in range(SELDOM, 1, -1) if epochs is not None and epochs % every == 0)
    return next(fits, SELDOM)


SELDOM = 5
"""So many times less often an evaluation comes after the edit."""

WATCHERS = ("EarlyStopping", "ReduceLROnPlateau")
"""Parts of the names of what changes a training by the metrics of each evaluation."""

STEERS = re.compile(r"opt|sched|scaler|lr", re.IGNORECASE)
"""How objects are called whose `step` changes the training: that of an environment does not."""


def validate_seldom(script: Script, site: Site, every: int) -> None:
    """Have the `fit` at `site` validate after every so many epochs.

    Raises `CannotRewrite` where the file, or one it imports, goes by the values of each epoch.
    """
    call = fit_call(script, site)
    if keyword(call, "validation_freq") is not None:
        raise CannotRewrite("`fit` is told how often it validates")
    for file in script.project((site.file,)).holding('"val_', "'val_"):
        raise CannotRewrite(f"{os.path.basename(file.path)} goes by the validation of each epoch")
    script.set_keyword(site, "validation_freq", str(every))


def check_unwatched(script: Script, files: Sequence[str]) -> None:
    """Refuse where one of the files, or of those they import, stops or slows down by a metric."""
    for file in script.project(files).holding(*WATCHERS):
        raise CannotRewrite(f"{os.path.basename(file.path)} goes by what each evaluation gives")


def evaluate_seldom(script: Script, site: Site) -> None:
    """Have the evaluation that begins at `site` come in every fifth turn of what asks for it.

    That is an `if step % N == 0` around it, or around the call of the function it stands in;
    else a statement of its own in a loop over a range.
    """
    places = [site, *_calls(script, site)]
    within = [each for each in script.around(site) if isinstance(each, Function)]
    _check_looks_only(within[-1].body if within and len(places) > 1 else [])
    for place in places:
        number = _interval(script, place)
        if number is not None:
            _multiply(script, site, number)
            return
    for place in places[1:]:
        around = script.around(place)
        if len(around) > 1 and isinstance(around[-1], ast.Expr):
            _in_turns(script, place, around[-2], around[-1])
            return
    raise CannotRewrite("what asks for the evaluation is not to be seen, or its result is used")


def _calls(script: Script, site: Site) -> list[Site]:
    """Where the function that the evaluation stands in is called, if at one place of the file."""
    within = [each for each in script.around(site) if isinstance(each, Function)]
    if not within:
        return []
    name = within[-1].name
    found = [
        node
        for node in ast.walk(script.module(site.file))
        if isinstance(node, ast.Call) and last_name(node.func) == name
    ]
    if len(found) != 1:
        raise CannotRewrite(f"{name}() is called at {len(found)} places of the file")
    return [script.site_of(site, found[0])]


def _interval(script: Script, place: Site) -> ast.expr | None:
    """The number N of the innermost `if … % N == 0` around a place, within its function."""
    for node in reversed(script.around(place)):
        if isinstance(node, Function | ast.ClassDef):
            return None
        if not isinstance(node, ast.If) or _in_else(node, place):
            continue
        for each in ast.walk(node.test):
            number = _between(each)
            if number is not None:
                _check_bound(script, place, node)
                _check_looks_only(node.body)
                ends = any(isinstance(each, ast.Return) for each in walk(node.body))
                if ends or of_own_loop(node.body, ast.Break):
                    raise CannotRewrite("the evaluation may end the training")
                return number
    return None


def _between(node: ast.AST) -> ast.expr | None:
    """The N of `turn % N == …` and of `not turn % N`; None for anything else."""
    rest: ast.expr | None = None
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq):
        rest = node.left
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        rest = node.operand
    if not isinstance(rest, ast.BinOp) or not isinstance(rest.op, ast.Mod):
        return None
    if any(
        isinstance(each, ast.Call | ast.Subscript) or _is_text(each) for each in ast.walk(rest.left)
    ):
        return None
    return rest.right


def _is_text(node: ast.AST) -> bool:
    text = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return text or isinstance(node, ast.JoinedStr)


def _check_bound(script: Script, place: Site, node: ast.If) -> None:
    """Refuse where the first turns would read a name that only the evaluation binds."""
    functions = [each for each in script.around(place) if isinstance(each, Function)]
    scope = functions[-1] if functions else script.module(place.file)
    inside = set(ast.walk(node))
    others = [each for each in ast.walk(scope) if isinstance(each, ast.Name) and each not in inside]
    bound = {each.id for each in others if not isinstance(each.ctx, ast.Load)}
    late = stored(node.body) & {each.id for each in others} - bound
    if late:
        raise CannotRewrite(f"{min(late)}, which the evaluation binds, is read elsewhere")
    loops = [each for each in script.around(place) if isinstance(each, LOOPS)]
    for loop in [each for each in loops if each not in inside][-1:]:
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


def _in_else(node: ast.If, place: Site) -> bool:
    return bool(node.orelse) and place.line >= node.orelse[0].lineno


def _multiply(script: Script, near: Site, number: ast.expr) -> None:
    place = script.site_of(near, number)
    if isinstance(number, ast.Constant) and isinstance(number.value, int):
        script.replace_call(place, str(SELDOM * number.value))
    else:
        script.replace_call(place, f"({SELDOM} * {script.expression(place)})")


def _in_turns(script: Script, place: Site, loop: ast.stmt, statement: ast.stmt) -> None:
    """Put a statement of a loop over a range under a condition: every fifth turn, and the last."""
    if not isinstance(loop, ast.For) or statement not in loop.body:
        raise CannotRewrite("the evaluation does not stand in a loop over epochs")
    count, call = loop.target, loop.iter
    if not isinstance(call, ast.Call) or last_name(call.func) not in ("range", "trange"):
        raise CannotRewrite("the loop around the evaluation does not go over a range")
    if not isinstance(count, ast.Name) or not 1 <= len(call.args) <= 2:
        raise CannotRewrite("the loop around the evaluation does not count by one")
    stop, reached = call.args[-1], f"{count.id} + 1"
    one_more = isinstance(stop, ast.BinOp) and isinstance(stop.op, ast.Add)
    if one_more and ast.unparse(stop.right) == "1":  # type: ignore[attr-defined]
        stop, reached = stop.left, count.id  # type: ignore[attr-defined]
    compared = ast.Compare(
        ast.Name(reached, ast.Load()), [ast.Eq()], [stop]
    )  # with brackets where they need be
    last = ast.unparse(compared)
    turn = f"{count.id} % {SELDOM} == 0" if len(call.args) > 1 else _every_fifth(count.id)
    script.wrap_statements(place, place, f"if {turn} or {last}:")


def _every_fifth(name: str) -> str:
    return f"({name} + 1) % {SELDOM} == 0"
