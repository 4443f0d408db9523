"""A generator that hands out rows of arrays, replaced by a dataset of the arrays."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from trainperf.errors import CannotRewrite
from trainperf.fixes.tf_data.edits.mapped import DEEP, handed_in, scope_of, with_called, yields
from trainperf.model import Site
from trainperf.rewrite import Script
from trainperf.source.arguments import argument, keyword
from trainperf.source.bodies import function_of
from trainperf.source.iterations import may_be_sequence
from trainperf.source.module import Module
from trainperf.source.mutations import changed_in_place
from trainperf.source.scopes import FUNCTIONS, Function
from trainperf.source.statements import called

DTYPES = {
    "float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16",
    "uint32", "uint64", "bool",
}  # fmt: skip
"""Dtypes that NumPy has by the same name."""

NOT_SEEN = "the shape of what is yielded is not written out"

_THROUGH = ("enumerate", "filter", "iter", "list", "map", "reversed", "sorted", "tuple", "zip")
"""Functions that go through what they are given."""

_ITEMS_MADE = re.compile(r"^[A-Z]|^flow|dataset_from|(loader|reader)$")
"""Names of functions and classes whose results make an item when it is asked for."""

_HELD = ("collections.", "h5py.", "numpy.", "pandas.", "pathlib.", "scipy.")
"""Modules whose objects hold what they give."""


def rows(module: Module, function: Function) -> ast.expr | None:
    """Return the arrays whose rows a generator yields, in its structure; None if it does more.

    It is one loop, `for i in range(len(x)): yield x[i], y[i]`, or one over `zip(x, y)`.
    """
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    loop = body[0] if len(body) == 1 else None
    given = function.args
    if not isinstance(loop, ast.For) or loop.orelse or given.args or given.vararg or given.kwarg:
        return None
    only = loop.body[0] if len(loop.body) == 1 else None
    value = only.value if isinstance(only, ast.Expr) else None
    if not isinstance(value, ast.Yield) or value.value is None:
        return None
    held = _held(module, loop)
    return None if held is None else _arrays(value.value, *held)


def _held(module: Module, loop: ast.For) -> tuple[str, dict[str, ast.expr]] | None:
    """The name that counts rows, if any, and the array that each other name is a row of."""
    target, over = loop.target, loop.iter
    if isinstance(target, ast.Name) and isinstance(over, ast.Name):
        return "", {target.id: over}
    if not isinstance(over, ast.Call) or over.keywords:
        return None
    name = module.name(over.func)
    if name == "range" and isinstance(target, ast.Name) and len(over.args) == 1:
        length = over.args[0]
        counted = isinstance(length, ast.Call) and module.name(length.func) == "len"
        return (target.id, {}) if counted else None
    if name == "zip" and isinstance(target, ast.Tuple) and len(target.elts) == len(over.args):
        pairs = zip(target.elts, over.args, strict=True)
        found = {one.id: array for one, array in pairs if isinstance(one, ast.Name)}
        plain = all(isinstance(array, ast.Name) for array in over.args)
        return ("", found) if plain and len(found) == len(over.args) else None
    return None


def _arrays(node: ast.expr, counted: str, held: dict[str, ast.expr]) -> ast.expr | None:
    if isinstance(node, ast.Tuple):
        parts = [_arrays(each, counted, held) for each in node.elts]
        found = [each for each in parts if each is not None]
        return ast.Tuple(found, ast.Load()) if len(found) == len(parts) else None
    if isinstance(node, ast.Name):
        return held.get(node.id)
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and counted:
        by = node.slice
        return node.value if isinstance(by, ast.Name) and by.id == counted else None
    return None


def use_slices(
    script: Script, site: Site, call: ast.Call, module: Module, arrays: ast.expr
) -> None:
    """Put `from_tensor_slices` of the arrays in place of the `from_generator` at `site`.

    They get the dtypes that the call names. Raises `CannotRewrite` where a name means
    something else at the call.
    """
    changed = changed_in_place([module.top.node])
    for each in ast.walk(arrays):
        if isinstance(each, ast.Name):
            held = may_be_sequence(module.value(each)) and not _makes_items(module, each)
            if each.id in changed or not held:
                raise CannotRewrite(f"{each.id} is no array, or changes as the script runs")
            there, here = module.bindings(each), module.scope(call).find(each.id)
            if not there or there is not here:
                raise CannotRewrite(f"{each.id} is not seen where the dataset is made")
            if any(getattr(one.node, "lineno", 0) > call.lineno for one in there):
                raise CannotRewrite(f"{each.id} is set again behind the dataset")
    if argument(call, "args", 3) is not None or not isinstance(call.func, ast.Attribute):
        raise CannotRewrite("the generator is given arguments")
    signature = keyword(call, "output_signature")
    types = signature.value if signature else argument(call, "output_types", 1)
    if types is None:
        raise CannotRewrite(NOT_SEEN)
    numpy = script.module_name(site.file, "numpy", site)
    made = _converted(module, arrays, module.value(types), numpy)
    owner = ast.unparse(call.func.value)
    script.replace_call(site, f"{owner}.from_tensor_slices({made})")


def _converted(module: Module, arrays: ast.expr, types: ast.expr, numpy: str) -> str:
    if isinstance(arrays, ast.Tuple):
        if not isinstance(types, ast.Tuple | ast.List) or len(types.elts) != len(arrays.elts):
            raise CannotRewrite(NOT_SEEN)
        pairs = zip(arrays.elts, types.elts, strict=True)
        parts = [_converted(module, one, each, numpy) for one, each in pairs]
        return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
    if isinstance(types, ast.Call):
        shape = argument(types, "shape", 0)
        if shape is not None and any(_is_none(each) for each in ast.walk(shape)):
            raise CannotRewrite("its rows may differ in length")
        types = argument(types, "dtype", 1) or ast.parse("tf.float32", mode="eval").body
    name = ast.unparse(types).rpartition(".")[2].strip("'\"")
    if name not in DTYPES:
        raise CannotRewrite(f"the dtype {name} is not one of NumPy's")
    return f"{numpy}.asarray({ast.unparse(arrays)}, {numpy}.{name})"


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def maker_asked(module: Module, function: Function) -> str:
    """Return an object that a generator, or a function that it calls, has make items, or ''."""
    found = (each for one in with_called(module, function) for each in _gone_through(module, one))
    return next((ast.unparse(each) for each in found if _makes_items(module, each)), "")


def maker_given(module: Module, given: ast.expr) -> str:
    """Return an object that makes items among what a call hands to a generator, or ''."""
    calls = (each for each in ast.walk(module.value(given)) if isinstance(each, ast.Call))
    handed = (each for call in calls for each in (*call.args, *(k.value for k in call.keywords)))
    return next((ast.unparse(each) for each in handed if _makes_items(module, each)), "")


def _gone_through(module: Module, function: Function) -> Iterator[ast.expr]:
    for node in ast.walk(function):
        if isinstance(node, ast.For | ast.comprehension):
            yield node.iter
        elif isinstance(node, ast.Subscript | ast.YieldFrom):
            yield node.value
        elif isinstance(node, ast.Call):
            name = module.name(node.func) or ""
            yield from node.args if name in _THROUGH or name.startswith("itertools.") else ()


def _makes_items(module: Module, node: ast.expr, deep: int = DEEP) -> bool:
    """Whether what a name stands for may make an item each time, or gives each only once."""
    while isinstance(node, ast.Subscript):
        node = node.value
    if not deep or not isinstance(node, ast.Name | ast.Attribute):
        return False
    if isinstance(node, ast.Name) and node.id == "self":
        return True
    for one in module.bindings(node) or []:
        function = module.function(node)
        here = function is not None and module.function(one.node) is function
        value = one.value if one.kind == "value" else None
        if isinstance(value, ast.Call | ast.GeneratorExp):
            made = not here and _is_maker(module, value)
        elif isinstance(one.node, ast.arg):
            given = handed_in(module, scope_of(module, [one]), one.node.arg)
            made = any(_makes_items(module, each, deep - 1) for _, each in given)
        else:
            made = value is not None and _makes_items(module, value, deep - 1)
        imported = one.kind == "import" and not ast.unparse(node).isupper()
        if made or imported:
            return True
    return False


def _is_maker(module: Module, node: ast.expr) -> bool:
    if not isinstance(node, ast.Call) or not may_be_sequence(node):
        return True
    function = function_of(module, node.func)
    if isinstance(function, FUNCTIONS):
        return yields(function)
    held = (module.name(node.func) or "").startswith(_HELD)
    return not held and _ITEMS_MADE.search(called(node)) is not None
