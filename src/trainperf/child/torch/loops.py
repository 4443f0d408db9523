"""Which loaders and optimizers make up a PyTorch training loop."""

from __future__ import annotations

import sys
import threading
import weakref
from typing import TYPE_CHECKING, Any

from ..timing.completing import ALONE
from ..timing.loops import Loops
from ..timing.losses import plain_loss
from . import batches as torch_batches
from . import facts as torch_facts
from .built.places import Models
from .devices import TorchClock, capturing
from .exchange import exchange as exchanges
from .exchange.ddp import Ddps

if TYPE_CHECKING:
    from ..timing.loops import Extra, Tracer
    from ..timing.training import Training
    from .built.places import OptimizerCalls
    from .exchange.exchange import Exchange
    from .loader.loaders import Place
    from .step.detail import Detail
    from .trainers import Made


Update = tuple[list[weakref.ref[Any]], Any, Any]
"""An update that a CUDA graph makes: by which optimizers, its key as that of a step without a
graph, and the loss before it."""
WITHOUT_OPTIMIZER = 3
"""So many backward calls in a process that built no optimizer, and each is an update."""
IN_BACKWARD = 0
"""Stands for the id of an optimizer: those of an update that was made within a backward."""


class TorchLoops(Loops):
    """The state that the PyTorch hooks share; see `hooks.py`.

    `optimizers` are those that updated weights.
    """

    name = "torch"
    batches = torch_batches
    probes_in_step = True
    facts = staticmethod(torch_facts.loop_facts)
    world = staticmethod(exchanges.world)

    def __init__(self, training: Training) -> None:
        super().__init__(training)
        self.device: TorchClock = TorchClock(self.process.clock)
        self._optimizers: dict[int, Any] = {}
        self.optimizers_built = 0
        self.loader_places: dict[Any, Place] = {}
        self.models = Models()
        self.optimizer_calls: dict[int, OptimizerCalls] = {}
        self.flag_sites: dict[str, tuple[Any, int]] = {}
        self.trainers: list[Made] = []
        self.saves: list[Any] = []  # where checkpoints were written in the loop
        self.saving = False
        self.data_parallels: list[Any] = []
        self.exchanging: Exchange | None = None
        self.exchange_recorded: Any = None
        self.detail: Detail | None = None
        self.ddps = Ddps(self)
        self.sums = exchanges.Sums(self)
        # The updates of the CUDA graph that is being captured, and the loss of the next of them.
        self.captured: list[Update] | None = None
        self.captured_loss: Any = None
        self.in_backward = False
        self.compiles = False  # something was given to TorchDynamo
        self.lines: Any = None  # the `TorchTracer` whose mode is set
        self._within: list[Any] = []
        self._backwards = 0
        self._graphs = 0
        self._replayed = False

    @property
    def optimizers(self) -> list[Any]:
        """The optimizers that updated weights and are still there."""
        return [one for made in self._optimizers.values() if (one := made()) is not None]

    def passive(self) -> bool:
        return self.elsewhere() or capturing()  # what is captured is not done

    def elsewhere(self) -> bool:
        """Whether what happens now is trainperf's own, or another thread's."""
        return self.process.off or threading.get_ident() != self.main

    def stepped(self, optimizer: Any) -> None:
        """An optimizer updated the weights, or did so but for a gradient that is not finite."""
        if self.in_backward:  # one for each parameter, as a rule: all of them are one update
            self._within.append(optimizer)
        else:
            self._updated([optimizer], id(optimizer))

    def stepped_by_engine(self, optimizer: Any) -> None:
        """An optimizer updated weights in another thread: one of autograd's, or of the script's.

        Autograd computes the gradients of a GPU, and calls what hangs on them
        (`register_post_accumulate_grad_hook`), in threads that Python did not start.
        """
        started = threading._active.get(threading.get_ident())  # type: ignore[attr-defined]
        if self.in_backward and (started is None or type(started).__name__ == "_DummyThread"):
            self._within.append(optimizer)

    def replayed(self, captured: list[Update]) -> None:
        """A graph was replayed, and in it these updates."""
        if not captured and not self._replayed:  # its steps may be updates of its own
            self._replayed = True
            self.process.record.write("torch_replay")
        for references, key, loss in captured:
            if self.losses is not None and loss is not None:
                self.losses.derived(loss)
            self._updated([one for made in references if (one := made()) is not None], key)

    def _updated(self, optimizers: list[Any], key: Any) -> None:
        """Optimizers updated the weights; of one that is gone another may have the number."""
        if capturing():
            if self.captured is not None:
                update = [weakref.ref(optimizer) for optimizer in optimizers], key
                self.captured.append((*update, self.captured_loss))
                self.captured_loss = None
            return
        self.device.see_streams()
        weights: list[Any] = []
        for optimizer in optimizers:
            known = self._optimizers.get(id(optimizer))
            if known is None or known() is not optimizer:
                self._optimizers[id(optimizer)] = weakref.ref(optimizer)
                weights += (one for group in optimizer.param_groups for one in group["params"])
            self.ddps.stepped(optimizer)
            self.sums.stepped(optimizer)
        if weights and self.losses is not None:
            self.losses.weights(weights)
        self.weights_updated(("optimizer", key))

    def weights_updated(self, key: Any) -> None:
        """An update of weights; `key` names what made it."""
        if key[0] == "optimizer":
            self.optimizers_built += 1  # Keras has optimizers of its own
        if self.losses is not None:
            self.losses.applied(key)
        self.bare_update(key)

    def backward_begins(self, tensors: Any) -> None:
        """The loop asks for the gradients of `tensors`: its loss."""
        self.in_backward = True
        if capturing():
            wanted = self.losses is not None and self.captured is not None
            if wanted and self.captured_loss is None:
                self.captured_loss = plain_loss(tensors)
            return
        if self.losses is not None:
            self.losses.derived(tensors)
        self.ddps.backward()

    def backward_failed(self) -> None:
        """No gradients were computed, or not all."""
        self.in_backward = False
        self._within.clear()

    def backward_ended(self) -> None:
        """Gradients were computed; without any optimizer the loop updates by itself."""
        self.in_backward = False
        within, self._within = self._within, []
        if within:
            self._updated(within, IN_BACKWARD)
        if self.optimizers_built or self._optimizers or capturing():
            return
        self._backwards += 1
        if self._backwards > WITHOUT_OPTIMIZER and not self.applying:
            self.weights_updated(("backward", 0))

    def compiled(self) -> bool:
        """Whether TorchDynamo compiled anything since the last time this was asked."""
        utils: Any = sys.modules.get("torch._dynamo.utils")
        before = self._graphs
        if utils is not None:
            self._graphs = utils.counters["stats"].get("unique_graphs", 0)
        return before != self._graphs

    @property
    def exchange(self) -> Exchange | None:
        return exchanges.exchange(self)

    def exchange_extras(self, driver: Any) -> list[Extra]:
        """And whether the ranks read the same data."""
        from .loader import stages as torch_stages

        extras = exchanges.extras(driver)
        if driver.world is not None and driver.loader is not None:
            extras.append(("digest", lambda deadline: torch_stages.record_digest(driver)))
        return extras

    def iterator_driver(self, iterator: Any) -> Any:
        """A driver for the loop over a `DataLoader`: the user's, or Keras's own."""
        from .drivers import LoaderDriver

        fit = self.epochs is not None and self.epochs.feeds
        return (self.epochs.driver if fit else LoaderDriver)(self, iterator)

    def update_driver(self) -> Any:
        from .drivers import TorchUpdateDriver

        return TorchUpdateDriver(self)

    def record_facts(self, driver: Any) -> None:
        from .loader import loaders

        torch_facts.record(driver)
        loaders.record(driver)

    def stages(self, driver: Any, deadline: float) -> None:
        from .loader import stages as torch_stages

        torch_stages.record(driver, deadline)

    def probes(self, driver: Any, deadline: float) -> None:
        """Time the step against variations of it, then trace it."""
        from .probes import passes
        from .probes import probes as torch_probes

        torch_probes.record(driver, deadline - passes.RESERVED_S)
        if driver.world is not None:
            driver.record.write("missing", what=passes.WHAT, reason=ALONE)
        else:
            passes.record_trace(driver, deadline)

    def tracer(self, driver: Any) -> Tracer:
        from .step.lines import TorchTracer

        return TorchTracer(driver, within=driver.kind == "update")
