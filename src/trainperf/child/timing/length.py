"""How long the training is configured to be: by the loops around its steps, or by its trainer."""

from __future__ import annotations

import sys
from types import FrameType
from typing import TYPE_CHECKING, Any

from ..process import turns

if TYPE_CHECKING:
    from .driven_loop import DrivenLoop


def record(driver: DrivenLoop) -> None:
    """Record the loops that hold the step under way, and what a trainer says of its length."""
    try:
        driver.record.write("length", loops=turns.around(), trainer=_trainer(sys._getframe(1)))
    except Exception as error:
        driver.process.failed("how long the training is to be", error)


def _trainer(frame: FrameType | None) -> dict[str, Any] | None:
    """The length as a trainer among the callers has it; None where there is none."""
    while frame is not None:
        owner = frame.f_locals.get("self") if frame.f_code.co_argcount else None
        if frame.f_code.co_name == "_inner_training_loop":
            return _hugging_face(owner)
        if type(owner).__name__ in ("_FitLoop", "FitLoop"):
            return _lightning(owner)
        frame = frame.f_back
    return None


def _hugging_face(trainer: Any) -> dict[str, Any]:
    """Transformers' `Trainer`, of which `max_steps` is worked out when training begins."""
    steps = int(trainer.state.max_steps)
    return {"name": "Trainer", "steps": steps if steps > 0 else None, "epochs": None}


def _lightning(loop: Any) -> dict[str, Any]:
    """Lightning's `Trainer`: the earlier of `max_epochs` and `max_steps`, each -1 for no end."""
    epochs, steps = loop.max_epochs, loop.trainer.max_steps
    return {
        "name": "Trainer",
        "steps": int(steps) if steps is not None and steps > 0 else None,
        "epochs": int(epochs) if epochs is not None and epochs > 0 else None,
    }
