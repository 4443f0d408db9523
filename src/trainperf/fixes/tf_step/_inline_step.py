"""A step that stands in the body of its loop, moved into a compiled function of its own."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from trainperf.errors import CannotRewrite
from trainperf.fixes.tf_step._traced_bodies import NUMBERS_ONLY, acts_once
from trainperf.model import Site
from trainperf.rewrite import Script
from trainperf.source.statements import Function, assigned, dotted, root

NAMES = ("train_step", "compiled_train_step", "compiled_step")
"""Names for the function: the first that the file does not use is taken."""

UPDATES = frozenset(["apply", "apply_gradients", "assign", "assign_add", "assign_sub", "minimize"])
"""Methods of optimizers and variables that change weights."""

TO_PYTHON = frozenset({"bool", "float", "format", "hash", "int", "str"})
READS = frozenset({"numpy", "item", "tolist"})
"""Calls that make a Python value of a tensor: there is none while a function is traced."""

BEFORE = ("__init__", "build", "compile", "main")
"""Functions that set attributes before a loop runs, not while it does."""

CHOICES = (ast.If, ast.IfExp, ast.While, ast.Try, ast.Match, ast.Assert, ast.Raise, ast.BoolOp)
JUMPS = (ast.Break, ast.Continue, ast.Return, ast.Yield, ast.YieldFrom, ast.Await)
BINDINGS = (ast.Global, ast.Nonlocal, ast.Import, ast.ImportFrom, ast.Delete, ast.NamedExpr)
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)

_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(frozen=True)
class Names:
    """Names in the order in which they are first read, and first bound.

    `read` are those that must be there before: read first, or read and bound in one.
    """

    read: tuple[str, ...]
    bound: tuple[str, ...]

    @classmethod
    def of(cls, statements: Iterable[ast.stmt]) -> Names:
        """The names of statements that run one after the other."""
        walk = _Walk()
        for statement in statements:
            walk.visit(statement)
        return cls(tuple(walk.read), tuple(walk.bound))


@dataclass(frozen=True)
class Step:
    """The statements to be moved, the loops around them, and the scope these stand in."""

    moved: tuple[ast.stmt, ...]
    loop: ast.For | ast.While
    outermost: ast.stmt
    functions: tuple[Function, ...]
    module: ast.Module

    @property
    def scope(self) -> ast.AST:
        """The innermost function around the loop, or the module."""
        return self.functions[-1] if self.functions else self.module


def compile_inline(script: Script, site: Site) -> None:
    """Move the step around the tape at `site` into a function that is compiled.

    Raises `CannotRewrite` where what is moved does something in Python for each step, or
    keeps something from one step to the next.
    """
    step = _step(script, site)
    names = Names.of(step.moved)
    given = _parameters(step, names)
    results = _results(step, names)
    tensorflow = script.module_name(site.file, "tensorflow")
    name = script.free_name(site.file, *NAMES)
    call = f"{name}({', '.join(given)})"
    listed = ", ".join(results)
    script.move_into_function(
        _at(site, step.moved[0]),
        _at(site, step.moved[-1]),
        f"@{tensorflow}.function\ndef {call}:",
        f"return {listed}" if results else "",
        f"{listed} = {call}" if results else call,
    )


def _at(site: Site, node: ast.stmt) -> Site:
    return type(site)(site.file, node.lineno, site.function)


# ------------------------------------------------------------------- what is moved


def _step(script: Script, site: Site) -> Step:
    around = script.around(site)
    functions = tuple(each for each in around if isinstance(each, Function))
    inner = around[around.index(functions[-1]) :] if functions else around
    loops = [each for each in inner if isinstance(each, ast.For | ast.While)]
    if not loops:
        raise CannotRewrite("the step does not stand in a loop of its function")
    if any(isinstance(each, ast.ClassDef) for each in inner):
        raise CannotRewrite("the loop stands in the body of a class")
    loop = loops[-1]
    below = inner[inner.index(loop) + 1 :]
    # A site may be that of the call, or of the whole `with`: then it ends in its last statement.
    first = next((each for each in below if _is_tape(each)), None)
    if first is None:
        raise CannotRewrite("no tape is opened in the loop")
    parent = (loop, *below)[below.index(first)]
    block = next((body for body in _blocks(parent) if first in body), None)
    if block is None:
        raise CannotRewrite("the tape stands in no plain block")
    module = script.module(site.file)
    moved = _moved(block, module)
    if first not in moved:
        raise CannotRewrite("the step is not in one piece")
    return Step(moved, loop, loops[0], functions, module)


def _blocks(parent: ast.stmt) -> Iterable[list[ast.stmt]]:
    return (value for _, value in ast.iter_fields(parent) if isinstance(value, list))


def _moved(body: Sequence[ast.stmt], module: ast.Module) -> tuple[ast.stmt, ...]:
    """From the first tape to the last update of weights behind the last, and of metrics."""
    tapes = [index for index, each in enumerate(body) if _is_tape(each)]
    first, end = tapes[0], 0
    for index in range(first, len(body)):
        reason = _refused(body[first : index + 1], module)
        if reason and index <= max(tapes[-1], end - 1):
            raise CannotRewrite(reason)
        if reason:
            break
        updates = index > tapes[-1] and _updates(body[index])
        if updates or (end == index and _is_metric(body[index], module)):
            end = index + 1
    if not end:
        raise CannotRewrite(reason or "where the weights are updated is not seen")
    return tuple(body[first:end])


def _is_tape(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.With) and all(
        isinstance(item.context_expr, ast.Call)
        and dotted(item.context_expr.func).rpartition(".")[2] == "GradientTape"
        for item in statement.items
    )


def _calls(node: ast.AST) -> Iterable[ast.Call]:
    return (each for each in ast.walk(node) if isinstance(each, ast.Call))


def _updates(statement: ast.stmt) -> bool:
    return any(
        isinstance(call.func, ast.Attribute) and call.func.attr in UPDATES
        for call in _calls(statement)
    )


def _is_metric(statement: ast.stmt, module: ast.Module) -> bool:
    """Whether a statement updates a metric: by its method, or by calling what is one."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call):
        return False
    if isinstance(call.func, ast.Attribute) and call.func.attr == "update_state":
        return True
    name = dotted(call.func)
    return bool(name) and any(
        isinstance(node, ast.Assign)
        and any(dotted(target) == name for target in node.targets)
        and isinstance(node.value, ast.Call)
        and ".metrics." in f".{dotted(node.value.func)}"
        for node in ast.walk(module)
    )


def _refused(body: Sequence[ast.stmt], module: ast.Module) -> str:
    """Say why some statements may not be traced once in place of run each time; '' if they may."""
    last = body[-1]
    for kinds, what in (
        (CHOICES, "decides in Python"),
        (JUMPS, "leaves the step"),
        (BINDINGS, "binds names of its surroundings"),
        (DEFINITIONS, "defines a function"),
    ):
        for node in ast.walk(last):
            if isinstance(node, kinds):
                return f"line {node.lineno} {what}"
    function = _function(body)
    reason = acts_once(function) or _reads(function)
    own = {each.name: each for each in ast.walk(module) if isinstance(each, Function)}
    for call in _calls(last):
        called = own.get(dotted(call.func).rpartition(".")[2])
        if called is not None and not reason:
            inside = acts_once(called) or _reads(called)
            reason = f"in {called.name} {inside}" if inside else ""
    return f"the step needs it as it is: {reason}" if reason else ""


def _function(body: Sequence[ast.stmt]) -> ast.FunctionDef:
    (function,) = ast.parse("def step(): pass").body
    assert isinstance(function, ast.FunctionDef)
    function.body = list(body)
    return function


def _reads(function: Function) -> str:
    for call in _calls(function):
        called = dotted(call.func)
        method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        if called in TO_PYTHON or method in READS or root(call.func) in NUMBERS_ONLY:
            return f"it calls {ast.unparse(call.func)}()"
    return ""


# ------------------------------------------------------------- what goes in and out


def _parameters(step: Step, names: Names) -> list[str]:
    """The names that the statements read and that are not those of the whole module."""
    kept = [name for name in names.read if name in names.bound]
    if kept:
        raise CannotRewrite(f"{kept[0]} is kept from step to step")
    local: set[str] = set()
    for function in step.functions:
        local |= _bound_in(function)
    given = [name for name in names.read if name in local | _bound_in(step.outermost)]
    counted = _counters(step.loop) & set(given)
    if counted:
        raise CannotRewrite(f"it uses the number of the step, {min(counted)}")
    changed = _changed(step)
    for node in _nodes(step.moved):
        if isinstance(node, ast.Attribute) and dotted(node) in changed:
            raise CannotRewrite(f"{dotted(node)} changes while the loop runs")
    return given


def _changed(step: Step) -> set[str]:
    """Attributes that are set in the loop, or in a function that it may call."""
    others = [
        node
        for function in ast.walk(step.module)
        if isinstance(function, Function)
        and function.name not in BEFORE
        and function not in step.functions
        for node in ast.walk(function)
    ]
    return {
        dotted(target)
        for node in (*_outside(step.outermost, step.moved), *others)
        for target in assigned(node)
        if isinstance(target, ast.Attribute)
    }


def _bound_in(node: ast.AST) -> set[str]:
    """Every name that is bound anywhere in a piece of source."""
    found: set[str] = set()
    for each in ast.walk(node):
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
            found.add(each.id)
        elif isinstance(each, ast.arg):
            found.add(each.arg)
        elif isinstance(each, ast.alias):
            found.add(each.asname or each.name.partition(".")[0])
        elif isinstance(each, DEFINITIONS) and each is not node:
            found.add(each.name)
    return found


def _counters(loop: ast.For | ast.While) -> set[str]:
    """Names that count the steps in Python: each value would be traced anew."""
    found = {
        node.target.id
        for node in ast.walk(loop)
        if isinstance(node, ast.AugAssign)
        and isinstance(node.target, ast.Name)
        and isinstance(node.value, ast.Constant)
    }
    if not isinstance(loop, ast.For):
        return found
    target, counts = loop.target, ast.unparse(loop.iter)
    if "enumerate(" in counts and isinstance(target, ast.Tuple):
        target = target.elts[0]
    elif "range(" not in counts:
        return found
    return found | {each.id for each in ast.walk(target) if isinstance(each, ast.Name)}


def _results(step: Step, names: Names) -> list[str]:
    """The names that are read behind the statements, the loss ahead of all."""
    used = _read_behind(step)
    losses = [name for name in _losses(step.moved) if name in names.bound]
    results = list(dict.fromkeys([*losses, *(name for name in names.bound if name in used)]))
    tapes = {
        item.optional_vars.id
        for node in _nodes(step.moved)
        if isinstance(node, ast.With)
        for item in node.items
        if isinstance(item.optional_vars, ast.Name)
    }
    for name in results:
        if name in tapes:
            raise CannotRewrite(f"{name} is used behind the step")
    return results


def _losses(moved: Iterable[ast.stmt]) -> list[str]:
    """The names whose gradients are taken, behind the tapes and not within them."""
    return [
        call.args[0].id
        for statement in moved
        if not _is_tape(statement)
        for call in _calls(statement)
        if isinstance(call.func, ast.Attribute)
        and call.func.attr == "gradient"
        and call.args
        and isinstance(call.args[0], ast.Name)
    ]


def _read_behind(step: Step) -> set[str]:
    """Names read elsewhere in the loops, or behind them before they are bound again."""
    used = {
        node.id
        for node in _outside(step.outermost, step.moved)
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Store)
    }
    end = step.outermost.end_lineno or 0
    behind = sorted(
        (node for node in ast.walk(step.scope) if isinstance(node, ast.Name) and node.lineno > end),
        key=_read_first,
    )
    seen: set[str] = set()
    for node in behind:
        if node.id not in seen and not isinstance(node.ctx, ast.Store):
            used.add(node.id)
        seen.add(node.id)
    return used


def _read_first(node: ast.Name) -> tuple[int, bool, int]:
    """In the order of the lines; what is read on a line is read before what is bound on it."""
    return node.lineno, isinstance(node.ctx, ast.Store), node.col_offset


def _nodes(moved: Iterable[ast.stmt]) -> Iterable[ast.AST]:
    return (node for statement in moved for node in ast.walk(statement))


def _outside(whole: ast.AST, moved: Iterable[ast.stmt]) -> list[ast.AST]:
    inside = {id(node) for node in _nodes(moved)}
    return [node for node in ast.walk(whole) if id(node) not in inside]


class _Walk(ast.NodeVisitor):
    """Visits in the order of evaluation, as far as names are concerned."""

    def __init__(self) -> None:
        self.read: dict[str, None] = {}
        self.bound: dict[str, None] = {}
        self._own: list[set[str]] = []

    def visit_Name(self, node: ast.Name) -> None:
        if any(node.id in own for own in self._own):
            return
        if isinstance(node.ctx, ast.Load):
            if node.id not in self.bound:
                self.read[node.id] = None
        else:
            self.bound[node.id] = None

    def visit_Assign(self, node: ast.Assign) -> None:
        self._all(node.value, *node.targets)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._all(node.value, node.target)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name) and node.target.id not in self.bound:
            self.read[node.target.id] = None
        self._all(node.value, node.target)

    def visit_For(self, node: ast.For) -> None:
        self._all(node.iter, node.target, *node.body, *node.orelse)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._all(*node.args.defaults, *node.args.kw_defaults)
        every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        every += [each for each in (node.args.vararg, node.args.kwarg) if each]
        with self._apart({each.arg for each in every}):
            self.visit(node.body)

    def generic_visit(self, node: ast.AST) -> None:
        if not isinstance(node, _COMPREHENSIONS):
            super().generic_visit(node)
            return
        self.visit(node.generators[0].iter)
        targets = {
            each.id
            for one in node.generators
            for each in ast.walk(one.target)
            if isinstance(each, ast.Name)
        }
        with self._apart(targets):
            super().generic_visit(node)

    def _all(self, *nodes: ast.AST | None) -> None:
        for node in nodes:
            if node is not None:
                self.visit(node)

    @contextmanager
    def _apart(self, names: set[str]) -> Iterator[None]:
        self._own.append(names)
        yield
        self._own.pop()
