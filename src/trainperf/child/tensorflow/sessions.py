"""Recognise a training with TensorFlow 1's sessions, which is not observed."""

from __future__ import annotations

from typing import Any

from ..process import frames
from ..process.observer import Observer
from ..process.patching import replace, undo

ENOUGH = 50
"""So many runs in a graph that has an update of weights are a training."""

UPDATES = "train_op"
"""The collection to which `Optimizer.minimize` adds what it returns (`GraphKeys.TRAIN_OP`)."""


def watch(observer: Observer, module: Any) -> None:
    """Count the runs of sessions until they are known for a training; then end the run."""
    session = module.BaseSession
    runs = 0

    def make(original: Any) -> Any:
        def run(self: Any, *args: Any, **kwargs: Any) -> Any:
            nonlocal runs
            runs += 1
            if runs >= ENOUGH and not observer.off:
                undo(session, "run")
                _trains(observer, self)
            return original(self, *args, **kwargs)

        return run

    replace(session, "run", make)


def _trains(observer: Observer, session: Any) -> None:
    """Say so if the graph has updates and no loop was seen: nothing else is to come."""
    try:
        trains = bool(session.graph.get_collection(UPDATES)) and observer.driver is None
        where = frames.here()
    except Exception as error:
        observer.failed("sessions of TensorFlow 1", error)
        return
    if not trains:
        return
    observer.record.write("sessions", where=where)
    if observer.settings.get("leg") is None:
        observer.finish()
