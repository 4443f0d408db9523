"""Expressions followed to the literals they have their values from, over files and calls."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from trainperf.source.module import Module
from trainperf.source.origins import classes, dictionaries, parameters
from trainperf.source.origins.options import PARSES, parsed
from trainperf.source.origins.project import OWN, Project
from trainperf.source.origins.values import (
    Contents,
    Given,
    Node,
    Origin,
    Unknown,
    Value,
    literal,
    unknown,
)
from trainperf.source.scopes import FUNCTIONS, Binding
from trainperf.source.statements import last_name, names_in

DEEPEST = 24
"""So many steps are followed, from names to values to names."""

CONVERTS = ("int", "bool")
ENVIRONMENT = re.compile(r"\b(environ|getenv)\b")
OF_FILES = ("safe_load", "load", "full_load", "loads", "from_file", "from_yaml", "load_config")
"""Functions that read a configuration from a file that is no source, by their last names."""

BAGS = ("SimpleNamespace", "Namespace", "EasyDict", "AttrDict", "ConfigDict", "Munch", "Box",
        "edict", "dotdict", "OmegaConf.create", "create", "dict")  # fmt: skip
"""Makers of an object from the keywords, or the dictionary, that they are given."""


class Tracer:
    """Follows expressions of a project.

    What cannot be told is an `Unknown` among the values, never left out.
    """

    def __init__(self, project: Project) -> None:
        self.project = project
        self._open: list[int] = []

    # ------------------------------------------------------------------- names

    def bindings(self, file: Module, node: ast.Name) -> Iterator[Given]:
        """Yield what a name is bound to, in this file or one that it is imported from."""
        bindings = file.bindings(node)
        if bindings is None:
            yield from self._starred(file, node.id)
            return
        yield from self.bound(file, node.id, bindings)
        if bindings is file.top.bindings.get(node.id) and "*" in file.top.bindings:
            yield Unknown(f"{node.id} may be imported with *")

    def bound(self, file: Module, name: str, bindings: Sequence[Binding]) -> Iterator[Given]:
        """Yield what some bindings of a name give it."""
        for each in bindings:
            plain = isinstance(each.node, ast.Assign) and len(each.node.targets) > 1
            if each.kind == "import":
                yield from self._imported(file, each.origin, name)
            elif each.kind == "parameter" and isinstance(each.node, ast.arg):
                yield file, each.node
            elif isinstance(each.node, ast.NamedExpr):
                yield Unknown(f"{name} is used where it is given its value")
            elif each.kind == "value" and each.value is not None and not plain:
                if name in names_in(each.value):
                    yield Unknown(f"{name} is worked out from itself", derived=True)
                else:
                    yield file, each.value
            elif isinstance(each.node, ast.Assign) and each.kind == "other":
                yield self._unpacked(file, name, each.node)
            else:
                derived = isinstance(each.node, ast.AugAssign)
                yield Unknown(f"{name} is worked out", derived=derived)

    def _unpacked(self, file: Module, name: str, node: ast.Assign) -> Unknown | Node:
        """Return what `args, rest = parser.parse_known_args()` gives a name."""
        (target, *_), call = node.targets, node.value
        if not isinstance(call, ast.Call) or not isinstance(target, ast.Tuple | ast.List):
            return Unknown(f"{name} is worked out")
        place = [last_name(each) for each in target.elts].index(name)
        if last_name(call.func) == "parse_known_args" and place == 0:
            return file, call
        return Unknown(f"{name} is worked out")

    def _imported(self, file: Module, origin: str, name: str) -> Iterator[Given]:
        bound = self.project.bound(origin, file.path)
        if bound is None:
            yield Unknown(f"{name} is imported from elsewhere")
        else:
            yield from self.bound(*bound)

    def _starred(self, file: Module, name: str) -> Iterator[Given]:
        stars = [each.origin for each in file.top.bindings.get("*", [])]
        for star in stars:
            bound = self.project.bound(f"{star[:-1]}{name}", file.path)
            if bound is not None:
                yield from self.bound(*bound)
                return
        yield Unknown(f"{name} is bound nowhere in these files")

    # ------------------------------------------------------------------ values

    def values(self, file: Module, node: ast.expr) -> tuple[Value, ...]:
        """Return all that an expression may be."""
        found = literal(node)
        if found is not None:
            return (Origin(file, node, found[0]),)
        if id(node) in self._open or len(self._open) > DEEPEST:
            return unknown("it is worked out from itself")
        self._open.append(id(node))
        try:
            return tuple(dict.fromkeys(self._values(file, node)))
        finally:
            self._open.pop()

    def _values(self, file: Module, node: ast.expr) -> Sequence[Value]:
        if ENVIRONMENT.search(ast.unparse(node)):
            return (Unknown(f"{ast.unparse(node)} reads the environment", elsewhere=True),)
        if isinstance(node, ast.IfExp):
            return [
                value for branch in (node.body, node.orelse) for value in self.values(file, branch)
            ]
        if isinstance(node, ast.Name):
            return [value for each in self.bindings(file, node) for value in self.given(each)]
        if isinstance(node, ast.Attribute):
            return self._attribute(file, node)
        if isinstance(node, ast.Subscript):
            return self._entry(file, node.value, node.slice, None)
        if isinstance(node, ast.Call):
            called = last_name(node.func)
            if called in CONVERTS and len(node.args) == 1 and not node.keywords:
                return self.values(file, node.args[0])
            if called == "get" and isinstance(node.func, ast.Attribute) and node.args:
                default = node.args[1] if len(node.args) == 2 else None
                return self._entry(file, node.func.value, node.args[0], default)
            if called == "getattr" and len(node.args) in (2, 3):
                return self._entry(file, node.args[0], node.args[1], (*node.args, None)[2])
        return (Unknown(f"it is worked out: {ast.unparse(node)}"),)

    def given(self, bound: Given) -> Sequence[Value]:
        """Return all that something may be that is bound so."""
        if isinstance(bound, Unknown | Origin):
            return (bound,)
        file, node = bound
        if isinstance(node, ast.arg):
            return parameters.values(self, file, node)
        return self.values(file, node)

    # -------------------------------------------------------- attributes, entries

    def _attribute(self, file: Module, node: ast.Attribute) -> Sequence[Value]:
        places = self._set_from_outside(file, node)
        outside = [value for each in places for value in self.given(each)]
        dotted = file.name(node)
        bound = self.project.bound(dotted, file.path) if dotted and "." in dotted else None
        found: list[Value] = []
        if bound is None:
            found += self._of(file, node.value, node.attr, None)
        else:
            for one in self.bound(*bound):
                whole = isinstance(one, tuple) and isinstance(one[1], ast.expr)
                found += self.given(one) if whole else unknown("it is worked out")
        if outside:  # what an object lacks at first is given to it there
            found = [each for each in found if each != _lacks(node.attr)]
        return [*found, *outside]

    def _entry(
        self, file: Module, base: ast.expr, key: ast.expr, default: ast.expr | None
    ) -> Sequence[Value]:
        name = literal(key)
        if name is None or not isinstance(name[0], str):
            return unknown("its name is worked out")
        return self._of(file, base, name[0], default)

    def _of(
        self, file: Module, base: ast.expr, name: str, default: ast.expr | None
    ) -> Sequence[Value]:
        found: list[Value] = []
        for each in self.objects(file, base):
            if name in each.entries:
                found += self.of_entry(each, name)
            elif each.open is not None:
                found.append(each.open)
            elif default is not None:
                found += self.values(file, default)
            else:
                found.append(_lacks(name))
        return found

    def of_entry(self, held: Contents, name: str) -> Sequence[Value]:
        """Return the values of one entry."""
        return [value for each in held.entries[name] for value in self.given(each)]

    def _set_from_outside(self, file: Module, node: ast.Attribute) -> Iterator[Node | Unknown]:
        """Yield what an attribute of any object but `self` is set to, wherever that is."""
        name, base = node.attr, last_name(node.value)
        for each in dict.fromkeys((file, *self.project.holding(f".{name}", "setattr"))):
            for call in each.calls("setattr"):
                fixed = literal(call.args[1]) if len(call.args) == 3 else None
                if call.args and last_name(call.args[0]) == base and fixed in (None, (name,)):
                    yield Unknown(f"{name} may be set by setattr")
            for other in each.nodes:
                if not isinstance(other, ast.Attribute) or other.attr != name:
                    continue
                if isinstance(other.ctx, ast.Load) or last_name(other.value) in OWN:
                    continue
                around = each.parent(other)
                if isinstance(around, ast.Assign) and around.targets == [other]:
                    if _reads(around.value, name):
                        yield Unknown(f"{name} is worked out from itself", derived=True)
                    else:
                        yield each, around.value
                else:
                    derived = isinstance(around, ast.AugAssign)
                    yield Unknown(f"{name} is set in another place as well", derived=derived)

    # ----------------------------------------------------------------- objects

    def objects(self, file: Module, node: ast.expr) -> tuple[Contents, ...]:
        """Return all that an expression, whose attributes or entries are asked for, may hold."""
        if id(node) in self._open or len(self._open) > DEEPEST:
            return (Contents(open=Unknown("it is worked out from itself")),)
        self._open.append(id(node))
        try:
            return tuple(self._objects(file, node))
        finally:
            self._open.pop()

    def _objects(self, file: Module, node: ast.expr) -> Sequence[Contents]:
        written = dictionaries.written(self, file, node)
        if written is not None:
            return written
        if isinstance(node, ast.IfExp):
            return (*self.objects(file, node.body), *self.objects(file, node.orelse))
        if isinstance(node, ast.Name):
            if node.id in OWN:
                return [self._self(file, node)]
            return self._named(file, node)
        if isinstance(node, ast.Attribute):
            found = list(self._inside(file, node.value, node.attr))
            for each in self._set_from_outside(file, node):
                found = [one for one in found if one.open != _lacks(node.attr)]
                found += self.held(each)
            return found
        if isinstance(node, ast.Subscript) and literal(node.slice) is not None:
            return self._inside(file, node.value, str(ast.literal_eval(node.slice)))
        if isinstance(node, ast.Call):
            return self._made(file, node)
        return [Contents(open=Unknown(f"it is worked out: {ast.unparse(node)}"))]

    def _self(self, file: Module, node: ast.Name) -> Contents:
        owner = file.scope(node).owner()
        if owner is None or not isinstance(owner.node, ast.ClassDef):
            return Contents(open=Unknown("self is of no class"))
        wanted = file, owner.node
        return classes.held(wanted, self.project.calls_of(wanted))

    def _named(self, file: Module, node: ast.Name) -> Sequence[Contents]:
        defined = file.defined(node)
        if defined is not None and isinstance(defined[1], ast.ClassDef):
            return [classes.held(defined, [])]
        steps = dictionaries.built(self, file, node)
        if steps is not None:
            return steps
        found: list[Contents] = []
        for each in self.bindings(file, node):
            each = replace(each, derived=False) if isinstance(each, Unknown) else each
            found += self.held(each)
        return found

    def held(self, bound: Given) -> Sequence[Contents]:
        """Return all that something may hold that is bound so."""
        if isinstance(bound, Unknown | Origin):
            return (Contents(open=bound if isinstance(bound, Unknown) else None),)
        file, node = bound
        if isinstance(node, ast.arg):
            return parameters.objects(self, file, node)
        return self.objects(file, node)

    def _inside(self, file: Module, base: ast.expr, name: str) -> Sequence[Contents]:
        found: list[Contents] = []
        for outer in self.objects(file, base):
            for each in outer.entries.get(name, ()):
                found += self.held(each)
            if name not in outer.entries:
                found.append(Contents(open=outer.open or _lacks(name)))
        return found

    def _made(self, file: Module, call: ast.Call) -> Sequence[Contents]:
        called = last_name(call.func)
        project = self.project
        defined = file.defined(call.func) or project.method(file, call.func)
        if defined is not None and isinstance(defined[1], ast.ClassDef):
            return [classes.held(defined, [(file, call)])]
        if defined is not None and isinstance(defined[1], FUNCTIONS):
            return self._returned(*defined)
        if called in PARSES:
            options = parsed((file,)) or parsed(tuple(self.project.holding("add_argument")))
            return [options or Contents(open=Unknown("the options are added elsewhere"))]
        if called in OF_FILES or "yaml" in ast.unparse(call.func):
            reason = f"it is read from a file by {ast.unparse(call.func)}"
            return [Contents(open=Unknown(reason, elsewhere=True))]
        if called in ("copy", "deepcopy", "vars", "asdict", "cast", *BAGS) and call.args:
            return self.objects(file, call.args[-1])
        if called == "copy" and isinstance(call.func, ast.Attribute):
            return self.objects(file, call.func.value)
        return [Contents(open=Unknown(f"{ast.unparse(call.func)} makes it"))]

    def _returned(self, file: Module, node: ast.AST) -> Sequence[Contents]:
        found: list[Contents] = []
        for each in ast.walk(node):
            if not isinstance(each, ast.Return) or each.value is None:
                continue
            if file.function(each) is node:
                found += self.objects(file, each.value)
        return found or [Contents(open=Unknown("a function returns nothing"))]


def _lacks(name: str) -> Unknown:
    return Unknown(f"nothing in these files gives {name}")


def _reads(node: ast.expr, name: str) -> bool:
    return any(isinstance(each, ast.Attribute) and each.attr == name for each in ast.walk(node))
