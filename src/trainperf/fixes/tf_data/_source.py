"""The source of the user's pipelines: functions that are mapped or put beside them, generators."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from trainperf.errors import CannotRewrite
from trainperf.model import Site
from trainperf.rewrite import Script
from trainperf.source.arguments import argument
from trainperf.source.bodies import function_of, reached
from trainperf.source.effects import DEEP, handed_in, home_of
from trainperf.source.iterations import may_be_sequence, of_this_function
from trainperf.source.module import Module
from trainperf.source.scopes import FUNCTIONS, Function
from trainperf.source.statements import called

_MODULES = {
    "collections": "collections",
    "futures": "concurrent.futures",
    "tf": "tensorflow",
    "np": "numpy",
}


LOAD = """\
def load(path, label):  # TensorFlow's own operations run on all cores
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    return tf.image.resize(image, (height, width)), label


"""
"""What a snippet puts in place of Python that loads a sample."""


def put_in(script: Script, file: str, *functions: str) -> str:
    """Put functions, which call each other, into a file, and return the name of the last.

    `tf.`, `np.`, `futures.` and `collections.` stand for the modules, as the file names them.
    """
    text, name = "\n\n".join(functions), ""
    for short, module in _MODULES.items():
        if f"{short}." in text:
            text = re.sub(rf"\b{short}\.", f"{script.module_name(file, module)}.", text)
    for own in re.findall(r"^def (\w+)", text, re.MULTILINE):
        name = script.free_name(file, own)
        text = re.sub(rf"\b{own}\b", name, text)
    script.insert_function(file, text)
    return name


def mapped(script: Script, site: Site) -> tuple[Module, Function | ast.Lambda | None]:
    """Return the file of the call at `site` and the function it takes; None if not in it."""
    module = script.linked(site.file)
    return module, function_of(module, argument(script.call(site), "map_func", 0))


# --------------------------------------------------------------------------- generators

GIVEN = {"from_generator": "generator", "fit": "x"}
"""Calls that take a generator, and the name of the argument."""

YIELDS = (ast.Yield, ast.YieldFrom)
_DEEP = 4
"""How many names, calls and lambdas lead from the call to the generator."""

_THROUGH = ("enumerate", "filter", "iter", "list", "map", "reversed", "sorted", "tuple", "zip")
"""Functions that go through what they are given."""

_ITEMS_MADE = re.compile(r"^[A-Z]|^flow|dataset_from|(loader|reader)$")
"""Names of functions and classes whose results make an item when it is asked for."""

_HELD = ("collections.", "h5py.", "numpy.", "pandas.", "pathlib.", "scipy.")
"""Modules whose objects hold what they give."""


def generator_at(script: Script, site: Site, seen: object) -> Site:
    """Return where the generator's `def` stands: as the run saw it, or as the source says."""
    if isinstance(seen, list | tuple) and len(seen) == 2:
        head = Site(str(seen[0]), int(seen[1]))
        try:
            if yields(script.definition(head)):
                return head
        except CannotRewrite:
            pass  # a lambda around it
    module, call = script.linked(site.file), script.call(site)
    given = argument(call, GIVEN[called(call)], 0) if called(call) in GIVEN else None
    found = None if given is None else _definition(module, given, _DEEP)
    if found is None or not yields(found[1]):
        raise CannotRewrite("where the generator is defined is not seen")
    return Site(site.file if found[0] is module else str(found[0].path), found[1].lineno)


def _definition(module: Module, node: ast.expr, deep: int) -> tuple[Module, Function] | None:
    """Follow names, calls and lambdas to a function of the user's files."""
    if not deep:
        return None
    node = module.value(node)
    if isinstance(node, ast.Lambda):
        return _definition(module, node.body, deep - 1)
    if isinstance(node, ast.Call):
        return _definition(module, node.func, deep - 1)
    found = module.defined(node)
    if found is None:
        return None
    owner, target = found
    if isinstance(target, ast.ClassDef):
        methods = (method for method in target.body if isinstance(method, FUNCTIONS))
        call = next((method for method in methods if method.name == "__call__"), None)
        return None if call is None else (owner, call)
    if yields(target):
        return owner, target
    returned = [part.value for part in ast.walk(target) if isinstance(part, ast.Return)]
    inner = returned[0] if len(returned) == 1 else None
    return None if inner is None else _definition(owner, inner, deep - 1)


def yields(function: Function) -> bool:
    """Whether a function is a generator."""
    return any(isinstance(node, YIELDS) for node in of_this_function(function.body))


def with_called(module: Module, function: Function) -> list[Function]:
    """A function and those of its file that it uses."""
    return [node for node in reached(module, [function]) if isinstance(node, FUNCTIONS)]


# ------------------------------------------------------- objects that make what they give


def goes_through_maker(module: Module, function: Function, there: Module, given: ast.expr) -> str:
    """An object that makes items each time, among what a generator goes through, or ''.

    `given` is what stands for the generator in its call, in the file `there`.
    """
    asked = [
        (module, node)
        for part in with_called(module, function)
        for node in _gone_through(module, part)
    ]
    for call in ast.walk(there.value(given)):
        if isinstance(call, ast.Call):
            handed = (*call.args, *(keyword.value for keyword in call.keywords))
            asked += [(there, node) for node in handed]
    return next((ast.unparse(node) for file, node in asked if makes_items(file, node)), "")


def _gone_through(module: Module, function: Function) -> Iterator[ast.expr]:
    for node in ast.walk(function):
        if isinstance(node, ast.For | ast.comprehension):
            yield node.iter
        elif isinstance(node, ast.Subscript | ast.YieldFrom):
            yield node.value
        elif isinstance(node, ast.Call):
            name = module.name(node.func) or ""
            yield from node.args if name in _THROUGH or name.startswith("itertools.") else ()


def makes_items(module: Module, node: ast.expr, deep: int = DEEP) -> bool:
    """Whether what a name stands for may make an item each time, or gives each only once."""
    while isinstance(node, ast.Subscript):
        node = node.value
    if not deep or not isinstance(node, ast.Name | ast.Attribute):
        return False
    if isinstance(node, ast.Name) and node.id == "self":
        return True
    for binding in module.bindings(node) or []:
        function = module.function(node)
        here = function is not None and module.function(binding.node) is function
        value = binding.value if binding.kind == "value" else None
        if isinstance(value, ast.Call | ast.GeneratorExp):
            made = not here and _is_maker(module, value)
        elif isinstance(binding.node, ast.arg):
            given = handed_in(module, home_of(module, [binding]), binding.node.arg)
            made = any(makes_items(module, each, deep - 1) for _, each in given)
        else:
            made = value is not None and makes_items(module, value, deep - 1)
        if made or (binding.kind == "import" and not ast.unparse(node).isupper()):
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
