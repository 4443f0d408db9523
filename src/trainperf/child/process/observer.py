"""The observer of one process: what it records, which hooks it sets, how it stops."""

from __future__ import annotations

import atexit
import json
import os
import sys
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ..hooking import hooks_of
from ..reads.files import FileReads
from .importing import PostImport
from .recorder import Recorder
from .temporary import Temporary

if TYPE_CHECKING:
    from ..job.ranks import World
    from ..timing.driver import Driver
    from ..timing.losses import Losses

OWN_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
WAIT_TO_BE_STOPPED_S = 20.0


class Observer:
    """Everything the hooks share.

    `off` is true while trainperf itself uses the framework, so that hooks let calls
    through; `driver` is the one that times the current training loop.
    """

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.record = Recorder(settings["folder"])
        self.reads = FileReads(self)
        self.clock = time.monotonic
        self.off = False
        self.driver: Driver | None = None
        self.world: World | None = None  # the job this process is a rank of
        self.losses: Losses | None = None
        self.pid = os.getpid()
        self.facts: dict[str, Any] = {}
        self._noted: set[str] = set()
        self._watching = False
        self._inherited: Driver | None = None
        self._temporary = Temporary(self.record)

    def note(self, text: str) -> None:
        """Record something the report should say; each text once."""
        if text not in self._noted:
            self._noted.add(text)
            self.record.write("note", text=text)

    def failed(self, what: str, error: BaseException) -> None:
        """Record that a part of the observer did not work; the program goes on."""
        self.note(f"{what}: {type(error).__name__}: {error}"[:500])

    def fact(self, name: str, value: Any) -> None:
        """Record a fact by name; a later value replaces an earlier one."""
        self.record.write("fact", k=name, v=value)

    def patched(self, path: str) -> None:
        """Record that the patched text of a file was run in its place."""
        self.record.write("patched", file=path)
        self.record.flush()

    def framework_imported(self) -> None:
        """Start what only a process that may train needs."""
        if self._watching:
            return
        self._watching = True
        self.reads.install()
        thread = threading.Thread(target=self._watch, name="trainperf-watch", daemon=True)
        thread.start()

    def forked(self) -> None:
        """Become the observer of a forked child, which starts with a clean record.

        The driver is kept from being collected: it may hold the only reference to an iterator
        that it opened, which would end its workers, the parent's, when it is finalized here.
        """
        self.record.forked()
        self.reads.forked()
        self._inherited = self.driver or self._inherited
        self.driver = None
        self.pid = os.getpid()
        self._watching = False

    def quiet(self) -> None:
        """Record nothing more, and take back what was: this process only helps another."""
        self.off = True
        self.driver = None
        self.record.discard()
        parent = sys.modules["multiprocessing"].parent_process()
        if parent is not None:
            self.reads.serve(parent.pid)

    def finish(self) -> None:
        """Say that all is measured and wait for trainperf to stop the process.

        It waits rather than exits so that nothing that stands after the training
        script in a launcher's script is run.
        """
        self.record_temporary()
        self.record.flush()
        if self.world is not None:
            try:
                self.world.meet("finish")  # who goes first takes the others' store along
            except Exception as error:
                self.failed("waiting for the other ranks", error)
        self.record.write("done")
        self.record.flush()
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError, AttributeError):
                pass
        time.sleep(WAIT_TO_BE_STOPPED_S)
        os._exit(0)

    def record_temporary(self) -> None:
        """Name what a process which is stopped cannot remove at its exit."""
        self._temporary.record()

    def _watch(self) -> None:
        """Every second, write what a loop that hangs has left, and look for the parent."""
        parent = self.settings["parent"]
        visible = _exists(parent)  # not so in a container's own process namespace
        while True:
            time.sleep(1.0)
            self.record_temporary()
            self.record.flush()
            if visible and not _exists(parent):
                os._exit(1)


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def start(run_file: str) -> None:
    """Read what is asked for and set the hooks; called once per interpreter."""
    with open(run_file, encoding="utf-8") as file:
        settings = json.load(file)
    observer = Observer(settings)
    observer.record.write(
        "hello",
        pid=os.getpid(),
        ppid=os.getppid(),
        argv=list(sys.orig_argv),
        python=sys.version.split()[0],
    )
    observer.record.flush()
    if settings.get("sources"):
        from . import sources

        sources.install(settings["sources"], observer.patched)
    if settings.get("guarded") and os.geteuid() != 0:
        from ..shield import changes

        changes.mend_renames(settings["guarded"], changes.Changes())
    if settings.get("leg") is not None:
        from ..timing.losses import Losses

        observer.losses = Losses(observer)
    if settings.get("seed") is not None:
        from . import seeding

        seeding.install(settings["seed"], observer)
    os.register_at_fork(after_in_child=observer.forked)
    atexit.register(_exits, observer)
    _watch_errors(observer)
    PostImport(
        hooks_of(observer), lambda name, error: observer.failed(f"hook {name}", error)
    ).install()


def _exits(observer: Observer) -> None:
    if os.getpid() != observer.pid:
        return
    if observer.driver is not None:
        observer.driver.interrupted()
    observer.record.write("exit")
    observer.record.flush()


def _watch_errors(observer: Observer) -> None:
    """Record an uncaught exception, and keep our frames out of the printed traceback."""
    shown = sys.excepthook

    def excepthook(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        try:
            observer.record.write("error", type=kind.__name__, text=str(error)[:2000])
            observer.record.flush()
            trace = _without_ours(trace)
        finally:
            shown(kind, error.with_traceback(trace), trace)

    sys.excepthook = excepthook


def _without_ours(trace: TracebackType | None) -> TracebackType | None:
    if trace is None:
        return None
    rest = _without_ours(trace.tb_next)
    if trace.tb_frame.f_code.co_filename.startswith(OWN_PACKAGE):
        return rest
    trace.tb_next = rest
    return trace
