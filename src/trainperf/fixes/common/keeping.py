"""Keep in memory what a dataset makes of an item, whatever framework asks for it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from trainperf.errors import CannotRewrite
from trainperf.fixes.common.repeating import bound_names, changing_attribute, changing_name
from trainperf.model import Site
from trainperf.source.bodies import reached, reached_elsewhere
from trainperf.source.module import Module
from trainperf.source.statements import Function, parameters, root

if TYPE_CHECKING:
    from trainperf.rewrite import Script

MOST = 0.5
"""Share of the memory, or of the disk, that is free, which kept items may take."""

INSIDE = 4
"""The start of an item (a picture before it was cropped) may be so many times as large."""

_IN_MEMORY = '''\
def {name}(make):
    """Keep in memory what `make` returned for {item} when it was first asked for."""

    @{functools}.wraps(make)
    def kept(self, {given}):
{unless}        made = self.__dict__.setdefault("made_by_" + make.__name__, {{}})
        if {key} not in made:
            made[{key}] = make(self, {given})
        return {returned}

    return kept
'''

_UNLESS = """\
        if not isinstance(index, {numbers}.Integral):
            return make(self, index)
"""


def in_memory(name: str, *, functools: str, numbers: str = "", copy: str = "") -> str:
    """Return the source of the decorator `name` that keeps what a method makes.

    The other names are modules'.

    With `numbers` it is kept by a whole number and nothing else, without by all arguments,
    which have to be hashable. With `copy` each caller gets a copy of its own.
    """
    key = "index" if numbers else "item"
    return _IN_MEMORY.format(
        name=name,
        item="an index" if numbers else "an item",
        functools=functools,
        given=key if numbers else f"*{key}",
        unless=_UNLESS.format(numbers=numbers) if numbers else "",
        key=key,
        returned=f"{copy}.deepcopy(made[{key}])" if copy else f"made[{key}]",
    )


def class_of_items(module: Module, function: Function) -> ast.ClassDef:
    """Return the class of a plain `__getitem__(self, index)`; raises `CannotRewrite`."""
    owner = module.parent(function)
    if not isinstance(owner, ast.ClassDef) or module.parent(owner) is not module.top.node:
        raise CannotRewrite("its class does not stand at the top of its file")
    plain = not (function.args.kwonlyargs or function.args.vararg or function.args.kwarg)
    if isinstance(function, ast.AsyncFunctionDef) or function.decorator_list or not plain:
        raise CannotRewrite("its __getitem__ is no plain method")
    if parameters(function)[:1] != ["self"] or len(parameters(function)) != 2:
        raise CannotRewrite("its __getitem__ takes more than an index")
    if any("__slots__" in ast.unparse(each) for each in owner.body):
        raise CannotRewrite("its class has __slots__: nothing can be kept in its objects")
    return owner


def changing(modules: Sequence[Module], owner: ast.ClassDef, body: Iterable[ast.AST]) -> str:
    """Return what some code of a dataset reads and that changes after it was built, else ''.

    The code stands in the first of the modules; the others may change what it reads.
    """
    nodes = list(reached(modules[0], body))
    read = [each.attr for each in nodes if isinstance(each, ast.Attribute) and root(each)]
    used = ((modules[0], nodes), *reached_elsewhere(modules[0], nodes))
    return changing_attribute(modules, owner, read) or next(
        (name for there, each in used if (name := changing_name(there, each))), ""
    )


def move_part(
    script: Script,
    site: Site,
    part: list[ast.stmt],
    rest: Iterable[ast.AST],
    once: str,
    name: str,
    given: Sequence[str],
) -> None:
    """Move statements into a function `name` of `given`; `rest` reads the result.

    It is kept by the decorator `once`.
    """
    names, _ = bound_names(part, rest)
    listed, made = ", ".join(given), ", ".join(names)
    script.move_into_function(
        at_statement(site, part[0]),
        at_statement(site, part[-1]),
        f"@{once}\ndef {name}({listed}):",
        f"return {made}",
        f"{made} = {name}({listed})",
    )


def at_statement(site: Site, node: ast.stmt) -> Site:
    """Return where a statement of the function at `site` stands."""
    return Site(site.file, node.lineno, site.function)
