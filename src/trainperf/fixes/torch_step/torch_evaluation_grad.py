"""An evaluation for which autograd keeps what nobody asks for."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from trainperf.errors import CannotRewrite
from trainperf.fixes import Fix
from trainperf.fixes.common.words import at, ms, percent, worth
from trainperf.fixes.torch_step import _source as source
from trainperf.fixes.torch_step._changes import trains
from trainperf.model import Equivalence, Evidence, Finding, Outside, Site
from trainperf.rewrite import Script
from trainperf.source.statements import Function, called, walk

MAY_TRAIN = re.compile(
    r"train|fit|optimi[sz]e|^grad$|requires_grad|enable_grad|jacobian|hessian", re.IGNORECASE
)
"""Names of calls that may train, or that ask for gradients: of forces, of an attack."""


class EvaluationGrad(Fix):
    """Evaluate under `torch.no_grad()`.

    ## Why it is slow
    A forward outside `no_grad` records the graph for a backward that never comes. Each
    operation allocates a node, and all activations stay in memory until the output is
    dropped.

    ## What changes
    The function that evaluates is decorated with `@torch.no_grad()`, or its loop stands
    under `with torch.no_grad():`. The outputs are the same.

    ## When not to
    - Where gradients of the outputs are asked for (saliency, adversarial examples).
    - `torch.inference_mode()` saves a little more, but its tensors can never take part
      in training.
    """

    category = "model"
    counted = True
    equivalence = Equivalence.EXACT
    framework = "torch"

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find an evaluation whose forwards autograd records."""
        seen = evidence.torch.evaluation
        if seen is None or not seen.grad or not seen.calls:
            return None
        epoch = _epoch(evidence)
        bound = None
        text = "Autograd records the forwards of the evaluation, and no backward follows."
        if epoch is not None:
            validation, epoch_s, turn = epoch
            bound = epoch_s / max(epoch_s - validation, 1e-9)
            if not worth(evidence, bound):
                return None
            text += (
                f" The evaluation takes {ms(validation)} of each {turn} of {ms(epoch_s)} "
                f"({percent(validation / epoch_s)})."
            )
        elif seen.seconds is not None:
            text += f" One such forward takes {ms(seen.seconds)}."
        forward = evidence.torch.calls.forward if evidence.torch.calls else None
        where, shared = seen.where, False
        if where is not None and forward is not None:
            shared = (where.file, where.line) == (forward.file, forward.line)
        name = where.function if where is not None and where.function.isidentifier() else ""
        place = f" ({at(where)})" if where is not None else ""
        return self.finding(
            title=f"The evaluation{place} runs with gradients on",
            text=text,
            bound=bound,
            bound_basis="not measured" if bound is None else "at most all of the evaluation",
            where=(where,) if where is not None else (),
            advice="Evaluate under torch.no_grad().",
            snippet=f"@torch.no_grad()\ndef {name}(...):"
            if name
            else "with torch.no_grad():\n    output = model(x)",
            rewritable=where is not None and where.exact and not shared,
            data={"trains_in": forward.function if forward is not None else ""},
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Decorate the function that evaluates, else put its loop under `no_grad`."""
        site = finding.where[0]
        tree = script.module(site.file)
        function = source.function_around(script, site)
        if function is not None and any(
            isinstance(node, ast.Yield | ast.YieldFrom | ast.Await) for node in walk(function.body)
        ):
            raise CannotRewrite(f"{function.name} is a generator")
        torch = script.module_name(site.file, "torch", site)
        shared = function is not None and function.name == finding.data["trains_in"]
        if function is not None and not shared and not _may_train(tree, function.body):
            head = Site(site.file, function.lineno, function.name)
            script.decorate(head, f"{torch}.no_grad()")
            return
        for node in script.around(site):
            own = function is None or function.lineno < node.lineno
            if own and isinstance(node, source.Loop) and not _may_train(tree, [node]):
                head = Site(site.file, node.lineno, site.function)
                script.wrap_statements(head, head, f"with {torch}.no_grad():")
                return
        raise CannotRewrite("what evaluates stands in what trains")


def _epoch(evidence: Evidence) -> tuple[float, float, str] | None:
    """Seconds of the evaluation, of the turn it comes in with it, and the turn's name.

    That is an epoch, or the steps from one evaluation to the next; None if unknown.
    """
    turn = evidence.outside_
    if isinstance(turn, Outside) and turn.turn == "evaluation":
        return turn.seconds - turn.training_s, turn.seconds, "turn"
    pause = evidence.between_epochs
    if pause is None or not pause.sure or pause.validation_s is None:
        return None
    steps = pause.epoch_steps or evidence.loop.epoch_steps
    if not steps:
        return None
    return pause.validation_s, steps * evidence.times.real + pause.seconds, "epoch"


def _may_train(
    tree: ast.Module, body: Sequence[ast.stmt], seen: frozenset[str] = frozenset()
) -> bool:
    """Whether statements train, by themselves or by functions of the file or of that name."""
    if trains(body):
        return True
    for node in walk(body):
        if not isinstance(node, ast.Call):
            continue
        method = isinstance(node.func, ast.Attribute)
        name = called(node)
        if MAY_TRAIN.search(name) and not (method and name == "train"):
            return True
        if name in seen:
            continue
        for each in ast.walk(tree):
            named = isinstance(each, Function) and each.name == name
            if named and _may_train(tree, each.body, seen | {name}):  # type: ignore[attr-defined]
                return True
    return False
