"""Sample the Python stacks of this process: which of the user's functions time passes in.

Runs on a thread of its own during one phase whose times enter no figure.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from linecache import getline, getlines
from opcode import opname
from types import CodeType, FrameType
from typing import Any, NamedTuple

from .frames import WRAPPERS, Place, is_users, line_of, nested, site
from .recorder import Recorder

INTERVAL_S = 0.004
SWITCH_S = 0.0002
"""How long the interpreter lets Python code run on while we wait to look at it. With the usual
5 ms we would see it only where a library lets go of the interpreter by itself, so never in a
millisecond of plain Python."""

INLINE = ("<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>")
"""Frames of comprehensions: their time is that of the function they stand in."""

FROZEN = "<frozen "
"""How the file of a module that is frozen into Python begins: `importlib`, `posixpath`."""

MODEL, INPUT, BACKWARD, COMPILING = "model", "input", "backward", "compiling"
OF_THE_MODEL = ("_call_impl", "__call__")
"""Library functions through which a framework runs the user's own layers."""

OF_THE_INPUT = ("__next__", "_next_data", "fetch", "next")
"""Library functions through which a loop gets its next batch."""

FRAMEWORKS = ("torch.", "keras.", "tf_keras.", "tensorflow.")
OF_LOADERS = (
    "torch.utils.data.",
    "tensorflow.python.data.",
    "keras.src.trainers.data_adapters.",
    "keras.src.trainers.epoch_iterator",
)
"""Modules whose frames open an input, take from it or close it, wherever they are called."""

OF_COMPILERS = ("torch._dynamo.convert_frame", "torch._inductor.compile_fx")
TRACES = ("_create_concrete_function", "func_graph_from_py_func")
"""Modules, and functions of TensorFlow, in which code is traced or compiled, not looked up."""

MOST_SOURCES, LONGEST = 16, 1500
MOST_STACKS = 400
"""Different stacks that are told one by one."""

MOST_OF_A_LINE, MOST_OF_A_CALL = 160, 80

DEEPEST = 24
"""So many of the user's frames of a stack are kept, the innermost."""

OF_PYTHON = ("tensorflow.python.ops.script_ops", "FuncRegistry.__call__")
TOKENS = set[str]()
"""The function in which TensorFlow runs Python, and what it calls that which makes input."""

Key = tuple[str, str, str, tuple[Place, ...]]
"""A thread's stack: which thread, what the user's line has called, why the framework ran it, and
the user's places."""

PARKED = ("wait", "get", "acquire", "select", "poll", "recv", "accept", "sleep", "join", "_recv")
"""Functions of the standard library in which a thread stands still."""


class StackSampler:
    """Counts, per thread role, the innermost frame of the user's every few ms.

    Nothing is counted while `over` says that the loop has ended: what runs then is not its.
    Whole stacks are those of steps: none while `between` says that an epoch has ended. While
    `compiling` says so, what was just compiled runs for the first time.
    """

    def __init__(
        self,
        interval_s: float = INTERVAL_S,
        over: Callable[[], bool] = lambda: False,
        between: Callable[[], bool] = lambda: False,
        compiling: Callable[[], bool] = lambda: False,
    ) -> None:
        self._interval = interval_s
        self._over = over
        self._between = between
        self._compiling = compiling
        self._stop = threading.Event()
        self._started = False
        self._switch = sys.getswitchinterval()
        self._main = threading.main_thread().ident
        self._counts: Counter[tuple[str, str, int, str, int, str]] = Counter()
        self.samples = 0
        self.in_steps = self.fetching = 0  # those within a step, and while it gets its batch
        self._in_step = False
        self.whole = 0  # those of them whose stacks were kept
        self.whole_s = 0.0  # the time that these stand for
        self._stacks: defaultdict[Key, list[float]] = defaultdict(lambda: [0, 0.0])
        self._thread = threading.Thread(target=self._run, name="trainperf-stacks", daemon=True)

    def start(self) -> None:
        """Begin to sample; until the thread runs, the one that waits for it does our work."""
        self._switch = sys.getswitchinterval()
        sys.setswitchinterval(min(SWITCH_S, self._switch))
        self._thread.start()
        self._started = True

    def stop(self) -> list[dict[str, Any]]:
        """Stop, and return the counts, most frequent first."""
        if not self._stop.is_set():
            sys.setswitchinterval(self._switch)
        self._stop.set()
        self._thread.join(2.0)
        names = ("thread", "file", "def", "function", "line", "into", "n")
        most = self._counts.most_common(200)
        return [dict(zip(names, (*key, n), strict=True)) for key, n in most]

    def seen(self) -> dict[str, Any]:
        """Return what was sampled besides the counts, as the record has it, once stopped."""
        return {
            "total": self.samples,
            "sources": self.sources(),
            "stacks": self.stacks(),
            "whole": self.whole,
            "whole_s": self.whole_s,
            "steps": self.in_steps,
            "fetching": self.fetching,
        }

    def sources(self) -> list[dict[str, Any]]:
        """Return the text of the functions that were seen most, as it runs, once stopped."""
        seen: Counter[CodeType] = Counter()
        for (_, _, _, places), (times, _) in self._stacks.items():
            if places:
                seen[places[0].f_code] += int(times)
        return [
            {"file": code.co_filename, "def": code.co_firstlineno, "function": _name(code)}
            | {"text": text}
            for code, _ in seen.most_common(MOST_SOURCES)
            if (text := _text(code))
        ]

    def stacks(self) -> list[dict[str, Any]]:
        """Return whole stacks, how often each was seen in steps and for how long, once stopped.

        `path` are the user's lines, the outermost first, with the `text` of the last of them.
        `into` is the library function that it has called; without one `call` is the text of the
        call that it was in, and `native` says that it may be code that is not Python which ran.
        `within` is why the framework ran it. `thread` is "main" for what the steps pass in, also
        where the framework runs it elsewhere.
        """
        rows = []
        names = ("thread", "path", "text", "call", "into", "native", "within", "n", "s")
        dearest = sorted(self._stacks.items(), key=lambda item: -item[1][1])[:MOST_STACKS]
        for (thread, into, within, places), (n, seconds) in dearest:
            call, native = _call_of(places[0]) if places and not into else ("", False)
            path = [users_site(place) for place in reversed(places)]
            text = line_text(places[0]) if places else ""
            rows.append((thread, path, text, call, into, native, within, n, seconds))
        return [dict(zip(names, row, strict=True)) for row in rows]

    def _run(self) -> None:
        own, last = threading.get_ident(), time.perf_counter()
        while not self._stop.wait(self._interval):
            before, last = last, time.perf_counter()
            try:
                if not self._started or self._over():
                    continue
                with no_collection():
                    self._sample(own, last - before)
            except Exception:  # a frame that its thread was just replacing, a module of odd names
                continue
            self.samples += 1

    def _sample(self, own: int, since_s: float) -> None:
        in_step = not self._between()
        found = sys._current_frames().items()
        threads = [(stack_of(frame), ident) for ident, frame in found if ident != own]
        for stack, ident in threads:
            self._count(stack, ident == self._main, in_step)
        if in_step:
            self._whole(threads, since_s if self._in_step else self._interval)
        self._in_step, self.in_steps = in_step, self.in_steps + in_step

    def _whole(self, threads: list[tuple[Stack, int]], since_s: float = INTERVAL_S) -> None:
        """Count whole stacks, one of them as what the step passes in.

        That is the main thread's; while it is in a call of the framework it is the one that this
        runs on a thread of its own, as TensorFlow runs `numpy_function`. Threads that make the
        input work ahead: theirs it is only while the main thread waits for that.

        Where code that is not Python kept the interpreter from us, the sample comes late: it stands
        for all of that time.
        """
        owner = next((stack for stack, ident in threads if ident == self._main), None)
        if owner is None or owner.ours:
            return
        others = [stack for stack, ident in threads if ident != self._main and stack.works]
        if owner.within in ("", MODEL) and self._compiling():
            owner = owner._replace(within=COMPILING)
        for stack in () if owner.of_users else others:
            waits = owner.within == INPUT
            if stack.within == INPUT if waits else stack.of_framework and stack.within != INPUT:
                owner = stack
                break
        self.whole += 1
        self.whole_s += since_s
        keys = [stack.key("worker") for stack in others if stack is not owner]
        for key in (owner.key("main"), *keys):
            self._stacks[key][0] += 1
            self._stacks[key][1] += since_s

    def _count(self, stack: Stack, main: bool, in_step: bool) -> None:
        """Count the user's innermost frame, and whether a step of the main thread gets a batch."""
        if stack.ours or not stack.places:
            return
        code, _, line = stack.places[0]
        function = code.co_filename, code.co_firstlineno, _name(code)
        self._counts[("main" if main else "worker", *function, line, stack.called)] += 1
        self.fetching += stack.fetches if main and in_step else 0


class Stack(NamedTuple):
    """What a thread was at: the user's `places`, the innermost first, and what ran beneath them."""

    places: tuple[Place, ...]
    called: str  # what the innermost has called
    into: str  # the same, with its module
    within: str  # why the framework runs what runs: the weightiest reason on the whole stack
    ours: bool  # it was trainperf's own code that ran
    of_users: bool  # the innermost frame of all is the user's
    of_framework: bool  # a thread that the framework made, not `threading`
    works: bool  # it runs the user's code, and does not stand still
    fetches: bool = False  # it gets a batch

    def key(self, thread: str) -> Key:
        return thread, self.into, self.within, self.places[:DEEPEST]


def stack_of(frame: FrameType | None) -> Stack:
    """Read a thread's frames, the innermost first.

    Our own work is known by what a hook of ours calls: imports and paths are modules frozen into
    Python, and nothing that hooks are set around is.
    """
    places: list[Place] = []
    called = qualified = within = module = below = ""
    innermost, ours, fetches = frame, False, False
    top = "" if frame is None else str(frame.f_globals.get("__name__", ""))
    while frame is not None:
        code = frame.f_code
        name = code.co_name
        module = str(frame.f_globals.get("__name__", ""))
        if is_users(code.co_filename):
            if name not in INLINE:
                places.append(Place(code, frame.f_lasti, line_of(frame)))
        elif "_trainperf" in module:
            ours = ours or (not places and (below.startswith(FROZEN) or frame is innermost))
        else:
            if not places and name not in WRAPPERS:
                called, qualified = name, f"{module}.{code.co_qualname}"
            within = _reason(within, module, name)
            fetches = fetches or (module.startswith(FRAMEWORKS) and name in OF_THE_INPUT)
            if (module, code.co_qualname) == OF_PYTHON and frame.f_locals.get("token") in TOKENS:
                within = INPUT
        below, frame = code.co_filename, frame.f_back
    own = None if innermost is None else innermost.f_code
    parked = own is not None and own.co_name in PARKED and top.partition(".")[0] in _STANDARD
    of_users = own is not None and is_users(own.co_filename)
    of_framework = bool(places) and module not in ("threading", "__main__")
    works = bool(places) and not parked
    found = tuple(places), called, qualified, within, ours, of_users, of_framework, works, fetches
    return Stack(*found)


_STANDARD = ("threading", "queue", "select", "selectors", "multiprocessing", "concurrent", "socket")


def _reason(within: str, module: str, name: str) -> str:
    """For what a framework runs what is beneath a frame of its own: the weightiest one stays."""
    if within == COMPILING or module.startswith(OF_COMPILERS) or name in TRACES:
        return COMPILING
    if within == INPUT or module.startswith(OF_LOADERS):
        return INPUT
    if not module.startswith(FRAMEWORKS):
        return within
    if name in OF_THE_INPUT:
        return INPUT
    if within == BACKWARD or name == "_engine_run_backward":
        return BACKWARD
    return MODEL if name in OF_THE_MODEL else within


def users_site(place: Place) -> dict[str, Any]:
    """A line of the user's, with its function's name as its class has it."""
    code = place.f_code
    return {
        "file": os.path.abspath(code.co_filename),
        "line": place.f_lineno,
        "def": code.co_firstlineno,
        "function": _name(code),
    }


def _name(code: CodeType) -> str:
    """The name of a function with that of its class."""
    return code.co_qualname.rpartition("<locals>.")[2]


_CALLS = ("CALL", "PRECALL")  # Python 3.11 makes some calls of C by the second
_NATIVE = (*_CALLS, "BINARY", "COMPARE", "UNARY", "FOR_ITER", "GET_ITER", "STORE_S", "CONTAINS")
"""How instructions begin that may run code that is not Python; a loop's jump does not."""


def _call_of(place: Place) -> tuple[str, bool]:
    """The text of what an innermost line was in, and whether that may be code not in Python."""
    if place.f_lasti < 0:
        return "", False
    name = opname[place.f_code.co_code[place.f_lasti]]
    where = site(place) or {}
    whole = name.startswith(_CALLS) and where.get("end_line") == where.get("line")
    line = getline(place.f_code.co_filename, place.f_lineno) if whole else ""
    return line[where.get("col") : where.get("end_col")][:MOST_OF_A_CALL], name.startswith(_NATIVE)


def line_text(place: Place) -> str:
    """The source of a line, stripped and cut."""
    return getline(place.f_code.co_filename, place.f_lineno).strip()[:MOST_OF_A_LINE]


def _text(code: CodeType) -> str:
    """The source of a function as it runs; "" where it cannot be read or is too long."""
    lines = getlines(code.co_filename)
    if code.co_name == "<module>":
        last = len(lines)
    else:
        ends = (end for inner in nested(code) for _, end, *_ in inner.co_positions() if end)
        last = max(ends, default=code.co_firstlineno)
    first = code.co_firstlineno
    return "" if last - first > LONGEST else "".join(lines[max(0, first - 1) : last])


@contextmanager
def no_collection() -> Iterator[None]:
    """No collection of garbage in here, before Python 3.12.

    There a collection may begin wherever an object is made, also where a frame of another
    thread is made visible; a finalizer then lets that thread run on, and the frame go.
    """
    off = sys.version_info < (3, 12) and gc.isenabled()
    if off:
        gc.disable()
    try:
        yield
    finally:
        if off:
            gc.enable()


class Whereabouts:
    """Looks where the main thread is, and records it where that has changed.

    Of a run that is given up this is all there is to say: a download that hangs, a lock, a first
    step that takes longer than the budget.
    """

    def __init__(self, record: Recorder) -> None:
        self._record = record
        self._last: tuple[Any, ...] = ()
        self._main = threading.main_thread().ident or 0

    def look(self) -> None:
        """Record the user's innermost line, its function, what that has called. Never raises."""
        try:
            with no_collection():
                stack = stack_of(sys._current_frames().get(self._main))
        except Exception:  # a frame that its thread was just replacing
            return
        if not stack.places:
            return
        (code, _, line), into = stack.places[0], stack.called
        if (code, line, into) != self._last:
            self._last = code, line, into
            at = os.path.abspath(code.co_filename), line, code.co_name, into
            names = "file", "line", "function", "into"
            self._record.write("at", **dict(zip(names, at, strict=True)))
