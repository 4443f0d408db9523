"""Calls that are not worth keeping what they make, those that write, and values to look up by."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterable

from trainperf.fixes.common.repeating import repeats
from trainperf.source.bodies import reached
from trainperf.source.module import Module
from trainperf.source.statements import called

LIGHT = frozenset(
    {
        "arange", "array", "asarray", "astype", "basename", "concatenate", "copy", "dirname",
        "empty", "empty_like", "expand_dims", "exists", "flatten", "float32", "float64", "format",
        "full", "get", "index", "int32", "int64", "isfile", "item", "join", "lower", "ones",
        "ones_like", "ravel", "replace", "reshape", "rstrip", "split", "splitext", "squeeze",
        "stack", "startswith", "strip", "take", "to_categorical", "to_list", "to_numpy", "tolist",
        "transpose", "uint8", "upper", "zeros", "zeros_like", "append", "extend", "ceil", "floor",
        "endswith", "items", "keys", "values",
    }
)  # fmt: skip
"""Last names of functions and methods that take next to nothing."""

TEXT = frozenset({"format", "item", "join", "lower", "replace", "strip", "upper", "zfill"})
"""Methods and functions that give one number or text."""

WRITES = re.compile(
    r"^(save|savez|dump|to_csv|to_parquet|to_pickle|tofile|im_?write|im_?save)"
    r"|^(print|write\w*|makedirs|mkdir|unlink|remove|rename|log|debug|info|warn\w*)$"
)
"""Names of functions that write a file, or a line."""


def works(module: Module, nodes: Iterable[ast.AST]) -> bool:
    """Whether some code calls anything that may take long."""
    calls = [n for each in nodes for n in ast.walk(each) if isinstance(n, ast.Call)]
    return any(called(each) not in LIGHT and not _light_builtin(module, each) for each in calls)


def _light_builtin(module: Module, call: ast.Call) -> bool:
    name = module.name(call.func)
    return name is not None and name != "open" and hasattr(builtins, name)


def writes(module: Module, nodes: Iterable[ast.AST]) -> str:
    """Return the call with which some code, or a function that it calls, writes; '' if none."""
    for node in reached(module, nodes):
        if isinstance(node, ast.Call) and (WRITES.search(called(node)) or _to_write(node)):
            return f"{ast.unparse(node.func)}()"
    return ""


def _to_write(call: ast.Call) -> bool:
    """Whether a file is opened to be written."""
    modes = [*call.args[1:2], *(each.value for each in call.keywords if each.arg == "mode")]
    given = [str(each.value) for each in modes if isinstance(each, ast.Constant)]
    return called(call) == "open" and any(set("wax+") & set(mode) for mode in given)


def is_key(module: Module, node: ast.expr, known: set[str]) -> bool:
    """Whether a value may tell an item, and be looked up by: a number, a text, a tuple of them.

    It need not be made of what is known to tell one, as long as nothing is drawn for it. What
    turns out to be an array, the trial shows.
    """
    if isinstance(node, ast.Name):
        return node.id in known
    if isinstance(node, ast.Subscript):
        return not isinstance(node.slice, ast.Slice) and repeats(module, node)
    if isinstance(node, ast.Call):
        plain = module.name(node.func) in ("int", "str", "os.path.join") or called(node) in TEXT
        return plain and repeats(module, node)
    if isinstance(node, ast.Tuple):
        return all(is_key(module, each, known) for each in node.elts)
    if isinstance(node, ast.BinOp):
        return all(is_key(module, each, known) for each in (node.left, node.right))
    if isinstance(node, ast.JoinedStr):
        return repeats(module, node)
    return isinstance(node, ast.Constant | ast.Attribute)
