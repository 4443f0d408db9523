"""A few steps under PyTorch's tracer by lines of the user's: operators, and their backward.

A mode of `torch.overrides` puts a mark with the user's line around each call of PyTorch's functions
on the main thread. Operators within a mark are the line's; a node of the backward graph is that of
the operator with its sequence number; a kernel that of the operator it is linked to.
"""

from __future__ import annotations

import ast
import statistics
import sys
import threading
import time
import weakref
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

from ...process import turns
from ...process.frames import Place, is_users, line_of, site
from ...process.stacks import INLINE, line_text, users_site
from ...timing.tracing import LINES
from ..probes.operator_times import ENGINE, is_work, kind_of, nested, on_host
from ..probes.passes import NO_KERNEL, PROFILED, device, profile, profiled, quiet
from .looks import Looks, Observer

if TYPE_CHECKING:
    from ...timing.drivers.driver import Driver

COMPILES = "TorchDynamo compiles in this process, and would do so anew under trainperf's mode"
MODES = "the script has set a mode for functions of PyTorch itself"
MOST_LINES = 60
MOST_CALLS, MOST_ELEMENTS = 5_000, 10_000
OWN = "trainperf: its own"
SILENT = frozenset(
    (
        *("__get__", "__set__", "__len__", "_set_grad_enabled", "data_ptr", "device", "dim"),
        *("element_size", "get_device", "is_complex", "is_contiguous", "is_floating_point"),
        *("nelement", "numel", "register_hook", "size", "storage_offset", "stride"),
    )
)
"""Functions of PyTorch that run no operator."""
MARKS = "_record_function_"
"""Begins the names of the functions that put a mark of PyTorch's own, or take it away."""


@dataclass(eq=False)
class UsersLine:
    """A line of the user's in traced steps; times in nanoseconds, of all these steps."""

    where: dict[str, Any]
    text: str
    callers: tuple[Place, ...]
    looks: Looks = field(default_factory=Looks)
    elements: list[int] = field(default_factory=list)
    calls: int = 0
    forward: int = 0
    backward: int = 0
    device: int = 0
    functions: Counter[str] = field(default_factory=Counter)


@dataclass(eq=False)
class Mark:
    """What stands around calls of one function on one line."""

    name: str
    function: str
    line: UsersLine


class TorchTracer:
    """Kineto around a few steps of the loop, as `torch.profiler` uses it, and their lines.

    The mode puts marks around calls; a fault of ours is kept in `fault`: from then on calls are
    passed on as they come. `within` says that steps end within `Optimizer.step`, under a mark of
    PyTorch's: where the tracer was started within such a mark, PyTorch 2.13 crashed in one of seven
    runs.
    """

    short = True

    def __init__(self, driver: Driver, within: bool = False) -> None:
        self._torch: Any = sys.modules["torch"]
        self._driver: Any = driver
        self.late = bool(driver.device.asynchronous)
        self._within = within
        self._profile: Any = None
        self._mode = _mode(self._torch, self.call)
        self._main = driver.loops.main
        self._marks: dict[tuple[CodeType, int, str], Mark] = {}
        self._lines: dict[tuple[str, int, str], UsersLine] = {}
        self._around = self._torch._C._profiler._RecordFunctionFast
        self._observer = Observer()
        self._loops: set[tuple[str, int]] = set()  # those around the steps
        self._windows: list[tuple[int, int]] = []
        self._calls = 0
        self._marked = False  # the step that is under way
        self._turns = -1
        self._open = 0  # marks of PyTorch's own, since the mode was set
        self._pending: Callable[[], None] | None = None
        self._function: Any = self._torch.autograd.Function
        self._apply: Any = vars(self._function)["apply"]
        self._overridden: Any = self._torch.overrides.has_torch_function
        self.over = False
        self.fault = ""
        forked = weakref.WeakMethod(self._forked)
        driver.process.after_fork(lambda: None if (stop := forked()) is None else stop())

    def refusal(self, asked: bool) -> str:
        """Why it cannot be used now: a profiler of the script's, also one that waits for a step.

        A trace that was `asked` for is made without lines where these cannot be had.
        """
        waits = "ProfilerStep" in self._torch.autograd.profiler.KinetoStepTracker._step_dict
        if waits or profiled():
            return PROFILED
        usual = getattr(self._torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)
        modes = any(mode is not usual for mode in self._stack())
        reason = COMPILES if self._driver.loops.compiles else MODES if modes else ""
        if reason and asked and not self._within:
            self.over, self.fault = True, reason
            return ""
        return reason

    def outside(self, act: Callable[[], None]) -> None:
        """A step ends and the next one begins: the loops that hold this turn not within a step.

        The mode is set by the first, and taken out by the one after `stop`. Within a mark of
        PyTorch's `act` is called with the next call of PyTorch's that is in no mark open now.
        """
        self._turns += 1
        if self.over:
            self.drop()
        elif not any(mode is self._mode for mode in self._stack()):
            self._mode.__enter__()
            self._driver.loops.lines = self
            # Modes are told nothing of `autograd.Function.apply`.
            self._function.apply = classmethod(
                lambda owner, *args, **kwargs: self.call(
                    self._apply.__get__(None, owner), args, kwargs
                )
            )
            self._torch.overrides.has_torch_function = self._overrides
            for place in _places(sys._getframe(1)):
                file = place.f_code.co_filename
                self._loops |= {(file, node.lineno) for node in loops_at(place)}
        if self._within:
            self._pending, self._open = act, 0
        else:
            act()

    def start(self) -> None:
        with quiet():
            self._profile = profile().__enter__()

    @contextmanager
    def step(self, number: int) -> Iterator[None]:
        """The mark of a step, as `torch.profiler` names it: what reads its traces knows it."""
        with self._torch.autograd.profiler.record_function(f"ProfilerStep#{number}"):
            self._marked, began = True, time.time_ns()
            try:
                yield
            finally:
                self._marked = False
                self._windows.append((began, time.time_ns()))

    def stop(self) -> None:
        self.drop()
        self._driver.sync()
        with quiet():
            self._profile.__exit__(None, None, None)

    def drop(self) -> None:
        """See nothing more; the mode is taken out where nothing stands over it, or runs in it."""
        self.over = True
        self._pending = None
        self._driver.loops.lines = None
        self._function.apply = self._apply
        self._torch.overrides.has_torch_function = self._overridden
        if any(mode is self._mode for mode in self._stack()[-1:]):
            self._mode.__exit__(None, None, None)

    def _forked(self) -> None:
        if not self.over:
            self.drop()
            # A process that the tracer was copied into would keep its operators for good.
            self._torch._C._autograd._enable_record_function(False)

    def compiled(self) -> None:
        """TorchDynamo is given something, and cannot compile it as one graph under the mode."""
        self.fault = COMPILES
        self.drop()

    @property
    def full(self) -> bool:
        return self._calls > MOST_CALLS

    def save(self, file: str) -> str:
        results = self._profile.kineto_results
        results.save(file)
        kernels = not all(map(on_host, results.events()))
        return "" if kernels or not self._torch.cuda.is_initialized() else NO_KERNEL

    def read(self) -> None:
        """Record the event `torch_lines`, or `missing` with the reason why there is none."""
        cuda = device() == "cuda"
        events = self._profile.kineto_results.events()
        operators = [event for event in events if kind_of(event) == "cpu_op"]
        work = [event for event in events if is_work(event)] if cuda else []
        fault = self.fault or (NO_KERNEL if cuda and not work else "")
        if fault:
            self._driver.record.write("missing", what=LINES, reason=fault)
            return
        with self._torch.no_grad():
            self._driver.record.write("torch_lines", **self.event(operators, work, cuda))

    def call(self, function: Any, args: Any, kwargs: Any) -> Any:
        """Make a call of PyTorch's that the program makes, within a mark of its line."""
        mark, value = self._guarded(self._mark, function, args, kwargs) or (None, None)
        if mark is None:
            return function(*args, **kwargs)
        with self._around(mark.name):
            result = function(*args, **kwargs)
        if value is not None:
            self._guarded(self._observer.after, value, args, result)
        return result

    def _guarded(self, act: Callable[..., Any], *args: Any) -> Any:
        """Do what is ours, and ask tensors past what their class makes of it; None if it fails."""
        if not self.over:
            try:
                with self._torch._C.DisableTorchFunctionSubclass():
                    return act(*args)
            except Exception as error:
                self.fault = f"{type(error).__name__}: {error}"[:500]
                self.over = True
        return None

    def _overrides(self, given: Any) -> bool:
        """`has_torch_function`, as without us: PyTorch's layers ask it before their fast path."""
        if not any(mode is self._mode for mode in self._stack()[-1:]):
            return bool(self._overridden(given))
        with self._torch.overrides._pop_mode_temporarily():
            return bool(self._overridden(given))

    def _mark(self, function: Any, args: Any, kwargs: Any) -> tuple[Mark | None, int | None]:
        if threading.get_ident() != self._main or self._driver.process.off:
            return None, None
        name = str(getattr(function, "__name__", type(function).__name__))
        if name.startswith(MARKS):
            self._open += 1 if "_enter" in name else -1
            return None, None
        if self._pending is not None and self._open < 0:
            act, self._pending = self._pending, None
            act()
        if name in SILENT or self.over:
            return None, None
        frame: FrameType | None = sys._getframe(3)
        while frame is not None and not _is_users(frame.f_code):
            frame = frame.f_back
        if frame is None:
            return None, None
        key = (frame.f_code, frame.f_lasti, name)
        mark = self._marks.get(key)
        if mark is None:
            places = _places(frame)
            where: dict[str, Any] = {**(site(places[0]) or {}), **users_site(places[0])}
            made = UsersLine(where, line_text(places[0]), tuple(places))
            line = self._lines.setdefault((where["file"], where["line"], where["function"]), made)
            called = f"trainperf line {where['line']}: {name} ({len(self._marks)})"
            mark = self._marks[key] = Mark(called, name_of(function), line)
        self._calls += 1
        line = mark.line
        if self._marked and len(line.elements) < MOST_ELEMENTS:
            tensor, given = self._torch.Tensor, [*args, *kwargs.values()]
            firsts = (one[0] if isinstance(one, (tuple, list)) and one else one for one in given)
            sizes = [one.numel() for one in firsts if isinstance(one, tensor)]
            line.elements += [max(sizes)] if any(sizes) else []
        if not self._observer.on or self._torch._C._len_torch_dispatch_stack():
            return mark, None  # a mode of the script's would see what we call, or keep it
        with self._around(OWN):
            return mark, self._observer.before(line.looks, name, self._turns, args, kwargs)

    def _stack(self) -> list[Any]:
        c = self._torch._C
        return [c._get_function_stack_at(at) for at in range(c._len_torch_function_stack())]

    def event(self, operators: Iterable[Any], kernels: Iterable[Any], cuda: bool) -> dict[str, Any]:
        """The fields of `torch_lines`: times in seconds a step, the dearest lines first."""
        reader = Reader({mark.name: mark for mark in self._marks.values()})
        reader.read(event for event in operators if self._inside(event.start_ns()))
        host = reader.host()
        times = reader.device(kernels, self._inside) if cuda else host
        for mark in filter(None, {*host, *times}):
            line, (forward, backward) = mark.line, times.get(mark, (0, 0))
            line.forward += host.get(mark, (0, 0))[0]
            line.calls += reader.calls[mark]
            line.backward += backward
            line.device += forward if cuda else 0
            line.functions[mark.function] += forward + backward
        each = len(self._windows) * 1e9
        whole = lambda line: max(line.forward, line.device) + line.backward  # noqa: E731
        lines = sorted(self._lines.values(), key=whole, reverse=True)[:MOST_LINES]
        return {
            "steps": len(self._windows),
            "all_backward_s": sum(backward for _, backward in times.values()) / each,
            "all_device_s": sum(map(sum, times.values())) / each if cuda else None,
            "lines": [self._fields(line) for line in lines if line.calls],
        }

    def _inside(self, at: int) -> bool:
        return any(first <= at < last for first, last in self._windows)

    def _fields(self, line: UsersLine) -> dict[str, Any]:
        each = len(self._windows) * 1e9
        # The innermost loop around it, or around its callers, that turns within a step.
        loop = next(
            (
                users_site(place) | {"line": node.lineno}
                for place in line.callers
                for node in loops_at(place, inside=True)
                if (place.f_code.co_filename, node.lineno) not in self._loops
            ),
            None,
        )
        return {
            "where": line.where,
            "text": line.text,
            "operators": line.calls / len(self._windows),
            "elements": int(statistics.median(line.elements)) if line.elements else None,
            "backward_s": line.backward / each,
            "device_s": line.device / each,
            "name": max(line.functions, key=lambda name: line.functions[name], default=""),
            "loop": loop,
            "looks": self._observer.seen(line.looks, self._turns),
        }


def _is_users(code: CodeType) -> bool:
    return is_users(code.co_filename) and code.co_name not in INLINE


def _places(frame: FrameType | None) -> list[Place]:
    """The user's own lines on a stack, the innermost first."""
    places = []
    while frame is not None:
        if _is_users(frame.f_code):
            places.append(Place(frame.f_code, frame.f_lasti, line_of(frame)))
        frame = frame.f_back
    return places


def _mode(torch: Any, call: Callable[[Any, Any, Any], Any]) -> Any:
    class Lines(torch.overrides.TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return call(func, args, kwargs or {})

    return Lines()


def name_of(function: Any) -> str:
    """The name of a function of PyTorch's, as users write it: "torch.mm", "Tensor.add"."""
    name = str(getattr(function, "__name__", type(function).__name__))
    if isinstance(getattr(function, "__self__", None), type):
        return f"{function.__self__.__name__}.{name}"
    owner = str(getattr(function, "__qualname__", "")).partition(".")[0]
    if owner in ("TensorBase", "_TensorBase", "Tensor"):
        return f"Tensor.{name}"
    module = str(getattr(function, "__module__", None) or "torch")
    written = {"torch._C._nn": "torch.nn.functional", "torch.functional": "torch"}
    return f"{written.get(module, module)}.{name}"


LOOPS = (ast.For, ast.AsyncFor, ast.While)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def loops_at(place: Place, inside: bool = False) -> list[Any]:
    """The loops of a function that hold a line of it, the innermost first.

    With `inside` the line is one that turns with the loop, not where its iterator is made.
    """
    return [
        node
        for node in turns.nodes_around(place, (*LOOPS, *COMPREHENSIONS))
        if not (inside and isinstance(node, (ast.For, ast.AsyncFor)))
        or place.f_lineno >= node.body[0].lineno
    ]


Node = tuple[int, int]
"""A node of the backward graph: the thread of its forward, and its sequence number."""
Times = dict[Mark | None, tuple[int, int]]


class Reader:
    """The events of operators: own times by marks and by nodes, in nanoseconds.

    An operator belongs to the innermost mark around it; where it is in a node of the backward
    graph, to that.
    """

    def __init__(self, marks: dict[str, Mark]) -> None:
        self._marks = marks
        self._own: Counter[Mark | Node | None] = Counter()
        self.calls: Counter[Mark | None] = Counter()  # that ran any operator
        self._makers: dict[Node, Mark | None] = {}
        self._of: dict[int, Mark | Node | None] = {}  # by the number that kernels are linked to

    def read(self, events: Iterable[Any]) -> None:
        """Read the events of operators and marks."""
        states: list[tuple[Mark | None, Node | None, bool]] = []  # with whether it is our own
        empty: set[int] = set()  # marks in which no operator ran yet
        for place, operator in enumerate(nested(events)):
            event, parent = operator.event, operator.parent
            mark, node, skipped = (None, None, False) if parent is None else states[parent]
            name, number = event.name(), event.sequence_nr()
            marks = name in self._marks
            if marks:
                mark = self._marks[name]
                empty.add(place)
            elif name == OWN:
                mark, node, skipped = None, None, True
            elif name.startswith(ENGINE):
                node = (event.fwd_thread_id(), number)
            elif node is None and number >= 0 and not skipped:
                self._makers[event.start_thread_id(), number] = mark  # the last one makes the node
            states.append((mark, node, skipped))
            if skipped:
                continue
            owner = self._of[event.correlation_id()] = mark if node is None else node
            if marks:
                continue
            self._own[owner] += operator.own
            if parent in empty and node is None:
                self.calls[mark] += 1
                empty.discard(parent)

    def host(self) -> Times:
        """Time of forward and backward on the host, by mark; None is what no mark owns."""
        return self._times(self._own.items())

    def device(self, kernels: Iterable[Any], inside: Callable[[int], bool]) -> Times:
        """The same of what was started on the device, in its own time.

        What no operator started counts where it began in a step.
        """
        numbers = ((kernel.linked_correlation_id(), kernel) for kernel in kernels)
        return self._times(
            (self._of.get(by), kernel.duration_ns())
            for by, kernel in numbers
            if by in self._of or (not by and inside(kernel.start_ns()))
        )

    def _times(self, spent: Iterable[tuple[Mark | Node | None, int]]) -> Times:
        times: dict[Mark | None, list[int]] = defaultdict(lambda: [0, 0])
        for owner, nanoseconds in spent:
            if isinstance(owner, tuple):
                times[self._makers.get(owner)][1] += nanoseconds
            else:
                times[owner][0] += nanoseconds
        return {mark: (forward, backward) for mark, (forward, backward) in times.items()}
