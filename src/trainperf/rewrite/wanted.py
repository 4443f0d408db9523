"""The value that an argument is to have, and the arguments that it needs."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from trainperf.source.origins.values import literal
from trainperf.source.statements import last_name

PLAIN = re.compile(r"[A-Za-z_][\w.]*")


@dataclass(frozen=True)
class Wanted:
    """The value an argument is to have, as source text.

    Where `needs` names another argument of the call that may be 0, `value` is only allowed if
    it is not, and `without` is what is then.
    """

    name: str
    value: str
    position: int | None = None
    needs: str = ""
    without: str = ""

    def where(self, needed: str) -> str:
        """Return the value where the argument that it needs is what `needed` says."""
        if not self.needs or is_positive(ast.parse(needed, mode="eval").body):
            return self.value
        if (self.value, self.without) == ("True", "False"):
            return f"{needed} > 0"
        return f"{self.value} if {needed} else {self.without}"


def is_positive(node: ast.expr) -> bool:
    """Whether a number cannot be 0: `os.cpu_count()`, `max(1, n)`."""
    found = literal(node)
    if found is not None:
        return isinstance(found[0], int) and found[0] > 0
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
        return is_positive(node.values[-1])
    if not isinstance(node, ast.Call):
        return False
    called = last_name(node.func)
    if called in ("min", "max") and len(node.args) > 1:
        return (all if called == "min" else any)(is_positive(each) for each in node.args)
    return called == "cpu_count"
