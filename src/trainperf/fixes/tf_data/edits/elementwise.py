"""Whether a mapped function does the same to a batch as to each sample of it."""

from __future__ import annotations

import ast

from trainperf.source.arguments import argument
from trainperf.source.bodies import function_of
from trainperf.source.module import Module
from trainperf.source.scopes import FUNCTIONS, Function
from trainperf.source.statements import names_in, parameters

OF_ONE = {
    "cast", "identity", "abs", "square", "sqrt", "exp", "sign", "negative", "clip_by_value",
    "convert_image_dtype", "one_hot", "expand_dims", "float32", "zeros_like", "ones_like", "tanh",
    "sigmoid", "log", "log1p", "saturate_cast", "stop_gradient", "preprocess_input", "relu",
    "subtract", "add", "multiply", "divide", "maximum", "minimum", "pow",
}  # fmt: skip
"""Functions of TensorFlow and Keras that treat each number by itself, their other arguments
being numbers; `one_hot` and `expand_dims` where they add the last axis."""

MODULES = ("tensorflow.", "keras.")
DEPTH = 3


def elementwise(module: Module, function: Function | ast.Lambda, depth: int = DEPTH) -> bool:
    """Whether a function only treats each number by itself, whatever axes stand in front.

    What it combines its arguments with must be numbers, or lists of them for the last axis.
    """
    given = set(parameters(function)) if isinstance(function, FUNCTIONS) else set()
    given |= {each.arg for each in function.args.args}
    if function.args.vararg or function.args.kwarg or function.args.kwonlyargs or not depth:
        return False
    if isinstance(function, ast.Lambda):
        return _keeps(module, function.body, given, depth)
    for statement in function.body:
        said = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if isinstance(statement, ast.Return) and statement.value is not None:
            return _keeps(module, statement.value, given, depth)
        if said:
            continue
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            return False
        target, value = statement.targets[0], statement.value
        if not isinstance(target, ast.Name) or not _keeps(module, value, given, depth):
            return False
        given |= {target.id} if names_in(value) & given else set()
    return False


def _keeps(module: Module, node: ast.expr, given: set[str], depth: int) -> bool:
    if not names_in(node) & given:
        return isinstance(node, ast.Dict) or _is_number(module, node)
    if isinstance(node, ast.Name):
        return True
    if isinstance(node, ast.Tuple):
        return all(_keeps(module, each, given, depth) for each in node.elts)
    if isinstance(node, ast.Dict):
        keys = all(isinstance(each, ast.Constant) for each in node.keys)
        return keys and all(_keeps(module, each, given, depth) for each in node.values)
    if isinstance(node, ast.UnaryOp):
        return _keeps(module, node.operand, given, depth)
    if isinstance(node, ast.BinOp) and not isinstance(node.op, ast.MatMult):
        both = bool(names_in(node.left) & given) and bool(names_in(node.right) & given)
        sides = (node.left, node.right)
        return not both and all(_keeps(module, each, given, depth) for each in sides)
    if isinstance(node, ast.Subscript):
        return _keeps(module, node.value, given, depth) and _keeps_axes(module, node.slice)
    if isinstance(node, ast.Call):
        return _call_keeps(module, node, given, depth)
    return False


def _keeps_axes(module: Module, index: ast.expr) -> bool:
    """Whether an index picks from a dictionary, or adds a last axis: `["image"]`, `[..., None]`."""
    if isinstance(index, ast.Constant):
        return isinstance(index.value, str)
    if not isinstance(index, ast.Tuple) or len(index.elts) != 2:
        return False
    first, second = index.elts
    dots = isinstance(first, ast.Constant) and first.value is Ellipsis
    none = isinstance(second, ast.Constant) and second.value is None
    return dots and (none or module.name(second) == "tensorflow.newaxis")


def _call_keeps(module: Module, node: ast.Call, given: set[str], depth: int) -> bool:
    values = [*node.args, *(each.value for each in node.keywords)]
    data = [each for each in values if names_in(each) & given]
    local = function_of(module, node.func)
    if isinstance(local, FUNCTIONS):
        kept = all(_keeps(module, each, given, depth) for each in data)
        return kept and len(data) == len(values) and elementwise(module, local, depth - 1)
    name = module.name(node.func) or ""
    short = name.rpartition(".")[2]
    if not name.startswith(MODULES) or short not in OF_ONE or len(data) != 1:
        return False
    if not node.args or data[0] is not node.args[0]:
        return False
    if short == "expand_dims":
        return bool(module.constant(argument(node, "axis", 1)) == -1)
    if short == "one_hot" and argument(node, "axis") is not None:
        return False
    return _keeps(module, data[0], given, depth)


def _is_number(module: Module, node: ast.expr) -> bool:
    node = module.value(node)
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int | float | bool)
    if isinstance(node, ast.List | ast.Tuple):
        return all(_is_number(module, each) for each in node.elts)
    if isinstance(node, ast.UnaryOp):
        return _is_number(module, node.operand)
    if isinstance(node, ast.BinOp):
        return _is_number(module, node.left) and _is_number(module, node.right)
    if isinstance(node, ast.Call):
        made = module.name(node.func) in ("tensorflow.constant", "numpy.array", "float", "int")
        return made and bool(node.args) and _is_number(module, node.args[0])
    return False
