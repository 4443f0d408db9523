"""The loops of the script around a line: how often they turn, as their source and variables say."""

from __future__ import annotations

import ast
import math
import operator
import os
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache
from types import FrameType
from typing import Any, TypeAlias

from . import frames

Loop: TypeAlias = ast.For | ast.While

PROGRESS_BARS = ("tqdm", "track")
COUNT = ("enumerate", "range", "trange")
HANDS_ON = (*PROGRESS_BARS, "enumerate", "list", "reversed", "sorted", "tuple")
"""Calls that hand on as many values as they are given."""

PLAIN = (list, tuple, range, dict, str, bytes, set, frozenset)
"""Types whose length is there to be read, without running anything of the script's."""

LEAVES = (ast.Break, ast.Return)
OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.floordiv,
}

UNKNOWN = Exception
"""Failures of an expression that cannot be worked out: its attributes may be properties of the
user's, which raise whatever they like."""


def loop_around(own: bool = True) -> tuple[dict[str, Any] | None, bool]:
    """Where the loop around the training stands, and whether one surely has another turn.

    Reads the source: of each of the user's frames, the loops that hold the current
    line. Only loops over a `range`, an `enumerate` and the like, whose end and count can be
    worked out from the variables at hand, count as sure. With `own`, the innermost loop
    is the training's own, which iterates the data: it is left out.
    """
    first = None
    for loop, frame in _holding():
        if own:
            own = False
            continue
        first = first or frames.definition(frame.f_code) | {"line": loop.lineno}
        if isinstance(loop, ast.For) and _turns_left(loop, frame)[1]:
            return first, True
    return first, False


def left() -> int | None:
    """How many times more the user's line is reached before its loops end by themselves.

    None where the source does not tell, for one of them.
    """
    total, each = 0, 1
    for loop, frame in _holding():
        turns, rest = _turns_left(loop, frame)
        if rest is None:
            return None
        total = total + rest * each if each else max(total, rest)
        each *= turns or 0  # a counter that the loop does not begin anew counts on
    return total


def asked_directly() -> bool:
    """Whether a line of the user's called what runs here, within a loop and through no library."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frames.is_ours(frame.f_code.co_filename):
        frame = frame.f_back
    users = frame is not None and frames.is_users(frame.f_code.co_filename)
    return users and bool(nodes_around(frame, (ast.For, ast.While)))


def every() -> int | None:
    """How many turns of a loop pass from one time to the next that this line is reached.

    Reads it off the innermost `if … % N == 0` around a line of the user's frames, where N can
    be worked out from the variables at hand; None without one.
    """
    for branch, frame in _holding((ast.If,)):
        for node in ast.walk(branch.test):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
                try:
                    return _value(node.right, _names(frame))
                except UNKNOWN:
                    return None
    return None


def around() -> list[dict[str, Any]]:
    """Describe each loop around the training, innermost first, with the turns it makes.

    `turns` is how many it makes in all, `left` how many it makes from now on, `each` at how
    many it is left in each of the turns of the loop around it; each is None where the source
    does not tell. A turn that is under way counts as made. `sometimes` says that what stands in
    it does so under a condition.
    """
    found = []
    sometimes = False
    for loop, frame in _holding((ast.For, ast.While, ast.If)):
        if isinstance(loop, ast.If):
            sometimes = True
            continue
        names = _names(frame)
        text = frames.lines_of(os.path.abspath(frame.f_code.co_filename))[loop.lineno - 1]
        described = frames.definition(frame.f_code) | {"line": loop.lineno, "text": text.strip()}
        turns = _turns(loop, names) if isinstance(loop, ast.For) else None
        left, each = _until(loop, names)
        found.append(
            described | {"turns": turns, "left": left, "each": each, "sometimes": sometimes}
        )
        sometimes = False
    return found


def counter() -> int | None:
    """The number of the turn that the innermost loop around the user's line is in.

    None where that is no `for` over a `range` or an `enumerate` whose counter is at hand.
    """
    loop, frame = next(_holding(), (None, None))
    if not isinstance(loop, ast.For) or frame is None:
        return None
    try:
        return _index(loop, _names(frame))
    except UNKNOWN:
        return None


def _holding(
    kinds: tuple[type[ast.stmt], ...] = (ast.For, ast.While),
) -> Iterator[tuple[Any, FrameType]]:
    """The statements of these kinds that hold the current lines of the user's, innermost first."""
    for frame in frames.users_frames():
        for node in nodes_around(frame, kinds):
            yield node, frame


def nodes_around(frame: Any, kinds: Any) -> list[Any]:
    """The statements of some kinds that hold the line of a frame, or of a place in its code.

    Within its function, innermost first.
    """
    first, line = frame.f_code.co_firstlineno, frames.line_of(frame)
    found = [
        node
        for node in nodes_of(os.path.abspath(frame.f_code.co_filename))
        if isinstance(node, kinds) and first <= node.lineno <= line <= (node.end_lineno or 0)
    ]
    return sorted(found, key=lambda node: -node.lineno)


@lru_cache(maxsize=16)
def nodes_of(path: str) -> tuple[Any, ...]:
    """The expressions and statements of a file as it runs; none if it cannot be read."""
    try:
        tree = ast.parse("".join(frames.lines_of(path)))
    except (SyntaxError, ValueError):
        return ()
    return tuple(node for node in ast.walk(tree) if hasattr(node, "lineno"))


def _names(frame: FrameType) -> dict[str, Any]:
    return {**frame.f_globals, **frame.f_locals}


# ------------------------------------------------------------------ how often a loop turns


def _within(node: ast.expr, through: tuple[str, ...]) -> Any:
    """The expression that calls of these names were given first, however deep."""
    found: Any = node
    while isinstance(found, ast.Call) and _called(found) in through and found.args:
        found = found.args[0]
    return found


def _range(call: Any, names: dict[str, Any]) -> range | None:
    """The `range`, or tqdm's `trange`, that an expression makes; None if it makes another thing."""
    if not isinstance(call, ast.Call) or _called(call) not in ("range", "trange"):
        return None
    return range(*(_value(argument, names) for argument in call.args))


def _turns(loop: ast.For, names: dict[str, Any]) -> int | None:
    """How often a `for` turns if nothing leaves it."""
    iterated = _within(loop.iter, HANDS_ON)
    try:
        turns = _range(iterated, names)
        return len(turns) if turns is not None else _length(iterated, names)
    except UNKNOWN:
        return None


def _turns_left(loop: Loop, frame: FrameType) -> tuple[int | None, int | None]:
    """How often a loop turns each time, and from now on; each None where it is not known."""
    names = _names(frame)
    far, most = _until(loop, names)
    if isinstance(loop, ast.While):
        return None, far
    turns = _turns(loop, names)
    try:
        index = _index(loop, names)
    except UNKNOWN:
        return turns, None
    ends = [one for one in (turns, most) if one is not None]
    if not ends:
        return None, None
    return min(ends), max(0, min(ends) - index - 1)


def _index(loop: ast.For, names: dict[str, Any]) -> int:
    """The number of the turn a `for` is in; raises where its counter is not at hand."""
    count = int(names[min(_handed_out(loop))])
    turns = _range(_within(loop.iter, PROGRESS_BARS), names)
    return count if turns is None else turns.index(count)


def _until(loop: Loop, names: dict[str, Any]) -> tuple[int | None, int | None]:
    """The turns that a loop has left by its counters, and at how many it is left each time.

    A counter that the loop itself hands out begins anew with the loop; others count on.
    """
    own = _handed_out(loop)
    left: list[int] = []
    each: list[int] = []
    if isinstance(loop, ast.While):
        left += _distances(loop.test, names, loop, False)
    for node in loop.body:
        if isinstance(node, ast.If) and isinstance(node.body[-1], LEAVES):
            counters = {one.id for one in ast.walk(node.test) if isinstance(one, ast.Name)}
            if counters & own:
                each += _limits(node.test, names, own)
            else:
                left += _distances(node.test, names, loop, True)
    return min(left, default=None), min(each, default=None)


def _handed_out(loop: Loop) -> set[str]:
    """The name of the counter that a loop hands out, from nought on; empty if it has none."""
    if not isinstance(loop, ast.For):
        return set()
    call = _within(loop.iter, PROGRESS_BARS)
    first = loop.target.elts[0] if isinstance(loop.target, ast.Tuple) else loop.target
    counts = isinstance(call, ast.Call) and _called(call) in COUNT
    return {first.id} if counts and isinstance(first, ast.Name) else set()


def _compared(test: ast.expr, ends: bool) -> Iterator[tuple[ast.expr, ast.expr]]:
    """The counter and its limit, of comparisons that keep a loop going, or end it."""
    for node in ast.walk(test):
        if not isinstance(node, ast.Compare) or len(node.ops) != 1:
            continue
        low: tuple[ast.expr, ast.expr] = (node.left, node.comparators[0])
        if isinstance(node.ops[0], (ast.GtE, ast.Gt)):
            yield low if ends else (low[1], low[0])
        elif isinstance(node.ops[0], (ast.Lt, ast.LtE)):
            yield (low[1], low[0]) if ends else low
        elif isinstance(node.ops[0], ast.Eq) and ends:
            yield low


def _distances(test: ast.expr, names: dict[str, Any], loop: Loop, ends: bool) -> list[int]:
    """The turns until each counter of a test that grows within the loop meets its limit."""
    found = []
    for counter, limit in _compared(test, ends):
        grows = _growth(counter, loop)
        try:
            far = _value(limit, names) - _value(counter, names)
            if grows is not None and far >= 0:  # what was passed has not ended it
                found.append(math.ceil(far / grows))
        except UNKNOWN:
            continue
    return found


def _growth(counter: ast.expr, loop: Loop) -> int | None:
    """By how much a counter grows in a turn: `counter += 1` somewhere within the loop.

    One that is the length of a list grows where that is appended to.
    """
    name = ast.unparse(counter)
    for node in ast.walk(loop):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "append"
            and name == f"len({ast.unparse(node.func.value)})"
        ):
            return 1
        by: Any = None
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
            by = node.value if ast.unparse(node.target) == name else None
        if isinstance(by, ast.Constant) and isinstance(by.value, int) and by.value > 0:
            return by.value
    return None


def _limits(test: ast.expr, names: dict[str, Any], own: set[str]) -> list[int]:
    """The numbers at which a loop is left whose own counter a test compares."""
    found = []
    for counter, limit in _compared(test, True):
        try:
            if isinstance(counter, ast.Name) and counter.id in own:
                found.append(max(1, _value(limit, names)))
        except UNKNOWN:
            continue
    return found


# ------------------------------------------------------------------ plain expressions


def _called(call: ast.Call) -> str:
    return str(getattr(call.func, "id", "") or getattr(call.func, "attr", ""))


def _object(node: ast.expr, names: dict[str, Any]) -> Any:
    """The object that a name, or an attribute of one, stands for."""
    if isinstance(node, ast.Name):
        return names[node.id]
    if isinstance(node, ast.Attribute):
        return getattr(_object(node.value, names), node.attr)
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        return _object(node.value, names)[node.slice.value]
    raise TypeError("not a plain expression")


def _length(node: ast.expr, names: dict[str, Any]) -> int:
    """The length of what an expression stands for, where reading it runs nothing."""
    if isinstance(node, (ast.List, ast.Tuple)):
        return len(node.elts)
    found = _object(node, names)
    if isinstance(found, PLAIN):
        return len(found)
    return int(found.shape[0])


def _value(node: ast.expr, names: dict[str, Any]) -> int:
    """The integer that a plain expression stands for: names, attributes, sums, lengths."""
    if isinstance(node, ast.Constant):
        return int(str(node.value))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand, names)
    if isinstance(node, ast.BinOp):
        return OPERATORS[type(node.op)](_value(node.left, names), _value(node.right, names))
    if isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords:
        if _called(node) == "len":
            return _length(node.args[0], names)
        if _called(node) == "int":
            return _value(node.args[0], names)
        if _called(node) == "size" and isinstance(node.func, ast.Attribute):
            shape = _object(node.func.value, names).shape  # a tensor's
            return int(shape[_value(node.args[0], names)])
    return int(_object(node, names))


# ------------------------------------------------- what comes now and then beside the steps


class Places:
    """The places that asked so far: of each, its source is read once."""

    def __init__(self) -> None:
        self._known: dict[Any, dict[str, Any]] = {}

    def here(self) -> dict[str, Any]:
        """Return `where` the user's source calls, in which `loop`, and `every` how many turns."""
        key = self._key()
        if key not in self._known:
            loop, _ = loop_around(own=False)
            self._known[key] = {"where": frames.here(), "every": every(), "loop": loop}
        return self._known[key]

    def is_new(self) -> bool:
        """Whether nothing was asked for at this line before."""
        return self._key() not in self._known

    def _key(self) -> Any:
        frame, _ = frames.users_frame()
        return None if frame is None else (frame.f_code, frame.f_lineno)
