"""The values of a function's parameter: those that its callers pass, or its default."""

from __future__ import annotations

import ast
from dataclasses import replace

from trainperf.errors import CannotRewrite
from trainperf.source.arguments import written
from trainperf.source.module import Module
from trainperf.source.origins import dictionaries
from trainperf.source.origins.classes import held
from trainperf.source.origins.options import parsed
from trainperf.source.origins.project import Project, Tracing
from trainperf.source.origins.values import Contents, Node, Origin, Unknown, Value
from trainperf.source.scopes import Function


def values(trace: Tracing, file: Module, parameter: ast.arg) -> list[Value]:
    """Return all that a parameter may be."""
    found: list[Value] = []
    for each in passed(trace, file, parameter):
        if isinstance(each, Unknown | Origin):
            found.append(each)
            continue
        at, node = each
        default = _function(file, parameter) is at.parent(at.parent(node) or node)
        for value in trace.values(at, node):
            own = isinstance(value, Origin) and value.node is node
            found.append(replace(value, caller=True) if own and not default else value)  # type: ignore
    return found


def objects(trace: Tracing, file: Module, parameter: ast.arg) -> list[Contents]:
    """Return what a parameter, whose attributes are asked for, may hold."""
    function = _function(file, parameter)
    if function is not None and parameter is function.args.kwarg:
        return _keywords(trace, file, function, parameter)
    found: list[Contents] = []
    nobody = False
    for each in passed(trace, file, parameter):
        nobody = nobody or isinstance(each, Unknown)
        found += trace.held(each)
    if not nobody or len(found) > 1:
        return found
    if parameter.annotation is not None:
        defined = file.defined(parameter.annotation)
        if defined is not None and isinstance(defined[1], ast.ClassDef):
            return [held(defined, trace.project.calls_of(defined))]
    if any(True for _ in file.methods("parse_args", "parse_known_args")):
        options = parsed((file,))
        return found if options is None else [options]
    return found


def _keywords(
    trace: Tracing, file: Module, function: Function, parameter: ast.arg
) -> list[Contents]:
    spec = function.args
    own = {each.arg for each in (*spec.args, *spec.kwonlyargs)}
    found: list[Contents] = []
    reads = (each for each in ast.walk(function) if isinstance(each, ast.Name))
    several = sum(each.id == parameter.arg for each in reads) > 1
    more = Unknown("keywords are handed on to several calls") if several else None
    for at, call in callers(trace.project, file, function):
        further = (each for each in call.keywords if each.arg not in own)
        found += dictionaries.given(trace, at, further, (Contents({}, more, ((at, call),)),))
    return found or [Contents(open=Unknown(f"nothing in these files calls {function.name}"))]


def passed(trace: Tracing, file: Module, parameter: ast.arg) -> list[Node | Value]:
    """Return the expressions that a parameter may have; an `Unknown` where that is not seen."""
    function = _function(file, parameter)
    if function is None or parameter in (function.args.vararg, function.args.kwarg):
        return [Unknown(f"{parameter.arg} is worked out")]
    if any(name.endswith("hydra.main") for name in file.decorators(function)):
        return [Unknown("Hydra reads it from its configuration", elsewhere=True)]
    default = _default(function, parameter)
    calls = callers(trace.project, file, function)
    if not calls:
        return [Unknown(f"nothing in these files calls {function.name}")]
    found: list[Node | Value] = []
    for at, call in calls:
        node = given(file, function, parameter, call)
        left: Node | Unknown = _NOT_GIVEN if default is None else (file, default)
        if isinstance(node, ast.expr):
            found.append((at, node))
        elif isinstance(node, Unknown):
            found.append(node)
        else:
            found += _among_keywords(trace, at, call, parameter.arg, left)
    return list(dict.fromkeys(found))


def _among_keywords(
    trace: Tracing, at: Module, call: ast.Call, name: str, left: Node | Unknown
) -> list[Node | Value]:
    """Return what the `**keywords` of a call give a parameter, `left` where they do not."""
    found: list[Node | Value] = []
    starred = (each for each in call.keywords if each.arg is None)
    for state in dictionaries.given(trace, at, starred):
        found += state.entries.get(name, (state.open or left,))
    return found


_NOT_GIVEN = Unknown("a call does not give it")


def callers(project: Project, file: Module, function: Function) -> list[tuple[Module, ast.Call]]:
    """Return the calls of a function; of `__init__`, those of its class."""
    owner = file.parent(function)
    if isinstance(owner, ast.ClassDef) and function.name == "__init__":
        return project.calls_of((file, owner))
    if isinstance(owner, ast.ClassDef) and project.named_alike(function.name) > 1:
        return []
    return project.calls_of((file, function))


def given(
    file: Module, function: Function, parameter: ast.arg, call: ast.Call
) -> ast.expr | Unknown | None:
    """Return what a call gives a parameter; None where it leaves it to the default."""
    places = [*function.args.posonlyargs, *function.args.args]
    if isinstance(file.parent(function), ast.ClassDef) and not any(
        isinstance(each, ast.Name) and each.id == "staticmethod" for each in function.decorator_list
    ):
        places = places[1:]
    try:
        place = places.index(parameter) if parameter in places else None
        return written(call, parameter.arg, place)
    except CannotRewrite:
        return Unknown(f"{parameter.arg} may be among *arguments")


def _default(function: Function, parameter: ast.arg) -> ast.expr | None:
    spec = function.args
    places = [*spec.posonlyargs, *spec.args]
    if parameter in places:
        index = places.index(parameter) - len(places) + len(spec.defaults)
        return spec.defaults[index] if index >= 0 else None
    if parameter in spec.kwonlyargs:
        return spec.kw_defaults[spec.kwonlyargs.index(parameter)]
    return None


def _function(file: Module, parameter: ast.arg) -> Function | None:
    function = file.function(parameter)
    return None if isinstance(function, ast.Lambda) else function
