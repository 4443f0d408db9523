"""See training loops in TensorFlow: iterators, compiled functions, tapes, updates.

A step is an update of the weights: an optimizer applied, or a trainable variable
assigned after a tape gave gradients. Compiled functions do both while they are
traced; such a function is marked, and each later call of it is an update.
"""

from __future__ import annotations

import _thread
import sys
import threading
from functools import partial
from operator import attrgetter
from types import FrameType
from typing import Any

from ..process import frames, stacks
from ..process.patching import after, around, before, replace, undo
from ..process.process import Attempt
from .loops import TensorFlowLoops

MOST_GOING = 3
"""So many iterators that are used up, and their buffers, may be there beside the loop's own."""

DEBUG_MODES = {
    "numerics": ("debugging", "enable_check_numerics", "disable_check_numerics"),
    "deterministic": ("config.experimental", "enable_op_determinism"),
}
"""For each mode: the module of TensorFlow's API, and its functions that turn it on and off."""


def imported(loops: TensorFlowLoops, module: Any) -> None:
    """Watch what is set for the whole of TensorFlow."""
    if tuple(map(int, module.__version__.split(".")[:2])) < (2, 16):
        text = "is older than 2.16, the oldest that is tested"
        loops.process.note(f"TensorFlow {module.__version__} {text}")

    def turned(mode: str, on: bool, *args: Any, **kwargs: Any) -> None:
        loops.debug_modes.pop(mode, None)
        if on:
            loops.debug_modes[mode] = frames.here()

    for mode, (path, *switches) in DEBUG_MODES.items():
        for name, on in zip(switches, (True, False), strict=False):
            what = f"where the debug mode {mode} is set"
            after(loops.process, attrgetter(path)(module), name, what, partial(turned, mode, on))


def watch_context(loops: TensorFlowLoops, module: Any) -> None:
    """Have a leg wait for its turn before TensorFlow opens its GPUs."""
    told = loops.training.warm_up
    if told is None:
        return

    @around(loops.process, module.Context, "ensure_initialized", ours=True)
    def initialize(original: Any, context: Any) -> Any:
        if not context._initialized and context.list_physical_devices("GPU"):
            told.before_device()
        return original(context)


def watch_datasets(loops: TensorFlowLoops, module: Any) -> None:
    def made(dataset: Any, *args: Any, **kwargs: Any) -> None:
        if not hasattr(dataset, "_trainperf_site"):
            frame, called = frames.users_frame()
            dataset._trainperf_site = frames.site(frame)
            dataset._trainperf_call = called

    after(loops.process, module.DatasetV2, "__init__", "dataset site", made)
    replace(module.DatasetV2, "__iter__", loops.opening)


def watch_iterators(loops: TensorFlowLoops, module: Any) -> None:
    """See batches being taken; in a leg, let go of what is used up beside the loop.

    tf.data's thread that tunes an iterator misses the word that it is to end one time in four (it
    looks before the word counts), and whoever drops the iterator waits until that thread would have
    tuned again: for twice as long each time, up to a minute. A leg stands still in between, so that
    the ends of its epochs took 2 to 6 s where those of the script take none.
    """
    around(loops.process, module.OwnedIterator, "__next__")(loops.batch)
    if loops.training.warm_up is None:
        return
    going = list[None]()

    def let_go(resources: list[Any]) -> None:
        resources.clear()
        going.pop()

    def __del__(iterator: Any) -> None:  # noqa: N807
        resources = [vars(iterator).pop("_iterator_resource", None)]
        if sys.is_finalizing() or len(going) >= MOST_GOING:
            return
        if type(resources[0]).__name__ == "EagerTensor":
            going.append(None)
            _thread.start_new_thread(let_go, (resources,))

    module.OwnedIterator.__del__ = __del__


def watch_distributed(loops: TensorFlowLoops, module: Any) -> None:
    around(loops.process, module.DistributedIteratorBase, "__next__")(loops.batch)
    for name in ("DistributedDataset", "DistributedDatasetsFromFunction"):

        @around(loops.process, getattr(module, name), "__iter__", ours=True)
        def open_(original: Any, dataset: Any) -> Any:
            iterator = original(dataset)
            with Attempt(loops.process, "distributed iterator"):
                iterator._trainperf_dataset = dataset
            return iterator


def watch_tapes(loops: TensorFlowLoops, module: Any) -> None:
    def gradient(tape: Any, target: Any, sources: Any, *args: Any, **kwargs: Any) -> None:
        loops.gradient_taken(target, sources)

    def entered(tape: Any) -> None:
        if loops.tape.wanted and not loops.depth:
            loops.tape.entered(loops.updates)

    after(loops.process, module.GradientTape, "gradient", "a gradient", gradient)
    before(loops.process, module.GradientTape, "__enter__", "tape", entered)


def watch_functions(loops: TensorFlowLoops, module: Any) -> None:
    @around(loops.process, module.Function, "__call__")
    def call(original: Any, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        if loops.depth or threading.get_ident() != loops.main:
            return original(function, *args, **kwargs)
        loops.call = function, args, kwargs
        try:
            return loops.function_called(function, original, args, kwargs)
        finally:
            loops.call = None


def watch_tracing(loops: TensorFlowLoops, module: Any) -> None:
    @around(loops.process, module, "func_graph_from_py_func")
    def trace(original: Any, name: Any, *args: Any, **kwargs: Any) -> Any:
        if loops.tracing:
            return original(name, *args, **kwargs)
        loops.tracing = True
        began = loops.process.clock()
        try:
            with loops.origins.noting():
                return original(name, *args, **kwargs)
        finally:
            loops.tracing = False
            loops.traced(str(name), began)


def watch_python(loops: TensorFlowLoops, module: Any) -> None:
    """Note which Python functions are run to make the input: those that tf.data's functions call.

    Both run on threads of TensorFlow's, and look alike there.
    """

    @around(loops.process, module.FuncRegistry, "insert", ours=True)
    def insert(original: Any, registry: Any, function: Any) -> Any:
        token = original(registry, function)
        with Attempt(loops.process, "a Python function of a graph"):
            frame: FrameType | None = sys._getframe(1)
            while frame is not None:
                if str(frame.f_globals.get("__name__", "")).startswith("tensorflow.python.data."):
                    stacks.TOKENS.add(token)
                    break
                frame = frame.f_back
        return token


def watch_variables(loops: TensorFlowLoops, module: Any) -> None:
    def assigned(variable: Any, *args: Any, **kwargs: Any) -> None:
        if loops.gradient_pending:
            loops.assigned(variable)

    for name in ("assign", "assign_add", "assign_sub"):
        what = "a variable that is assigned"
        after(loops.process, module.BaseResourceVariable, name, what, assigned)


def watch_sessions(loops: TensorFlowLoops, module: Any) -> None:
    """Say where a session of TensorFlow 1 trains, once: it is not observed.

    `Optimizer.minimize` adds what it returns to a collection (`GraphKeys.TRAIN_OP`).
    """

    def ran(session: Any, *args: Any, **kwargs: Any) -> None:
        if session.graph.get_collection("train_op"):
            undo(module.BaseSession, "run")
            loops.process.record.write("sessions", where=frames.here())

    before(loops.process, module.BaseSession, "run", "sessions of TensorFlow 1", ran)
