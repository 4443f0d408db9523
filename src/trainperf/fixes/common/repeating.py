"""Source that gives the same in every epoch: the part of a `__getitem__`, a whole generator."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from trainperf.errors import CannotRewrite
from trainperf.model import Site
from trainperf.rewrite import Script
from trainperf.source.effects import Kind, effects, first
from trainperf.source.iterations import read_outside, stored, surely_bound
from trainperf.source.module import Module
from trainperf.source.statements import Function, last_name, parameters, walk

DEFINES = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef)

MADE_ANEW: tuple[Kind, ...] = ("draws", "unknown", "sets", "fills", "reads on")
"""What code does not do that makes the same of the same, and may as well be run once."""


def fixed_statements(module: Module, function: Function) -> list[ast.stmt]:
    """Return the statements that a function begins with and that make the same of the same index.

    Its docstring is left out. They end ahead of the first that draws random numbers or may do
    so, that leaves the function, or that changes something beyond it; what they bind and later
    ones read is bound whatever the way through them. Empty where they do no work.
    """
    return fixed_ahead(module, function, without_docstring(function))


def without_docstring(function: Function) -> list[ast.stmt]:
    """Return the statements of a function that do something."""
    return function.body[1:] if ast.get_docstring(function) is not None else function.body


def fixed_ahead(
    module: Module,
    function: Function,
    body: Sequence[ast.stmt],
    fits: Callable[[list[ast.stmt]], bool] = lambda _: True,
) -> list[ast.stmt]:
    """Return those of `fixed_statements` that any statements of a function begin with.

    `fits` says what else is asked of all of them.
    """
    fixed: list[ast.stmt] = []
    for statement in body:
        ahead = [*fixed, statement]
        if leaves(statement) or first(effects(module, ahead), *MADE_ANEW) or not fits(ahead):
            break
        fixed.append(statement)
    while fixed and not bound_names(function, fixed)[1]:
        fixed.pop()
    return fixed if any(isinstance(node, ast.Call) for node in walk(fixed)) else []


def leaves(code: ast.AST) -> bool:
    """Whether some code cannot stand in another function, and outside its class."""
    for node in ast.walk(code):
        if isinstance(node, ast.Return | ast.Yield | ast.YieldFrom | ast.Await):
            return True
        name = last_name(node) if isinstance(node, ast.Name | ast.Attribute) else ""
        mangled = name.startswith("__") and not name.endswith("__")
        if mangled or name == "super":
            return True
    return False


def bound_names(function: Function, fixed: list[ast.stmt]) -> tuple[list[str], bool]:
    """Return what `fixed` binds and the rest reads, in order, and whether all of it surely is."""
    found = stored(fixed) & read_outside([function], fixed)
    order = dict.fromkeys(node.id for node in walk(fixed) if isinstance(node, ast.Name))
    # what is imported or defined cannot be kept
    defined = stored(node for node in walk(fixed) if isinstance(node, DEFINES))
    surely = surely_bound(fixed) - defined
    return [name for name in order if name in found], bool(found) and found <= surely


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
    if any("__slots__" in ast.unparse(statement) for statement in owner.body):
        raise CannotRewrite("its class has __slots__: nothing can be kept in its objects")
    return owner


def move_part(
    script: Script,
    site: Site,
    part: list[ast.stmt],
    once: str,
    name: str,
    given: Sequence[str],
) -> None:
    """Move statements of the function at `site` into one called `name`, of `given`.

    It is kept by the decorator `once`.
    """
    names, _ = bound_names(script.definition(site), part)
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
