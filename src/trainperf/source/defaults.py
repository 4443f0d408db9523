"""Where a setting comes from that a call takes by a name: the one literal behind it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from trainperf.errors import CannotRewrite
from trainperf.source.arguments import keyword, positional

PARSES = ("parse_args", "parse_known_args")
CONVERTS = ("int", "bool")
"""Values of an option's `type=` that are known: argparse converts no default that is not a string,
but another function of the user's may refuse the number."""

OWN = ("self", "cls")
BINDS = (ast.Store, ast.Del)
CHAIN = 4
"""Names are followed so far: `n = args.workers` is one."""


@dataclass(frozen=True)
class Origin:
    """The literal that a setting has where nobody chooses another.

    `options` are the names by which the command line may do so (`--workers`, `-j`), empty
    where it is a constant; `choices` are all values the option takes, None for any.
    """

    node: ast.expr
    value: object
    options: tuple[str, ...] = ()
    choices: tuple[object, ...] | None = None


def origin(
    tree: ast.Module,
    call: ast.Call,
    name: str,
    position: int | None = None,
    *,
    shared: bool = False,
) -> Origin:
    """Return where the argument `name` of `call` gets its value within its file.

    It is followed through a variable that is bound once, the default of an option of
    `argparse`, and a dictionary that is only ever passed as `**keywords`. `position` is
    its place among the positional arguments. What other code reads as well is followed only
    where `shared` says that it may change along. Raises `CannotRewrite` where it comes from
    anything else, or where that could mean another value.
    """
    node: ast.expr | None
    named = keyword(call, name)
    if named is not None:
        node = named.value
    else:
        node = None if position is None else positional(call, position)
    if node is None:
        return _of_keywords(tree, call, name)
    for _ in range(CHAIN):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            return _option(tree, node.value.id, node.attr)
        if not isinstance(node, ast.Name):
            break
        bound = _bound_once(tree, node.id)
        if _is_literal(bound):
            if not shared:
                _only_read_in(tree, node.id, _calls_like(tree, call))
            return Origin(bound, ast.literal_eval(bound))
        node = bound
    raise CannotRewrite(f"{name} is worked out")


def _of_keywords(tree: ast.Module, call: ast.Call, name: str) -> Origin:
    """Find `name` in the dictionary that the call takes as `**keywords`."""
    starred = [each.value for each in call.keywords if each.arg is None]
    if len(starred) != 1 or not isinstance(starred[0], ast.Name):
        raise CannotRewrite(f"{name} is not written out")
    passed = starred[0].id
    likes = _calls_like(tree, call)
    handed_on = [each for like in likes for each in like.keywords if each.arg is None]
    _only_read_in(tree, passed, handed_on)
    bound = _bound_once(tree, passed)
    for key, value in _entries(bound):
        if key == name and _is_literal(value):
            return Origin(value, ast.literal_eval(value))
    raise CannotRewrite(f"{name} is not written out in {passed}")


def _entries(node: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """Return what `dict(a=1)` or `{"a": 1}` holds; nothing where a part cannot be read."""
    if isinstance(node, ast.Dict):
        keys = [key.value if isinstance(key, ast.Constant) else None for key in node.keys]
        if None not in keys and len(set(keys)) == len(keys):
            yield from ((str(key), value) for key, value in zip(keys, node.values, strict=True))
        return
    if not isinstance(node, ast.Call) or ast.unparse(node.func) != "dict" or node.args:
        return
    if all(each.arg for each in node.keywords):
        yield from ((each.arg or "", each.value) for each in node.keywords)


def _option(tree: ast.Module, base: str, attribute: str) -> Origin:
    """Find the one option of `argparse` that makes `base.attribute`."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    if base in OWN or not _is_parsed(tree, base):
        raise CannotRewrite(f"{base} is not what argparse returns in this file")
    if any(_sets(node, base, attribute) for node in ast.walk(tree)):
        raise CannotRewrite(f"{attribute} is set in another place as well")
    added = [each for each in calls if _method(each) == "add_argument"]
    makes = [each for each in added if _destination(each) == attribute]
    if len(makes) != 1:
        raise CannotRewrite(f"{len(makes)} options make {attribute}")
    how = {each.arg or "": each.value for each in makes[0].keywords}
    odd = {"nargs", "required", "const"} & set(how)
    action, converts = how.get("action"), how.get("type")
    if action is not None and not ast.unparse(action).endswith("BooleanOptionalAction"):
        odd.add("action")
    if converts is not None and ast.unparse(converts) not in CONVERTS:
        odd.add("type")
    default, choices = how.get("default"), how.get("choices")
    if odd or default is None or not _is_literal(default):
        raise CannotRewrite(f"the option of {attribute} has no plain default")
    allowed = None
    if choices is not None:
        allowed = tuple(_list(choices))
    return Origin(default, ast.literal_eval(default), tuple(_names(makes[0])), allowed)


def _is_parsed(tree: ast.Module, base: str) -> bool:
    """Say whether a name is only ever bound to what `parse_args` returned, or a parameter."""
    if not _parses(tree, ()):
        return False
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    makers = [each.name for each in functions if _parses(each, ())]
    parsed = 0
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and _parses(node.value, makers):
            parsed += sum(_binds(each, base) for one in node.targets for each in ast.walk(one))
        parsed += isinstance(node, ast.arg) and node.arg == base
    return parsed > 0 and parsed == sum(_binds(node, base) for node in ast.walk(tree))


def _parses(node: ast.AST, makers: Sequence[str]) -> bool:
    calls = (each for each in ast.walk(node) if isinstance(each, ast.Call))
    return any(_method(each) in (*PARSES, *makers) for each in calls)


def _destination(call: ast.Call) -> str:
    """Return the attribute an `add_argument` makes; raises where that cannot be read."""
    names = _names(call)
    given = keyword(call, "dest")
    if any(each.arg is None for each in call.keywords):
        raise CannotRewrite("an option takes **keywords")
    if given is not None:
        return str(_constant(given.value))
    if not names:
        raise CannotRewrite("an option has no name")
    if not names[0].startswith("-"):
        return ""  # a positional one, which has no default to edit
    first = next((each for each in names if each.startswith("--")), names[0])
    return first.lstrip("-").replace("-", "_")


def _names(call: ast.Call) -> list[str]:
    return [str(_constant(each)) for each in call.args]


def _constant(node: ast.expr) -> object:
    if not isinstance(node, ast.Constant):
        raise CannotRewrite("an option's name is worked out")
    return node.value


def _list(node: ast.expr) -> list[Any]:
    try:
        return list(ast.literal_eval(node))
    except (ValueError, TypeError) as error:
        raise CannotRewrite("the choices of the option are worked out") from error


def _sets(node: ast.AST, base: str, attribute: str) -> bool:
    """Say whether a node gives the attribute a value by another way than its option."""
    if isinstance(node, ast.Attribute):
        own = isinstance(node.value, ast.Name) and node.value.id in OWN
        return node.attr == attribute and isinstance(node.ctx, BINDS) and not own
    if not isinstance(node, ast.Call):
        return False
    if _method(node) == "set_defaults":
        return any(each.arg in (attribute, None) for each in node.keywords)
    told = [each.id for each in node.args if isinstance(each, ast.Name)]
    return isinstance(node.func, ast.Name) and node.func.id == "setattr" and base in told[:1]


def _bound_once(tree: ast.Module, name: str) -> ast.expr:
    """Return what the one assignment of `name` in the file gives it."""
    times = sum(_binds(node, name) for node in ast.walk(tree))
    for node in ast.walk(tree):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AnnAssign):
            targets = [node.target]
        plain = len(targets) == 1 and isinstance(targets[0], ast.Name) and targets[0].id == name
        if plain and times == 1 and isinstance(node, ast.Assign | ast.AnnAssign) and node.value:
            return node.value
    raise CannotRewrite(f"{name} is not simply assigned once in this file")


def _binds(node: ast.AST, name: str) -> bool:
    """Say whether a node binds `name`, in whatever scope."""
    if isinstance(node, ast.Name):
        return node.id == name and isinstance(node.ctx, BINDS)
    if isinstance(node, ast.alias):
        return (node.asname or node.name.partition(".")[0]) in (name, "*")
    if isinstance(node, ast.MatchMapping):
        return node.rest == name
    if isinstance(node, ast.arg):
        return node.arg == name
    named = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.ExceptHandler
    return isinstance(node, named | ast.MatchAs | ast.MatchStar) and node.name == name


def _calls_like(tree: ast.Module, call: ast.Call) -> list[ast.Call]:
    """Return the calls of the same function or class as `call`, by its last name."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return [each for each in calls if _method(each) == _method(call)]


def _only_read_in(tree: ast.Module, name: str, places: Sequence[ast.AST]) -> None:
    """Refuse a name that code elsewhere reads as well: for that it may mean another thing."""
    inside = {id(node) for place in places for node in ast.walk(place)}
    for node in ast.walk(tree):
        read = isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
        if read and id(node) not in inside:
            raise CannotRewrite(f"{name} is read by other code as well")


def _method(call: ast.Call) -> str:
    return ast.unparse(call.func).rpartition(".")[2]


def _is_literal(node: ast.expr) -> bool:
    try:
        return type(ast.literal_eval(node)) in (int, bool)
    except (ValueError, TypeError):
        return False
