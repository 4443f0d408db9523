"""The literals behind an argument of a call, over the user's files: by names, never by running."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from trainperf.errors import CannotRewrite
from trainperf.source.arguments import keyword, starred, written
from trainperf.source.module import Module
from trainperf.source.project import Project
from trainperf.source.scopes import Binding
from trainperf.source.statements import last_name, names_in

ENVIRONMENT = re.compile(r"\b(environ|getenv)\b")
_OF_FILES = re.compile(r"\b(yaml|json|toml|tomllib|OmegaConf|hydra)\b")
"""What reads a configuration from a file that is no source."""
_MAKERS = ("dict", "SimpleNamespace", "Namespace", "EasyDict", "ConfigDict", "Munch", "AttrDict")
"""Makers of an object that holds the keywords given to them."""
_TELLS = ("print", "info", "debug", "log", "format")
_TYPES = (int, bool, float, str, type(None))
"""Of what literals are followed: those that can be compared with what the run had."""

Display = ast.Dict | ast.Call


@dataclass(frozen=True)
class RecordedCall:
    """The arguments of a call as they took effect in the run, with the command that ran it.

    `defaults` are those of the arguments that the source may leave out. `given` are the options
    of the command, "@" for a file of further ones, `scripts` the files it runs; `reached` says
    that words at its end become arguments of the script.
    """

    arguments: Mapping[str, object] = field(default_factory=dict)
    defaults: Mapping[str, object] = field(default_factory=dict)
    given: tuple[str, ...] = ()
    scripts: tuple[str, ...] = ()
    reached: bool = False

    @classmethod
    def of(cls, data: Mapping[str, Any], name: str, defaults: Mapping[str, object]) -> RecordedCall:
        """Return what a finding's data holds of it; `now` there is the argument `name`."""
        arguments = dict(data.get("arguments") or {})
        if "now" in data:
            arguments[name] = data["now"]
        given, scripts = (tuple(data.get(key) or ()) for key in ("given", "scripts"))
        return cls(arguments, defaults, given, scripts, bool(data.get("reached")))

    def had(self, name: str, value: object) -> bool:
        """Whether the run had this value of an argument; None stands for a default of PyTorch's."""
        if name not in self.arguments:
            return False
        now, default = self.arguments[name], self.defaults.get(name)
        same = (type(value) is bool) == (type(now) is bool) and value == now
        return same or (value is None and bool(default) and default == now)

    def gives(self, options: tuple[str, ...]) -> bool:
        """Whether the command may set an option: by its name, by how that begins, or by a file.

        `argparse` takes `--work 4` for `--workers`, `-vj4` for `-v -j 4`, and `@file`.
        """
        return any(
            word.startswith("@")
            or (len(word) > 2 and option.startswith(word))
            or (len(option) == 2 and not word.startswith("--") and option[1] in word[1:])
            for option in options
            for word in self.given
        )


class Elsewhere(CannotRewrite):
    """An argument that is chosen where no edit of the source can reach.

    `option` is the option of the command that chooses it by its value, "" for none.
    """

    def __init__(self, reason: str, option: str = "") -> None:
        super().__init__(reason)
        self.option = option


@dataclass(frozen=True)
class Origin:
    """A literal that an argument may have its value from.

    `options` are the names by which the command line may choose another (`--workers`, `-j`);
    `choices` are all values the option takes, None for any.
    """

    file: Module
    node: ast.expr
    value: object
    options: tuple[str, ...] = ()
    choices: tuple[object, ...] | None = None


def literal(node: ast.expr) -> tuple[object] | None:
    """Return the value of a literal as the one of a tuple; None for any other expression."""
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError):
        return None
    return (value,) if type(value) in _TYPES else None


def origin_of(
    project: Project, file: Module, node: ast.expr, name: str, seen: RecordedCall
) -> Origin:
    """Return the literal that an expression, the argument `name` of a call, had its value from.

    Raises `CannotRewrite` where the run tells none of several, or it may be none of them.
    """
    found = dict.fromkeys(_Search(project).values(file, node))
    live = [origin for origin in found if seen.had(name, origin.value)]
    options = next((origin.options for origin in found if origin.options), ())
    option = max(options, key=len, default="")
    chosen = option and not live and type(seen.arguments.get(name)) is not bool
    if chosen or seen.gives(options):
        raise Elsewhere(f"{option} sets {name}: change it in the command", option)
    if len(live) != 1:
        raise CannotRewrite(f"{name} may come from several places, or from none of these files")
    variable = _variable(live[0])
    if variable is not None and f"--{variable.id}" in seen.given:
        raise Elsewhere(f"--{variable.id} sets {name}: change it in the command")
    return live[0]


def check_readers(origin: Origin, called: str, name: str) -> None:
    """Refuse a literal whose variable is read by code that is not about this argument.

    `called` is the last name of the function or class whose argument `name` it is. What is
    the user's knob, an option or an attribute, may be changed whoever reads it.
    """
    variable, file = _variable(origin), origin.file
    bound = file.bindings(variable) if variable is not None else None
    for read in file.nodes if variable is not None and not origin.options else ():
        same = isinstance(read, ast.Name) and isinstance(read.ctx, ast.Load)
        if not same or file.bindings(read) is not bound or read.id != variable.id:  # type: ignore
            continue
        around = file.parent(read)
        call = file.parent(around) if isinstance(around, ast.keyword) else around
        own = isinstance(around, ast.keyword) and around.arg in (name, None)
        to_it = isinstance(call, ast.Call) and last_name(call.func) in (called, *_TELLS)
        entry = isinstance(call, ast.Dict) or isinstance(around, ast.Compare | ast.FormattedValue)
        followed = isinstance(call, ast.Call) and file.defined(call.func) is not None
        chosen = isinstance(around, ast.Assign | ast.IfExp) and around is not call
        if not (own or to_it or entry or followed or chosen):
            raise CannotRewrite(f"{read.id} is read by other code as well")  # type: ignore


def _variable(origin: Origin) -> ast.Name | None:
    """Return the variable to which a literal is assigned, alone or in a tuple; no field."""
    for each in origin.file.around(origin.node):
        if isinstance(each, ast.Assign | ast.AnnAssign):
            target = each.targets[0] if isinstance(each, ast.Assign) else each.target
            if isinstance(target, ast.Tuple) and isinstance(each.value, ast.Tuple):
                target = dict(zip(each.value.elts, target.elts, strict=False)).get(
                    origin.node, target
                )
            own = isinstance(origin.file.parent(each), ast.ClassDef)
            return target if isinstance(target, ast.Name) and not own else None
        if not isinstance(each, ast.IfExp | ast.Tuple):
            break
    return None


class _Search:
    """Yields all literals that an expression may be; raises `CannotRewrite` if it may be more."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._open: set[object] = set()

    def values(self, file: Module, node: ast.expr) -> Iterator[Origin]:
        found, text = literal(node), ast.unparse(node)
        if found is not None:
            yield Origin(file, node, found[0])
            return
        if ENVIRONMENT.search(text):
            raise Elsewhere(f"{text} reads the environment: change it there")
        if id(node) in self._open:
            raise CannotRewrite(f"{text} is worked out from itself")
        self._open.add(id(node))
        if isinstance(node, ast.IfExp):
            yield from self.values(file, node.body)
            yield from self.values(file, node.orelse)
        elif isinstance(node, ast.Name):
            yield from self._bound(file, node.id, file.bindings(node) or [])
        elif isinstance(node, ast.Attribute):
            yield from self._attribute(file, node)
        elif isinstance(node, ast.Subscript):
            yield from self._member(file, node.value, node.slice, None)
        elif isinstance(node, ast.Call) and last_name(node.func) in ("int", "bool") and node.args:
            yield from self.values(file, node.args[0])
        elif isinstance(node, ast.Call) and last_name(node.func) == "get" and node.args:
            base = node.func.value if isinstance(node.func, ast.Attribute) else node.func
            yield from self._member(file, base, node.args[0], (*node.args, None)[1])
        else:
            raise CannotRewrite(f"it is worked out: {text}")
        self._open.discard(id(node))

    def _bound(self, file: Module, name: str, bindings: list[Binding]) -> Iterator[Origin]:
        for star in file.top.bindings.get("*", []):
            there = self._project.bound(f"{star.origin[:-1]}{name}", file.path)
            if there is None or bindings:
                raise CannotRewrite(f"{name} may be imported with *")
            yield from self._bound(*there)
            return
        if not bindings:
            raise CannotRewrite(f"{name} is bound nowhere in these files")
        for binding in bindings:
            node, value = binding.node, binding.value
            several = isinstance(node, ast.Assign) and len(node.targets) > 1
            imported = self._project.bound(binding.origin, file.path) if binding.origin else None
            if imported is not None:
                yield from self._bound(*imported)
            elif isinstance(node, ast.arg):
                yield from self._parameter(file, node)
            elif binding.kind != "value" or value is None or several or name in names_in(value):
                raise CannotRewrite(f"{name} is worked out, or imported from elsewhere")
            elif isinstance(node, ast.NamedExpr):
                raise CannotRewrite(f"{name} is used where it is given its value")
            else:
                yield from self.values(file, value)

    def _parameter(self, file: Module, parameter: ast.arg) -> Iterator[Origin]:
        """Yield what the callers of a function pass, or its default."""
        function = file.function(parameter)
        if function is None or isinstance(function, ast.Lambda):
            raise CannotRewrite(f"{parameter.arg} is worked out")
        spec, owner = function.args, file.parent(function)
        places = [*spec.posonlyargs, *spec.args]
        defaults = dict(zip(places[::-1], spec.defaults[::-1], strict=False))
        defaults |= {a: d for a, d in zip(spec.kwonlyargs, spec.kw_defaults, strict=True) if d}
        method = isinstance(owner, ast.ClassDef)
        place = places.index(parameter) - method if parameter in places else None
        made = owner if isinstance(owner, ast.ClassDef) and function.name == "__init__" else None
        calls = self._project.calls_of((file, made or function))
        if not calls or (method and made is None and self._project.named_alike(function.name) > 1):
            raise CannotRewrite(f"nothing in these files calls {function.name}")
        for at, call in calls:
            given = written(call, parameter.arg, place)
            default = defaults.get(parameter)
            if given is not None:
                yield from self.values(at, given)
            elif default is not None and not starred(call):
                yield from self.values(file, default)
            else:
                raise CannotRewrite(f"a call does not give {parameter.arg}")

    def _attribute(self, file: Module, node: ast.Attribute) -> Iterator[Origin]:
        dotted = file.name(node)
        bound = self._project.bound(dotted, file.path) if dotted and "." in dotted else None
        if bound is not None:
            yield from self._bound(*bound)
        else:
            yield from self._member(file, node.value, ast.Constant(node.attr), None)

    def _member(
        self, file: Module, base: ast.expr, key: ast.expr, default: ast.expr | None
    ) -> Iterator[Origin]:
        """Yield what an attribute or entry of that name has anywhere in the files, by its name.

        What is set on an object called like `base` must be known; what others have counts where
        it is.
        """
        check_source(file, base)
        name = literal(key)
        if name is None or not isinstance(name[0], str):
            raise CannotRewrite("its name is worked out")
        if name in self._open:
            return
        self._open.add(name)
        found = list(self._named(file, base, name[0]))
        self._open.discard(name)
        if not found and default is not None:
            found = list(self.values(file, default))
        if not found:
            raise CannotRewrite(f"nothing in these files gives {name[0]}")
        yield from found

    def _named(self, file: Module, base: ast.expr, name: str) -> Iterator[Origin]:
        files = self._project.holding(name, name.replace("_", "-"))
        for module in dict.fromkeys((file, *files)):
            yield from options(module, name)
            for node in module.nodes:
                for owner, value in _given(module, node, name):
                    try:
                        if value is None:
                            raise CannotRewrite(f"{name} is set in another place as well")
                        yield from list(self.values(module, value))
                    except CannotRewrite:
                        if owner == last_name(base) and owner not in ("", "self"):
                            raise


def _given(module: Module, node: ast.AST, name: str) -> Iterator[tuple[str, ast.expr | None]]:
    """Yield what a node gives an attribute or entry of that name: of what, and its value."""
    if isinstance(node, ast.Call) and last_name(node.func) == "setattr" and len(node.args) == 3:
        if literal(node.args[1]) in (None, (name,)):
            yield last_name(node.args[0]), None
    elif isinstance(node, ast.Call) and last_name(node.func) in _MAKERS:
        given = keyword(node, name)
        yield from [("", given.value)] if given else []
    elif isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        yield from (("", value) for key, value in pairs if key and literal(key) == (name,))
    elif isinstance(node, ast.ClassDef):
        for each in node.body:
            target = each.targets[0] if isinstance(each, ast.Assign) else None
            target = each.target if isinstance(each, ast.AnnAssign) else target
            if isinstance(target, ast.Name) and target.id == name:
                yield "", each.value  # type: ignore[attr-defined]
    elif isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store):
        own = isinstance(node, ast.Attribute) and node.attr == name
        own = own or (isinstance(node, ast.Subscript) and literal(node.slice) == (name,))
        around = module.parent(node)
        if own:
            plain = isinstance(around, ast.Assign) and around.targets == [node]
            yield last_name(node.value), around.value if plain else None  # type: ignore


# --------------------------------------------------------------------------- options


def options(file: Module, name: str) -> Iterator[Origin]:
    """Yield the defaults of the options that a file adds to a parser of `argparse` as `name`.

    Raises `CannotRewrite` if others may set them.
    """
    for call in file.methods("add_argument"):
        names = tuple(str(each[0]) for each in map(literal, call.args) if each)
        dest, default = keyword(call, "dest"), keyword(call, "default")
        first = next((each for each in names if each.startswith("--")), (*names, "")[0])
        named = literal(dest.value) if dest else (first.lstrip("-").replace("-", "_"),)
        if named != (name,) or not first.startswith("-"):
            continue
        if any(file.methods("set_defaults")):
            raise CannotRewrite("the options' defaults are set from elsewhere")
        found = literal(default.value) if default is not None else None
        if found is None or default is None or not _is_plain(call, found[0]):
            yield Origin(file, call, ..., names)  # has none that could be edited
        else:
            yield Origin(file, default.value, found[0], names, _choices(call))


def _is_plain(call: ast.Call, default: object) -> bool:
    """Whether the default of an option is its value as it stands."""
    action, converts = keyword(call, "action"), keyword(call, "type")
    how = {each.arg for each in call.keywords}
    stored = action is None or ast.unparse(action.value).endswith(("store'", "OptionalAction"))
    known = converts is None or last_name(converts.value) in ("int", "bool", "float", "str")
    text = isinstance(default, str) and converts is not None
    return stored and known and not text and not how & {None, "nargs", "required", "const"}


def _choices(call: ast.Call) -> tuple[object, ...] | None:
    given = keyword(call, "choices")
    try:
        return None if given is None else tuple(ast.literal_eval(given.value))
    except (ValueError, TypeError, SyntaxError):
        return ()


def check_source(file: Module, node: ast.expr) -> None:
    """Raise `Elsewhere` where an object, or what is called like it, is read from a file."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    bound = [*(file.bindings(node) or []), *file.top.bindings.get(getattr(node, "id", ""), [])]
    makers = [binding.value.func for binding in bound if isinstance(binding.value, ast.Call)]
    heads = [file.function(binding.node) for binding in bound if binding.kind == "parameter"]
    makers += [each for head in heads for each in getattr(head, "decorator_list", ())]
    texts = [ast.unparse(maker) for maker in makers]
    for text in texts:
        if _OF_FILES.search(text):
            raise Elsewhere(f"it is read from a file by {text}: change it there")


def display_of(file: Module, node: ast.expr, called: str) -> Display:
    """Return the one dictionary that `**node` is, written out and only ever handed to `called` so.

    Raises `CannotRewrite`.
    """
    check_source(file, node)
    bindings = file.bindings(node) if isinstance(node, ast.Name) else None
    made = file.value(node)
    plain = isinstance(made, ast.Dict) and None not in made.keys
    plain = plain or (isinstance(made, ast.Call) and ast.unparse(made.func) == "dict")
    whole = plain and not (isinstance(made, ast.Call) and (made.args or starred(made)))
    if not whole or bindings is None or len(bindings) != 1:
        raise CannotRewrite(f"{ast.unparse(node)} is no dictionary that is written out once")
    for read in file.nodes:
        if isinstance(read, ast.Name) and file.bindings(read) is bindings:
            around = file.parent(read)
            handed = isinstance(around, ast.keyword) and around.arg is None
            handed = handed and last_name(file.parent(around).func) == called  # type: ignore
            if isinstance(read.ctx, ast.Load) and not handed:
                raise CannotRewrite(f"{read.id} is read by other code as well")
    assert isinstance(made, ast.Dict | ast.Call)
    return made


def entry(display: Display, name: str) -> ast.expr | None:
    """Return the value of an entry of a dictionary, None where it has none of that name."""
    if isinstance(display, ast.Call):
        named = keyword(display, name)
        return named.value if named else None
    pairs = zip(display.keys, display.values, strict=True)
    return next((value for key, value in pairs if key and literal(key) == (name,)), None)
