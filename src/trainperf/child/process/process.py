"""One process under observation: what it records, what it is told, how it ends."""

from __future__ import annotations

import atexit
import functools
import itertools
import os
import re
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol

from .recorder import Recorder

OWN_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
WAIT_TO_BE_STOPPED_S = 20.0
LOOK_TURNS = 3
"""Seconds between two looks at where the program is."""


class Process:
    """The state that all observers of this process share; it knows no loop and no framework.

    `settings` is the run file, `clock` gives seconds. `off` is true while trainperf itself
    uses a framework, so that hooks let calls through. `at_exit` is called when the process ends by
    itself, `before_finish` when all is measured, before trainperf is told so.
    """

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.record = Recorder(settings["folder"])
        self.clock = time.monotonic
        self.off = False
        self.pid = os.getpid()
        self._noted: set[str] = set()
        self._watching = False
        self._after_fork: list[Callable[[], None]] = []
        self.at_exit: Callable[[], None] = lambda: None
        self.before_finish: Callable[[], None] = lambda: None

    def note(self, text: str) -> None:
        """Record something the report should say; each text once."""
        if text not in self._noted:
            self._noted.add(text)
            self.record.write("note", text=text)

    def failed(self, what: str, error: BaseException) -> None:
        """Record that a part of the observation did not work; the program goes on."""
        self.note(f"{what}: {in_words(error)}")

    def fact(self, name: str, value: Any) -> None:
        """Record a fact by name; a later value replaces an earlier one."""
        self.record.write("fact", k=name, v=value)

    def patched(self, path: str) -> None:
        """Record that the patched text of a file was run in its place."""
        self.record.write("patched", file=path)
        self.record.flush()

    def after_fork(self, call: Callable[[], None]) -> None:
        """Have `call` made in every forked child, whose record is clean by then."""
        self._after_fork.append(call)

    def watch_for_end(self) -> None:
        """Register what is to be done at a fork, at an uncaught exception and at the exit."""
        os.register_at_fork(after_in_child=self._forked)
        atexit.register(self._exits)
        self._watch_errors()

    def watch(self) -> None:
        """Write every second what was recorded, and look for trainperf; once, if it may train."""
        if self._watching:
            return
        self._watching = True
        from .stacks import Whereabouts  # not at the start of every interpreter

        looks = (Whereabouts(self.record),)
        threading.Thread(
            target=self._watch, args=looks, name="trainperf-watch", daemon=True
        ).start()

    def quiet(self) -> None:
        """Record nothing more, and take back what was: this process only helps another."""
        self.off = True
        self.record.discard()

    def finish(self) -> None:
        """Say that all is measured and wait for trainperf to stop the process.

        It waits rather than exits so that nothing that stands after the training
        script in a launcher's script is run.
        """
        self.record.flush()
        self.before_finish()
        self.record.write("done")
        self.record.flush()
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError, AttributeError):
                pass
        time.sleep(WAIT_TO_BE_STOPPED_S)
        os._exit(0)

    def _forked(self) -> None:
        self.record.forked()
        self.pid = os.getpid()
        self._watching = False
        for call in self._after_fork:
            call()

    def _exits(self) -> None:
        if os.getpid() != self.pid:
            return
        self.at_exit()
        self.record.write("exit")
        self.record.flush()

    def _watch(self, whereabouts: Any) -> None:
        of_parent = f"/proc/{self.settings['parent']}"
        visible = os.path.exists(of_parent)  # not so in a container's own process namespace
        for turn in itertools.count(1):
            time.sleep(1.0)
            if turn % LOOK_TURNS == 0 and self.settings.get("leg") is None:
                whereabouts.look()
            self.record.flush()
            if visible and not os.path.exists(of_parent):
                os._exit(1)

    def _watch_errors(self) -> None:
        """Record an uncaught exception, and keep our frames out of the printed traceback."""
        shown = sys.excepthook

        def excepthook(
            kind: type[BaseException], error: BaseException, trace: TracebackType | None
        ) -> None:
            try:
                self.record.write("error", type=kind.__name__, text=str(error)[:LONGEST_TEXT])
                self.record.flush()
                trace = _without_ours(trace)
            finally:
                shown(kind, error.with_traceback(trace), trace)

        sys.excepthook = excepthook


class Guard(Protocol):
    """What a hook asks of its process: whether trainperf itself calls, whom to tell of faults."""

    off: bool

    def failed(self, what: str, error: BaseException) -> None:
        """A fault of ours is noted as `what`; the program goes on."""


_NO_KERNEL = re.compile(r"trying to compile graph .*: (\w+) \(No registered")
_OF_A_TRACE = (
    "Graph execution error", "Detected at node", "The op is created at", "in user code", "File ",
    "Traceback ", "<stack traces", "[[",
)  # fmt: skip
_OF_AN_OPERATOR = re.compile(r"\{\{function_node .*?\}\}\s*|\s*\[Op:.*$")
LONGEST_REASON = 300
LONGEST_TEXT = 10_000
"""What AutoGraph tells of a fault in a traced function begins with all of the stack."""


def in_words(error: BaseException) -> str:
    """Say in one line what went wrong: the first line of an error that is none of a stack's."""
    return text_in_words(type(error).__name__, str(error))


def text_in_words(name: str, text: str) -> str:
    """The same of an error of which the name of its class and its text are known."""
    if (unknown := _NO_KERNEL.search(text)) is not None:
        return f"XLA cannot compile {unknown[1]} here"
    after_a_place = False
    for line in map(str.strip, text.splitlines()):
        if line and not after_a_place and not line.startswith(_OF_A_TRACE):
            text = _OF_AN_OPERATOR.sub("", line)
            break
        after_a_place = line.startswith("File ")
    return (text if text.startswith(f"{name}: ") else f"{name}: {text}")[:LONGEST_REASON]


class Attempt:
    """A `with` block of ours in the user's program: what fails within is noted as `what`."""

    def __init__(self, guard: Guard, what: str) -> None:
        self._guard, self._what = guard, what

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, Exception):
            return False
        self._guard.failed(self._what, error)
        return True


class Unseen:
    """A `with` block in which trainperf itself uses a framework: hooks let its calls through."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._before = guard.off

    def __enter__(self) -> None:
        self._guard.off = True

    def __exit__(self, *error: object) -> None:
        self._guard.off = self._before


def _without_ours(trace: TracebackType | None) -> TracebackType | None:
    if trace is None:
        return None
    rest = _without_ours(trace.tb_next)
    if trace.tb_frame.f_code.co_filename.startswith(OWN_PACKAGE):
        return rest
    trace.tb_next = rest
    return trace


# Files that a process removes itself, and cannot where it is stopped: trainperf does then.

MAKERS = ("mkdtemp", "_mkstemp_inner")
"""Functions of `tempfile` that return a path, or a descriptor and a path."""
MOST = 1000
"""So many paths of a process are followed: a loader may make one for each item."""


def follow_temporary(record: Recorder, tempfile: Any) -> None:
    """Record temporary files and folders as this process makes them: to be stopped in a save is
    usual. What a script puts elsewhere is its own, but a `TemporaryDirectory`."""
    left, own = MOST, tempfile.TemporaryDirectory.__init__.__code__

    def naming(maker: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(maker)
        def made(*args: Any, **kwargs: Any) -> Any:
            nonlocal left
            result = maker(*args, **kwargs)
            name = os.fsdecode(result[1] if isinstance(result, tuple) else result)
            caller = sys._getframe(1)
            goes = caller.f_code is own and caller.f_locals.get("delete", True)
            if left and (goes or os.path.dirname(name) == tempfile.gettempdir()):
                left -= 1
                record.write("made", name=name)
                record.flush()
            return result

        return made

    for name in MAKERS:
        setattr(tempfile, name, naming(getattr(tempfile, name)))
