"""A step that stands in the body of its loop, moved into a compiled function of its own."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

from trainperf.errors import CannotRewrite
from trainperf.model import Site
from trainperf.rewrite import Script
from trainperf.source.effects import effects
from trainperf.source.iterations import arguments, loaded, outside, read_first, read_outside, stored
from trainperf.source.module import Module
from trainperf.source.statements import Function, assigned, called, dotted, walk

NAMES = ("train_step", "compiled_train_step", "compiled_step")
"""Names for the function: the first that the file does not use is taken."""

UPDATES = frozenset(["apply", "apply_gradients", "assign", "assign_add", "assign_sub", "minimize"])
"""Methods of optimizers and variables that change weights."""

ONCE = frozenset({"input", "next"})
"""Built-in functions whose effect is that of one trace."""

ONCE_FROM = ("random.", "numpy.random.", "time.", "datetime.", "logging.")
"""Modules likewise: what they give or do is done when the function is traced."""

OF_GRAPHS = ("add", "update", "update_state")
"""Methods that may be TensorFlow's."""

BEFORE = ("__init__", "build", "compile", "main")
"""Functions that set attributes before a loop runs, not while it does."""

STAYS = (
    *(ast.If, ast.IfExp, ast.While, ast.Try, ast.Match, ast.Assert, ast.Raise, ast.BoolOp),
    *(ast.Break, ast.Continue, ast.Return, ast.Yield, ast.YieldFrom, ast.Await),
    *(ast.Global, ast.Nonlocal, ast.Import, ast.ImportFrom, ast.Delete, ast.NamedExpr),
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef),
)
"""What decides in Python, leaves the step, binds names around it or defines something: it would be
done once, when the function is traced, or not be the same."""


def acts_once(module: Module, code: Iterable[ast.AST]) -> str:
    """Say what code does in Python, so that it is done once per trace; '' if nothing."""
    code = list(code)
    for node in walk(code):
        if isinstance(node, ast.Call) and module.name(node.func) == "open":
            return f"it calls {ast.unparse(node.func)}(), once per trace"
    for effect in effects(module, code):
        call = effect.node if isinstance(effect.node, ast.Call) else None
        name = "" if call is None else called(call)
        if effect.kind in ("sets", "fills") and not effect.own and name not in OF_GRAPHS:
            return f"it changes {effect.text}, once per trace"
        full = "" if call is None else effect.module.name(call.func) or ""
        writes = effect.kind == "writes" and not full.startswith(("tensorflow.", "keras."))
        if writes or full in ONCE or full.startswith(ONCE_FROM):
            return f"it calls {effect.text}, once per trace"
    return ""


@dataclass(frozen=True)
class Step:
    """The statements to be moved, the loops around them, and the scope these stand in."""

    moved: list[ast.stmt]
    outermost: ast.stmt
    functions: tuple[Function, ...]
    module: Module

    @property
    def outside(self) -> list[ast.AST]:
        """What else stands in the loops."""
        return outside([self.outermost], self.moved)


def compile_inline(script: Script, site: Site) -> None:
    """Move the step around the tape at `site` into a function that is compiled.

    Raises `CannotRewrite` where what is moved does something in Python for each step, or
    keeps something from one step to the next.
    """
    step = _step(script, site)
    given, results = _parameters(step), ", ".join(_results(step))
    tensorflow = script.module_name(site.file, "tensorflow")
    call = f"{script.free_name(site.file, *NAMES)}({', '.join(given)})"
    script.move_into_function(
        Site(site.file, step.moved[0].lineno, site.function),
        Site(site.file, step.moved[-1].lineno, site.function),
        f"@{tensorflow}.function\ndef {call}:",
        f"return {results}" if results else "",
        f"{results} = {call}" if results else call,
    )


# ------------------------------------------------------------------- what is moved


def _step(script: Script, site: Site) -> Step:
    around = script.around(site)
    functions = tuple(node for node in around if isinstance(node, Function))
    inner = around[around.index(functions[-1]) :] if functions else around
    loops = [node for node in inner if isinstance(node, ast.For | ast.While)]
    if not loops:
        raise CannotRewrite("the step does not stand in a loop of its function")
    below = inner[inner.index(loops[-1]) :]
    # A site may be that of the call, or of the whole `with`: then it ends in its last statement.
    first = next((node for node in below if _is_tape(node)), None)
    if first is None:
        raise CannotRewrite("no tape is opened in the loop")
    fields = ast.iter_fields(below[below.index(first) - 1])
    block = next((body for _, body in fields if isinstance(body, list) and first in body), None)
    if block is None:
        raise CannotRewrite("the tape stands in no plain block")
    module = script.source(site.file).module
    return Step(_moved(block, module), loops[0], functions, module)


def _moved(body: list[ast.stmt], module: Module) -> list[ast.stmt]:
    """From the first tape to the last update of weights behind the last, and of metrics."""
    tapes = [index for index, node in enumerate(body) if _is_tape(node)]
    first, end, reason = tapes[0], 0, ""
    for index in range(first, len(body)):
        reason = _refused(body[first : index + 1], module)
        if reason and index <= max(tapes[-1], end - 1):
            raise CannotRewrite(reason)
        if reason:
            break
        calls = [node for node in ast.walk(body[index]) if isinstance(node, ast.Call)]
        updates = index > tapes[-1] and any(
            isinstance(call.func, ast.Attribute) and call.func.attr in UPDATES for call in calls
        )
        if updates or (end == index and _is_metric(body[index], module)):
            end = index + 1
    if not end:
        raise CannotRewrite(reason or "where the weights are updated is not seen")
    return body[first:end]


def _is_tape(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.With) and all(
        isinstance(item.context_expr, ast.Call) and called(item.context_expr) == "GradientTape"
        for item in statement.items
    )


def _is_metric(statement: ast.stmt, module: Module) -> bool:
    """Whether a statement updates a metric: by its method, or by calling what is one."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call):
        return False
    made = module.value(call.func)
    metric = isinstance(made, ast.Call) and ".metrics." in (module.name(made.func) or "")
    return metric or called(call) == "update_state"


def _refused(body: list[ast.stmt], module: Module) -> str:
    """Say why some statements may not be traced once in place of run each time; '' if they may."""
    for node in ast.walk(body[-1]):
        if isinstance(node, STAYS):
            return f"line {node.lineno} has Python's `{type(node).__name__.lower()}`"
    reason = acts_once(module, body)
    return f"the step needs it as it is: {reason}" if reason else ""


# ------------------------------------------------------------- what goes in and out


def _ordered(statements: Iterable[ast.stmt], names: set[str]) -> list[str]:
    """Names in the order in which they stand in the source."""
    found = (node for node in walk(statements) if isinstance(node, ast.Name) and node.id in names)
    placed = sorted(found, key=lambda node: (node.lineno, node.col_offset))
    return list(dict.fromkeys(node.id for node in placed))


def _parameters(step: Step) -> list[str]:
    """The names that the statements read and that are not those of the whole module."""
    read = set(read_first(step.moved, stored(step.moved) | loaded(step.moved)))
    local = stored([step.outermost])
    for function in step.functions:
        local |= stored(function.body) | arguments(function)
    changed = _changed(step)
    for node in walk(step.moved):
        if isinstance(node, ast.Attribute) and dotted(node) in changed:
            raise CannotRewrite(f"{dotted(node)} changes while the loop runs")
    return _ordered(step.moved, read & local)


def _changed(step: Step) -> set[str]:
    """Attributes that are set in the loop, or in a function that it may call."""
    others = (
        ast.walk(function)
        for function in step.module.functions
        if function.name not in BEFORE and function not in step.functions
    )
    return {
        dotted(target)
        for node in chain(step.outside, *others)
        for target in assigned(node)
        if isinstance(target, ast.Attribute)
    }


def _results(step: Step) -> list[str]:
    """The names that are read behind the statements, or by the next step, the loss ahead."""
    bound = stored(step.moved)
    used = _read_behind(step, bound) | set(read_first(step.moved, bound))
    losses = [
        node.args[0].id
        for statement in step.moved
        if not _is_tape(statement)
        for node in ast.walk(statement)
        if isinstance(node, ast.Call)
        and called(node) == "gradient"
        and node.args
        and isinstance(node.args[0], ast.Name)
        and node.args[0].id in bound
    ]
    return list(dict.fromkeys([*losses, *_ordered(step.moved, bound & used)]))


def _read_behind(step: Step, bound: set[str]) -> set[str]:
    """Those of some names that are read elsewhere in the loops, or behind them, not bound again."""
    scope = step.functions[-1] if step.functions else step.module.top.node
    end, read = step.outermost.end_lineno or 0, read_outside([step.outermost], step.moved)
    for node in ast.walk(scope):  # each block apart: what leaves one does not leave the others
        around = step.module.parent(node) if isinstance(node, ast.ExceptHandler) else node
        if getattr(around, "lineno", 0) <= end:
            blocks = (block for _, block in ast.iter_fields(node) if isinstance(block, list))
            for block in blocks:
                behind = [
                    part for part in block if isinstance(part, ast.stmt) and part.lineno > end
                ]
                read |= set(read_first(behind, bound))
    return read
