"""Calls of a Keras 3 model that run its layers one by one from Python, in inference."""

from __future__ import annotations

import sys
import weakref
from collections import Counter
from types import FrameType
from typing import Any

from ..process import frames
from ..process.patching import replace
from ..tensorflow.loops import TensorFlowLoops
from .calls import samples
from .on_batch import is_keras, on_batch

NAME = "model(x)"
"""The name of such a call in the record."""

MOST_MODELS = 4
"""A place where more models than that were called first makes them anew: each would be traced."""

Place = tuple[Any, int]
"""An instruction of a code object."""


class EagerCalls:
    """Counts the user's eager calls of models that do not train, outside of gradient tapes.

    The samples of a call are given as not known where `predict_on_batch` may not stand for it:
    where the same place was also seen within a tape, a traced function or a step, is told more
    than the input, or calls a model that has layers of the user's, gets others, or is made anew.
    """

    def __init__(self, loops: TensorFlowLoops) -> None:
        self._loops = loops
        self._elsewhere: set[Place] = set()
        self._built: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._first: Counter[Place] = Counter()

    def watch(self, owner: Any) -> None:
        """Set the hook of the class of all models."""
        replace(owner, "__call__", self._make)

    def _make(self, original: Any) -> Any:
        from tensorflow.python.eager import context, record

        loops, calls = self._loops, self._loops.calls

        def __call__(model: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
            if loops.depth or record.could_possibly_record() or not context.executing_eagerly():
                self._elsewhere.add(_place(sys._getframe(1)))
            elif not calls.passive() and (rows := _rows(args, kwargs)) is not None:
                caller = sys._getframe(1)
                if frames.is_users(caller.f_code.co_filename):
                    same = self._replaceable(model, _place(caller), args, kwargs)
                    return calls.timed(
                        NAME,
                        rows if same else None,
                        lambda: original(model, *args, **kwargs),
                        (lambda: on_batch(model, args[0])) if same else None,
                    )
            return original(model, *args, **kwargs)

        return __call__

    def _replaceable(
        self, model: Any, place: Place, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> bool:
        try:
            alone = len(args) == 1 and kwargs.keys() <= {"training"}
            return alone and place not in self._elsewhere and self._lasts(model, place)
        except Exception as error:
            self._loops.process.failed("the call of a model", error)
            return False

    def _lasts(self, model: Any, place: Place) -> bool:
        """Whether a model is Keras's own throughout, and stays the same one."""
        if not model.built:
            return False
        layers = len(getattr(model, "_layers", ()))
        if model not in self._built:
            self._built[model] = layers if is_keras(model) else -1
            self._first[place] += 1
        return self._built[model] == layers and self._first[place] <= MOST_MODELS


def _place(frame: FrameType) -> Place:
    return frame.f_code, frame.f_lasti


def _rows(args: tuple[Any, ...], kwargs: dict[str, Any]) -> int | None:
    """The samples in the arrays that a model is given; None for all else, and where it trains."""
    training = args[1] if len(args) > 1 else kwargs.get("training")
    if not args or (training is not None and training is not False):
        return None
    return samples(args[0])
