"""Recognise a training with TensorFlow 1's sessions, which is not observed."""

from __future__ import annotations

from typing import Any

from ..process import frames
from ..process.patching import replace, undo
from ..timing.training import Training

ENOUGH = 50
"""So many runs in a graph that has an update of weights are a training."""

UPDATES = "train_op"
"""The collection to which `Optimizer.minimize` adds what it returns (`GraphKeys.TRAIN_OP`)."""


def watch(training: Training, module: Any) -> None:
    """Count the runs of sessions until they are known for a training; then end the run."""
    session = module.BaseSession
    runs = 0

    def make(original: Any) -> Any:
        def run(self: Any, *args: Any, **kwargs: Any) -> Any:
            nonlocal runs
            runs += 1
            if runs >= ENOUGH and not training.process.off:
                undo(session, "run")
                _trains(training, self)
            return original(self, *args, **kwargs)

        return run

    replace(session, "run", make)


def _trains(training: Training, session: Any) -> None:
    """Say so if the graph has updates and no loop was seen: nothing else is to come."""
    process = training.process
    try:
        trains = bool(session.graph.get_collection(UPDATES)) and training.driver is None
        where = frames.here()
    except Exception as error:
        process.failed("sessions of TensorFlow 1", error)
        return
    if not trains:
        return
    process.record.write("sessions", where=where)
    if process.settings.get("leg") is None:
        process.finish()
