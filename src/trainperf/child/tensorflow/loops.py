"""Which calls and iterators make up the training loop, and which driver times it."""

from __future__ import annotations

import gc
import itertools
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from ..process import frames
from ..process.process import Attempt, Process, Unseen
from ..timing.device import HostClock
from ..timing.drivers.loop_drivers import CallDriver, IteratorDriver, UpdateDriver
from ..timing.loops import Loops
from . import batches as tf_batches
from . import facts, models, probes, stages, strategies
from .drivers import ArgumentDriver
from .graph_lines import Origins, TensorFlowTracer

if TYPE_CHECKING:
    from ..timing.training import Training

RECURRING = 5
"""First runs of new traces from which it is one step's function that is traced again and again."""

KIND = "GPU"
"""The type of the devices whose work is queued."""

INT32 = 2**31
"""Integers below this, and not below its negative, are an int32 in TensorFlow."""


class TensorFlowLoops(Loops):
    """The state that the hooks of TensorFlow and Keras share; see `hooks.py`.

    A step that is one call is a marked function or a `train_function`.
    `gradient_pending` is set from a tape's gradients to the first assignment of a
    trainable variable. `call` is the outermost call of a compiled function that is under way,
    `compiled_call` the last one of a marked function that was seen where that cannot be felt,
    with what runs it again unseen.
    """

    name = "tensorflow"
    batches = tf_batches
    shared_input = "the workers of a strategy ask each other for every batch"
    closes_late = True  # tf.data waits for the thread that tunes its buffers, up to seconds

    def __init__(self, training: Training) -> None:
        super().__init__(training)
        self.device = TensorFlowClock(self.process.clock)
        self.strategies = strategies.Strategies(self.process)
        self.tracing = False
        self.debug_modes: dict[str, Any] = {}
        self.optimizers: weakref.WeakSet[Any] = weakref.WeakSet()  # those that updated weights
        self.gradient_pending = False
        self.marked: dict[int, Any] = {}
        self.tape = Tape(self.process)
        self.longest_trace = 0.0
        self.retraces = Retraces()
        self.origins = Origins(self.process)
        self.called: list[Any] | None = None  # where compiled functions are, while they are traced
        self.call: tuple[Any, ...] | None = None
        self.compiled_call: tuple[Any, ...] | None = None
        self._first_runs = 0
        self._current: Any = None  # a function that runs and is not marked
        self._of_replicas: list[Any] | None = None

    def applies(self, optimizer: Any) -> None:
        with suppress(TypeError):  # a class of the user's may have no weak references
            self.optimizers.add(optimizer)

    # ------------------------------------------------------- asked for by the drivers

    def world(self) -> dict[str, Any] | None:
        return self.strategies.world()

    record_facts = staticmethod(facts.record)
    facts = staticmethod(facts.loop_facts)
    probes = staticmethod(probes.record_own)
    batches_of_pass = staticmethod(stages.batches_of_pass)
    stages = staticmethod(stages.record)
    tracer = TensorFlowTracer

    def iterator_driver(self, iterator: Any) -> IteratorDriver:
        return IteratorDriver(self, iterator)

    def update_driver(self) -> UpdateDriver:
        return UpdateDriver(self)

    @property
    def exchange(self) -> Any:
        """The switch of the exchange; None until one was seen."""
        exchange, built = self.strategies.exchange, self.strategies.built
        several = any(strategies.replicas(strategy) > 1 for strategy, _ in built)
        return exchange if several and exchange.sums() else None

    def steps_per_call(self, driver: Any) -> int:
        """The `steps_per_execution` of a model that `fit` trains, else 1."""
        model = getattr(driver, "model", None)
        return 1 if model is None else models.steps_per_execution(model)

    def step_begins(self, driver: Any) -> None:
        """Look for the tape only where that cannot be felt."""
        self.tape.wanted = driver.plan.phase in ("warmup", "profile")

    # ------------------------------------------------------------ from the hooks

    def passive(self) -> bool:
        """Whether an iterator's `next` is none of the loop's own, eager, main-thread ones."""
        if self.process.off or self.depth or threading.get_ident() != self.main:
            return True
        from tensorflow.python.eager import context

        return not context.executing_eagerly()

    def function_called(
        self, function: Any, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """An outermost call of a `tf.function` on the main thread."""
        key = ("function", id(function))
        if self.called is not None and (where := frames.here()) not in self.called:
            self.called.append(where)

        def again() -> Any:
            return original(function, *args, **kwargs)

        if id(function) in self.marked:
            if self.tape.wanted:
                self.compiled_call = (function, original, args, kwargs)
            iterator = next(filter(tf_batches.is_iterator, args), None)
            if iterator is None:
                return self.step_call(key, again, (args, kwargs))

            def with_iterator(other: Any) -> Any:
                swapped = tuple(other if value is iterator else value for value in args)
                return original(function, *swapped, **kwargs)

            return self.step_with_iterator(function, iterator, with_iterator)
        self._current = function
        return self._call(key, again, lambda: id(function) in self.marked)

    def step_call(self, key: Any, again: Callable[[], Any], batch: Any) -> Any:
        """A call that updates the weights with batches the loop made itself."""
        driver: Any = self.training.driver
        if driver is None or driver.kind != "call":
            driver = CallDriver(self) if self.makes_batches() else None
        if driver is not None:
            self.training.driver = driver
            driver.called(key, again, batch)
        return self._call(key, again)

    def _call(
        self, key: Any, call: Callable[[], Any], updates: Callable[[], bool] = lambda: True
    ) -> Any:
        """Make an outermost call; `updates` says after it whether it updates the weights."""
        began = self.process.clock()
        try:
            with self._inside(began):
                result = call()
        finally:
            self._current = None
            if updates():
                if self.training.driver is not None:
                    self.training.driver.busy += self.process.clock() - began
                self.update()
        if self.losses is not None and updates():
            self.losses.returned(key, result)
        return result

    def step_with_iterator(
        self, owner: Any, iterator: Any, invoke: Callable[[Any], Any], **facts: Any
    ) -> Any:
        """A step that takes its batch from the iterator it is given."""
        driver = self.training.driver
        if driver is None or not driver.serves(owner):
            if driver is not None and driver.wants_more and not driver.stale():
                driver.interrupted()
            driver = ArgumentDriver(self, owner, iterator, **facts)
            self.training.driver = driver
        try:
            with self._inside(self.process.clock()):
                result = driver.call(iterator, invoke)
        finally:
            self.update(counts=False)
        if self.losses is not None and facts.get("kind") != "fit":
            self.losses.returned(("function", id(owner)), result)
        return result

    def gradient_taken(self, target: Any = None, sources: Any = None) -> None:
        """A tape gave the gradients of `target` with respect to `sources`."""
        self.gradient_pending = True
        if self.losses is not None:
            self.losses.variables(sources)
            if not self.depth:
                self.losses.derived(target)

    def assigned(self, variable: Any) -> None:
        """A variable was assigned while gradients were pending."""
        if not self.applying and getattr(variable, "trainable", False):
            self.weights_updated(("assign", id(variable)))

    def weights_updated(self, key: Any) -> None:
        """An update of weights: eager, in an eager step, or while a function is traced."""
        self.gradient_pending = False
        if self.depth:
            if self._current is not None:
                self.marked[id(self._current)] = self._current
            return
        from tensorflow.python.eager import context

        if not context.executing_eagerly():
            return
        if threading.get_ident() == self.main:
            self.eager_update(key)
        elif self._of_replicas is not None:  # each replica has a thread
            self._of_replicas.append(key)

    def run_replicas(self, run: Callable[[], Any]) -> Any:
        """Run `strategy.run` eagerly: what its replicas update, the step updates once."""
        self._of_replicas = updates = list[Any]()
        try:
            return run()
        finally:
            self._of_replicas = None
            for key in updates:
                self.eager_update(key)

    def eager_update(self, key: Any) -> None:
        """An update of weights outside of any compiled function."""
        if self.losses is not None:
            self.losses.applied(key)
        self.bare_update(key)

    def traced(self, name: str, began: float) -> None:
        """A function was traced; `began` is when that started."""
        now, current, call = self.process.clock(), self._current, None
        in_step = self.depth > 0 and (current is None or id(current) in self.marked)
        driver = self.training.driver
        if driver is not None and in_step:
            driver.disturbed = True
        if self.strategies.exchange.is_off:
            return  # a graph of ours
        if in_step:
            self.compiling = True
            self.longest_trace = max(self.longest_trace, now - began)
            if self.call is not None:
                with Attempt(self.process, "the call that was traced"):
                    call = self.retraces.traced(*self.call)
        self.process.record.write(
            "trace", name=name, s=began, d=now - began, in_step=in_step, call=call
        )

    @contextmanager
    def _inside(self, began: float) -> Iterator[None]:
        """What happens within belongs to one call; if it was traced, it ran for the first time.

        What the step's function is gets recorded once it was traced often: the script may end
        before its facts are.
        """
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1
            if self.compiling:
                self.compiling = False
                self.process.record.write("first_run", s=began, d=self.process.clock() - began)
                self._first_runs += self.training.driver is not None
                if self._first_runs == RECURRING:
                    with Attempt(self.process, "the function of a step"), Unseen(self.process):
                        facts.record_step_function(self.training.driver)


class TensorFlowClock(HostClock):
    """The GPUs of this process; the CPU has nothing queued.

    TensorFlow has no events in Python: a mark is the host's own, and times are taken from two
    lengths in turn.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__(clock)
        self._asynchronous: bool | None = None

    @property
    def name(self) -> str:
        return super().name + (", from two lengths in turn" if self.asynchronous else "")

    @property
    def asynchronous(self) -> bool:
        """Whether a GPU is in use; asked once TensorFlow has set its devices up."""
        if self._asynchronous is None:
            context: Any = sys.modules.get("tensorflow.python.eager.context")
            if context is None or not context.context()._initialized:
                return False
            self._asynchronous = bool(context.context().list_logical_devices(KIND))
        return self._asynchronous

    @property
    def marks(self) -> bool:
        """Not on a GPU."""
        return not self.asynchronous

    def wait(self) -> None:
        """Wait until they have done what was queued; nothing to do on the CPU.

        `tf.test.experimental.sync_devices` visits the devices of other workers as well, and
        fails there: a process of a `MultiWorkerMirroredStrategy` lists them all.
        """
        if not self.asynchronous:
            return
        from tensorflow.python.eager import context
        from tensorflow.python.framework import ops
        from tensorflow.python.ops import gen_sync_ops

        space = context.context().host_address_space()
        here = (f"{space}/device:", "/device:")  # alone, no job is named
        for device in context.context().list_logical_devices(KIND):
            if device.name.startswith(here):
                with ops.device(device.name):
                    gen_sync_ops.SyncDevice()
        context.async_wait()


class Tape:
    """The function in which the tape was entered last, with its arguments.

    `wanted` says whether to look for it now, `own_function` whether it stands in a function that
    is called anew for each step, once known.
    """

    def __init__(self, process: Process) -> None:
        self.wanted = True
        self.frame: dict[str, Any] | None = None
        self.arguments: dict[str, Any] = {}
        self.own_function: bool | None = None
        self._process = process
        self._code: Any = None
        self._frames: list[Any] = []

    def entered(self, updates: int) -> None:
        """Remember which function of the user's holds the tape; so many updates came before."""
        with Attempt(self._process, "tape"):
            frame, _ = frames.users_frame()
            if frame is None:
                return
            self._code = code = frame.f_code
            self._notice_frame(frame, updates)
            self.frame = {**frames.definition(code), "tape": frames.site(frame)}
            names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
            self.arguments = {name: frame.f_locals.get(name) for name in names}

    def find_function(self) -> Any:
        """The function object that holds the tape, if it is called once per step."""
        if not self.own_function:
            return None
        # What was frozen (`gc.freeze`) is in its module alone; to ask a lazy one would load it.
        modules = [module for module in tuple(sys.modules.values()) if type(module) is ModuleType]
        named = (vars(module).get(self._code.co_name) for module in modules)
        for value in itertools.chain(named, gc.get_referrers(self._code)):
            if isinstance(value, FunctionType) and value.__code__ is self._code:
                return value
        return None

    def _notice_frame(self, frame: Any, updates: int) -> None:
        """Compare the frames of two steps: the same one means that it holds the loop of the steps.

        A loop around the tape alone tells nothing: it may sum gradients. A frame keeps its locals
        alive, so it is let go as soon as the question is answered.
        """
        if self.own_function is not None:
            return
        if not self._frames:
            self._frames += [frame, updates]
        elif updates > self._frames[1]:  # not a second tape of the same step
            self.own_function = frame is not self._frames[0] and frame.f_code.co_name != "<module>"
            self._frames.clear()


class Retraces:
    """Which Python numbers change from call to call, where a compiled step is traced again.

    Looked at when a function is traced, never in a call that finds its graph.
    """

    def __init__(self) -> None:
        self._seen: dict[int, dict[int | str, tuple[str, Any] | None]] = {}

    def traced(self, function: Any, args: Any, kwargs: Any) -> dict[str, Any] | None:
        """Say which numbers changed since the call that was traced before, and where it stands.

        None for the first trace of a function, where no number changed, and where it is
        not the user's source that called.
        """
        before = self._seen.get(id(function), {})
        given = {**dict(enumerate(args)), **kwargs}
        now = {key: _number(value) for key, value in given.items()}
        other = [key for key, number in before.items() if number is None]
        self._seen[id(function)] = now | dict.fromkeys(other)
        kinds = {key: number[0] for key, number in now.items() if number is not None}
        changed = [key for key in kinds if before.get(key) not in (None, now[key])]
        frame, called = frames.users_frame()
        if not changed or called != "__call__":
            return None
        return {
            "where": frames.site(frame),
            "numbers": [
                {"argument": key, "parameter": _parameter(function, key), "type": kinds[key]}
                for key in changed
            ],
        }


def _number(value: Any) -> tuple[str, Any] | None:
    """The kind of a number that TensorFlow traces anew for each value, with the value."""
    if type(value) is float:  # NumPy's numbers become tensors
        return "float", value
    if type(value) is int:
        return ("int" if -INT32 <= value < INT32 else "long"), value
    return None


def _parameter(function: Any, argument: int | str) -> str:
    """The name of an argument's parameter; nothing where it is taken by `*` or `**`."""
    python, bound = facts.users_function(function)
    code = getattr(python, "__code__", None)
    if code is None:
        return ""
    if isinstance(argument, str):
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        return argument if argument in names else ""
    place = argument + bound
    return str(code.co_varnames[place]) if place < code.co_argcount else ""
