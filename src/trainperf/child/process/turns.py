"""The loops of the script around a line: how often they turn, as their source and variables say."""

from __future__ import annotations

import ast
import math
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from types import FrameType
from typing import Any, TypeAlias

from . import frames

Loop: TypeAlias = ast.For | ast.While
LOOPS = (ast.For, ast.While)

PROGRESS_BARS = ("tqdm", "track")
COUNT = ("enumerate", "range", "trange")
HANDS_ON = (*PROGRESS_BARS, "enumerate", "list", "reversed", "sorted", "tuple")
"""Calls that hand on as many values as they are given."""

PLAIN = (list, tuple, range, dict, str, bytes, set, frozenset)
"""Types whose length is there to be read, without running anything of the script's."""

LEAVES = (ast.Break, ast.Return)

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
    for loop, frame in islice(_holding(), int(own), None):
        first = first or frames.definition(frame.f_code) | {"line": loop.lineno}
        if isinstance(loop, ast.For) and _Turns(loop, frame).rest:
            return first, True
    return first, False


def left() -> int | None:
    """How many times more the user's line is reached before its loops end by themselves.

    None where the source does not tell, for one of them.
    """
    total, each = 0, 1
    for loop, frame in _holding():
        turns = _Turns(loop, frame)
        if turns.rest is None:
            return None
        total = total + turns.rest * each if each else max(total, turns.rest)
        each *= turns.of_each or 0  # a counter that the loop does not begin anew counts on
    return total


def asked_directly() -> bool:
    """Whether a line of the user's called what runs here, within a loop and through no library."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frames.is_ours(frame.f_code.co_filename):
        frame = frame.f_back
    users = frame is not None and frames.is_users(frame.f_code.co_filename)
    return users and bool(nodes_around(frame, LOOPS))


def every() -> int | None:
    """How many turns of a loop pass from one time to the next that this line is reached.

    Reads it off the innermost `if … % N == 0` around a line of the user's frames, where N can
    be worked out from the variables at hand; None without one.
    """
    for branch, frame in _holding((ast.If,)):
        for node in ast.walk(branch.test):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
                return _known(node.right, _names(frame))
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
    for loop, frame in _holding((*LOOPS, ast.If)):
        if not isinstance(loop, ast.If):
            turns = _Turns(loop, frame)
            text = frames.lines_of(os.path.abspath(frame.f_code.co_filename))[loop.lineno - 1]
            described = {"line": loop.lineno, "text": text.strip(), "sometimes": sometimes}
            counted = {"turns": turns.whole, "left": turns.left, "each": turns.each}
            found.append(frames.definition(frame.f_code) | described | counted)
        sometimes = isinstance(loop, ast.If)
    return found


def counter() -> int | None:
    """The number of the turn that the innermost loop around the user's line is in.

    None where that is no `for` over a `range` or an `enumerate` whose counter is at hand.
    """
    loop, frame = next(_holding(), (None, None))
    return None if loop is None or frame is None else _Turns(loop, frame).index


def _holding(kinds: tuple[type[ast.stmt], ...] = LOOPS) -> Iterator[tuple[Any, FrameType]]:
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


# ------------------------------------------------------------------ how often a loop turns


class _Turns:
    """The turns of one loop around the line that a frame is at; each is None where not known.

    `whole` are those that a `for` makes if nothing leaves it, `index` is the one under way, `left`
    are those until a counter that goes on ends it, and at `each` it is left each time by the
    counter that it hands out itself.
    """

    def __init__(self, loop: Loop, frame: FrameType) -> None:
        self._loop = loop
        self._names = _names(frame)
        self.whole: int | None = None
        self.index: int | None = None
        own = ""
        if isinstance(loop, ast.For):
            counted = _within(loop.iter, PROGRESS_BARS)
            first = loop.target.elts[0] if isinstance(loop.target, ast.Tuple) else loop.target
            if isinstance(first, ast.Name) and _called(counted) in COUNT:
                own = first.id
                with suppress(UNKNOWN):
                    count, turns = int(self._names[own]), _range(counted, self._names)
                    self.index = count if turns is None else turns.index(count)
            with suppress(UNKNOWN):
                self.whole = _length(_within(loop.iter, HANDS_ON), self._names)
        left, each = list[int](), list[int]()
        if isinstance(loop, ast.While):
            left += self._distances(loop.test, False)
        for node in loop.body:
            if isinstance(node, ast.If) and isinstance(node.body[-1], LEAVES):
                if own and any(getattr(name, "id", "") == own for name in ast.walk(node.test)):
                    each += self._limits(node.test, own)
                else:
                    left += self._distances(node.test, True)
        self.left, self.each = min(left, default=None), min(each, default=None)

    @property
    def of_each(self) -> int | None:
        """How many it makes each time that it is begun; None as well for a `while`."""
        return min((end for end in (self.whole, self.each) if end is not None), default=None)

    @property
    def rest(self) -> int | None:
        """How many it makes from now on."""
        if isinstance(self._loop, ast.While):
            return self.left
        if self.index is None or self.of_each is None:
            return None
        return max(0, self.of_each - self.index - 1)

    def _distances(self, test: ast.expr, ends: bool) -> list[int]:
        """The turns until each counter of a test that grows within the loop meets its limit."""
        found = []
        for counter, limit in _compared(test, ends):
            at, to = _known(counter, self._names), _known(limit, self._names)
            grows = _growth(counter, self._loop)
            if at is not None and to is not None and grows and to >= at:  # passed has not ended it
                found.append(math.ceil((to - at) / grows))
        return found

    def _limits(self, test: ast.expr, own: str) -> list[int]:
        """The numbers at which a test of the loop's own counter leaves it."""
        ends = (limit for at, limit in _compared(test, True) if getattr(at, "id", "") == own)
        limits = (_known(limit, self._names) for limit in ends)
        return [max(1, limit) for limit in limits if limit is not None]


def _within(node: ast.expr, through: tuple[str, ...]) -> Any:
    """The expression that calls of these names were given first, however deep."""
    found: Any = node
    while _called(found) in through and found.args:
        found = found.args[0]
    return found


def _compared(test: ast.expr, ends: bool) -> Iterator[tuple[ast.expr, ast.expr]]:
    """The counter and its limit, of comparisons that keep a loop going, or end it."""
    for node in ast.walk(test):
        if not isinstance(node, ast.Compare) or len(node.ops) != 1:
            continue
        sides = node.left, node.comparators[0]
        more = isinstance(node.ops[0], (ast.GtE, ast.Gt))
        if more or isinstance(node.ops[0], (ast.Lt, ast.LtE)):
            yield sides if more == ends else (sides[1], sides[0])
        elif isinstance(node.ops[0], ast.Eq) and ends:
            yield sides


def _growth(counter: ast.expr, loop: Loop) -> int | None:
    """By how much a counter grows in a turn: `counter += 1` somewhere within the loop.

    One that is the length of a list grows where that is appended to.
    """
    name = ast.unparse(counter)
    for node in ast.walk(loop):
        if _called(node) == "append" and name == f"len({ast.unparse(node.func.value)})":  # type: ignore[attr-defined]
            return 1
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
            by = getattr(node.value, "value", None)
            if ast.unparse(node.target) == name and isinstance(by, int) and by > 0:
                return by
    return None


# ------------------------------------------------------------------ plain expressions

PARTS = (
    ast.Constant, ast.Name, ast.Attribute, ast.Subscript, ast.UnaryOp, ast.USub, ast.BinOp,
    ast.Call, ast.operator, ast.expr_context,
)  # fmt: skip
"""What a plain expression is made of."""


def _names(frame: FrameType) -> dict[str, Any]:
    return {**frame.f_globals, **frame.f_locals}


def _called(node: Any) -> str:
    """The last name of what is called; "" of all that is no call."""
    function = node.func if isinstance(node, ast.Call) else None
    return str(getattr(function, "id", "") or getattr(function, "attr", ""))


def _known(node: ast.expr, names: dict[str, Any]) -> int | None:
    """The integer that a plain expression stands for."""
    try:
        return int(_value(node, names))
    except UNKNOWN:
        return None


def _range(call: Any, names: dict[str, Any]) -> range | None:
    """The `range`, or tqdm's `trange`, that an expression makes; None if it makes another thing."""
    if _called(call) not in ("range", "trange"):
        return None
    return range(*(int(_value(argument, names)) for argument in call.args))


def _length(node: Any, names: dict[str, Any]) -> int:
    """The length of what an expression stands for."""
    if isinstance(node, (ast.List, ast.Tuple)):
        return len(node.elts)
    found = _range(node, names)
    return _length_of(_value(node, names) if found is None else found)


def _length_of(value: Any) -> int:
    """The length of a value, where reading it runs nothing."""
    return len(value) if isinstance(value, PLAIN) else int(value.shape[0])


def _value(node: Any, names: dict[str, Any]) -> Any:
    """What a plain expression stands for: names, attributes, items, sums, lengths; else raises."""
    for part in ast.walk(node):
        if _called(part) == "size":  # raises where it is no tensor's, but code of the user's
            _length_of(_value(part.func.value, names))  # type: ignore[attr-defined]
        calls = isinstance(part, ast.Call) and _called(part) not in ("int", "len", "size")
        if calls or not isinstance(part, PARTS):
            raise TypeError("not a plain expression")
    given = {"__builtins__": {}, "int": int, "len": _length_of}
    return eval(compile(ast.Expression(node), "<a plain expression>", "eval"), given, names)


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
