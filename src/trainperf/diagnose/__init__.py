"""The whole pipeline, top to bottom: run, recording, evidence, findings, diagnosis.

Here is what stands before the script starts, and it imports no more than that takes: who waits
for a script to begin waits for every import before it. What judges the run is `judging`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from trainperf.recording.run import Event, Recording, Run
from trainperf.run.launch import launch
from trainperf.run.spawn import interruptible

if TYPE_CHECKING:
    from trainperf.model import Diagnosis, Machine

NVIDIA = Path("/proc/driver/nvidia")
"""Where there is a driver, who else is on its GPUs is asked before the script is one of them: a
driver that has to load first answers seconds later."""


@dataclass(frozen=True)
class Request:
    """A diagnosis to make: the run, the folder for its files, findings to leave out.

    `trials` says whether the fixes are tried, `sequential` that it be in fresh processes
    one after another, `allow_semantic` that those that change the experiment may be kept;
    `only` are the ids of those to be tried, all if it is empty.
    `price_per_hour` is what the machine costs, US dollars, None to ask AWS where this is one
    of its instances. `full_run_s` is what plain runs of the whole script may take beyond the
    budget.
    """

    run: Run
    folder: Path
    ignore: tuple[str, ...] = ()
    trials: bool = True
    sequential: bool = False
    allow_semantic: bool = False
    only: tuple[str, ...] = ()
    price_per_hour: float | None = None
    full_run_s: float = 0.0

    def inspect(self) -> Machine:
        """The machine as it is now."""
        from trainperf.machine import inspect_machine

        return inspect_machine(directory=Path(self.run.cwd), price_per_hour=self.price_per_hour)


def diagnose(request: Request, on_event: Callable[[Event], None]) -> tuple[Diagnosis, Recording]:
    """Run the script of `request` under observation, say why it is slow, prove it.

    `on_event` is called with every event as it is recorded, for progress. Where no
    training loop was seen, the diagnosis has no `loop` and says what was seen instead.
    Ctrl-C ends the measuring: what was measured until then is diagnosed.
    """
    began = time.monotonic()
    meanwhile = _Meanwhile(request)
    if NVIDIA.exists():
        meanwhile.look()

    def starting(event: Event) -> None:
        if meanwhile.ident is None:
            meanwhile.start()
        on_event(event)

    with interruptible() as interrupted:
        run = replace(request.run, began=began, trials=request.trials)
        recording = launch(run, request.folder, starting, interrupted)
        machine = meanwhile.result()
        from trainperf.diagnose.judging import judged

        return judged(request, recording, machine, began, interrupted, on_event)


class _Meanwhile(threading.Thread):
    """Looks at the machine and reads in what will judge the run, while the script starts.

    Its first event is of an interpreter that has imported nothing yet: what the script will take
    of the machine is not taken then.
    """

    def __init__(self, request: Request) -> None:
        super().__init__(name="trainperf-meanwhile", daemon=True)
        self._request = request
        self._machine: Machine | None = None

    def look(self) -> None:
        """Look at the machine, if nobody has."""
        with suppress(OSError):  # it is asked, and told, where the result is
            self._machine = self._machine or self._request.inspect()

    def run(self) -> None:
        self.look()
        import_module("trainperf.diagnose.judging")
        import_module("trainperf.fixes").all_fixes()

    def result(self) -> Machine:
        """The machine, as it was then, or as it is now where no event came."""
        if self.ident is not None:
            self.join()
        return self._machine or self._request.inspect()
