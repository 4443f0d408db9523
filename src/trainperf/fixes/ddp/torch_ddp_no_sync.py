"""Gradients exchanged after every micro-step, where the last of an update would do."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

from trainperf.errors import CannotRewrite, NotMeasured
from trainperf.fixes import Fix
from trainperf.fixes.common.step import bound_if_saved
from trainperf.fixes.common.words import ms, percent, worth
from trainperf.fixes.ranks._exchange import (
    exchange,
    exchange_at_most,
    exchange_seconds,
    to_try_on_exchange,
)
from trainperf.fixes.torch_step._source import innermost_loop, model_target, refuse_if_named
from trainperf.model import Ddp, Equivalence, Evidence, Finding, Site
from trainperf.rewrite import Script
from trainperf.source.statements import called, walk

SEVERAL = 1.5
"""Backward passes per update from which gradients are added up; between, it varies."""

LEFT_OUT = "of the exchanges left out"

SNIPPET = """\
import contextlib

for i, (x, y) in enumerate(loader):
    last = (i + 1) % accumulate == 0
    with contextlib.nullcontext() if last else model.no_sync():
        loss = criterion(model(x), y) / accumulate
        loss.backward()
    if last:
        optimizer.step()
        optimizer.zero_grad()"""

_READS_GRADIENTS = ("clip_grad_norm_", "clip_grad_value_", "unscale_", "get_total_norm")
"""Calls that need gradients of all ranks, so that they must follow an exchange."""


class NoSync(Fix):
    """Exchange gradients once per update: `no_sync()` in all micro-steps but the last.

    ## Why it is slow
    A loop that adds up the gradients of several batches needs their sum over all ranks
    only before the update. DDP does not know that, and exchanges them after each
    backward.

    ## What changes
    Forward and backward of all batches but the last of an update run under
    `model.no_sync()`. The ranks then add up first and exchange the sum: the same
    gradients, rounded in another order.

    ## When not to
    - When something reads gradients after each batch: clipping, logging their norm.
    - With FSDP, `no_sync()` keeps whole gradients in memory.
    """

    category = "sync"
    equivalence = Equivalence.NUMERICS
    framework = "torch"

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find a DDP model that exchanges more than once per update."""
        counted = _dearest(evidence)
        if counted is None:
            return None
        dearest, micro, synced = counted
        share = (synced - 1) / synced
        cost = exchange_at_most(evidence)
        bound = bound_if_saved(evidence, share * cost)
        if not worth(evidence, bound):
            return None
        over = f" over {backend}" if (backend := exchange(evidence).backend) else ""
        text = (
            f"{_said(micro, synced)} That takes {'up to ' if _unsure(evidence) else ''}"
            f"{ms(cost)} of the {ms(evidence.times.real)} step{over}, of which one exchange per "
            f"update would save {percent(share)}."
        )
        return self._finding(evidence, dearest, text, bound, f"{percent(share)} {LEFT_OUT}")

    def possible(self, evidence: Evidence) -> Finding | None:
        """Try it wherever more than one exchange per update was counted."""
        counted = _dearest(evidence)
        if counted is None:
            return None
        dearest, micro, synced = counted
        bound, basis = to_try_on_exchange(evidence, (synced - 1) / synced)
        return self._finding(evidence, dearest, _said(micro, synced), bound, basis)

    def _finding(
        self, evidence: Evidence, ddp: Ddp, text: str, bound: float | None, basis: str
    ) -> Finding:
        where = _places(evidence, ddp)
        alone = len(_several(evidence)) == 1
        return self.finding(
            title="Gradients are exchanged after every batch, and used after several",
            text=text,
            bound=bound,
            bound_basis=basis,
            where=where,
            snippet=SNIPPET,
            rewritable=alone and len(where) >= 3 and all(site.exact for site in where),
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Put forward and backward under `no_sync()`, but in the turn that updates."""
        forward, backward, step, *wrapped = finding.where
        put_under_no_sync(script, forward, backward, step, wrapped[0] if wrapped else None)


def _several(evidence: Evidence) -> list[Ddp]:
    return [one for one in evidence.parallel.ddp if (_counted(one) or (0, 0))[1] > SEVERAL]


def _dearest(evidence: Evidence) -> tuple[Ddp, float, float] | None:
    """The DDP model that exchanges most often, with its backward passes and exchanges."""
    found = _several(evidence)
    if not found:
        return None
    dearest = max(found, key=lambda one: one.synced or 0.0)
    return dearest, *(_counted(dearest) or (1.0, 1.0))


def _said(micro: float, synced: float) -> str:
    return (
        f"Each update adds up the gradients of {micro:.3g} backward passes, and {synced:.3g} of "
        "them exchange."
    )


def _unsure(evidence: Evidence) -> bool:
    """Whether what the exchange takes does not stand out of the noise."""
    try:
        exchange_seconds(evidence)
    except NotMeasured:
        return True
    return False


def _counted(ddp: Ddp) -> tuple[float, float] | None:
    """Backward passes per update, and those with exchange, where they were counted."""
    if ddp.micro_steps is None or ddp.synced is None or ddp.micro_steps <= SEVERAL:
        return None
    return ddp.micro_steps, ddp.synced


def _places(evidence: Evidence, ddp: Ddp) -> tuple[Site, ...]:
    """Forward, backward, update and, where it can be edited, where DDP is built."""
    calls = evidence.torch.calls
    if calls is None or calls.forward is None or calls.backward is None:
        return (ddp.where,) if ddp.where is not None else ()
    step = calls.step
    if step is None:
        return calls.forward, calls.backward
    wrapped = (ddp.where,) if ddp.where is not None and ddp.where.exact else ()
    return calls.forward, calls.backward, step, *wrapped


# The loop that adds up gradients: its micro-steps put under `no_sync()`, but the last.
#
# Only a loop of one shape is edited: forward, backward and `if <every n-th turn>:` with the update
# in it stand in one block, and the condition means the same before the forward as after the
# backward.


def put_under_no_sync(
    script: Script, forward: Site, backward: Site, step: Site, wrapped: Site | None
) -> None:
    """Exchange gradients only in the turn that updates. Raises `CannotRewrite`.

    `forward` is where the loop calls the model, `backward` and `step` where it calls
    these, `wrapped` where DDP is built. Where that is under a condition, or elsewhere,
    the edited loop also runs with a model that is no DDP.
    """
    refuse_if_named(script, forward.file, "no_sync")
    loop = innermost_loop(script, step)
    if not innermost_loop(script, forward) is innermost_loop(script, backward) is loop:
        raise CannotRewrite("forward, backward and update do not stand in one loop")
    update = _update(script, loop, step)
    first, last = _direct(script, loop, forward), _direct(script, loop, backward)
    place = loop.body.index(first)
    until, at = loop.body.index(last), loop.body.index(update)
    if not place <= until < at:
        raise CannotRewrite("the update does not follow the backward in the same block")
    model = _model(script, forward)
    _check_body(loop.body, update)
    _check_condition(update.test, loop.body[place:at], model)
    context = script.module_name(forward.file, "contextlib", forward)
    test = ast.unparse(update.test)
    if not _always_wrapped(script, forward, wrapped, model):
        test = f'{test} or not hasattr({model}, "no_sync")'
    header = f"with {context}.nullcontext() if {test} else {model}.no_sync():"
    script.wrap_statements(forward, backward, header)


def _always_wrapped(script: Script, forward: Site, wrapped: Site | None, model: str) -> bool:
    """Whether what the loop calls is surely a DDP: by its name, and under no condition."""
    if wrapped is None or wrapped.file != forward.file:
        return False
    try:
        if model_target(script, wrapped) != model:
            return False
    except CannotRewrite:
        return False
    conditions = [node for node in script.around(wrapped) if isinstance(node, ast.If | ast.Try)]
    return all(
        isinstance(node, ast.If) and "__name__" in ast.unparse(node.test) for node in conditions
    )


def _update(script: Script, loop: ast.stmt, step: Site) -> ast.If:
    """The `if` directly in the loop whose body updates, and which has no `else`."""
    around = script.around(step)
    inside = around[around.index(loop) + 1]
    if not isinstance(inside, ast.If) or inside.orelse:
        raise CannotRewrite("the update does not stand under a plain `if` of the loop")
    return inside


def _direct(script: Script, loop: ast.For | ast.AsyncFor | ast.While, site: Site) -> ast.stmt:
    """The statement of the loop's own block that holds `site`."""
    around = script.around(site)
    inside = around[around.index(loop) + 1]
    if inside not in loop.body or isinstance(inside, ast.If | ast.Try | ast.For | ast.While):
        raise CannotRewrite("forward or backward do not run in every turn of the loop")
    return inside


def _model(script: Script, forward: Site) -> str:
    """Return the name, or the attributes of one, by which the loop calls the model."""
    call = ast.parse(f"({script.expression(forward)})", mode="eval").body
    func = call.func if isinstance(call, ast.Call) else None
    node = func
    while isinstance(node, ast.Attribute):
        node = node.value
    if func is None or not isinstance(node, ast.Name):
        raise CannotRewrite("the loop calls the model by no plain name")
    return ast.unparse(func)


def _check_body(body: Sequence[ast.stmt], update: ast.If) -> None:
    """Refuse a loop with a second backward, or that reads gradients in every turn."""
    outside = [node for node in body if node is not update]
    calls = [node for node in walk(outside) if isinstance(node, ast.Call)]
    if sum(called(call) == "backward" for call in calls) != 1:
        raise CannotRewrite("the loop has not one backward")
    reads = [called(call) for call in calls if called(call) in _READS_GRADIENTS]
    reads += [
        ".grad" for node in walk(outside) if isinstance(node, ast.Attribute) and node.attr == "grad"
    ]
    if reads:
        raise CannotRewrite(f"every turn of the loop reads gradients ({reads[0]})")


def _check_condition(test: ast.expr, before: Iterable[ast.stmt], model: str) -> None:
    """Refuse a condition that may mean something else before the forward."""
    allowed = (
        *(ast.BoolOp, ast.UnaryOp, ast.BinOp, ast.Compare, ast.Constant, ast.Name),
        *(ast.Attribute, ast.Call),
        *(ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.expr_context),
    )
    nodes = list(ast.walk(test))
    plain = all(isinstance(node, allowed) for node in nodes)
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    if not plain or any(called(call) != "len" or call.keywords for call in calls):
        raise CannotRewrite("the condition of the update is more than a comparison")
    if not any(isinstance(node, ast.Mod) for node in nodes):
        raise CannotRewrite("the condition of the update does not count turns")
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    changed = set(_changed(before)) & {*names, *(_dotted(nodes))}
    if changed:
        raise CannotRewrite(f"{min(changed)} changes between the forward and the update")


def _dotted(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Attribute):
            yield ast.unparse(node)


def _changed(statements: Iterable[ast.stmt]) -> Iterator[str]:
    """The names and attributes that statements give another value."""
    for node in walk(statements):
        if isinstance(node, ast.Name | ast.Attribute) and not isinstance(node.ctx, ast.Load):
            yield ast.unparse(node)
