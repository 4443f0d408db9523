"""The options of a command line, as a file adds them to a parser of `argparse`."""

from __future__ import annotations

import ast

from trainperf.source.arguments import keyword
from trainperf.source.module import Module
from trainperf.source.origins.values import (
    Contents,
    Origin,
    Unknown,
    Value,
    literal,
)
from trainperf.source.statements import last_name

PARSES = ("parse_args", "parse_known_args")
CONVERTS = ("int", "bool", "float", "str")
"""Values of an option's `type=` that are known: argparse converts no default that is not a string,
but another function of the user's may refuse the number."""


def parsed(files: tuple[Module, ...]) -> Contents | None:
    """Return what the options of some files make; None where no option is added."""
    entries: dict[str, tuple[Value, ...]] = {}
    opened: Unknown | None = None
    added = 0
    for file in files:
        for call in file.methods("add_argument"):
            added += 1
            name = _destination(call)
            if name is None:
                opened = Unknown("an option's name is worked out")
            else:
                entries[name] = (*entries.get(name, ()), _option(file, call, name))
        if any(file.methods("set_defaults")):
            opened = Unknown("the options' defaults are set from elsewhere", derived=True)
    if opened is not None:  # any of them may be what that is
        entries = {name: (*values, opened) for name, values in entries.items()}
    return Contents({**entries}, opened) if added else None


def _destination(call: ast.Call) -> str | None:
    """Return the attribute an `add_argument` makes, "" for none; None if that cannot be read."""
    names = _names(call)
    given = keyword(call, "dest")
    if names is None or any(each.arg is None for each in call.keywords):
        return None
    if given is not None:
        found = literal(given.value)
        return str(found[0]) if found else None
    if not names:
        return None
    if not names[0].startswith("-"):
        return ""  # a positional one, which has no default to edit
    first = next((each for each in names if each.startswith("--")), names[0])
    return first.lstrip("-").replace("-", "_")


def _names(call: ast.Call) -> tuple[str, ...] | None:
    names = [literal(each) for each in call.args]
    return tuple(str(each[0]) for each in names if each) if all(names) else None


def _option(file: Module, call: ast.Call, name: str) -> Value:
    how = {each.arg or "": each.value for each in call.keywords}
    names = _names(call) or ()
    no = Unknown(f"the option of {name} has no plain default", options=names)
    if {"nargs", "required", "const"} & set(how):
        return no
    action, converts = how.get("action"), how.get("type")
    default, choices = how.get("default"), how.get("choices")
    if isinstance(action, ast.Constant):
        if action.value != "store":
            return no
    elif action is not None and last_name(action) != "BooleanOptionalAction":
        return no
    if default is None:
        return no
    found = literal(default)
    if found is None:
        return no
    if converts is not None and last_name(converts) not in CONVERTS and type(found[0]) is not bool:
        return no
    if isinstance(found[0], str) and converts is not None and last_name(converts) != "str":
        return no
    allowed = _list(choices) if choices is not None else None
    if choices is not None and allowed is None:
        return no
    return Origin(file, default, found[0], names, allowed)


def _list(node: ast.expr) -> tuple[object, ...] | None:
    try:
        return tuple(ast.literal_eval(node))
    except (ValueError, TypeError, SyntaxError):
        return None
