"""Which calls and iterators make up the training loop, and which driver times it."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ..timing.drivers.iterator_driver import IteratorDriver
from ..timing.drivers.loop_drivers import UpdateDriver
from ..timing.loops import Loops
from . import batches as tf_batches
from .clock import TensorFlowClock
from .retraces import Retraces
from .strategies import scopes
from .strategies.exchange import Exchange
from .strategies.replicas import Replicas
from .strategies.scopes import Strategies
from .tape import Tape

if TYPE_CHECKING:
    from ..timing.driven_loop import Extra, Tracer
    from ..timing.training import Training


class TensorFlowLoops(Loops):
    """The state that the hooks of TensorFlow and Keras share; see `hooks.py`.

    A step that is one call is a marked function or a `train_function`.
    `gradient_pending` is set from a tape's gradients to the first assignment of a
    trainable variable. `compiled_call` is the last call of a marked function that was
    seen where that cannot be felt, with what runs it again unseen.
    """

    name = "tensorflow"
    batches = tf_batches
    closes_late = True  # tf.data waits for the thread that tunes its buffers, up to seconds

    def __init__(self, training: Training) -> None:
        super().__init__(training)
        self.device = TensorFlowClock(self.process.clock)
        self.strategies = Strategies(self.process, Exchange(training))
        self.tracing = False
        self.debug_modes: dict[str, Any] = {}
        self.optimizers: weakref.WeakSet[Any] = weakref.WeakSet()  # those that updated weights
        self.gradient_pending = False
        self.marked: dict[int, Any] = {}
        self.tape = Tape(self.process.failed)
        self.longest_trace = 0.0
        self.retraces = Retraces(TensorFlowLoops.function_called.__code__)
        self.compiled_call: tuple[Any, ...] | None = None
        self._current: Any = None
        self.replicas = Replicas(self.strategies, self.eager_update)

    def applies(self, optimizer: Any) -> None:
        """Remember which optimizers update weights."""
        with suppress(TypeError):  # a class of the user's may have no weak references
            self.optimizers.add(optimizer)

    # ------------------------------------------------------- asked for by the drivers

    def world(self) -> dict[str, Any] | None:
        """This process's place among the workers of a strategy."""
        return scopes.world(self.strategies)

    def facts(self, driver: Any) -> dict[str, Any]:
        """Size and kind of the batch, replicas, the call of `fit`."""
        from . import facts as tf_facts

        return tf_facts.loop_facts(driver)

    def record_facts(self, driver: Any) -> None:
        """Record what is known of models, device, callbacks, padding and tracing."""
        from . import facts as tf_facts

        tf_facts.record(driver)

    def stages(self, driver: Any, deadline: float) -> None:
        """Time the stages of the pipeline."""
        from . import stages as tf_stages

        tf_stages.record(driver, deadline)

    def probe_names(self) -> tuple[str, ...]:
        """The variations of a step of the user's own."""
        return () if self.marked else ("probe compiled",)

    def probes(self, driver: Any, deadline: float) -> None:
        """Time the user's eager step against the same compiled, a compiled one with XLA."""
        from . import call_probes
        from . import probes as tf_probes

        if self.marked:
            call_probes.probe_compiled_step(driver, deadline)
        else:
            tf_probes.probe_eager_step(driver, deadline)

    @property
    def exchange(self) -> Any:
        """The switch of the exchange between replicas; None if there is none."""
        return self.replicas.exchange()

    def last_extras(self, driver: Any) -> list[Extra]:
        """A large matrix product, on a GPU only."""
        from . import matmul

        return matmul.extras(driver)

    def exchange_extras(self, driver: Any) -> list[Extra]:
        """All-reduces of the gradients' sizes alone, and what connects the replicas."""
        return self.replicas.extras(driver)

    def steps_per_call(self, driver: Any) -> int:
        """The `steps_per_execution` of a model that `fit` trains, else 1."""
        from .models import steps_per_execution

        model = getattr(driver, "model", None)
        return 1 if model is None else steps_per_execution(model)

    def tracer(self, driver: Any) -> Tracer:
        """The profiler of TensorFlow's runtime."""
        from .tracer import TensorFlowTracer

        return TensorFlowTracer(driver)

    def iterator_driver(self, iterator: Any) -> IteratorDriver:
        """A driver for the loop that takes its batches from `iterator`."""
        return IteratorDriver(self, iterator)

    def update_driver(self) -> UpdateDriver:
        """A driver for a loop that makes its own batches."""
        return UpdateDriver(self)

    def step_begins(self, driver: Any) -> None:
        """Look for the tape only where that cannot be felt."""
        self.tape.wanted = driver.plan.phase in ("warmup", "profile")
        if self.replicas.apart():
            driver._reopen()

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
        trains = id(function) in self.marked

        def again() -> Any:
            return original(function, *args, **kwargs)

        if trains:
            if self.tape.wanted:
                self.compiled_call = (function, original, args, kwargs)
            iterator = _iterator_among(args)
            if iterator is not None:

                def with_iterator(other: Any) -> Any:
                    swapped = tuple(other if value is iterator else value for value in args)
                    return original(function, *swapped, **kwargs)

                return self.step_with_iterator(function, iterator, with_iterator)
            return self.step_call(("function", id(function)), again, (args, kwargs))
        self._current = function
        began = self.process.clock()
        self.depth += 1
        try:
            result = again()
        finally:
            self.depth -= 1
            self._current = None
            if id(function) in self.marked:
                self._busy(self.process.clock() - began)
                self.update()
        if self.losses is not None and id(function) in self.marked:
            self.losses.returned(("function", id(function)), result)
        return result

    def step_call(self, key: Any, again: Callable[[], Any], batch: Any) -> Any:
        """A call that updates the weights with batches the loop made itself."""
        driver: Any = self.training.driver
        if driver is not None and driver.kind == "call":
            driver.called(key, again, batch)
        elif self.makes_batches():
            self._drive_calls().called(key, again, batch)
        began = self.process.clock()
        self.depth += 1
        try:
            result = again()
        finally:
            self.depth -= 1
            self._busy(self.process.clock() - began)
            self.update()
        if self.losses is not None:
            self.losses.returned(key, result)
        return result

    def step_with_iterator(
        self, owner: Any, iterator: Any, invoke: Callable[[Any], Any], **facts: Any
    ) -> Any:
        """A step that takes its batch from the iterator it is given."""
        driver = self.training.driver
        if driver is None or not driver.serves(owner):
            from .drivers import ArgumentDriver

            if driver is not None and driver.wants_more and not driver.stale():
                driver.interrupted()
            driver = ArgumentDriver(self, owner, iterator, **facts)
            self.training.driver = driver
        self.depth += 1
        try:
            result = driver.call(iterator, self.replicas.aligned(driver, invoke))  # type: ignore[attr-defined]
        finally:
            self.depth -= 1
            self.update(counts=False)
        if self.losses is not None and facts.get("kind") != "fit":
            self.losses.returned(("function", id(owner)), result)
        return result

    def fit_begins(self) -> None:
        """Keras's `fit` is called: it may fail under a strategy, which is recorded first."""
        self.strategies.write()

    def gradient_taken(self, target: Any = None, sources: Any = None) -> None:
        """A tape gave the gradients of `target` with respect to `sources`."""
        self.gradient_pending = True
        if self.losses is not None:
            self.losses.variables(sources)
            if not self.depth:
                self.losses.derived(target)

    def assigned(self, variable: Any) -> None:
        """A variable was assigned while gradients were pending."""
        if self.applying or not getattr(variable, "trainable", False):
            return
        self.gradient_pending = False
        self.weights_updated(("assign", id(variable)))

    def weights_updated(self, key: Any) -> None:
        """An update of weights: eager, in an eager step, or while a function is traced."""
        self.gradient_pending = False
        if self._current is not None and self.depth:
            self.marked[id(self._current)] = self._current
            return
        if self.depth:
            return
        from tensorflow.python.eager import context

        if not context.executing_eagerly():
            return
        if threading.get_ident() == self.main:
            self.eager_update(key)
        else:
            self.replicas.updated(key)

    def traced(self, name: str, began: float) -> None:
        """A function was traced; `began` is when that started."""
        now = self.process.clock()
        current = self._current
        in_step = self.depth > 0 and (current is None or id(current) in self.marked)
        driver = self.training.driver
        if driver is not None and in_step:
            driver.disturbed = True
        if self.replicas.strategies.exchange.is_off:
            return  # a graph of ours
        if in_step:
            self.longest_trace = max(self.longest_trace, now - began)
        self.process.record.write(
            "trace", name=name, s=began, d=now - began, in_step=in_step, call=self._call(in_step)
        )

    def eager_update(self, key: Any) -> None:
        """An update of weights outside of any compiled function."""
        if self.losses is not None:
            self.losses.applied(key)
        self.bare_update(key)

    # ------------------------------------------------------------------ internal

    def _call(self, in_step: bool) -> dict[str, Any] | None:
        try:
            return self.retraces.traced() if in_step else None
        except Exception as error:
            self.process.failed("the call that was traced", error)
            return None

    def _busy(self, seconds: float) -> None:
        if self.training.driver is not None:
            self.training.driver.busy += seconds

    def _drive_calls(self) -> Any:
        from ..timing.drivers.loop_drivers import CallDriver

        driver = CallDriver(self)
        self.training.driver = driver
        return driver


def _iterator_among(args: tuple[Any, ...]) -> Any:
    from tensorflow.python.data.ops.iterator_ops import OwnedIterator
    from tensorflow.python.distribute.input_lib import DistributedIteratorBase

    for value in args:
        if isinstance(value, (OwnedIterator, DistributedIteratorBase)):
            return value
    return None
