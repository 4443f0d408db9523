"""Putting what builds and compiles a model into the scope of its strategy."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from trainperf.errors import CannotRewrite
from trainperf.fixes.strategies._source import (
    bindings,
    called,
    calls_of,
    inner_function,
    strategy_name,
)

if TYPE_CHECKING:
    from trainperf.model import Site
    from trainperf.rewrite import Script

IN_PARTS = ("Model", "Functional")
"""Calls that put a model together of layers built before."""


def put_in_scope(script: Script, where: tuple[Site, ...]) -> None:
    """Wrap all from what builds the models to their `compile` in the strategy's scope.

    `where` are the calls that build models, the call of `compile`, and that which builds
    the strategy. Raises `CannotRewrite` where the strategy has no name there, or part of
    a model or the optimizer would stay outside.
    """
    built, compiled, models = _sorted_out(script, where)
    places = [_whole(script, built, each) for each in (*models, compiled)]
    first = min(places, key=lambda site: (site.line, site.col))
    if any(each.line > places[-1].line for each in places):
        raise CannotRewrite("the model is compiled before all of it is built")
    _check_optimizer(script, compiled, first)
    name = strategy_name(script, built, first)
    script.wrap_statements(first, places[-1], f"with {name}.scope():")


def _sorted_out(script: Script, where: tuple[Site, ...]) -> tuple[Site, Site, tuple[Site, ...]]:
    """The sites of the strategy, of `compile`, and of the models."""
    names = {site: called(script, site) for site in where}
    built = [site for site, name in names.items() if name.endswith("Strategy")]
    compiled = [site for site, name in names.items() if name == "compile"]
    models = tuple(site for site in where if site not in (*built, *compiled))
    if len(built) != 1 or len(compiled) != 1 or not models:
        raise CannotRewrite("the strategy, the model or its compile is not a plain call")
    return built[0], compiled[0], models


def _whole(script: Script, built: Site, site: Site) -> Site:
    """Where all of a model is built: its own call, or that of the function it stands in."""
    function = inner_function(script, site)
    if function is None or function is inner_function(script, built):
        name, source = called(script, site), script.source(site.file)
        if name in IN_PARTS:
            raise CannotRewrite("its layers are built before it, outside of the scope")
        if name == "Sequential" and (not source.call(site).args or ".add(" in source.text):
            raise CannotRewrite("layers are added to the model later")
        return site
    calls = calls_of(script, site, function.name)
    if len(calls) != 1:
        raise CannotRewrite(f"{function.name} is not called in one place of this file")
    return calls[0]


def _check_optimizer(script: Script, compiled: Site, first: Site) -> None:
    """Raise `CannotRewrite` unless the optimizer is made within the scope.

    Keras refuses one that was made outside ("Mixing different tf.distribute.Strategy
    objects", tried with Keras 3.15).
    """
    argument = script.argument(compiled, 0, "optimizer")
    source = script.source(compiled.file)
    node = None if argument is None else source.expression(argument)
    if node is None or isinstance(node, ast.Constant | ast.Call):
        return
    function = inner_function(script, compiled)
    start = first.line if function is inner_function(script, first) else 0
    block = source.tree.body if function is None else function.body
    made = [each for each in block if each.lineno >= start]
    if not isinstance(node, ast.Name) or node.id not in set(bindings(made)):
        raise CannotRewrite("the optimizer is made outside of the scope")
