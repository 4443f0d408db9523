"""A cache in a pipeline: in memory or in a file, and between the two halves of a map."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from trainperf.errors import CannotRewrite
from trainperf.fixes.tf_data.edits.mapped import mapped
from trainperf.model import Site
from trainperf.source.bodies import drawing, function_of
from trainperf.source.iterations import loaded, stored
from trainperf.source.module import Module
from trainperf.source.scopes import FUNCTIONS, Function
from trainperf.source.statements import assigned, parameters

if TYPE_CHECKING:
    from trainperf.rewrite import Script

FOLDER = "cache_folder"
"""The name of a disk cache's temporary folder, which Python removes at the end."""

PYTHON = {"shape", "numpy", "item", "get_shape", "rank", "ndim"}
"""Attributes that give Python values, which a dataset does not carry from map to map."""


def put_cache(script: Script, site: Site, data: Mapping[str, Any]) -> None:
    """Put a cache behind the stage at `site`, or between the halves of its function.

    `data` may have "buffer" (of the shuffle that follows), "disk" (a file, not memory) and
    "split" (the line at which the function, behind what costs, begins to draw random numbers).
    """
    call = ".cache()"
    if data.get("disk"):
        folder = script.free_name(site.file, FOLDER)
        tempfile = script.module_name(site.file, "tempfile")
        script.insert_after_imports(site.file, f"{folder} = {tempfile}.TemporaryDirectory()")
        call = f'.cache({tempfile}.mkdtemp(dir={folder}.name) + "/items")'  # one for each dataset
    if data.get("buffer") is not None:
        call += f".shuffle({data['buffer']})"
    if "split" in data:
        try:
            call += _second_map(script, site, int(data["split"]))
        except CannotRewrite as error:
            reason = f"the map is not split for a cache: {error.reason}"
            raise CannotRewrite(reason) from None
    script.append_call(site, call)


def _second_map(script: Script, site: Site, line: int) -> str:
    """Split the function of the map at `site` where it begins to draw; the call of the rest.

    It was seen to draw at `line`, and what it works on there was measured: another is refused.
    """
    module, function = mapped(script, site)
    if not isinstance(function, FUNCTIONS):
        raise CannotRewrite("the function of the map is not defined in the file")
    method = parameters(function)[:1] == ["self"]
    uses = [each for each in module.nodes if _names(each, function.name)]
    if len(uses) != 1 or function.decorator_list:
        raise CannotRewrite(f"{function.name} is used elsewhere as well")
    first = _first_random(module, function)
    if function.body[first].lineno != line:
        where = f"in line {function.body[first].lineno}, but it was seen to draw in line {line}"
        raise CannotRewrite(f"{function.name} would be split {where}")
    handed = _handed_on(module, function, first)
    name = script.free_name(site.file, f"{function.name}_random", f"{function.name}_augment")
    listed = ", ".join(handed)
    head = f"def {name}({'self, ' if method else ''}{listed}):"
    place = Site(site.file, function.body[first].lineno)
    script.split_function(place, f"return {listed}", head)
    given = script.expression(site)
    old = ast.parse(f"({given})", mode="eval").body
    assert isinstance(old, ast.Call)
    new = f"self.{name}" if method else name
    rest = [ast.unparse(each) for each in (*old.args[1:], *old.keywords)]
    if any(each.arg == "map_func" for each in old.keywords):
        raise CannotRewrite("the map names its function as a keyword")
    return f".map({', '.join([new, *rest])})"


def _names(node: ast.AST, name: str) -> bool:
    is_name = isinstance(node, ast.Name) and node.id == name
    return is_name or (isinstance(node, ast.Attribute) and node.attr == name)


def _first_random(module: Module, function: Function) -> int:
    """The index of the statement from which on the function may draw; the work is ahead of it."""
    body, start = function.body, 1 if ast.get_docstring(function) is not None else 0
    last = body[-1]
    early = [each for one in body[:-1] for each in ast.walk(one) if isinstance(each, ast.Return)]
    if not isinstance(last, ast.Return) or early:
        raise CannotRewrite(f"{function.name} does not return once, at its end")
    if function.args.vararg or function.args.kwarg or function.args.kwonlyargs:
        raise CannotRewrite(f"the arguments of {function.name} are not seen")
    for index, statement in enumerate(body[start:], start):
        if _may_draw(module, statement):
            ahead = (each for one in body[start:index] for each in ast.walk(one))
            if not any(isinstance(each, ast.Call) for each in ahead):
                raise CannotRewrite(f"{function.name} draws random numbers before it works")
            return index
    raise CannotRewrite(f"where {function.name} draws random numbers is not seen")


def _may_draw(module: Module, statement: ast.stmt) -> bool:
    """Whether a statement draws random numbers, or calls something of which that is not known."""
    if drawing(module, statement) is not None:
        return True
    for call in (each for each in ast.walk(statement) if isinstance(each, ast.Call)):
        if function_of(module, call.func) is not None:
            continue  # `drawing` has followed it
        name = module.name(call.func) or ""
        imported = name.startswith(("tensorflow.", "keras.")) and "random" not in name.lower()
        known = isinstance(call.func, ast.Name) and name in dir(builtins)
        if not imported and not known and not _of_a_tensor(call):
            return True
    return False


def _of_a_tensor(call: ast.Call) -> bool:
    """Whether a method is one of tensors: `image.set_shape(…)`."""
    return isinstance(call.func, ast.Attribute) and call.func.attr in ("set_shape", "get_shape")


def _handed_on(module: Module, function: Function, first: int) -> list[str]:
    """The names that the second half needs of the first, in the order of the parameters."""
    ahead, behind = function.body[:first], function.body[first:]
    given = [each for each in parameters(function) if each not in ("self", "cls")]
    returned = [each.id for each in ast.walk(behind[-1]) if isinstance(each, ast.Name)]
    known, needed = {*given, *stored(ahead)}, loaded(behind)
    order = dict.fromkeys([*returned, *given, *sorted(needed)])
    handed = [name for name in order if name in known & needed]
    if not handed:
        raise CannotRewrite(f"{function.name} hands nothing on")
    with_default = parameters(function)[len(parameters(function)) - len(function.args.defaults) :]
    for name in with_default:  # a number of Python's, if it is no part of an element
        if name in handed:
            raise CannotRewrite(f"{name} has a default in {function.name}")
    for name in handed:
        values = [one for one in ahead for target in assigned(one) if _is(target, name)]
        for statement in values:
            value = getattr(statement, "value", None)
            attributes = {e.attr for e in ast.walk(statement) if isinstance(e, ast.Attribute)}
            if value is None or isinstance(value, ast.Constant | ast.Tuple | ast.List):
                raise CannotRewrite(f"{name} is no tensor where {function.name} would be split")
            if attributes & PYTHON:
                raise CannotRewrite(f"{name} may be a Python value in {function.name}")
    return handed


def _is(target: ast.expr, name: str) -> bool:
    return isinstance(target, ast.Name) and target.id == name
