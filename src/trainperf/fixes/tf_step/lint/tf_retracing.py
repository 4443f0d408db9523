"""Functions that TensorFlow traces again and again."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trainperf.source.bodies import function_of
from trainperf.source.loops import iterated
from trainperf.source.module import Module, inside
from trainperf.source.rule import Rule
from trainperf.source.scopes import FUNCTIONS, Function


class TfRetracing(Rule):
    """A `tf.function` called with a Python number of the loop, or made anew in each turn."""

    words = ("tf.function", "tensorflow.function", "import function")

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        yield from self._numbers(module)
        yield from self._made_in_loops(module)

    def _numbers(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        for function in module.functions:
            if "tensorflow.function" not in module.decorators(function) or _signed(function):
                continue
            for call in _calls_of(module, function):
                caller = module.function(call)
                if isinstance(caller, FUNCTIONS) and caller.decorator_list:
                    continue
                counters = {name for each in module.loops(call) for name in _counters(module, each)}
                given = [*call.args, *(keyword.value for keyword in call.keywords)]
                for each in given:
                    if _is_number(module, each, counters):
                        yield (
                            call,
                            (
                                f"{function.name} is a tf.function and gets {ast.unparse(each)}, a "
                                "Python number that changes in the loop: every new value may be "
                                "traced anew, at the cost of many steps; pass a tensor"
                            ),
                        )
                        break

    def _made_in_loops(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        for made in module.calls("tensorflow.function"):
            statement = module.parent(made)
            loops = module.loops(made)
            if not loops or not isinstance(statement, ast.Assign) or _literal(loops[0]):
                continue
            names = {each.id for each in statement.targets if isinstance(each, ast.Name)}
            for node in module.nodes:
                called = node.func if isinstance(node, ast.Call) else None
                used = isinstance(called, ast.Name) and called.id in names
                if used and module.loops(node)[:1] == loops[:1]:
                    yield (
                        made,
                        (
                            "tf.function in a loop makes a new function in each turn: its first "
                            "call may be traced anew each time; make it once, before the loop"
                        ),
                    )
                    break


def _signed(function: Function) -> bool:
    return any(
        isinstance(each, ast.Call) and any(k.arg == "input_signature" for k in each.keywords)
        for each in function.decorator_list
    )


def _calls_of(module: Module, function: Function) -> Iterator[ast.Call]:
    for node in module.nodes:
        if isinstance(node, ast.Call) and function_of(module, node.func) is function:
            yield node


def _is_number(module: Module, node: ast.expr, counters: set[str]) -> bool:
    """Whether an expression is arithmetic on a counter, and nothing but Python numbers."""
    named = set()
    for each in ast.walk(node):
        if isinstance(each, ast.Call):
            if module.name(each.func) not in _NUMERIC or each.keywords:
                return False
        elif isinstance(each, ast.Name):
            named.add(each.id)
            function = module.name(each) in _NUMERIC
            number = isinstance(module.constant(each), int | float)
            if not (function or number or each.id in counters):
                return False
        elif not isinstance(each, _ARITHMETIC):
            return False
    return bool(named & counters)


_NUMERIC = {"min", "max", "float", "int", "abs", "round"}
_ARITHMETIC = (ast.BinOp, ast.operator, ast.UnaryOp, ast.unaryop, ast.Constant, ast.expr_context)


def _counters(module: Module, loop: ast.AST) -> Iterator[str]:
    for node in inside(loop):
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            others = [each for each in module.bindings(node.target) or () if each.kind != "other"]
            starts = [each.value for each in others if isinstance(each.value, ast.Constant)]
            step = module.constant(node.value)
            if isinstance(step, int) and others and len(starts) == len(others):
                yield node.target.id
    if not isinstance(loop, ast.For) or not isinstance(loop.iter, ast.Call):
        return
    name = module.name(loop.iter.func)
    if name == "range" and isinstance(loop.target, ast.Name):
        yield loop.target.id
    if name == "enumerate" and isinstance(loop.target, ast.Tuple):
        first = loop.target.elts[0]
        if isinstance(first, ast.Name):
            yield first.id


def _literal(loop: ast.AST) -> bool:
    return isinstance(loop, ast.For) and any(
        isinstance(each, ast.Tuple | ast.List) for each in iterated(loop)
    )
