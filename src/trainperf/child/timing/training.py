"""The training of one process: who times its loop, the job it is part of, what it reads."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..process.process import Attempt, Process
from ..reads.files import FileReads

if TYPE_CHECKING:
    from ..job.ranks import World
    from .legs.words import WarmUp
    from .losses import Losses


class Training:
    """The state of a training process that the hooks of all frameworks share.

    `driver` times the current loop; `world` is the job that this process is a rank of, once
    known; `losses` and `warm_up` are there in a leg of a trial only. `retries` says how often
    the device's memory ran short, so that its allocator had to give back what it kept for reuse.
    """

    def __init__(self, process: Process) -> None:
        self.process = process
        self.reads = FileReads(process)
        self.driver: Any = None
        self.world: World | None = None
        self.losses: Losses | None = None
        self.warm_up: WarmUp | None = None
        self.retries: Callable[[], int] = lambda: 0
        if process.settings.get("leg") is not None:
            from .legs.words import WarmUp
            from .losses import Losses

            self.losses = Losses(process)
            self.warm_up = WarmUp(process)
        self._inherited: Any = None
        process.after_fork(self._forked)
        process.at_exit = self._exits
        process.before_finish = self._finishes

    def helps(self) -> None:
        """Record nothing more, and take back what was: this process only helps another."""
        self.driver = None
        self.process.quiet()
        parent = sys.modules["multiprocessing"].parent_process()
        if parent is not None:
            self.reads.serve(parent.pid)

    def _forked(self) -> None:
        """Time nothing in a forked child.

        The driver is kept from being collected: it may hold the only reference to an iterator
        that it opened, which would end its workers, the parent's, when it is finalized here.
        """
        self.reads.serve(os.getppid())  # it may read files for its parent
        self._inherited = self.driver or self._inherited
        self.driver = None

    def _exits(self) -> None:
        if self.driver is not None:
            self.driver.interrupted()

    def _finishes(self) -> None:
        if self.world is None:
            return
        with Attempt(self.process, "waiting for the other ranks"):
            self.world.meet("finish")  # who goes first takes the others' store along
